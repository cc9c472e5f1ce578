"""``--vectors taught:MODEL``: word vectors whose sum comes nearest to a teacher's sentence vectors.

``distil:`` encodes each word by itself, and never sees what a sentence makes of it. Here the vectors V solve

    min ‖A V - Y‖² + λ ‖V - s V₀‖²,   A[s, w] = occurrences of w in s / √(words of s)

by conjugate gradients. Y are the teacher's vectors of the corpus's sentences (``--teacher.vectors``) less
their mean, of length 1; V₀ are the words as MODEL, which is to be the teacher itself, encodes them one by
one, weighted by smooth inverse frequency; s is the scale at which these fit best. So frequent words are
fitted to sentences, and rare ones stay near what the teacher makes of them. Both are scaled to mean square
1, and half of V₀ is added to V: V alone classifies better, V₀ is nearer in similarity (docs/recipe.md).
model2vec learns its vectors from sentences too (tokenlearn, https://github.com/MinishLab/tokenlearn), by
gradient descent.

Legend of dimension suffixes: n sentences, W words, T size of the teacher's vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from corpora.support.errors import UserError
from corpora.support.files import json_digest, read_record
from corpora.support.progress import progress
from multiview.teacher import RECORD, TeacherMatrix
from multiview.words.sources.distil import WordEncoder, principal_axes
from multiview.words.vectors import Float, Source
from multiview.words.vocabulary import Vocabulary, corpus_words, inverse_frequency

if TYPE_CHECKING:
    from multiview.config import TrainConfig
    from parsing.cache.reader import TreeCache

PENALTY = 20.0
"""λ: a word is fitted once it occurs in more than about so many sentences."""
ALONE = 0.5
"""How much is added of the words by themselves."""
STEPS = 15
"""Of conjugate gradients; after 15 the fit no longer changes in three digits."""
BLOCK = 8192
"""Sentences read at a time."""


def taught_by(model: str, config: TrainConfig, trees: TreeCache) -> Source:
    """Vectors of ``--table.dim`` numbers for the words that ``--vocabulary`` lists.

    Args:
        model: folder or name of the sentence-transformers model that made ``--teacher.vectors``.
        config: of the training.
        trees: the corpus.

    Raises:
        UserError: no such model, or no teacher's vectors.
    """
    if config.teacher.vectors is None:
        raise UserError(f"--vectors taught:{model}: needs --teacher.vectors, this model's of the corpus")
    teacher = TeacherMatrix.open(config.teacher.vectors, trees)
    encoder = WordEncoder.named(model, f"taught:{model}")
    record = {
        **encoder.record(config, trees),
        "teacher": read_record(teacher.folder / RECORD),
        "penalty": PENALTY,
        "alone": ALONE,
        "steps": STEPS,
    }
    about = (
        f"words of the corpus whose sum comes nearest to the vectors of its sentences by "
        f"`{teacher.encoder}`, from where that encodes the words one by one ({encoder.about}); "
        f"{config.table.dim} dimensions"
    )
    return Source(
        encoder.spec,
        f"taught-{json_digest(record, 8)}",
        record,
        about,
        lambda: _taught(encoder, teacher, config, trees),
    )


def fitted(
    rows: csr_matrix, targets_nT: Float, start_WT: Float, *, penalty: float = PENALTY, steps: int = STEPS
) -> Float:
    """The vectors [W, T] that solve the equation above.

    Args:
        rows: A, float32 [n, W].
        targets_nT: Y, float32 [n, T].
        start_WT: V₀, float32 [W, T].
        penalty: λ.
        steps: of conjugate gradients, for all T columns side by side.
    """
    columns = rows.T.tocsr()
    found_nT = rows @ start_WT
    scale = np.vdot(found_nT, targets_nT) / max(float(np.vdot(found_nT, found_nT)), 1e-12)
    vectors_WT: Float = (scale * start_WT).astype(np.float32)
    residual_WT = columns @ (targets_nT - scale * found_nT)
    direction_WT = residual_WT.copy()
    size_T = np.square(residual_WT).sum(axis=0)
    with progress(total=steps, unit="step", description="fit words to sentences") as bar:
        for _ in range(steps):
            image_WT = columns @ (rows @ direction_WT) + penalty * direction_WT
            length_T = size_T / np.maximum((direction_WT * image_WT).sum(axis=0), 1e-30)
            vectors_WT += length_T * direction_WT
            residual_WT -= length_T * image_WT
            before_T, size_T = size_T, np.square(residual_WT).sum(axis=0)
            direction_WT = residual_WT + size_T / np.maximum(before_T, 1e-30) * direction_WT
            bar.update(1)
    return vectors_WT


def _taught(
    encoder: WordEncoder, teacher: TeacherMatrix, config: TrainConfig, trees: TreeCache
) -> Iterator[tuple[str, Float]]:
    words, counts_W = corpus_words(trees.type_counts(), config.vocabulary)
    encoded_WT = encoder.encode(words, config)
    if encoded_WT.shape[1] != teacher.dim:
        raise UserError(
            f"--vectors {encoder.spec}: has vectors of {encoded_WT.shape[1]} numbers, those of "
            f"--teacher.vectors {teacher.folder} have {teacher.dim}; give the model that made them"
        )
    start_WT = encoded_WT - encoded_WT.mean(axis=0)
    start_WT *= inverse_frequency(counts_W, 1 + len(counts_W))[1:, None]
    targets_nT = teacher.rows(np.arange(len(trees))).numpy().astype(np.float32)
    targets_nT -= targets_nT.mean(axis=0)
    targets_nT /= np.maximum(np.linalg.norm(targets_nT, axis=1, keepdims=True), 1e-12)
    vectors_WT = _even(fitted(occurrences(words, config, trees), targets_nT, start_WT))
    vectors_WT += ALONE * _even(start_WT)
    if config.table.dim < teacher.dim:
        vectors_WT = (vectors_WT @ principal_axes(vectors_WT, config.table.dim)).astype(np.float32)
    yield from zip(words, _even(vectors_WT), strict=True)


def _even(vectors_WT: Float) -> Float:
    """Vectors times one number that makes their mean square 1."""
    size = max(float(np.sqrt(np.mean(np.square(vectors_WT, dtype=np.float64)))), 1e-12)
    return (vectors_WT / size).astype(np.float32)


def occurrences(words: list[str], config: TrainConfig, trees: TreeCache) -> csr_matrix:
    """A, float32 [n, W]: how often each sentence has each word, over the root of its known words' number."""
    vocabulary = Vocabulary(words, case=config.vocabulary.case)
    columns: list[NDArray[np.int64]] = []
    for start in range(0, len(trees), BLOCK):
        for sentence in trees.read(start, min(start + BLOCK, len(trees)), ("token",)).words():
            rows = vocabulary.lookup(list(sentence)).astype(np.int64)
            columns.append(rows[rows > 0] - 1)
    lengths = np.array([len(column) for column in columns])
    values = np.repeat(1 / np.sqrt(np.maximum(lengths, 1)), lengths).astype(np.float32)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return csr_matrix((values, np.concatenate(columns), offsets), shape=(len(columns), len(words)))
