"""A small BERT for machines without downloads: vocabulary and weights come from a corpus only.

The tokenizers library learns the WordPiece vocabulary. By default its trainer breaks ties in the order of a
randomly seeded hash map, so two runs gave two vocabularies. Naming every letter in advance fixes the order.
Optional pre-training is BERT's masked language modelling (15 % of pieces; 80 % masked, 10 % random, 10 %
kept) on the shared loop, so it resumes like any other training.
Shapes: B texts, T pieces, P predicted pieces.
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
from torch import Tensor, nn

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import read_json, write_json, write_text
from multiview.pretrained import quiet
from studies.finetune.config import LoopConfig, TinyConfig
from studies.finetune.examples import Examples, Fixed, Stream
from studies.finetune.loop import Schedule, Task, fit

HEAD_WIDTH = 64
"""Width of an attention head."""
MAX_LENGTH = 128
"""Word pieces per text."""
BATCH = 32
LOOP = LoopConfig(learning_rate=1e-3, betas=(0.9, 0.999), epsilon=1e-8, weight_decay=0.01, clip_norm=1.0)
"""Of the pre-training."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MAX_LETTERS = 500


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
    tokenizer = _tokenizer(folder, texts, config)
    model = _masked_model(len(tokenizer), config, seed)
    report(
        f"tiny BERT: {len(tokenizer):,} word pieces, "
        f"{sum(weight.numel() for weight in model.bert.parameters()):,} weights"
    )
    if config.mlm_steps:
        _pretrain(model, tokenizer, texts, config, wanted, folder / "mlm", report)
    model.bert.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    write_json(done, wanted)
    shutil.rmtree(folder / "mlm", ignore_errors=True)
    return folder


def _tokenizer(folder: Path, texts: Sequence[str], config: TinyConfig) -> Any:
    from transformers import BertTokenizer

    # Always learned again: the folder's vocabulary may be of a killed run with other options.
    vocabulary = folder / "vocab.txt"
    write_text(vocabulary, "\n".join(learn_vocabulary(texts, config.vocabulary)) + "\n")
    return BertTokenizer(vocab=str(vocabulary), model_max_length=MAX_LENGTH)


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
    config: TinyConfig,
    identity: dict[str, Any],
    folder: Path,
    report: Callable[[str], None],
) -> None:
    """Masked language modelling on the shared loop."""

    def loss(examples: Examples) -> Tensor:
        batch = tokenizer(
            examples.first, padding=True, truncation=True, max_length=MAX_LENGTH, return_tensors="pt"
        )
        return masked_loss(model, batch, tokenizer.mask_token_id, len(SPECIAL), len(tokenizer))

    corpus = Examples(list(texts), None, np.zeros(len(texts), dtype=np.int64))
    seed = identity["seed"]
    stream = Stream(Fixed(corpus), BATCH, seed, "mlm")
    schedule = Schedule(
        cycle=("mlm",),
        steps=config.mlm_steps,
        evaluate_every=max(1, config.mlm_steps // 5),
        identity={"tiny": identity},
    )
    tasks = {"mlm": Task(stream, loss)}
    fit(model, tasks, schedule, LOOP, evaluate=dict, seed=seed, folder=folder, report=report)


def masked_loss(
    model: nn.Module, batch: dict[str, Tensor], mask_id: int, specials: int, pieces: int
) -> Tensor:
    """Mean cross-entropy of the pieces chosen for prediction (each ordinary piece with probability 0.15).

    Args:
        model: a Hugging Face masked language model.
        batch: ``input_ids`` [B, T] and the tokenizer's other tensors.
        mask_id: id of [MASK].
        specials: ids below this are never chosen.
        pieces: size of the vocabulary, for the random replacements.
    """
    ids_BT = batch["input_ids"]
    chosen_BT = (torch.rand(ids_BT.shape) < 0.15) & (ids_BT >= specials)
    dice_BT = torch.rand(ids_BT.shape)
    random_BT = torch.randint(specials, pieces, ids_BT.shape)
    shown_BT = torch.where(dice_BT < 0.8, torch.full_like(ids_BT, mask_id), ids_BT)
    shown_BT = torch.where(dice_BT >= 0.9, random_BT, shown_BT)
    inputs = {**batch, "input_ids": torch.where(chosen_BT, shown_BT, ids_BT)}
    states_BTD = model.bert(**inputs).last_hidden_state  # type: ignore[operator]
    # The vocabulary layer only runs on the chosen pieces, a seventh of the work.
    logits_PV = model.cls(states_BTD[chosen_BT])  # type: ignore[operator]
    return nn.functional.cross_entropy(logits_PV, ids_BT[chosen_BT]) if chosen_BT.any() else logits_PV.sum()
