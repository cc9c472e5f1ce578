"""Both parsers over one encoder: trained together, one pass of it, the same trees as alone."""

import dataclasses
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from corpora.documents import Document, Sentence
from corpora.support.errors import UserError
from corpora.treebanks import write_conllu
from parsing.cache.format import CONST_FALLBACK
from parsing.constituency.model import SpanParser
from parsing.constituency.task import IGNORED, span_loss
from parsing.dependency.model import DependencyModel
from parsing.dependency.parser import BiaffineParser
from parsing.joint.parser import join
from parsing.joint.task import ARC_SCALE, JointTask
from parsing.models import load_constituency_parser, load_dependency_parser
from parsing.networks.config import JointConfig, LoopConfig, ScorerConfig
from parsing.networks.sentence_encoder import SentenceEncoder
from parsing.networks.training import Trainer
from parsing.text_parser import TextParser
from parsing.train import cli as train
from parsing.trees.brackets import read_tree
from tests.fixtures.waiting import no_waiting
from tests.parsing.constituency.examples import random_model as random_spans
from tests.parsing.dependency.examples import ODD, SENTENCES
from tests.parsing.dependency.test_commands import SMALL
from tests.parsing.dependency.test_parser import slow_scores
from tests.parsing.subcommand import run

TREES = [
    "(S (NP (DET The) (NOUN cat)) (VP (VERB sat) (PP (ADP on) (NP (DET the) (NOUN mat)))) (PUNCT .))",
    "(S (NP (DET A) (NOUN dog)) (VP (VERB chased) (NP (DET the) (NOUN cat))) (PUNCT .))",
    "(S (NP (NOUN Cats)) (VP (VERB sleep)))",
    "(S (NP (NOUN Birds)) (VP (VERB sing)))",
]
"""Of the first three sentences with arcs, and of one that has none."""
TOKENS = [list(s.tokens) for s in SENTENCES] + ODD


def random_pair(seed: int = 0) -> tuple[BiaffineParser, SpanParser]:
    """Two parsers whose encoders have the same weights, each its own copy."""
    spans = random_spans(seed)
    arcs = DependencyModel(
        spans.vocabulary, ["a", "b", "root"], spans.config.encoder, ScorerConfig(arc_dim=7, relation_dim=5)
    )
    with torch.no_grad():
        for parameter in arcs.parameters():
            parameter.normal_(0, 0.5)
    arcs.encoder.load_state_dict(spans.encoder.state_dict())
    return BiaffineParser(arcs, {}), SpanParser(spans, {})


def as_lists(parses):
    return [[getattr(p, name).tolist() for name in p.__dataclass_fields__] for p in parses]


def test_trees_are_the_same_together_and_alone():
    dependency, constituency = random_pair()
    joint = join(dependency, constituency)
    arcs, spans = zip(*joint.parse(TOKENS), strict=True)
    assert as_lists(arcs) == as_lists(dependency.parse(TOKENS))
    assert as_lists(spans) == as_lists(constituency.parse(TOKENS))
    assert joint.parse([]) == []


def test_the_parsers_of_the_package_share_their_encoder():
    joint = join(load_dependency_parser("builtin"), load_constituency_parser("builtin"))
    assert joint is not None
    arcs, spans = zip(*joint.parse(TOKENS), strict=True)
    assert as_lists(arcs) == as_lists(load_dependency_parser("builtin").parse(TOKENS))
    assert as_lists(spans) == as_lists(load_constituency_parser("builtin").parse(TOKENS))


def test_each_sentence_is_encoded_once(monkeypatch):
    encoded = Counter()
    forward = SentenceEncoder.forward

    def counted(self, batch, vectors=None):
        encoded["sentences"] += len(batch.lengths_B)
        return forward(self, batch, vectors)

    monkeypatch.setattr(SentenceEncoder, "forward", counted)
    together = TextParser(*random_pair()).arrays(TOKENS)
    assert encoded["sentences"] == len(TOKENS)
    monkeypatch.setattr("parsing.joint.parser.join", lambda *parsers: None)
    apart = TextParser(*random_pair()).arrays(TOKENS)
    assert encoded["sentences"] == 3 * len(TOKENS)
    for field in together.fields:
        np.testing.assert_array_equal(getattr(together, field), getattr(apart, field))


