"""Parsers in batches on a device, two over one encoder, damaged folders, and the ones that are shipped.

There is no GPU here, so its way of working is switched on for the CPU, and a tensor that would be left on the
wrong device is found on torch's device without memory.
"""

import json
from unittest.mock import Mock, patch

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from corpora.characters import normalise_text
from multiview.folder.reading import SentenceReader
from parsing.networks import constituency as constituency_module
from parsing.networks import dependency as dependency_module
from parsing.networks.config import ScorerSizes
from parsing.networks.constituency import SpanParser
from parsing.networks.dependency import BiaffineParser, DependencyModel
from parsing.networks.parser import load_model_folder
from parsing.networks.sentence_encoder import SentenceEncoder
from parsing.score import equal_trees
from parsing.text_parser import TextParser, load_parser
from parsing.training.scores import read_gold
from parsing.trees.arrays import binarise
from parsing.trees.batch import ConstituencyParse, DependencyParse, DeviceLost, is_same_parser
from runtime.errors import UserError
from runtime.files import write_record
from tests.fixtures.device import OneDevice
from tests.fixtures.kills import kills
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


def test_too_little_memory_halves_the_batches_once(kind: str, monkeypatch, caplog) -> None:
    expected = load_parser(kind).parse(LONGER)
    parser = as_on_a_gpu(kind, positions=500)
    full = parser.vectors.states

    def limited(sentences):
        if len(sentences) * (max(map(len, sentences)) + 2) > 150:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")
        return full(sentences)

    monkeypatch.setattr(parser.vectors, "states", limited)
    for _ in range(2):  # said once
        assert as_lists(parser.parse(LONGER)) == as_lists(expected)
        warnings = [line for line in caplog.messages if "too little memory" in line]
        assert [line.rsplit(" ", 3)[1] for line in warnings] == ["250", "125"]
    parser.positions, parser.on_gpu = 500, False
    with pytest.raises(torch.OutOfMemoryError):
        parser.parse(LONGER)


def test_a_lost_device_is_no_fault_of_the_sentences(kind: str, monkeypatch) -> None:
    parser = as_on_a_gpu(kind)
    parser.device = torch.device("cuda:0")
    error = RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be …")
    monkeypatch.setattr(parser.vectors, "states", Mock(side_effect=error))
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
    assert is_same_parser(parser.identity, before) and not is_same_parser({**before, "version": "0"}, before)
    for _ in range(2):  # the second time, all word types are known
        with OneDevice(), torch.inference_mode():
            next(parser.parse_states(*parser.vectors.states(TOKENS[:4])))


def test_a_model_does_not_mind_the_device(kind: str) -> None:
    trained_on = {**load_parser(kind).identity, "device": "cuda"}
    reader = SentenceReader({kind: trained_on})
    parser = reader.parser(kind)
    assert "device" not in parser.identity
    reader.move(torch.device("meta"))
    assert parser.device.type == reader.device == "meta"


def test_agreement_counts() -> None:
    one, other = (DependencyParse(np.array([2, 0]), np.array(ids)) for ids in ([1, 0], [0, 0]))
    assert equal_trees([one, one], [one, other]) == 50
    flat, deep = (
        ConstituencyParse(*map(np.array, ([1, 2], [0] * len(ends), ends, [1, 3][: len(ends)])))
        for ends in ([2], [2, 1])
    )
    assert equal_trees([flat, flat, flat, deep], [flat, deep, flat, deep]) == 75


def random_pair() -> tuple[BiaffineParser, SpanParser]:
    """Two parsers whose encoders have the same weights, each its own copy."""
    spans = random_spans()
    scorer = ScorerSizes(arc_dim=7, relation_dim=5)
    arcs = DependencyModel(spans.vocabulary, ["a", "b", "root"], spans.encoder.config, scorer)
    arcs.encoder.load_state_dict(spans.encoder.state_dict())
    return BiaffineParser(arcs), SpanParser(spans)


def encoded(parser: TextParser) -> int:
    """How many sentences are encoded for the trees of TOKENS, which are those of each parser alone."""
    with patch.object(SentenceEncoder, "forward", autospec=True, side_effect=SentenceEncoder.forward) as runs:
        batch = parser.parse_to_batch(TOKENS)
    for alone in (TextParser(parser.dependency, None), TextParser(None, parser.constituency)):
        expected = alone.parse_to_batch(TOKENS)
        for field in expected.fields:
            np.testing.assert_array_equal(getattr(batch, field), getattr(expected, field))
    return sum(len(run.args[1].lengths_B) for run in runs.call_args_list)


