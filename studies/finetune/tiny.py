"""The encoder that a fine-tuning run starts from: named by the user, or a small BERT from the texts at hand.

The small BERT is for machines without downloads: vocabulary and weights come from a corpus only. The
tokenizers library learns the WordPiece vocabulary. By default its trainer breaks ties in the order of a
randomly seeded hash map, so two runs gave two vocabularies; naming every letter in advance fixes the order.
Optional pre-training is BERT's masked language modelling (15 % of pieces; 80 % masked, 10 % random, 10 %
kept) on the shared loop, so it resumes like any other training.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import read_json, write_json, write_text
from multiview.pretrained import quiet
from senteval_runner.vectors.sources import find_source
from studies.finetune.config import LoopConfig, TinyConfig
from studies.finetune.examples import Examples, Stream, fixed
from studies.finetune.loop import Task, fit

TINY = "tiny"
"""As ``--backbone``: build a small BERT."""
HEAD_WIDTH = 64
"""Width of an attention head."""
MAX_LENGTH = 128
"""Word pieces per text."""
BATCH = 32
LOOP = LoopConfig(learning_rate=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.01, clip_norm=1.0)
"""Of the pre-training."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_LETTERS = 500


def ready(
    backbone: str | None,
    output: Path,
    texts: Callable[[], Sequence[str]],
    tiny: TinyConfig,
    *,
    seed: int,
    report: Callable[[str], None],
) -> tuple[str, str]:
    """What to load and a digest of its content; a tiny BERT is built in ``output/backbone`` first.

    Args:
        backbone: value of ``--backbone``.
        output: of the study.
        texts: asked only for a tiny BERT, whose vocabulary and pre-training they are.
        tiny: its sizes.
        seed: of its weights.
        report: takes one line per stage of its making.

    Raises:
        UserError: none was given.
    """
    if backbone is None:
        raise UserError(
            "no backbone: give --backbone with a Hugging Face name (bert-base-uncased is the paper's) or the "
            f"folder of an encoder, or --backbone {TINY} for a small BERT made from the texts at hand"
        )
    if backbone == TINY:
        backbone = str(build_tiny(output / "backbone", texts(), tiny, seed=seed, report=report))
    return backbone, find_source(backbone).key


def build_tiny(
    folder: Path,
    texts: Sequence[str],
    config: TinyConfig,
    *,
    seed: int,
    report: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write a Hugging Face folder with a small BERT for ``texts``; a finished folder is kept.

    Args:
        folder: output folder for ``config.json``, ``model.safetensors`` and the tokenizer.
        texts: corpus of the vocabulary and the pre-training.
        config: sizes and pre-training.
        seed: seed of the initial weights, masks and batch order.
        report: called with one line per stage.

    Raises:
        UserError: no text, or the folder holds a BERT of another configuration.
    """
    if config.hidden > HEAD_WIDTH and config.hidden % HEAD_WIDTH:
        raise UserError(
            f"--tiny.hidden {config.hidden}: must be a multiple of {HEAD_WIDTH}, an attention head"
        )
    quiet()
    texts = [text for text in texts if text.strip()]
    if not texts:
        raise UserError("a tiny backbone learns its vocabulary from text: give --corpus or training files")
    wanted = {**asdict(config), "seed": seed, "texts": len(texts)}
    done = folder / "tiny.json"
    if done.exists():
        if read_json(done) != wanted:
            raise UserError(
                f"{done}: was built with other options; use another --output or delete the folder"
            )
        return folder
    from transformers import BertTokenizer

    # Always learned again: the folder's vocabulary may be of a killed run with other options.
    vocabulary = folder / "vocab.txt"
    write_text(vocabulary, "\n".join(learn_vocabulary(texts, config.vocabulary)) + "\n")
    tokenizer = BertTokenizer(vocab=str(vocabulary), model_max_length=MAX_LENGTH)
    model = _masked_model(len(tokenizer), config, seed)
    weights = sum(weight.numel() for weight in model.bert.parameters())
    report(f"tiny BERT: {len(tokenizer):,} word pieces, {weights:,} weights")
    if config.mlm_steps:
        _pretrain(model, tokenizer, texts, wanted, folder / "mlm", report)
    model.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_json(done, wanted)
    shutil.rmtree(folder / "mlm", ignore_errors=True)
    return folder


def learn_vocabulary(texts: Sequence[str], size: int) -> list[str]:
    """Lower-cased WordPiece vocabulary of ``texts``: letters, then pieces from the most useful on.

    Args:
        texts: the corpus.
        size: number of pieces; fewer if the text has no more that occur twice.
    """
    try:
        from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
    except ImportError:
        raise MissingExtraError("tokenizers", "burt") from None
    normalizer = normalizers.BertNormalizer(lowercase=True)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizer.normalize_str(text))
    common = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    letters = sorted(letter for letter, _ in common[:MAX_LETTERS] if not letter.isspace())
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        min_frequency=2,
        show_progress=False,
        special_tokens=[*SPECIAL, *letters, *("##" + letter for letter in letters)],
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids: dict[str, int] = tokenizer.get_vocab()
    return sorted(ids, key=lambda piece: ids[piece])


def _masked_model(pieces: int, config: TinyConfig, seed: int) -> Any:
    from transformers import BertConfig, BertForMaskedLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BertForMaskedLM(
            BertConfig(
                vocab_size=pieces,
                hidden_size=config.hidden,
                num_hidden_layers=config.layers,
                num_attention_heads=max(1, config.hidden // HEAD_WIDTH),
                intermediate_size=4 * config.hidden,
                max_position_embeddings=MAX_LENGTH,
            )
        )


def _pretrain(
    model: Any,
    tokenizer: Any,
    texts: Sequence[str],
    wanted: dict[str, Any],
    folder: Path,
    report: Callable[[str], None],
) -> None:
    """Masked language modelling on the shared loop, masked by transformers."""
    from transformers import DataCollatorForLanguageModeling

    mask = DataCollatorForLanguageModeling(tokenizer)

    def loss(examples: Examples) -> Tensor:
        pieces = tokenizer(examples.first, truncation=True, max_length=MAX_LENGTH)["input_ids"]
        batch = mask([{"input_ids": ids} for ids in pieces])
        out = model(**batch)
        # The mean over no piece is not a number.
        value: Tensor = out.loss if (batch["labels"] >= 0).any() else 0 * out.logits.sum()
        return value

    corpus = Examples(list(texts), None, np.zeros(len(texts), dtype=np.int64))
    stream = Stream(fixed(corpus), BATCH, wanted["seed"], "mlm")
    fit(
        model,
        {"mlm": Task(stream, loss)},
        LOOP,
        steps=wanted["mlm_steps"],
        evaluate=dict,
        seed=wanted["seed"],
        folder=folder,
        identity={"tiny": wanted},
        report=report,
    )