def test_parsers_with_other_encoders_are_not_joined():
    dependency, constituency = random_pair()
    assert join(dependency, None) is None and join(None, constituency) is None
    assert join(dependency, random_pair(1)[1]) is None
    constituency.use_bfloat16()
    assert join(dependency, constituency) is None
    dependency.use_bfloat16()
    assert join(dependency, constituency) is not None
    changed, other = random_pair()
    with torch.no_grad():
        other.model.encoder.layers[1].back.weight_hh_l0[0, 0] += 1e-6
    assert join(changed, other) is None


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


def joint_task(sentences: list[Sentence], trees: list[str]) -> JointTask:
    torch.manual_seed(0)
    sizes = dataclasses.replace(
        JointConfig().encoder, word_dim=6, character_dim=4, character_hidden=8, hidden=9
    )
    config = JointConfig(
        encoder=sizes, scorer=ScorerConfig(arc_dim=7, relation_dim=5), label_hidden=8, min_count=1
    )
    gold = [read_tree(text, where="here") for text in trees]
    task = JointTask(sentences, gold, sentences, gold, config)
    with torch.no_grad():
        for parameter in task.module.parameters():
            parameter.normal_(0, 0.5)
    task.module.eval()
    return task


@torch.no_grad()
def test_the_loss_of_arcs_is_that_of_the_equations():
    task = joint_task(list(SENTENCES), TREES)
    batch = [0, 2, len(SENTENCES)]  # the last one has a tree and no arcs
    assert task.sizes() == [*(len(s.tokens) for s in SENTENCES), 2]
    total, words = 0.0, 0
    ids = {name: i for i, name in enumerate(task.dependency.relations)}
    for i in batch[:2]:
        arcs, relations = slow_scores(task.dependency, SENTENCES[i].tokens, end=True)
        gold = zip(SENTENCES[i].heads, SENTENCES[i].relations, strict=True)
        for word, (head, relation) in enumerate(gold, 1):
            total -= arcs[word].log_softmax(0)[head] + relations[word, head].log_softmax(0)[ids[relation]]
            words += 1
    states, positions = task._sentences.states(batch)
    parses, tags = [task._parses[i] for i in batch], [task._tags[i] for i in batch]
    assert all(parse is not None for parse in parses)
    spans = span_loss(task.constituency, states, positions, parses, tags)
    assert float(task.loss(batch)) == pytest.approx(float(spans) + ARC_SCALE * float(total) / words, rel=1e-4)


def test_sentences_meet_their_own_trees():
    twice = [SENTENCES[0], SENTENCES[3], SENTENCES[0]]
    task = joint_task(twice, [TREES[0], TREES[0], TREES[3]])
    assert [parse is not None for parse in task._parses] == [True, False, True, True]
    assert (task._tags[1] == IGNORED).any() and len(task._tags) == 4
    assert task.dependency.encoder is task.constituency.encoder


def test_a_training_step_leaves_nothing_on_the_host(monkeypatch):
    """The loss on torch's device without memory: a tensor on the wrong side of an operation is an error."""
    task = joint_task(list(SENTENCES), TREES)
    on_host = task.loss([0, 1, len(SENTENCES)]).item()
    monkeypatch.setattr(
        "parsing.constituency.span_head.to_host", lambda tensor: lambda: np.zeros(tensor.shape, np.float32)
    )
    task.module.to("meta").train()
    with no_waiting("meta"):
        loss = task.loss([0, 1, len(SENTENCES)])
        loss.backward()
    assert loss.device.type == "meta" and on_host > 0
    assert all(p.grad.device.type == "meta" for p in task.module.parameters() if p.grad is not None)
    assert task.dependency.arc_weight.grad is not None
    assert task.constituency.span_head[0].weight.grad is not None


def test_a_device_is_part_of_a_run(treebank, tmp_path, capsys):
    task, config = joint_task(list(SENTENCES), TREES), LoopConfig(parallel=2)
    with pytest.raises(UserError, match=r"--loop\.parallel must be 1 on a GPU"):
        Trainer(task, config, tmp_path, {}, torch.device("meta"))
    assert run(train, *command(treebank, tmp_path / "m", "--device", "cuda:7")) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "device 'cuda:7' cannot be used" in lines[0]


