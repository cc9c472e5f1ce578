"""The studies at toy size, for ``tests/test_goldens.py``: what is trained, how it is to be, and figures."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch.nn import Module
from torch.optim.optimizer import register_optimizer_step_post_hook

from senteval_runner.evaluation_trees import open_model
from studies.burt.config import BurtConfig
from studies.burt.train import read_data, train_all
from studies.faq.evaluate import DROPOUT, MAX_LENGTH, cosines, embed_set, labelled_pairs, read_faq
from studies.finetune import training
from studies.finetune.backbone import build_tiny
from studies.multitask.config import MultitaskConfig
from studies.multitask.run import read_all_tasks
from studies.multitask.run import train_all as train_multitask_all
from studies.passages import methods, ranker
from studies.passages.__main__ import cli as passages
from studies.passages.ranker import Scorer, Split, scale_rows, train_scorer
from studies.runner import run_study
from tests.fixtures.goldens import Section
from tests.oracles.training import Recipe, ranker_weights
from tests.studies.faq.faq_set import TEXTS, write_set
from tests.studies.finetune.fixtures import nli_rows, write_jsonl, write_ppdb, write_tasks
from tests.studies.passages import passage_sets

SMALL: dict[str, int] = {"layers": 1, "width": 32, "vocabulary": 300, "seed": 1}


def rising_and_falling(peak: float) -> Callable[[int, int], float]:
    """The rate rises over a tenth of the run, then falls to 0 (BURT)."""

    def rate(step: int, steps: int) -> float:
        rise = max(1, round(0.1 * steps))
        return peak * min(1.0, (step + 1) / rise) * min(1.0, (steps - step) / (steps - rise))

    return rate


def burt_recipe(peak: float) -> Recipe:
    """Adam as BURT has it."""
    return Recipe(rate=rising_and_falling(peak), betas=(0.9, 0.98), epsilon=1e-9)


def train_burt(folder: Path) -> list[Path]:
    """25 steps of the three objectives."""
    folder.mkdir(exist_ok=True)
    config = BurtConfig(
        output=folder / "burt",
        nli=(write_jsonl(folder / "train.jsonl", nli_rows(96, 1)),),
        nli_dev=(write_jsonl(folder / "dev.jsonl", nli_rows(40, 2)),),
        ppdb=(write_ppdb(folder / "ppdb.txt"),),
        batch_size=8,
        epochs=25 / 24,
        held_out=0.0,
        evaluate_every=10,
        learning_rate=3e-3,
    )
    texts = [text for data in read_data(config).values() for text in data.draw(0).texts]
    bert = build_tiny(folder / "bert", texts, **SMALL)
    assert run_study(dataclasses.replace(config, backbone=str(bert)), train_all) == 0
    return [config.output / name for name in ("model.safetensors", "heads.safetensors", "cell.json")]


def train_multitask(folder: Path) -> None:
    """SA-P-STS(M), 26 steps in three stages."""
    config = MultitaskConfig(
        output=folder / "multitask",
        data=write_tasks(folder / "data"),
        epochs=2,
        batch_size=16,
        learning_rate=3e-3,
    )
    texts = [text for task in read_all_tasks(config).values() for text in task.train.texts]
    bert = build_tiny(folder / "bert", texts, **SMALL)
    assert run_study(dataclasses.replace(config, backbone=str(bert)), train_multitask_all) == 0


def small_bert(folder: Path, texts: Sequence[str]) -> str:
    """A BERT of two layers with the words of ``texts``."""
    return str(build_tiny(folder, texts, layers=2, width=32, vocabulary=200, seed=3))


def train_faq(folder: Path) -> list[Path]:
    """25 steps of a FAQ encoder on retrieved negatives."""
    model, place = small_bert(folder / "bert", TEXTS), folder / "toy"
    data = read_faq(place if place.exists() else write_set(place))
    encoder = open_model(model, cache=None, device="cpu")
    vectors = embed_set(data, encoder)
    guide = (vectors["query"] @ vectors["question"].T)[data.train]
    queries = [data.queries[row] for row in data.train]
    # 24 queries with one right and four wrong entries are 120 pairs: five batches in a pass.
    draw = labelled_pairs(queries, data.questions, data.relevant_QN[data.train], guide, 0)
    with patch.object(training, "PAIR_BATCH", 24):
        device = torch.device("cpu")
        tower = training.tunable_tower(encoder, max_length=MAX_LENGTH, dropout=DROPOUT, device=device)
        training.tune_pairs(tower, draw, "faq", folder=folder / "state", seed=0, epochs=5, learning_rate=1e-3)
    scores = cosines(tower, [data.queries[row] for row in data.test], data.questions)
    np.save(folder / "scores.npy", scores)
    return [folder / "scores.npy"]


def passage_scores(folder: Path) -> dict[str, Any]:
    """Rows of Table 3 for a small BERT's layers and a cross-encoder; those trained are named."""
    place = passage_sets.write_wikiqa(folder / "wikiqa", (24, 10, 10))
    bert = small_bert(folder / "bert", passage_sets.TEXTS)
    options = ["--epochs", "3", "--runs", "2", "--cross-epochs", str(5 / 6), "--device", "cpu"]
    options += ["--backbones", bert, "--cross", bert, "--cache", str(folder / "vectors")]
    # In float64: where hinges of both passages of a pair cancel, float32 is left with rounding.
    double = {
        "scale_rows": lambda table: scale_rows(table).double(),
        "Scorer": lambda *of: Scorer(*of).double(),
    }
    # Steps of 2e-5 are not far from what float32 rounds.
    with (
        patch.object(ranker, "CROSS_RATE", 1e-3),
        patch.multiple(methods, train_scorer=train_scorer_beside, **double),
    ):
        assert passages([str(place), *options, "--output", str(folder / "passages")]) == 0
    figures: dict[str, Any] = {"trained": []}
    for cell in json.loads((folder / "passages" / "results.json").read_text())["cells"]:
        label = cell["cell"].removeprefix("wikiqa: ")
        if "BM25" in label or "cosine" in label:
            figures |= {f"{label} {metric}": cell[metric] for metric in ("mrr", "map", "p@1", "s@5", "r@1")}
        else:
            figures["trained"].append(label)
    return figures


def train_scorer_beside(scorer: Module, train_split: Split, dev: Split, **options: Any) -> list[float]:
    """:func:`train_scorer`, whose weights are held against float64 after every step."""
    weights_of_steps = iter(ranker_weights(scorer, train_split, **options))

    def compare(*_: Any) -> None:
        torch.testing.assert_close(dict(scorer.named_parameters()), next(weights_of_steps), rtol=0, atol=1e-8)

    hook = register_optimizer_step_post_hook(compare)
    curve = train_scorer(scorer, train_split, dev, **options)
    hook.remove()
    assert next(weights_of_steps, None) is None
    return curve


SECTIONS: Mapping[str, Section] = {
    "burt": Section(train_burt, burt_recipe(3e-3)),
    "multitask": Section(train_multitask, Recipe(rate=lambda *_: 3e-3, betas=(0.9, 0.999), decay=0.01), 3),
    "faq encoder": Section(train_faq, burt_recipe(1e-3)),
    "passages": Section(passage_scores, burt_recipe(1e-3), 2),
}
TRAININGS: Mapping[str, Callable[[Path], list[Path]]] = {
    "burt": train_burt,
    "faq": train_faq,
}
