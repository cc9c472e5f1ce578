"""Development tasks: what is read of NLTK's reviews, and accuracies of what can and cannot be told apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.development import accuracy, product_reviews, pros_and_cons
from corpora.support.errors import UserError
from senteval_runner.protocol.features import design

REVIEWS = """[t]excellent camera
zoom[+2]##The zoom is great, isn't it?
##I bought it in May.
battery[-1],price[-3]##Poor battery and too dear.
size[+1],menu[-2]##Small, but the menu is odd.
screen[-2]##Bad
"""
PROS = "<Pros>Easy to use, economical!</Pros>\n<Pros>Small</Pros>\n"
CONS = "<Cons>The battery lasts one day</Cons>\n"


def test_reviews_with_one_polarity(tmp_path: Path) -> None:
    folder = tmp_path / "product_reviews_2"
    folder.mkdir()
    (folder / "Camera.txt").write_text(REVIEWS, encoding="latin-1")
    (folder / "README.txt").write_text("zoom[+2]##not a review")
    sentences, labels = product_reviews(tmp_path)
    assert labels == [1, 0]
    assert sentences[0] == ["The", "zoom", "is", "great", ",", "isn't", "it", "?"]


def test_pros_and_cons(tmp_path: Path) -> None:
    folder = tmp_path / "pros_cons"
    folder.mkdir()
    (folder / "IntegratedPros.txt").write_text(PROS, encoding="latin-1")
    (folder / "IntegratedCons.txt").write_text(CONS, encoding="latin-1")
    assert pros_and_cons(tmp_path) == (
        [["Easy", "to", "use", ",", "economical", "!"], ["The", "battery", "lasts", "one", "day"]],
        [1, 0],
    )


def test_what_is_missing_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--reviews: .*product_reviews_2 holds no \*\.txt; unpack NLTK's"):
        product_reviews(tmp_path)


def test_accuracy_is_that_of_unseen_rows() -> None:
    random = np.random.default_rng(0)
    labels = random.integers(2, size=300).tolist()
    noise = random.normal(size=(300, 40)).astype(np.float32)
    told = noise.copy()
    told[:, 0] += 16 * np.array(labels) - 8
    assert accuracy(design((told,)), labels) > 0.97
    assert accuracy(design((noise,)), labels) < 0.62