def test_training_starts_from_a_dependency_model():
    start = joint_task(list(SENTENCES), TREES).dependency
    torch.manual_seed(1)
    more = [
        *SENTENCES,
        Sentence(("Zebras", "sat"), tags=("NOUN", "VERB"), heads=(2, 0), relations=("nsubj", "root")),
    ]
    gold = [read_tree(TREES[0], where="here")]
    sizes = start.encoder.config
    config = JointConfig(encoder=sizes, scorer=start.scorer, label_hidden=8, min_count=1)
    task = JointTask(more, gold, more, gold, config, [start])
    given, own = BiaffineParser(start, {}), BiaffineParser(task.dependency.eval(), {})
    assert as_lists(given.parse(TOKENS)) == as_lists(own.parse(TOKENS))
    assert "zebras" in task.dependency.vocabulary.words and "zebras" not in start.vocabulary.words
    with pytest.raises(UserError, match=r"other sizes \(encoder.words.weight\)"):
        JointTask(
            more,
            gold,
            more,
            gold,
            dataclasses.replace(config, encoder=dataclasses.replace(sizes, word_dim=9)),
            [start],
        )
    with pytest.raises(UserError, match="other relations"):
        JointTask(more[:1], gold, more, gold, config, [start])


def test_training_goes_on_from_both_parsers_of_an_earlier_run(treebank, tmp_path, capsys):
    first, more = tmp_path / "first", tmp_path / "more"
    assert run(train, *command(treebank, first)) == 0
    # At no learning rate the weights stay where they start.
    still = ("--loop.learning-rate", 1e-30, "--loop.average", 0, "--start-from", first)
    assert run(train, *command(treebank, more, *still)) == 0
    for kind in treebank:
        given, kept = (load_file(folder / kind / "model.safetensors") for folder in (first, more))
        assert given.keys() == kept.keys()
        assert all(torch.equal(given[name], kept[name]) for name in given)
    capsys.readouterr()
    other = treebank["const"].with_name("other.ptb")
    other.write_text("(S (NP (NOUN Birds)) (AP (VERB sing)))\n")
    assert run(train, *command({**treebank, "const": other}, tmp_path / "third", "--start-from", first)) == 2
    lines = capsys.readouterr().err.splitlines()
    assert (
        len(lines) == 1 and "--start-from: the model and the treebanks have other labels ('AP')" in lines[0]
    )


@pytest.fixture(scope="module")
def treebank(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("treebank")
    files = {"dep": folder / "tiny.conllu", "const": folder / "tiny.ptb"}
    write_conllu(files["dep"], [Document("a", tuple(SENTENCES))], tags="upos")
    files["const"].write_text("".join(f"{tree}\n" for tree in TREES))
    return files


def command(treebank, output, *options) -> list:
    files = [
        part for kind, path in treebank.items() for part in (f"--train-{kind}", path, f"--dev-{kind}", path)
    ]
    return ["both", *files, "--output", output, "--loop.epochs", 6, *SMALL, *options]


def test_two_folders_that_parse_together_and_a_resumed_run(treebank, tmp_path, capsys):
    assert run(train, *command(treebank, tmp_path / "m", "--name", "tiny")) == 0
    shown = capsys.readouterr().err
    assert "/m/dep: UAS" in shown and "/m/const: F1" in shown
    dependency = load_dependency_parser(str(tmp_path / "m" / "dep"))
    constituency = load_constituency_parser(str(tmp_path / "m" / "const"))
    assert dependency.identity["name"] == "tiny-dep" and constituency.identity["name"] == "tiny-const"
    assert join(dependency, constituency) is not None
    for kind in ("dep", "const"):
        card = (tmp_path / "m" / kind / "README.md").read_text()
        assert "share" in card or "one sentence encoder" in card
    weights = {kind: (tmp_path / "m" / kind / "model.safetensors").read_bytes() for kind in treebank}
    # The last checkpoint is lost: its epoch is trained again, to the same bits.
    last = sorted((tmp_path / "m" / "training" / "checkpoints").iterdir())[-1]
    (last / "weights.safetensors").write_bytes(b"")
    assert run(train, *command(treebank, tmp_path / "m", "--name", "tiny")) == 0
    assert weights == {kind: (tmp_path / "m" / kind / "model.safetensors").read_bytes() for kind in treebank}


def test_an_encoder_without_room_for_spans_is_refused(treebank, tmp_path, capsys):
    assert run(train, *command(treebank, tmp_path / "m", "--model.encoder.no-end-boundary")) == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1 and "--model.encoder.end-boundary is needed" in lines[0]
