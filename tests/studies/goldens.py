"""The studies at toy size, for ``tests/test_goldens.py``: what is trained, how it is to be, and figures."""

import dataclasses
import itertools
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import Module
from torch.optim.optimizer import register_optimizer_step_post_hook

from corpora.ranking.sets import filtered, read_set
from corpora.senteval.files import TaskData
from multiview.names.opened import SentenceVectors
from senteval_runner.evaluation import evaluate_task
from senteval_runner.protocol.config import Protocol, TaskResult
from senteval_runner.vectors import open_model
from studies.analogies.__main__ import cli as analogies
from studies.burt.__main__ import BurtConfig
from studies.burt.train import read_data, train_all
from studies.faq.__main__ import FaqConfig
from studies.faq.__main__ import cli as faq
from studies.faq.evaluate import cosines, embedded, labelled_pairs, read_faq, tune
from studies.finetune import training
from studies.finetune.tiny import build_tiny
from studies.kit import run_study
from studies.layers import evaluate
from studies.layers.__main__ import cli as layers
from studies.multitask.__main__ import MultitaskConfig
from studies.multitask.run import read_all_tasks
from studies.multitask.run import train_all as train_multitask_all
from studies.passages import methods, ranker
from studies.passages.__main__ import PassagesConfig
from studies.passages.__main__ import cli as passages
from studies.passages.ranker import Part, Scorer, scaled, train_scorer
from studies.similarity.__main__ import SimilarityConfig
from studies.similarity.run import SEMEVAL, score
from tests.fixtures.goldens import Section
from tests.fixtures.senteval import write_tasks as write_senteval
from tests.fixtures.transformers import build
from tests.oracles.training import Recipe, ranker_weights
from tests.studies.faq.test_faq import TEXTS, write_set
from tests.studies.finetune.fixtures import (
    SYNONYMS,
    nli_rows,
    ppdb_line,
    write_jsonl,
    write_ppdb,
    write_tasks,
)
from tests.studies.passages import passage_sets

SMALL: dict[str, int] = {"layers": 1, "hidden": 32, "vocabulary": 300, "seed": 1}


def rising_and_falling(peak: float) -> Callable[[int, int], float]:
    """The rate rises over a tenth of the run, then falls to 0 (BURT)."""

    def rate(done: int, steps: int) -> float:
        rising = max(1, round(0.1 * steps))
        return peak * min(1.0, (done + 1) / rising) * min(1.0, (steps - done) / (steps - rising))

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
    bert = build_tiny(
        folder / "bert",
        [text for draw, _ in read_data(config)[0].values() for text in draw(0).texts],
        **SMALL,
    )
    assert run_study(dataclasses.replace(config, backbone=str(bert)), train_all) == 0
    return [config.output / name for name in ("model.safetensors", "heads.safetensors", "cell.json")]


def train_multitask(folder: Path) -> list[Path]:
    """SA-P-STS(M), 26 steps in three stages."""
    folder.mkdir(exist_ok=True)
    config = MultitaskConfig(
        output=folder / "multitask",
        data=folder / "data" if (folder / "data").exists() else write_tasks(folder / "data"),
        epochs=2,
        batch_size=16,
        learning_rate=3e-3,
    )
    texts = [text for task in read_all_tasks(config).values() for text in task.train.texts]
    bert = build_tiny(folder / "bert", texts, **SMALL)
    assert run_study(dataclasses.replace(config, backbone=str(bert)), train_multitask_all) == 0
    last = config.output / "stages" / "sst+quora+sts-mean"
    (test,) = (config.output / "cells").iterdir()
    return [last / "model.safetensors", last / "heads.safetensors", last / "cell.json", test]


def similarity(folder: Path) -> dict[str, Any]:
    """Words, phrases, SemEval-2013 5(a) frozen and tuned, of a tiny transformer with two poolings.

    Correlations are kept; rows of what is trained are only named.
    """
    texts = [text for pair in SYNONYMS for text in pair]
    bert = build_tiny(folder / "bert", texts * 2, **SMALL)
    words = [(a, b, str(9 - place % 4)) for place, (a, b) in enumerate(SYNONYMS)]
    words += [(a, SYNONYMS[place - 1][0], "1") for place, (a, _) in enumerate(SYNONYMS)]
    (folder / "EN-SIMLEX-999.txt").write_text("".join("\t".join(row) + "\n" for row in words))
    scores = "Equivalence=0.{} Exclusion=0.1"
    lines = [
        ppdb_line(f"very {a}", b, "Equivalence").replace("PPDB2.0Score=3.5", scores.format(place + 10))
        for place, (a, b) in enumerate(SYNONYMS)
    ]
    (folder / "ppdb.txt").write_text("\n".join(lines) + "\n")
    (folder / "semeval").mkdir()
    for part in ("train", "test"):
        for kind, shift in (("positive", 0), ("negative", 1)):
            rows = [
                f"{a}\tthe very {SYNONYMS[(number + shift) % 15][1]} {part} {repeat}"
                for repeat in range(6)
                for number, (a, _) in enumerate(SYNONYMS)
            ]
            file = folder / "semeval" / f"en.{part}Set.{kind}Instances-v2"
            file.write_text("\n".join(rows) + "\n")
    config = SimilarityConfig(
        models=(f"max:{bert}", f"mean:{bert}"),
        words=folder,
        phrases=folder / "ppdb.txt",
        semeval2013=folder / "semeval",
        fine_tune=True,
        learning_rate=3e-3,
        output=folder / "out",
    )
    assert run_study(config, score) == 0
    results = json.loads((config.output / "results.json").read_text())
    rows = [(row.pop("cell").split(":")[0], row) for row in results["cells"]]
    figures = {f"{model} {name}": value for model, row in rows for name, value in row.items()}
    trained = [name for name in figures if SEMEVAL in name]
    return {name: value for name, value in figures.items() if name not in trained} | {"trained": trained}


