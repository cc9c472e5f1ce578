"""Parsers in batches on a device, two over one encoder, damaged folders, and the ones that are shipped.

There is no GPU here, so its way of working is switched on for the CPU, and a tensor that would be left on the
wrong device is found on torch's device without memory.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn

from corpora.support.errors import UserError
from multiview.folder.reading import Reader
from parsing.networks import constituency as constituency_module
from parsing.networks import dependency as dependency_module
from parsing.networks import parser as parser_module
from parsing.networks.config import ScorerConfig
from parsing.networks.constituency import SpanParser
from parsing.networks.dependency import BiaffineParser, DependencyModel
from parsing.networks.device import devices_of, pick_device
from parsing.networks.parser import DeviceParser, load_model_folder, parse_both, save_model_folder
from parsing.networks.sentence_encoder import SentenceEncoder
from parsing.score import constituency_agreement, dependency_agreement
from parsing.text_parser import BUILTIN, TextParser, load_parser
from parsing.training.scores import read_dependencies, read_treebank, score_constituency, score_dependency
from parsing.trees.arrays import binarise
from parsing.trees.batch import CONST_FALLBACK, ConstituencyParse, DependencyParse, DeviceLost, same_trees
from parsing.trees.brackets import from_parse, write_tree
from tests.fixtures.waiting import no_waiting
from tests.oracles.benepar import stock_parse, to_benepar
from tests.oracles.supar import stock_predict, to_supar
from tests.parsing.examples import ODD, SENTENCES, as_lists, random_arcs, random_spans

pytestmark = [
    pytest.mark.filterwarnings("ignore:Using a non-tuple sequence:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*arg_constraints:UserWarning"),
]
TOKENS = [list(s.tokens) for s in SENTENCES] + ODD
LONGER = [*TOKENS, ["A"] * 30] * 3
KINDS = ("dep", "const")


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def as_on_a_gpu(kind: str, positions: int = 60) -> BiaffineParser | SpanParser:
    """A parser whose batches overlap and may be halved."""
    parser = load_parser(kind)
    parser.positions, parser.on_gpu = positions, True
    return parser


def test_batches_in_flight_give_the_same_trees(kind: str) -> None:
    plain = load_parser(kind)
    plain.positions = 60
    assert as_lists(as_on_a_gpu(kind).parse(LONGER)) == as_lists(plain.parse(LONGER))


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

    parser = DeviceParser(nn.Linear(1, 1), {})
    parser.positions = 2
    assert parser.run_batches([1] * 6, start) == [0, 1, 2, 3, 4, 5]
    assert events[:4] == ["score 0,1", "decode 0,1", "read 0,1", "score 2,3"]
    events.clear()
    parser.on_gpu = True
    assert parser.run_batches([1] * 6, start) == [0, 1, 2, 3, 4, 5]
    assert events == [
        "score 0,1", "score 2,3", "decode 0,1", "score 4,5", "read 0,1", "decode 2,3",
        "read 2,3", "decode 4,5", "read 4,5",
    ]  # fmt: skip


def test_too_little_memory_halves_the_batches_once(kind: str, monkeypatch) -> None:
    expected = load_parser(kind).parse(LONGER)
    parser = as_on_a_gpu(kind, positions=500)
    full = parser.states

    def limited(sentences):
        if len(sentences) * (max(map(len, sentences)) + 2) > 150:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
        return full(sentences)

    monkeypatch.setattr(parser, "states", limited)
    lines: list[str] = []
    monkeypatch.setattr(parser_module.log, "warning", lambda message, *values: lines.append(message % values))
    for _ in range(2):  # said once
        assert as_lists(parser.parse(LONGER)) == as_lists(expected)
        assert [line.rsplit(" ", 3)[1] for line in lines] == ["250", "125"]
    parser.positions, parser.on_gpu = 500, False
    with pytest.raises(torch.OutOfMemoryError):
        parser.parse(LONGER)


def test_a_lost_device_is_no_fault_of_the_sentences(kind: str, monkeypatch) -> None:
    parser = as_on_a_gpu(kind)
    parser.device = torch.device("cuda:0")

    def broken(sentences):
        raise RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be …")

    monkeypatch.setattr(parser, "states", broken)
    with pytest.raises(DeviceLost, match=r"^cuda:0 was lost \(CUDA error: unspecified launch failure\); "):
        parser.parse(TOKENS)


def test_nothing_is_left_on_the_host(kind: str, monkeypatch) -> None:
    """The first stage on a device without memory; the host may ask for what is on the host."""
    parser = load_parser(kind)
    before = parser.identity
    for module in (dependency_module, constituency_module):
        monkeypatch.setattr(module, "to_host", lambda tensor: lambda: None)
    parser.to(torch.device("meta"))
    assert parser.identity == {**before, "device": "meta"}
    assert same_trees(parser.identity, before) and not same_trees({**before, "version": "0"}, before)
    for _ in range(2):  # the second time, all word types are known
        with no_waiting("meta"), torch.inference_mode():
            next(parser.parse_states(*parser.states(TOKENS[:4])))


def test_a_model_does_not_mind_the_device(kind: str) -> None:
    trained_on = {**load_parser(kind).identity, "device": "cuda"}
    reader = Reader([SimpleNamespace(corpus={}, parsers={kind: trained_on})])
    parser = reader.parser(kind)
    assert "device" not in parser.identity
    reader.move(torch.device("meta"))
    assert parser.device.type == reader.device == "meta"
    trained_on["version"] = "0"
    with pytest.raises(UserError, match="the model was trained on trees of"):
        Reader([SimpleNamespace(corpus={}, parsers={kind: trained_on})]).parser(kind)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_here() -> None:
    for ask in (pick_device, devices_of, lambda name: load_parser("dep", device=name)):
        with pytest.raises(UserError, match=r"device 'cuda' cannot be used \(.*--device takes another"):
            ask("cuda")
    assert devices_of("auto") == ["cpu"]


def test_agreement_counts() -> None:
    one, other = (DependencyParse(np.array([2, 0]), np.array(ids)) for ids in ([1, 0], [0, 0]))
    far = DependencyParse(np.array([0, 1]), np.array([0, 0]))
    assert dependency_agreement([one, one], [one, other]) == {
        "same_heads": 100, "same_relations": 75, "same_trees": 50,
    }  # fmt: skip
    assert dependency_agreement([one], [far])["same_heads"] == 0
    tags = np.array([1, 2])
    flat = ConstituencyParse(tags, np.array([0]), np.array([2]), np.array([1]))
    deep = ConstituencyParse(tags, np.array([0, 0]), np.array([2, 1]), np.array([1, 3]))
    found = constituency_agreement([flat, flat], [flat, deep])
    assert found == {"same_spans": 80, "same_tags": 100, "same_trees": 50}


def random_pair(seed: int = 0) -> tuple[BiaffineParser, SpanParser]:
    """Two parsers whose encoders have the same weights, each its own copy."""
    spans = random_spans(seed)
    scorer = ScorerConfig(arc_dim=7, relation_dim=5)
    arcs = DependencyModel(spans.vocabulary, ["a", "b", "root"], spans.encoder.config, scorer)
    with torch.no_grad():
        for parameter in arcs.parameters():
            parameter.normal_(0, 0.5)
    arcs.encoder.load_state_dict(spans.encoder.state_dict())
    return BiaffineParser(arcs, {}), SpanParser(spans, {})


def encoded(parser: TextParser, monkeypatch) -> int:
    """How many sentences are encoded for the trees of TOKENS, which are those of each parser alone."""
    count, forward = Counter[str](), SentenceEncoder.forward

    def counted(self, batch, vectors=None):
        count["sentences"] += len(batch.lengths_B)
        return forward(self, batch, vectors)

    with monkeypatch.context() as patch:
        patch.setattr(SentenceEncoder, "forward", counted)
        found = parser.arrays(TOKENS)
    for alone in (TextParser(parser.dependency, None), TextParser(None, parser.constituency)):
        expected = alone.arrays(TOKENS)
        for field in expected.fields:
            np.testing.assert_array_equal(getattr(found, field), getattr(expected, field))
    return count["sentences"]


def test_parsers_of_one_encoder_encode_once_and_others_twice(monkeypatch):
    for pair in (random_pair(), (load_parser("dep"), load_parser("const"))):
        assert encoded(TextParser(*pair), monkeypatch) == len(TOKENS)
    assert parse_both(*pair, []) == []
    assert encoded(TextParser(random_pair()[0], random_pair(1)[1]), monkeypatch) == 2 * len(TOKENS)
    changed, other = random_pair()
    with torch.no_grad():
        other.model.encoder.layers[1].back.weight_hh_l0[0, 0] += 1e-6
    assert encoded(TextParser(changed, other), monkeypatch) == 2 * len(TOKENS)


def test_a_sentence_that_fails_costs_no_other(monkeypatch):
    dependency, constituency = random_pair()
    states = constituency.states

    def fail_on_dogs(sentences):
        if any("dog" in tokens for tokens in sentences):
            raise ValueError("a dog")
        return states(sentences)

    monkeypatch.setattr(constituency, "states", fail_on_dogs)
    batch = TextParser(dependency, constituency).arrays(TOKENS)
    dogs = [CONST_FALLBACK * ("dog" in tokens) for tokens in TOKENS]
    assert batch.flags.tolist() == dogs and sum(map(bool, dogs)) == 2


@pytest.mark.parametrize("half", [True, False])
def test_a_folder_holds_the_model(tmp_path: Path, half: bool) -> None:
    model, other = random_arcs(), random_arcs(1)
    identity = save_model_folder(tmp_path, name="x", version="1", half=half, **model.content())
    folder = load_model_folder(tmp_path, "dependency")
    assert folder.identity == identity and identity.keys() == {"name", "version", "sha256"}
    again = DependencyModel.from_folder(folder)
    assert again.vocabulary == model.vocabulary and again.relations == model.relations
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value.half().float() if half else value)
    second = save_model_folder(tmp_path / "2", name="x", version="1", half=half, **other.content())
    assert identity["sha256"] != second["sha256"]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", lambda t: t.replace('"format": 1', '"format": 9'), "config.json: format 9"),
        ("config.json", lambda t: t.replace("dependency", "constituency"), "a constituency model where"),
        ("config.json", lambda t: t.replace('"layers": 2', '"layers": 0'), "encoder: layers|layers 0"),
        ("config.json", lambda t: t.replace('"layers": 2', '"layers": 3'), "does not fit .*layers.2"),
        ("config.json", lambda t: re.sub(r'"word_dim": \d+', f'"word_dim": {10**30}', t), "does not fit"),
        ("vocab.json", lambda t: t + " ", "does not match the SHA-256"),
        ("config.json", lambda t: "{", "not JSON"),
        ("config.json", lambda t: t.replace('"sha256"', '"digests"'), "config.json: .*sha256"),
    ],
)
def test_a_damaged_folder_is_refused_with_one_line(tmp_path, name, change, message):
    save_model_folder(tmp_path, name="x", version="1", **random_arcs().content())
    path = tmp_path / name
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=message) as caught:
        DependencyModel.from_folder(load_model_folder(tmp_path, "dependency"))
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_the_shipped_parsers_are_small_and_have_cards(kind):
    assert (BUILTIN[kind] / "model.safetensors").stat().st_size <= 8_000_000
    card = (BUILTIN[kind] / "README.md").read_text(encoding="utf-8")
    assert all(part in card for part in ("CC BY-SA 4.0", "CC BY 4.0", "## Data", "## Licences", "## Scores"))
    assert (load_parser(kind).identity["name"], load_parser(kind).identity["version"]) == (
        f"builtin-{kind}",
        "3",
    )


def test_odd_input_gets_whole_trees():
    odd = [
        [""], [" "], ["\u200b", "\ud7ff"], ["-LRB-"] * 40, ["x" * 5000, "\t"], ["日本", "🙂"], ["a"] * 300,
    ]  # fmt: skip
    dependency, constituency = map(load_parser, KINDS)
    for tokens, arcs, spans in zip(odd, dependency.parse(odd), constituency.parse(odd), strict=True):
        assert len(arcs.heads) == len(tokens) and (arcs.heads == 0).sum() == 1
        assert len(binarise(spans, len(constituency.labels)).label) == len(tokens) - 1
    words = ["The", "old", "man", "saw", "a", "boat", "in", "the", "harbour", "."]
    assert dependency.parse([words])[0].heads.tolist() == [3, 3, 4, 0, 6, 4, 9, 9, 4, 4]
    parsed = from_parse(constituency.parse([words])[0], words, constituency.labels, constituency.tags)
    assert write_tree(parsed).startswith("(TOP (S (NP (DT The) (JJ old) (NN man)) (VP (VBD saw) (NP")


@pytest.mark.data
def test_arcs_on_gum_dev(data_folder):
    parser, gold = load_parser("dep"), read_dependencies([data_folder / "treebank" / "gum" / "dev.conllu"])
    scores = score_dependency(parser, gold)
    assert scores["uas"] >= 91 and scores["las"] >= 88
    sentences = [list(s.tokens) for s in gold]
    heads, relations = stock_predict(to_supar(parser.model), sentences)
    parses = parser.parse(sentences)
    assert [p.heads.tolist() for p in parses] == heads
    assert [np.array(parser.relations)[p.relations].tolist() for p in parses] == relations


@pytest.mark.data
def test_spans_on_gum_dev(data_folder):
    parser, gold = load_parser("const"), read_treebank([data_folder / "treebank" / "gum" / "dev.ptb"])
    scores = score_constituency(parser, gold)
    assert scores["f1"] >= 88 and scores["tags"] >= 97
    card = (BUILTIN["const"] / "README.md").read_text(encoding="utf-8")
    row = re.search(r"^\| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", card, re.MULTILINE)
    assert row is not None
    # Another processor's arithmetic may turn a near tie.
    assert float(row.group(3)) == pytest.approx(scores["f1"], abs=0.1)
    sentences = [list(tree.words) for tree in gold[::8]]
    stock = stock_parse(to_benepar(parser.model), sentences, subbatch_max_tokens=500)
    assert as_lists(parser.parse(sentences)) == as_lists(stock)
