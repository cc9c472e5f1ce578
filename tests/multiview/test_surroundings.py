"""Vectors and trees are the same whatever is around: other threads, forks, exceptions."""

import contextlib
import multiprocessing
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import parsing
from multiview.model import MultiViewEncoder
from parsing.networks.features import TypeTable
from runtime.device import torch_threads
from tests.fixtures.processes import run_python

WORDS = [f"{first}{second}" for first in ("rain", "sun", "wind", "snow") for second in ("ing", "y", "less")]
SENTENCES = [f"The {WORDS[i % 12]} lawyer{i} praised a {WORDS[i % 7]} doctor{i // 2}." for i in range(96)]
CHUNKS = [SENTENCES[start : start + 12] for start in range(0, len(SENTENCES), 12)]


@pytest.fixture
def encoder() -> MultiViewEncoder:
    """A cold one, whose parsers forget words often."""
    encoder = MultiViewEncoder.load("builtin", "cpu")
    for kind in ("dep", "const"):
        encoder.reader.parser(kind).vectors.max_types = 40
    return encoder


@pytest.fixture(scope="module")
def expected(packaged_encoder: MultiViewEncoder) -> np.ndarray:
    return packaged_encoder.encode(SENTENCES)


def in_threads(encoder: MultiViewEncoder) -> np.ndarray:
    with ThreadPoolExecutor(8) as pool:
        return np.concatenate(list(pool.map(encoder.encode, CHUNKS)))


@pytest.mark.usefixtures("switching")
def test_threads_share_an_encoder_cold_warm_and_after_an_exception(encoder, expected, monkeypatch) -> None:
    for _ in ("cold", "warm"):
        np.testing.assert_allclose(in_threads(encoder), expected, atol=1e-5)
    add, calls = TypeTable._add, []

    def interrupted(table: TypeTable, *row: object) -> int:
        calls.append(row)
        if len(calls) % 5 == 0:
            raise MemoryError
        return add(table, *row)

    with monkeypatch.context() as patch:
        patch.setattr(TypeTable, "_add", interrupted)
        encoder.reader.parser("dep").vectors.clear()
        encoder.reader.parser("const").vectors.clear()
        with pytest.raises(MemoryError):
            in_threads(encoder)
    np.testing.assert_allclose(encoder.encode(SENTENCES), expected, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_encodes_also_while_other_threads_do(encoder, expected) -> None:
    """With as many threads as there are: those of OpenMP stay behind."""
    context = multiprocessing.get_context("fork")
    with torch_threads(2):
        encoder.encode(SENTENCES * 3)
        with ThreadPoolExecutor(4) as pool:
            busy = [pool.submit(encoder.encode, SENTENCES) for _ in range(8)]
            receiving, sending = context.Pipe(duplex=False)
            child = context.Process(target=lambda: sending.send(encoder.encode(SENTENCES * 3)))
            child.start()
            vectors = receiving.recv() if receiving.poll(60) else None
            child.kill()
            for one in busy:
                np.testing.assert_allclose(one.result(), expected, atol=1e-5)
    assert vectors is not None, "the child never answers"
    np.testing.assert_allclose(vectors, np.tile(expected, (3, 1)), atol=1e-5)


@contextlib.contextmanager
def default(setter, value, before):
    setter(value)
    try:
        yield
    finally:
        setter(before)


AROUND = {
    "double": [lambda: default(torch.set_default_dtype, torch.float64, torch.float32), torch.inference_mode],
    "half": [lambda: default(torch.set_default_dtype, torch.float16, torch.float32), torch.enable_grad],
    "meta": [lambda: default(torch.set_default_device, "meta", None)],
    "autocast": [
        lambda: torch.autocast("cpu", torch.bfloat16),
        lambda: torch.device("meta"),
        lambda: default(torch.use_deterministic_algorithms, True, False),
        lambda: np.errstate(all="raise"),
    ],
}
"""Settings that do not undo each other are made together."""


FEW = SENTENCES[:5]
UNTRAINED = {"views": "dep,const,seq", "dim": 4, "word_dim": 4, "device": "cpu"}


def results(encoder: MultiViewEncoder) -> dict[str, Any]:
    """Return what a caller gets from a warm encoder, from one without training, and from the parsers."""
    return {
        "structure": encoder.structure_vectors(FEW),
        "untrained": MultiViewEncoder.untrained(**UNTRAINED).encode(FEW),
        "explained": str(encoder.explain(*FEW[:2])),
        "tree": str(parsing.load()(FEW[0])),
    }


@pytest.fixture(scope="module")
def warm(packaged_encoder: MultiViewEncoder) -> tuple[MultiViewEncoder, dict[str, Any]]:
    return packaged_encoder, results(packaged_encoder)


@pytest.mark.parametrize("around", AROUND)
def test_what_a_caller_sets_for_torch_changes_nothing(around: str, expected, warm) -> None:
    encoder, before = warm
    with contextlib.ExitStack() as stack:
        for setting in AROUND[around]:
            stack.enter_context(setting())
        for one in (encoder, MultiViewEncoder.load("builtin", "cpu")):
            np.testing.assert_allclose(one.encode(FEW), expected[:5], atol=1e-5)
        assert float(encoder.similarity(expected[0], expected[0])) == pytest.approx(1, abs=1e-6)
        inside = results(encoder)
    for name, value in before.items():
        if isinstance(value, str):
            assert inside[name] == value
        else:
            np.testing.assert_allclose(inside[name], value, atol=1e-5)


def test_loading_and_encoding_set_nothing_that_other_threads_see(expected, monkeypatch) -> None:
    """Type, device and generator are torch's, for all threads; another library may set them at any moment."""
    with default(torch.set_default_dtype, torch.float64, torch.float32):
        for name in ("set_default_dtype", "set_default_device", "set_rng_state", "manual_seed", "seed"):
            monkeypatch.setattr(torch, name, Mock(side_effect=AssertionError(name)))
            monkeypatch.setattr(torch.random, name, Mock(side_effect=AssertionError(name)), raising=False)
        encoder = MultiViewEncoder.load("builtin", "cpu")
        np.testing.assert_allclose(encoder.encode(SENTENCES), expected, atol=1e-5)
        MultiViewEncoder.untrained("dep,const,seq", dim=4, word_dim=4).encode("Rain.")
        monkeypatch.undo()


WITHOUT_TEMPORARY_FOLDER = """
import os, sys, tempfile
def none():
    raise FileNotFoundError(2, "No usable temporary directory found")
tempfile.gettempdir = tempfile._get_default_tempdir = none
sys.modules |= dict.fromkeys(("dill", "supar", "benepar"))  # which want one, or are not needed
import multiview.judge, multiview.model, multiview.search, parsing
multiview.judge.Judge.load()("A cat sat.", "A dog sat.")
parsing.load()("A cat sat.")
encoder = multiview.model.MultiViewEncoder.load("builtin", "cpu")
print(encoder.encode(["A cat sat."]).shape)
"""


def test_neither_a_temporary_folder_nor_parser_libraries_are_needed(expected) -> None:
    done = run_python("-c", WITHOUT_TEMPORARY_FOLDER)
    assert done.stdout == f"(1, {expected.shape[1]})\n", done.stderr


def test_making_and_loading_an_encoder_draws_nothing_from_torchs_generator() -> None:
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    MultiViewEncoder.load("builtin", "cpu").encode("Rain.")
    MultiViewEncoder.untrained("dep", dim=4, word_dim=4)
    assert torch.rand(1) == expected
