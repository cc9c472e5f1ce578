"""Find the encoder that fine-tuning starts from: one that the user names, or a small BERT built here.

The small BERT is for machines without downloads. Its weights are random, and its WordPiece vocabulary is
learned from the texts by the tokenizers library.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from multiview.libraries.pretrained import silence_libraries
from multiview.names.constructors import encoder_of
from multiview.names.encoder import LazyEncoder
from runtime.errors import UserError

TINY = "tiny"
"""The ``--backbone`` for which a small BERT is built."""
MAX_LENGTH = 128
"""Word pieces of a text, at most."""
SPECIAL_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_LETTERS = 500
"""Number of different letters in a vocabulary, at most."""


def find_backbone(
    backbone: str | None, output: Path, read_texts: Callable[[], Sequence[str]], *, seed: int
) -> LazyEncoder:
    """Return the encoder that ``backbone`` names.

    For the name ``tiny`` a small BERT is built from the texts, in the folder ``backbone`` of the output.
    Raises UserError if there is no name, or no text.
    """
    if backbone is None:
        raise UserError(f"no backbone: give --backbone with a Hugging Face name, a folder or {TINY}")
    if backbone == TINY:
        backbone = str(build_tiny(output / "backbone", read_texts(), seed=seed))
    return encoder_of(backbone)


def build_tiny(
    folder: Path,
    texts: Sequence[str],
    *,
    layers: int = 2,
    width: int = 128,
    vocabulary: int = 8192,
    seed: int = 1,
) -> Path:
    """Write a Hugging Face folder with a small untrained BERT, and return it; equal input gives equal bytes.

    Args:
        folder: the folder to write.
        texts: texts from which the vocabulary is learned.
        layers: number of layers.
        width: number of dimensions of a hidden state.
        vocabulary: number of word pieces at most, special ones included.
        seed: of the weights.

    Raises UserError if there is no text.
    """
    silence_libraries()
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    texts = [text for text in texts if text.strip()]
    if not texts:
        raise UserError("a tiny backbone learns its vocabulary from text: there is none")
    pieces = learn_vocabulary(texts, vocabulary)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=max(1, width // 64),
        intermediate_size=4 * width,
        max_position_embeddings=MAX_LENGTH,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        BertForMaskedLM(config).bert.save_pretrained(folder)  # a plain BertModel would have a pooling layer
    BertTokenizer(vocab=pieces, model_max_length=MAX_LENGTH).save_pretrained(folder)
    return folder


def learn_vocabulary(texts: Sequence[str], size: int) -> dict[str, int]:
    """Return a lower-cased WordPiece vocabulary of at most ``size`` pieces, with their numbers.

    It has special pieces and letters first, then the pieces that the trainer has merged, in its order.
    """
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(lowercase=True)
    counts = Counter(letter for text in texts for letter in tokenizer.normalize(text))
    frequent = sorted(counts, key=lambda letter: (-counts[letter], letter))[:MAX_LETTERS]
    letters = sorted(letter for letter in frequent if not letter.isspace())
    # The trainer takes letters in the order of a randomly seeded hash map, unless they are named in advance.
    special = [*SPECIAL_PIECES, *letters, *("##" + letter for letter in letters)]
    options = {"limit_alphabet": len(counts), "special_tokens": special, "show_progress": False}
    tokenizer.train_from_iterator(texts, size, min_frequency=2, **options)
    return dict(sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]))