def word_file(path: Path, words: Sequence[str]) -> str:
    """A vector file of random numbers."""
    rows = np.random.default_rng(7).normal(size=(len(words), 12))
    numbers = (" ".join(f"{x:.4f}" for x in row) for row in rows)
    path.write_text("".join(f"{word} {row}\n" for word, row in zip(words, numbers, strict=True)))
    return str(path)


def small_bert(folder: Path, texts: Sequence[str]) -> str:
    """A BERT of two layers with the words of ``texts``."""
    return str(build_tiny(folder, texts, layers=2, hidden=32, vocabulary=200, seed=3))


def analogy_scores(folder: Path) -> dict[str, float]:
    """Accuracies, averages and rates of transfer of one vector file on made-up questions."""
    generator = random.Random(7)
    words = [f"w{number}" for number in range(60)]
    lines = ["question_id word_question_id level category a b c answer candidates source".replace(" ", "\t")]
    for category, number in itertools.product(
        ("capital-world", "male-female", "positive-negative"), range(12)
    ):
        terms = generator.sample(words, 8)
        for level, shape in (("word", "{}"), ("phrase", "the {} of w1"), ("sentence", "They saw the {} .")):
            a, b, c, *texts = (shape.format(word) for word in terms)
            cells = [f"{category}-{level}-{number}", f"{category}-word-{number}", level, category, a, b, c]
            lines.append("\t".join([*cells, texts[0], " | ".join(generator.sample(texts, 5)), "made"]))
    (folder / "questions.tsv").write_text("\n".join(lines) + "\n")
    model = word_file(folder / "words.txt", words)
    out = folder / "analogies"
    questions = str(folder / "questions.tsv")
    assert analogies(["run", model, "--questions", questions, "--output", str(out)]) == 0
    (found,) = json.loads((out / "results.json").read_text())["cells"]
    return {"overall": found["overall"]} | {
        f"{kind} {level} {name}": value
        for kind in ("accuracy", "averages", "transfer")
        for level, by_name in found[kind].items()
        for name, value in by_name.items()
        if value is not None
    }


def faq_scores(folder: Path) -> dict[str, Any]:
    """Rows of Table 8 for one small BERT, negatives of both kinds; those trained are only named."""
    model, place = small_bert(folder / "bert", TEXTS), write_set(folder / "toy")
    options = ["--runs", "2", "--learning-rate", "1e-3", "--device", "cpu"]
    options += ["--sampling", "retrieved", "random"]
    assert faq([str(place), "--models", model, *options, "--output", str(folder / "faq")]) == 0
    found: dict[str, Any] = {"trained": []}
    for cell in json.loads((folder / "faq" / "results.json").read_text())["cells"]:
        method, _, rest = cell["cell"].removeprefix("toy: ").partition(", ")
        name = f"{Path(method).name} {rest.split()[0] if rest else None}"
        if not rest:
            found |= {f"{name} {metric}": cell[metric] for metric in ("accuracy", "mrr")}
        elif name not in found["trained"]:
            found["trained"].append(name)
    return found


def train_faq(folder: Path) -> list[Path]:
    """25 steps of a FAQ encoder on retrieved negatives."""
    model, place = small_bert(folder / "bert", TEXTS), folder / "toy"
    data = read_faq(place if place.exists() else write_set(place))
    frozen = embedded(data, open_model(model, cache=None, device="cpu"))
    guide = (frozen["query"] @ frozen["question"].T)[data.train]
    queries = [data.queries[row] for row in data.train]
    # 24 queries with one right and four wrong entries are 120 pairs: five batches in a pass.
    config = FaqConfig(epochs=5, learning_rate=1e-3, device="cpu")
    draw = labelled_pairs(queries, data.questions, data.relevant_QN[data.train], guide, 0)
    with patch.object(training, "BATCH", 24):
        tower = tune(model, draw, config, 0, folder / "state")
    scores = cosines(tower, [data.queries[row] for row in data.test], data.questions)
    np.save(folder / "scores.npy", scores)
    return [folder / "scores.npy"]