def test_parsers_of_one_encoder_encode_once_and_others_twice():
    for pair in (random_pair(), (load_parser("dep"), load_parser("const"))):
        assert encoded(TextParser(*pair)) == len(TOKENS)
    changed, other = random_pair()
    with torch.no_grad():
        other.model.encoder.layers[1].back.weight_hh_l0[0, 0] += 1e-6
    assert encoded(TextParser(changed, other)) == 2 * len(TOKENS)


def seal_again(path, files=()):
    """Seal a record whose values were changed, and with names of files what these have now."""
    values = json.loads(path.read_text())
    del values["seal"]
    write_record(path, values, files)


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("config.json", '"format": 1', '"format": 9', "config.json: format 9"),
        ("config.json", '"layers": 2', '"layers": 3', "does not fit .*layers.2"),
        ("config.json", '"word_dim": 6', f'"word_dim": {10**30}', "at most 2147483647"),
        ("config.json", "{", "", "not JSON"),
        ("config.json", '"sha256"', '"digests"', "config.json: files: does not list"),
        ("config.json", '"seal": "', '"seal": "0', "config.json: damaged"),
        ("vocab.json", "cat", "cot", "vocab.json: damaged"),
    ],
)
def test_a_damaged_folder_is_refused_with_one_line(tmp_path, name, old, new, message):
    random_arcs().save(tmp_path, name="x", version="1")
    text = (tmp_path / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new))
    if name == "config.json" and new and "seal" not in new:
        seal_again(tmp_path / name)
    with pytest.raises(UserError, match=f"{tmp_path}/.*{message}"):
        DependencyModel.load(tmp_path)


@pytest.mark.parametrize(
    "change", [lambda v: v.long(), lambda v: v > 0, lambda v: v.to(torch.complex64), lambda v: v / 0]
)
def test_weights_are_finite_floats(tmp_path, change):
    random_arcs().save(tmp_path, name="x", version="1")
    path = tmp_path / "model.safetensors"
    stored = load_file(path)
    save_file({**stored, (name := sorted(stored)[0]): change(stored[name])}, path)
    seal_again(tmp_path / "config.json", ("model.safetensors", "vocab.json"))
    with pytest.raises(UserError, match=rf"model\.safetensors: {name} is torch\.\w+, or not all of it"):
        load_model_folder(tmp_path, "dependency")


def test_a_killed_change_leaves_the_old_parser_or_the_new(tmp_path):
    def save(folder, seed):
        torch.manual_seed(seed)
        random_arcs().save(folder, name="x", version=str(seed))

    save(tmp_path / "before", 1)
    states = []
    for folder in kills(lambda: save(tmp_path / "work", 2), tmp_path / "before", tmp_path / "work"):
        states.append(load_model_folder(folder, "dependency").identity["version"])
    assert states == sorted(states) and set(states) == {"1", "2"} and len(states) > 10


@pytest.mark.data
def test_the_shipped_parsers_are_those_of_the_libraries_on_gum(data_folder):
    parser, folder = load_parser("dep"), data_folder / "treebank" / "gum"
    sentences = [
        [normalise_text(w) for w in s.tokens] for s in read_gold("dep", [folder / "dev.conllu"])[::4]
    ]
    parses = parser.parse(sentences)
    named = [[parser.relations[i] for i in p.relations] for p in parses]
    assert ([p.heads.tolist() for p in parses], named) == stock_predict(to_supar(parser.model), sentences)
    parser = load_parser("const")
    sentences = [
        [normalise_text(word) for word in tree.tokens]
        for tree in read_gold("const", [folder / "dev.ptb"])[::8]
    ]
    stock = stock_parse(to_benepar(parser.model), sentences, subbatch_max_tokens=500)
    assert as_lists(parser.parse(sentences)) == as_lists(stock)


def test_odd_input_gets_whole_trees():
    odd = [
        [""], [" "], ["\u200b", "\ud7ff"], ["-LRB-"] * 40, ["x" * 5000, "\t"], ["日本", "🙂"], ["a"] * 300,
    ]  # fmt: skip
    dependency, constituency = map(load_parser, KINDS)
    for tokens, arcs, spans in zip(odd, dependency.parse(odd), constituency.parse(odd), strict=True):
        assert len(arcs.heads) == len(tokens) and (arcs.heads == 0).sum() == 1
        assert len(binarise(spans, len(constituency.labels)).label) == len(tokens) - 1


@pytest.mark.parametrize("kind", ["dep", "const"])
def test_products_in_eight_bits_give_the_same_trees_of_plain_sentences(kind: str) -> None:
    sentences = [["The", "cat", "that", "we", "saw", "sleeps", "."], ["Dogs", "bark", "."], ["Yes"]]
    parser, other = load_parser(kind), load_parser(kind, products="int8")
    assert "products" not in parser.identity and other.identity == {**parser.identity, "products": "int8"}
    assert is_same_parser(parser.identity, other.identity)
    assert repr(other.parse(sentences)) == repr(parser.parse(sentences))
