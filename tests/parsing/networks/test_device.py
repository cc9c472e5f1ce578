"""Parsers on a device: batches in flight, memory that runs short, a device that is lost, identities.

There is no GPU here, so its way of working is switched on for the CPU, and a tensor that would be left on the
wrong device is found on torch's device without memory.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from parsing.constituency import model as constituency_model
from parsing.constituency import span_head
from parsing.constituency.model import SpanParser
from parsing.constituency.span_head import SpanHead, best_spans
from parsing.dependency import model as dependency_model
from parsing.dependency.model import BiaffineParser
from parsing.models import load_constituency_parser, load_dependency_parser

from corpora.support.errors import UserError
from multiview.folder.reading import Reader
from parsing.networks import device
from parsing.networks.device import BatchRunner, devices_of, identity_on, pick, pick_device
from parsing.trees.agreement import constituency_agreement, dependency_agreement
from parsing.trees.parsers import DeviceLost, same_trees
from tests.fixtures.waiting import no_waiting

SENTENCES = [
    ["The", "quick", "brown", "fox", "jumps", "over", "the", "lazy", "dog", "."],
    ["Yes"],
    ["She", "said", "that", "it", "had", "rained", "all", "night", ",", "but", "nobody", "believed", "her"],
    ["Prices", "fell", "sharply", "in", "London", "on", "Monday", "."],
    ["A"] * 30,
    ["I", "saw", "the", "man", "with", "the", "telescope", "that", "you", "bought", "last", "year", "."],
] * 3
LOAD = {"dep": load_dependency_parser, "const": load_constituency_parser}
AGREE = {"dep": dependency_agreement, "const": constituency_agreement}
KINDS = sorted(LOAD)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def as_on_a_gpu(kind: str, positions: int = 60) -> BiaffineParser | SpanParser:
    """A parser whose batches overlap and may be halved."""
    parser = LOAD[kind]("builtin")
    parser.runner.positions = positions
    parser.runner.on_gpu = True
    return parser


def test_batches_in_flight_give_the_same_trees(kind: str) -> None:
    plain = LOAD[kind]("builtin")
    plain.runner.positions = 60
    found, expected = as_on_a_gpu(kind).parse(SENTENCES), plain.parse(SENTENCES)
    assert AGREE[kind](found, expected)["same_trees"] == 100


def test_batches_advance_in_turn() -> None:
    """While a batch is on the device, the one before it is decoded; results come in the callers' order."""
    events: list[str] = []

    def start(members: list[int]):
        name = ",".join(map(str, members))
        for stage in ("score", "decode", "read"):
            events.append(f"{stage} {name}")
            if stage != "read":
                yield
        return members

    runner = BatchRunner(torch.device("cpu"))
    runner.positions = 2
    assert runner.run([1, 1, 1, 1, 1, 1], start) == [0, 1, 2, 3, 4, 5]
    assert events[:4] == ["score 0,1", "decode 0,1", "read 0,1", "score 2,3"]
    events.clear()
    runner.on_gpu = True
    assert runner.run([1, 1, 1, 1, 1, 1], start) == [0, 1, 2, 3, 4, 5]
    assert events == [
        "score 0,1", "score 2,3", "decode 0,1", "score 4,5", "read 0,1", "decode 2,3",
        "read 2,3", "decode 4,5", "read 4,5",
    ]  # fmt: skip


def test_too_little_memory_halves_the_batches_once(kind: str, monkeypatch) -> None:
    expected = LOAD[kind]("builtin").parse(SENTENCES)
    parser = as_on_a_gpu(kind, positions=500)
    full = parser.states

    def limited(sentences):
        if len(sentences) * (max(map(len, sentences)) + 2) > 150:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
        return full(sentences)

    monkeypatch.setattr(parser, "states", limited)
    lines: list[str] = []
    monkeypatch.setattr(device.log, "warning", lambda message, *values: lines.append(message % values))
    assert AGREE[kind](parser.parse(SENTENCES), expected)["same_trees"] == 100
    assert [line.rsplit(" ", 3)[1] for line in lines] == ["250", "125"]
    assert "too little memory; batches of" in lines[0]
    parser.parse(SENTENCES)
    assert len(lines) == 2, "said once"
    parser.runner.positions, parser.runner.on_gpu = 500, False
    with pytest.raises(torch.OutOfMemoryError):
        parser.parse(SENTENCES)


