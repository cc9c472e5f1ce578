"""Tiny tree caches and training configurations."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from multiview.config import TrainConfig, preset
from tests.parsing.cache.test_reader import write_cache

TOPICS = """
the cat chased a small mouse in our garden while it rained
stock prices fell as investors sold their bank shares on Monday
she boiled the rice with salt before adding fresh green peas
the rocket left its orbit and flew past Mars toward Jupiter
""".strip().split("\n")


def toy_corpus(sentences: int = 260, seed: int = 0) -> tuple[list[tuple[str, ...]], list[int]]:
    """Documents that each draw their words from one topic, so that neighbours can be learnt."""
    random = np.random.default_rng(seed)
    texts: list[tuple[str, ...]] = []
    documents: list[int] = []
    while len(texts) < sentences:
        documents.append(len(texts))
        topic = TOPICS[random.integers(len(TOPICS))].split()
        for _ in range(random.integers(3, 8)):
            texts.append(tuple(random.choice(topic, size=random.integers(2, 9)).tolist()))
    return texts, documents


def changed(config: TrainConfig, **changes: object) -> TrainConfig:
    """A copy with other values; those of a group are given as a dictionary."""
    whole = {
        name: dataclasses.replace(getattr(config, name), **value) if isinstance(value, dict) else value
        for name, value in changes.items()
    }
    return dataclasses.replace(config, **whole)  # type: ignore[arg-type]


TINY = changed(
    preset("paper", device="cpu"),
    vocabulary={"buckets": 3},
    table={"dim": 6},
    encoder={"dim": 8},
    loop={"batch": 20},
    validation={"sentences": 26},
)
"""The paper's objective on vectors of a few numbers."""


@pytest.fixture(scope="session")
def toy_trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with both annotations over several shards."""
    folder = tmp_path_factory.mktemp("trees") / "toy"
    texts, documents = toy_corpus()
    write_cache(folder, texts, documents=documents, shard=64)
    return folder


@pytest.fixture
def tiny(toy_trees: Path, tmp_path: Path) -> TrainConfig:
    """A run of about a second."""
    return changed(
        TINY,
        trees=toy_trees,
        out=tmp_path / "models",
        name="tiny",
        loop={"epochs": 2, "checkpoint_every": 3},
        optimiser={"learning_rate": 1e-2},
        validation={"every": 4},
    )
