"""``builtin`` among the models of an evaluation, the towers and the studies."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from multiview.model import MultiViewEncoder
from senteval_runner.towers.transformer import load_tower
from senteval_runner.vectors.encoders import open_model

TOKENS = [["the", "cat", "rained"], ["stock", "prices", "fell", "!"]]


def test_its_vectors(builtin: Path) -> None:
    encoder = MultiViewEncoder.load(builtin)
    expected = encoder.encode(TOKENS)
    np.testing.assert_array_equal(open_model("builtin")(TOKENS), expected)
    words = [encoder.word_vectors(tokens).mean(axis=0) for tokens in TOKENS]
    np.testing.assert_allclose(open_model("bag:builtin")(TOKENS), words, rtol=1e-5)


def test_it_is_no_backbone(builtin: Path) -> None:
    with pytest.raises(UserError, match="cannot be loaded"):
        load_tower(str(builtin), pooling="mean")
