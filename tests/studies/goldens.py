"""BURT's studies at toy size, for ``tests/test_goldens.py``: what is trained, and how it is to be."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from studies.burt.__main__ import BurtConfig
from studies.burt.train import read_data, train_all
from studies.finetune.tiny import build_tiny
from studies.kit import run_study
from studies.multitask.__main__ import MultitaskConfig
from studies.multitask.run import read_all_tasks
from studies.multitask.run import train_all as train_multitask_all
from studies.similarity.__main__ import SimilarityConfig
from studies.similarity.run import SEMEVAL, score
from tests.fixtures.goldens import Section
from tests.oracles.training import Recipe
from tests.studies.finetune.fixtures import (
    SYNONYMS,
    nli_rows,
    ppdb_line,
    write_jsonl,
    write_ppdb,
    write_tasks,
)

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


SECTIONS: Mapping[str, Section] = {
    "burt": Section(train_burt, burt_recipe(3e-3)),
    "multitask": Section(train_multitask, Recipe(rate=lambda *_: 3e-3, betas=(0.9, 0.999), decay=0.01), 3),
    "similarity": Section(similarity, burt_recipe(3e-3), 2),
}
KILLED: Mapping[str, Callable[[Path], list[Path]]] = {
    "burt": train_burt,
    "multitask": train_multitask,
}
