"""Sentence vectors in the plane, and the nearest neighbours of examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from senteval_runner.features import Float

Tokens = list[str]


def pca(vectors: Float) -> Float:
    """The first two principal components: [n, 2], the sign fixed so that the largest loading is positive."""
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2] * np.sign(axes[:2][np.arange(len(axes[:2])), np.abs(axes[:2]).argmax(axis=1)])[:, None]
    flat: Float = centred @ axes.T
    return flat


def tsne(vectors: Float, seed: int = 0) -> Float:
    """t-SNE (van der Maaten & Hinton 2008) from a PCA start: [n, 2]."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, max(2.0, (len(vectors) - 1) / 3))
    flat: Float = TSNE(perplexity=perplexity, init="pca", random_state=seed).fit_transform(vectors)
    return flat


def nearest(
    queries: Float, vectors: Float, sentences: Sequence[Tokens], count: int = 5
) -> list[list[tuple[float, str]]]:
    """Per query the ``count`` sentences of largest cosine, the query's own text included if it is there."""
    unit = [m / np.maximum(np.linalg.norm(m, axis=1, keepdims=True), 1e-12) for m in (queries, vectors)]
    cosines = unit[0] @ unit[1].T
    order = np.argsort(-cosines, axis=1, kind="stable")[:, :count]
    return [
        [(float(row[i]), " ".join(sentences[i])) for i in best]
        for row, best in zip(cosines, order, strict=True)
    ]
