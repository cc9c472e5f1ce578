"""Random vectors of words and n-grams: words that share a spelling are near each other."""

from __future__ import annotations

import numpy as np

from multiview.words.sources.ngrams import ngrams, random_vectors, with_ngrams

WORDS = ["open", "opened", "opening", "reopen", "close", "closed", "a", "bench", "benches", "market"]


def test_a_spelling_is_shared() -> None:
    assert ngrams("Cat") == [f"ngram:{n}" for n in ("<ca", "cat", "at>", "<cat", "cat>", "<cat>")]
    made = with_ngrams(random_vectors(400, 3))(WORDS)
    unit = made / np.linalg.norm(made, axis=1, keepdims=True)
    shared = np.array([[len({*ngrams(a)} & {*ngrams(b)}) for b in WORDS] for a in WORDS])
    own = np.array([1 + len(ngrams(word)) for word in WORDS])
    expected = (shared + np.eye(len(own))) / np.sqrt(np.outer(own, own))
    assert np.abs(unit @ unit.T - expected).max() < 0.3  # 6 standard deviations of 400 random numbers
    assert np.corrcoef((unit @ unit.T).ravel(), expected.ravel())[0, 1] > 0.8
