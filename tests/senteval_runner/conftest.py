"""A small synthetic SentEval folder, and word vectors for it."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

WORDS = {0: ["bad", "dull", "poor"], 1: ["good", "bright", "rich"], 2: ["tall", "far", "near"]}


def text(rng: random.Random, label: int) -> str:
    return " ".join(rng.choice(WORDS[label] + ["a", "the"]) for _ in range(rng.randint(1, 6)))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """CR, MRPC, SICK and a probing task, 30-60 rows each."""
    rng = random.Random(1)
    root = tmp_path / "data"
    down = root / "downstream"
    for folder in ("CR", "MRPC", "SICK"):
        (down / folder).mkdir(parents=True)
    (root / "probing").mkdir()
    for label, end in ((1, "pos"), (0, "neg")):
        lines = [text(rng, label) for _ in range(25)] + [""]
        (down / "CR" / f"custrev.{end}").write_text("\n".join(lines) + "\n")
    for split, n in (("train", 40), ("test", 20)):
        rows = [f"{i % 2}\t1\t2\t{text(rng, i % 2)}\t{text(rng, 1)}" for i in range(n)]
        (down / "MRPC" / f"msr_paraphrase_{split}.txt").write_text("\n".join(["header", *rows]) + "\n")
    names = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
    for split in ("train", "trial", "test_annotated"):
        rows = [
            f"{i}\t{text(rng, i % 3)}\t{text(rng, 1)}\t{1 + i % 9 / 2}\t{names[i % 3]}" for i in range(45)
        ]
        (down / "SICK" / f"SICK_{split}.txt").write_text("\n".join(["header", *rows]) + "\n")
    rows = [f"{s}\t{'AB'[i % 2]}\t{text(rng, i % 2)}" for s in ("tr", "va", "te") for i in range(30)]
    (root / "probing" / "word_content.txt").write_text("\n".join(rows) + "\n")
    return root


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """Random word vectors of 8 dimensions for the words of ``data``."""
    rng = np.random.RandomState(0)
    vocabulary = ["bad", "dull", "poor", "good", "bright", "rich", "tall", "far", "near", "a", "the"]
    path = tmp_path / "words.txt"
    path.write_text("".join(f"{w} {' '.join(f'{x:.3f}' for x in rng.randn(8))}\n" for w in vocabulary))
    return path