def test_a_lost_device_is_no_fault_of_the_sentences(kind: str, monkeypatch) -> None:
    parser = as_on_a_gpu(kind)
    parser.runner.device = torch.device("cuda:0")

    def broken(sentences):
        raise RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be …")

    monkeypatch.setattr(parser, "states", broken)
    with pytest.raises(DeviceLost, match=r"^cuda:0 was lost \(CUDA error: unspecified launch failure\); "):
        parser.parse(SENTENCES)


@pytest.mark.parametrize("force", [True, False])
def test_spans_are_scored_alike(force: bool, monkeypatch) -> None:
    torch.manual_seed(0)
    head, lengths = SpanHead(12, 16, 5), np.array([1, 4, 9, 2])
    projected = torch.randn(int((lengths + 1).sum()), 16)
    gold = np.random.default_rng(0).integers(0, 4, (lengths * (lengths + 1) // 2).sum()).astype(np.int32)
    monkeypatch.setattr(span_head, "DEVICE_CHUNK_SPANS", 7)
    for options in ({}, {"gold": gold, "cost": 1.0}):
        best, label = best_spans(head, projected, lengths, force=force, **options)()
        with monkeypatch.context() as on_device:
            on_device.setattr(span_head, "_best_on_cpu", span_head._best_on_device)
            found, found_label = best_spans(head, projected, lengths, force=force, **options)()
        np.testing.assert_array_equal(found_label, label)
        np.testing.assert_allclose(found, best, rtol=1e-4, atol=1e-4)
    assert (label == 0).any()


def test_nothing_is_left_on_the_host(kind: str, monkeypatch) -> None:
    """The first stage on a device without memory; the host may ask for what is on the host."""
    parser = LOAD[kind]("builtin")
    for module in (dependency_model, constituency_model):
        monkeypatch.setattr(module, "to_host", lambda tensor: lambda: None)
    monkeypatch.setattr("parsing.constituency.span_head.to_host", lambda tensor: lambda: None)
    parser.to(torch.device("meta"))
    assert parser.identity["device"] == "meta"
    for _ in range(2):  # the second time, all word types are known
        with no_waiting("meta"), torch.inference_mode():
            next(parser.parse_states(*parser.states(SENTENCES[:4])))


def test_identity_names_what_may_change_trees(kind: str) -> None:
    identity = LOAD[kind]("builtin").identity
    cuda = identity_on(identity, torch.device("cuda:1"))
    assert cuda == {**identity, "device": "cuda"}, "not the number of the GPU"
    assert identity_on(cuda, torch.device("cpu")) == identity
    assert same_trees(cuda, identity) and not same_trees({**cuda, "arithmetic": "bf16"}, identity)
    assert not same_trees({**cuda, "version": "0"}, identity)


def test_a_model_does_not_mind_the_device(kind: str) -> None:
    trained_on = {**LOAD[kind]("builtin").identity, "device": "cuda"}
    reader = Reader([SimpleNamespace(corpus={}, parsers={kind: trained_on})])
    parser = reader.parser(kind)
    assert "device" not in parser.identity
    reader.move(torch.device("meta"))
    assert parser.runner.device.type == reader.device == "meta"
    trained_on["version"] = "0"
    with pytest.raises(UserError, match="the model was trained on trees of"):
        Reader([SimpleNamespace(corpus={}, parsers={kind: trained_on})]).parser(kind)


def test_pick_is_indexing_by_a_mask() -> None:
    values, mask = torch.randn(3, 4, 2), torch.rand(3, 4) > 0.5
    assert torch.equal(pick(values, mask), values[mask])
    assert pick(values.to("meta"), mask).shape == values[mask].shape


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_here() -> None:
    for ask in (pick_device, devices_of, lambda name: load_dependency_parser("builtin", device=name)):
        with pytest.raises(UserError, match=r"device 'cuda' cannot be used \(.*--device takes another"):
            ask("cuda")
    assert devices_of("auto") == ["cpu"]
