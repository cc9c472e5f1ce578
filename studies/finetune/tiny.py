"""Find the encoder that fine-tuning starts from: the user names it, or a small BERT is built of the texts.

The small BERT is for machines without downloads: its vocabulary comes from the texts, its weights are
random. The tokenizers library learns the WordPiece vocabulary. By default its trainer breaks ties in the
order of a randomly seeded hash map, so two runs gave two vocabularies; naming every letter in advance fixes
the order.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from multiview.names.sources import find_source
from multiview.pretrained import silence_libraries
from runtime.errors import UserError
from runtime.files import read_json, write_json

TINY = "tiny"
"""The ``--backbone`` for which a small BERT is built."""
MAX_LENGTH = 128
"""Word pieces per text."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_LETTERS = 500


def ready(
    backbone: str | None, output: Path, texts: Callable[[], Sequence[str]], *, seed: int
) -> tuple[str, str]:
    """Tell what to load and a digest of its content; a tiny BERT is built in ``output/backbone`` first.

    Its vocabulary is learnt from ``texts``, which are asked for only then.
    """
    if backbone is None:
        raise UserError(f"no backbone: give --backbone with a Hugging Face name, a folder or {TINY}")
    if backbone == TINY:
        backbone = str(build_tiny(output / "backbone", texts(), seed=seed))
    return backbone, find_source(backbone).key


def build_tiny(
    folder: Path,
    texts: Sequence[str],
    *,
    layers: int = 2,
    hidden: int = 128,
    vocabulary: int = 8192,
    seed: int = 1,
) -> Path:
    """Write a Hugging Face folder with a small untrained BERT for ``texts``; a finished folder is kept.

    ``vocabulary`` is the most word pieces, special ones included. A folder with another BERT is an error.
    """
    silence_libraries()
    from transformers import BertConfig, BertForMaskedLM, BertTokenizer

    texts = [text for text in texts if text.strip()]
    if not texts:
        raise UserError("a tiny backbone learns its vocabulary from text: there is none")
    wanted = [layers, hidden, vocabulary, seed, len(texts)]
    done = folder / "tiny.json"
    if done.exists():
        if read_json(done) != wanted:
            raise UserError(f"{done}: built with other options; use another --output or delete the folder")
        return folder
    pieces = learn_vocabulary(texts, vocabulary)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=max(1, hidden // 64),
        intermediate_size=4 * hidden,
        max_position_embeddings=MAX_LENGTH,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        BertForMaskedLM(config).bert.save_pretrained(folder)  # that one has no pooling layer
    BertTokenizer(vocab=pieces, model_max_length=MAX_LENGTH).save_pretrained(folder)
    write_json(done, wanted)
    return folder


def learn_vocabulary(texts: Sequence[str], size: int) -> dict[str, int]:
    """Learn a lower-cased WordPiece vocabulary of at most ``size``: letters, then pieces by usefulness."""
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(lowercase=True)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(tokenizer.normalize(text))
    common = sorted(counts, key=lambda letter: (-counts[letter], letter))[:MAX_LETTERS]
    letters = sorted(letter for letter in common if not letter.isspace())
    special = [*SPECIAL, *letters, *("##" + letter for letter in letters)]
    options = {"limit_alphabet": len(counts), "special_tokens": special, "show_progress": False}
    tokenizer.train_from_iterator(texts, size, min_frequency=2, **options)
    return dict(sorted(tokenizer.get_vocab().items(), key=lambda item: item[1]))
