"""Several processes encode as one does; what a call decides can be pickled; a dead process is one line."""

import os
import pickle
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from multiview.inference.encoding import EncodeOptions, EncodingJob, PartEncoder, encode_by_processes
from multiview.model import MultiViewEncoder
from runtime.errors import UserError

TEXTS = [
    "A cat sat.",
    ["a", "dog"],
    "",
    "It rains.",
    "The king and the queen sleep.",
    "No.",
    "Yes , he did .",
]


class Dying(PartEncoder):
    def encode(self, texts: Any) -> Any:
        os._exit(9)


@pytest.fixture
def encoder() -> MultiViewEncoder:
    return MultiViewEncoder.untrained("seq", dim=6, word_dim=4, device="cpu")


@pytest.mark.process
def test_processes_give_the_vectors_of_one(encoder: MultiViewEncoder, monkeypatch) -> None:
    monkeypatch.setattr("multiview.inference.encoding.MIN_SENTENCES_FOR_ENCODING_WORKERS", len(TEXTS))
    monkeypatch.setattr("multiview.inference.encoding.PART_SENTENCES", 3)
    views = encoder.view_vectors(TEXTS, workers=2)
    np.testing.assert_allclose(views, encoder.view_vectors(TEXTS), atol=1e-5)
    begun = Mock(side_effect=lambda job, texts: job.encode(texts).numpy())
    monkeypatch.setattr("multiview.inference.encoding.encode_by_processes", begun)
    encoder.encode(TEXTS, workers=2)
    encoder.encode(TEXTS[1:], workers=2)  # too few
    assert [call.args[0].kind for call in begun.call_args_list] == ["meaning"]


@pytest.mark.process
def test_a_worker_that_dies_is_one_line(encoder: MultiViewEncoder) -> None:
    job = EncodingJob(encoder.name, encoder.network, encoder.reader, "meaning", [0], EncodeOptions(workers=2))
    with pytest.raises(UserError, match=r"^encode: one of 2 workers died; take fewer workers"):
        encode_by_processes(job, TEXTS, Dying)


def test_options_can_be_pickled_and_are_checked() -> None:
    options = EncodeOptions(batch_size=3, workers=2, truncate_dim=5)
    assert pickle.loads(pickle.dumps(options)) == options
    for wrong in ({"workers": 0}, {"workers": 1.5}, {"batch_size": None}, {"trees": "runs/trees"}):
        (name,) = wrong
        with pytest.raises(UserError, match=f"encode: {name}="):
            EncodeOptions(**wrong)
    with pytest.raises(UserError, match="encode: views='dep' has no meaning"):
        EncodeOptions.of({"views": "dep", "workers": 2})
