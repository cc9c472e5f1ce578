"""Sentence vectors in the plane."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FEWEST = 5
NO_PLANE = "too few texts or dimensions for a plane"


def has_plane(vectors: NDArray[np.floating]) -> bool:
    """Whether vectors [n, d] can be drawn: n >= 5, d >= 2, and they are not all equal."""
    return len(vectors) >= FEWEST and vectors.shape[1] >= 2 and bool(np.ptp(vectors, axis=0).any())


def pca(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """The first two principal components [n, 2] of [n, d], signed so that the largest loading is positive."""
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    largest = axes[[0, 1], np.abs(axes[:2]).argmax(axis=1)]
    flat: NDArray[np.floating] = centred @ (axes[:2] * np.sign(largest)[:, None]).T
    return flat


def tsne(vectors: NDArray[np.floating], seed: int = 0) -> NDArray[np.floating]:
    """t-SNE (van der Maaten & Hinton 2008) of [n, d], started from PCA: [n, 2]."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, max(2.0, (len(vectors) - 1) / 3))
    model = TSNE(perplexity=perplexity, init="pca", random_state=seed)
    flat: NDArray[np.floating] = model.fit_transform(vectors)
    return flat