def passage_scores(folder: Path) -> dict[str, Any]:
    """Rows of Table 3 for a vector file, a small BERT's layers and a cross-encoder; those trained named."""
    place = passage_sets.write_wikiqa(folder / "wikiqa", (24, 10, 10))
    words = word_file(folder / "words.txt", [*passage_sets.ANIMALS, *passage_sets.HOMES, "sleep", "near"])
    bert = small_bert(folder / "bert", passage_sets.TEXTS)
    options = ["--epochs", "3", "--runs", "2", "--cross-epochs", str(5 / 6), "--device", "cpu"]
    options += ["--backbones", bert, "--cross", bert, "--cache", str(folder / "vectors")]
    # In float64: where hinges of both passages of a pair cancel, float32 is left with rounding.
    double = {"scaled": lambda table: scaled(table).double(), "Scorer": lambda *of: Scorer(*of).double()}
    # Steps of 2e-5 are not far from what float32 rounds.
    with (
        patch.object(ranker, "CROSS_RATE", 1e-3),
        patch.multiple(methods, train_scorer=train_scorer_beside, **double),
    ):
        assert passages([str(place), *options, "--models", words, "--output", str(folder / "passages")]) == 0
    found: dict[str, Any] = {"trained": []}
    for cell in json.loads((folder / "passages" / "results.json").read_text())["cells"]:
        label = cell["cell"].removeprefix("wikiqa: ")
        if "BM25" in label or "cosine" in label:
            found |= {f"{label} {metric}": cell[metric] for metric in ("mrr", "map", "p@1", "s@5", "r@1")}
        else:
            found["trained"].append(label)
    return found


def train_scorer_beside(scorer: Module, train_part: Part, dev: Part, **options: Any) -> list[float]:
    """:func:`train_scorer`, whose weights are held against float64 after every step."""
    expected = iter(ranker_weights(scorer, train_part, **options))

    def compare(*_: Any) -> None:
        torch.testing.assert_close(dict(scorer.named_parameters()), next(expected), rtol=0, atol=1e-8)

    hook = register_optimizer_step_post_hook(compare)
    curve = train_scorer(scorer, train_part, dev, **options)
    hook.remove()
    assert next(expected, None) is None
    return curve


def train_cross(folder: Path) -> list[Path]:
    """25 steps of a cross-encoder."""
    bert, place = small_bert(folder / "bert", passage_sets.TEXTS), folder / "wikiqa"
    spec = place if place.exists() else passage_sets.write_wikiqa(place, (24, 10, 10))
    data = filtered(read_set(f"wikiqa={spec}"), "answered")
    config = PassagesConfig(cross_epochs=25 / 12, margin=1.0, device="cpu")
    with patch.multiple(ranker, CROSS_BATCH=8, CROSS_RATE=1e-3):
        net, _ = ranker.fine_tune(data, bert, config, seed=3, folder=folder / "state")
    save_file(dict(net.named_parameters()), folder / "weights.safetensors")
    return [folder / "weights.safetensors"]


def layer_vectors(folder: Path) -> dict[str, float]:
    """Of every layer and pooling of a random BERT: what two tasks and a second classifier are given."""
    bert, data = build(folder / "bert", "bert"), write_senteval(folder / "data")
    options = ["--tasks", "CR,SICK-E", "--protocol", "fast", "--mlp", "3", "--poolings", "cls", "mean"]
    options += ["--data", str(data), "--output", str(folder / "layers"), "--cache", str(folder / "states")]
    given: list[float] = []

    def noted(vectors: SentenceVectors, task: TaskData, protocol: Protocol, seed: int) -> TaskResult:
        part = next(iter(task.splits.values()))
        given.append(float(np.linalg.norm(vectors(part.a), axis=1).mean()) + protocol.nhid)
        return evaluate_task(vectors, task, protocol, seed)

    with patch.object(evaluate, "evaluate_task", noted):
        assert layers([str(bert), *options]) == 0
    cells = json.loads((folder / "layers" / "results.json").read_text())["cells"]
    return dict(zip((cell["cell"] for cell in cells), given, strict=True))


SECTIONS: Mapping[str, Section] = {
    "burt": Section(train_burt, burt_recipe(3e-3)),
    "multitask": Section(train_multitask, Recipe(rate=lambda *_: 3e-3, betas=(0.9, 0.999), decay=0.01), 3),
    "similarity": Section(similarity, burt_recipe(3e-3), 2),
    "analogies": Section(analogy_scores),
    "faq": Section(faq_scores, burt_recipe(1e-3), 4),
    "faq encoder": Section(train_faq, burt_recipe(1e-3)),
    "passages": Section(passage_scores, burt_recipe(1e-3), 2),
    "cross-encoder": Section(train_cross, burt_recipe(1e-3)),
    "layers": Section(layer_vectors),
}
KILLED: Mapping[str, Callable[[Path], list[Path]]] = {
    "burt": train_burt,
    "multitask": train_multitask,
    "faq": train_faq,
    "cross-encoder": train_cross,
}
