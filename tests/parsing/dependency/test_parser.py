"""The biaffine model and its batched parsing; scores; folders that are damaged."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from corpora.support.errors import UserError
from parsing.dependency.model import DependencyModel
from parsing.dependency.parser import BiaffineParser
from parsing.dependency.task import DependencyTask, attachment_scores
from parsing.networks.config import DependencyConfig, EncoderConfig, LoopConfig, ScorerConfig
from parsing.networks.features import TypeTable, make_batch
from parsing.networks.model_folder import load_model_folder, save_model_folder
from parsing.networks.training import Trainer, seed_everything
from parsing.trees.parsers import DependencyParse
from tests.parsing.dependency.examples import ODD, SENTENCES, random_model

TOKENS = [list(s.tokens) for s in SENTENCES] + ODD


def as_lists(parses):
    return [(p.heads.tolist(), p.relations.tolist()) for p in parses]


def slow_scores(model, tokens, *, end=False):
    """s(i, j) and s(i, j, r) of one sentence from the equations, one pair of words at a time."""
    table = TypeTable(model.vocabulary)
    x = model.encode(make_batch(table, [table.rows(tokens)], end_boundary=end))[0]

    def mlp(layer, v):
        return functional.leaky_relu(layer.weight @ v + layer.bias, 0.1)

    one = torch.ones(1)
    size, r = len(tokens) + 1, len(model.relations)
    arcs, relations = torch.empty(size, size), torch.empty(size, size, r)
    for i in range(size):
        d, rd = mlp(model.arc_dependent, x[i]), mlp(model.relation_dependent, x[i])
        for j in range(size):
            h, rh = mlp(model.arc_head, x[j]), mlp(model.relation_head, x[j])
            arcs[i, j] = torch.cat([d, one]) @ model.arc_weight @ h
            for k in range(r):
                relations[i, j, k] = torch.cat([rd, one]) @ model.relation_weight[k] @ torch.cat([rh, one])
    return arcs, relations


@torch.no_grad()
def test_scores_equal_the_equations():
    model = random_model()
    parser = BiaffineParser(model, {})
    scores, x = parser.score(TOKENS)
    for b, tokens in enumerate(TOKENS):
        n = len(tokens)
        arcs, relations = slow_scores(model, tokens)
        torch.testing.assert_close(scores[b, : n + 1, : n + 1], arcs, rtol=1e-4, atol=1e-4)
        assert (scores[b, :, n + 1 :] == -torch.inf).all()
        heads = torch.tensor([(3 * i) % (n + 1) for i in range(n)])
        positions = torch.arange(1, n + 1)
        found = model.relation_scores(x, (torch.full_like(heads, b), positions), heads)
        torch.testing.assert_close(found, relations[positions, heads], rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_the_loss_is_the_mean_negative_log_likelihood():
    model = random_model()
    table = TypeTable(model.vocabulary)
    batch = make_batch(table, [table.rows(s.tokens) for s in SENTENCES], end_boundary=False)
    ids = {r: i for i, r in enumerate(model.relations)}
    total, words = 0.0, 0
    for sentence in SENTENCES:
        arcs, relations = slow_scores(model, sentence.tokens)
        for i, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True), 1):
            total -= arcs[i].log_softmax(0)[head] + relations[i, head].log_softmax(0)[ids[relation]]
            words += 1
    heads = torch.tensor([h for s in SENTENCES for h in s.heads])
    relations = torch.tensor([ids[r] for s in SENTENCES for r in s.relations])
    assert float(model.loss(model.encode(batch), batch.lengths_B, heads, relations)) == pytest.approx(
        float(total) / words, rel=1e-4
    )


def test_parses_do_not_depend_on_the_batch_and_keep_the_order():
    model = random_model()
    together = as_lists(BiaffineParser(model, {}).parse(TOKENS))
    assert together == as_lists(BiaffineParser(model, {}, batch_positions=1).parse(TOKENS))
    parser = BiaffineParser(model, {})
    assert together == [as_lists(parser.parse([tokens]))[0] for tokens in TOKENS]
    assert [len(h) for h, _ in together] == [len(tokens) for tokens in TOKENS]
    assert all(heads.count(0) == 1 for heads, _ in together)
    assert parser.parse([]) == []


def save(model: DependencyModel, folder: Path, *, half: bool) -> dict[str, str]:
    return save_model_folder(
        folder,
        kind="dependency",
        name="x",
        version="1",
        config=model.config_json(),
        vocabulary=model.vocabulary_json(),
        tensors=model.state_dict(),
        half=half,
        card="",
    )


def test_a_tiny_model_learns_its_sentences_and_round_trips(tmp_path):
    seed_everything(LoopConfig())
    config = DependencyConfig(
        encoder=EncoderConfig(word_dim=16, hidden=16, layers=1, embedding_dropout=0.1, dropout=0.1),
        scorer=ScorerConfig(arc_dim=16, relation_dim=16, dropout=0.1),
        min_count=1,
    )
    task = DependencyTask(SENTENCES, SENTENCES, config)
    training = LoopConfig(epochs=40, batch_tokens=20, learning_rate=0.02)
    best = Trainer(task, training, tmp_path / "run", {}).run().best_scores
    assert best["uas"] > 95 and best["las"] > 90

    save(task.module, tmp_path / "model", half=True)
    folder = load_model_folder(tmp_path / "model", kind="dependency")
    assert folder.identity.keys() == {"name", "version", "sha256"}
    again = BiaffineParser(DependencyModel.from_folder(folder), folder.identity)
    assert as_lists(again.parse(TOKENS[:6])) == as_lists(BiaffineParser(task.module, {}).parse(TOKENS[:6]))


def test_attachment_scores_leave_punctuation_out():
    relations = ("det", "nsubj", "obj", "obl", "case", "amod", "root", "punct")
    parses = []
    for s in SENTENCES[:2]:
        heads = np.array(s.heads, dtype=np.int32)
        heads[-1] = 1  # the final stop, always wrong
        names = ["obj" if r == "obl" else r for r in s.relations]
        parses.append(DependencyParse(heads, np.array([relations.index(r) for r in names])))
    scores = attachment_scores(SENTENCES[:2], parses, relations)
    assert scores == pytest.approx(
        {"uas": 100.0, "las": 1000 / 11, "uas_punct": 1100 / 13, "las_punct": 1000 / 13}
    )


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "config.json",
            lambda t: t.replace('"format": 1', '"format": 9'),
            "model format 9, this version reads 1",
        ),
        (
            "config.json",
            lambda t: t.replace("dependency", "constituency"),
            "a constituency model where a dep",
        ),
        ("config.json", lambda t: t.replace('"layers"', '"depth"'), "unknown key 'depth'"),
        ("config.json", lambda t: t.replace('"layers": 2', '"layers": 3'), "implies"),
        (
            "config.json",
            lambda t: re.sub(r'"character_dim": \d+', f'"character_dim": {10**30}', t),
            "config.json: sizes out of range",
        ),
        ("vocab.json", lambda t: t + " ", "does not match the SHA-256"),
        ("config.json", lambda t: "{", "not JSON"),
        ("config.json", lambda t: t.replace('"kind"', '"sort"'), "'kind' is missing or no str"),
        ("config.json", lambda t: t.replace('"name"', '"title"'), "'name' is missing or no str"),
        ("config.json", lambda t: t.replace('"sha256"', '"digests"'), "'sha256' is missing or no dict"),
    ],
)
def test_a_damaged_folder_is_refused_with_one_line(tmp_path, name, change, message):
    save(random_model(), tmp_path, half=False)
    path = tmp_path / name
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=message) as caught:
        DependencyModel.from_folder(load_model_folder(tmp_path, kind="dependency"))
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="not a model folder"):
        load_model_folder(tmp_path / "nowhere", kind="dependency")


def test_identity_changes_with_the_weights(tmp_path):
    identities = [save(random_model(seed), tmp_path / str(seed), half=False) for seed in (0, 1)]
    assert identities[0]["sha256"] != identities[1]["sha256"]
