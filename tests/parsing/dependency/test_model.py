"""The biaffine model and its batched parsing; folders that are damaged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from parsing.dependency.model import BiaffineParser, DependencyModel
from parsing.networks.model_folder import load_model_folder, save_model_folder
from torch.nn import functional

from corpora.support.errors import UserError
from parsing.networks.features import TypeTable, make_batch
from tests.parsing.dependency.examples import ODD, SENTENCES, as_lists, random_model

TOKENS = [list(s.tokens) for s in SENTENCES] + ODD


def states(model, sentences):
    """States and positions of a batch, as in parsing and training."""
    table = TypeTable(model.vocabulary)
    rows = [table.rows(tokens) for tokens in sentences]
    batch = make_batch(table, rows, end_boundary=model.encoder.config.end_boundary)
    return model.encoder(batch), batch.lengths_B


def slow_scores(model, tokens):
    """s(i, j) and s(i, j, r) of one sentence from the equations, one pair of words at a time."""
    x = states(model, [tokens])[0][0]

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


def slow_loss(model, sentences):
    """Mean of −log p(head) − log p(relation | head), one word at a time."""
    ids = {name: i for i, name in enumerate(model.relations)}
    total, words = 0.0, 0
    for sentence in sentences:
        arcs, relations = slow_scores(model, sentence.tokens)
        for i, (head, relation) in enumerate(zip(sentence.heads, sentence.relations, strict=True), 1):
            total -= float(arcs[i].log_softmax(0)[head] + relations[i, head].log_softmax(0)[ids[relation]])
            words += 1
    return total / words


@pytest.mark.parametrize("end_boundary", [False, True])
@torch.no_grad()
def test_scores_equal_the_equations(end_boundary):
    model = random_model(end_boundary=end_boundary)
    x, positions = states(model, TOKENS)
    mask = torch.arange(x.shape[1]) < positions[:, None] - int(end_boundary)
    scores = model.arc_scores(x, mask)
    for b, tokens in enumerate(TOKENS):
        n = len(tokens)
        arcs, relations = slow_scores(model, tokens)
        torch.testing.assert_close(scores[b, : n + 1, : n + 1], arcs, rtol=1e-4, atol=1e-4)
        assert (scores[b, :, n + 1 :] == -torch.inf).all()
        heads = torch.tensor([(3 * i) % (n + 1) for i in range(n)])
        words = torch.arange(1, n + 1)
        found = model.relation_scores(x, (torch.full_like(heads, b), words), heads)
        torch.testing.assert_close(found, relations[words, heads], rtol=1e-4, atol=1e-4)


def test_parses_do_not_depend_on_the_batch_and_keep_the_order():
    model = random_model()
    together = as_lists(BiaffineParser(model, {}).parse(TOKENS))
    alone = BiaffineParser(model, {})
    alone.runner.positions = 1
    assert together == as_lists(alone.parse(TOKENS))
    parser = BiaffineParser(model, {})
    assert together == [as_lists(parser.parse([tokens]))[0] for tokens in TOKENS]
    assert [len(heads) for heads, _ in together] == [len(tokens) for tokens in TOKENS]
    assert all(heads.count(0) == 1 for heads, _ in together)
    assert parser.parse([]) == []


def save(model: DependencyModel, folder: Path, *, half: bool = False) -> dict[str, str]:
    parts = {"config": model.config_json(), "vocabulary": model.vocabulary_json()}
    tensors = model.state_dict()
    return save_model_folder(
        folder, kind="dependency", name="x", version="1", tensors=tensors, half=half, **parts
    )


@pytest.mark.parametrize("half", [True, False])
def test_a_folder_holds_the_model(tmp_path, half):
    model = random_model()
    identity = save(model, tmp_path, half=half)
    folder = load_model_folder(tmp_path, "dependency")
    assert folder.identity == identity and identity.keys() == {"name", "version", "sha256"}
    assert identity["sha256"] != save(random_model(1), tmp_path / "other", half=half)["sha256"]
    again = DependencyModel.from_folder(folder)
    assert again.vocabulary == model.vocabulary and again.relations == model.relations
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value.half().float() if half else value)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", lambda t: t.replace('"format": 1', '"format": 9'), "config.json: format 9"),
        (
            "config.json",
            lambda t: t.replace("dependency", "constituency"),
            "a constituency model where a dep",
        ),
        ("config.json", lambda t: t.replace('"layers": 2', '"layers": 0'), "encoder: layers|layers 0"),
        ("config.json", lambda t: t.replace('"layers": 2', '"layers": 3'), "implies"),
        ("config.json", lambda t: re.sub(r'"word_dim": \d+', f'"word_dim": {10**30}', t), "out of range"),
        ("vocab.json", lambda t: t + " ", "does not match the SHA-256"),
        ("config.json", lambda t: "{", "not JSON"),
        ("config.json", lambda t: "[]", "config.json: "),
        ("config.json", lambda t: t.replace('"kind"', '"sort"'), "config.json: .*kind"),
        ("config.json", lambda t: t.replace('"sha256"', '"digests"'), "config.json: .*sha256"),
    ],
)
def test_a_damaged_folder_is_refused_with_one_line(tmp_path, name, change, message):
    save(random_model(), tmp_path)
    path = tmp_path / name
    path.write_text(change(path.read_text()))
    with pytest.raises(UserError, match=message) as caught:
        DependencyModel.from_folder(load_model_folder(tmp_path, "dependency"))
    assert "\n" not in str(caught.value) and str(tmp_path) in str(caught.value)


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="not a model folder"):
        load_model_folder(tmp_path / "nowhere", "dependency")
