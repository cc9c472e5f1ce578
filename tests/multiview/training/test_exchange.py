"""The exchange term against sentences that are built one by one, from their words and trees."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from corpora.support.errors import UserError
from multiview.config import ObjectiveConfig, TrainConfig
from multiview.train import main
from multiview.training.data import open_trees
from multiview.training.exchange import exchange
from multiview.training.objective import TEMPERATURE, Objective, neighbour_targets
from multiview.training.trainer import Trainer
from parsing.trees.batch import Batch, DependencyParse
from parsing.trees.roles import ROLES, canonical_arcs, relation_bits, word_flags
from tests.fixtures.files import assert_same_bits, newest
from tests.fixtures.trees import changed, toy_corpus
from tests.multiview.test_train import killed_after
from tests.multiview.training.test_gradient import assert_close, first_gradient
from tests.multiview.training.test_objective import drawn, make_positions
from tests.parsing.pipeline.toy_parsers import ToyDependencyParser, number
from tests.parsing.trees import test_cache as caches


class Grammatical(ToyDependencyParser):
    """Random trees of relations that have roles."""

    relations = ("root", "nsubj", "obj", "iobj", "amod", "nummod", "nmod:poss", "obl")

    def _one(self, tokens) -> DependencyParse:
        random = np.random.default_rng(number(tokens))
        order = random.permutation(len(tokens))
        heads, relations = np.zeros(len(tokens), np.int32), random.integers(1, 8, len(tokens), np.int32)
        for i in range(1, len(tokens)):
            heads[order[i]] = order[random.integers((i + 1) // 2)] + 1
        relations[order[0]] = 0
        return DependencyParse(heads=heads, relations=relations)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exchange") / "toy"
    texts, documents = toy_corpus()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caches, "ToyDependencyParser", Grammatical)
        caches.write_cache(folder, texts, documents=documents, shard=64)
    return folder


@pytest.fixture
def config(tiny: TrainConfig, trees: Path) -> TrainConfig:
    return changed(tiny, trees=trees, objective={"exchange": 0.7, "direction": "both"})


def choices(words: list[str], batch: Batch) -> list[tuple[int, int]]:
    """Which pairs of places of one sentence may be exchanged, by the definition and in order."""
    relation = relation_bits(batch.relations)[batch.relation]
    found = canonical_arcs(batch.head, relation, word_flags(words), batch.sentence_offsets)
    arcs = [(ROLES[r], h, d) for r, h, d in zip(found.role, found.head, found.dependent, strict=True)]
    pairs = [(h, d) for role, h, d in arcs if role in ("than", "before", "poss")]
    for (role, head, one), (role2, head2, other) in itertools.combinations(arcs, 2):
        fillers = {role, role2} <= {"agent", "patient", "to", "from", "at"}
        if fillers and role != role2 and head == head2:
            pairs.append((one, other))
        if role == role2 and role in ("attr", "num", "poss") and head != head2:
            pairs.append((one, other))
    return sorted({(min(p), max(p)) for p in pairs if words[p[0]] != words[p[1]]})


@pytest.mark.parametrize("views", ["dep,const", "seq,dep,const"])
def test_equals_the_loop(config: TrainConfig, views: str) -> None:
    trainer = Trainer(changed(config, views=views), open_trees(config.trees))
    network, cache = trainer.network.double(), open_trees(config.trees)
    epoch, [(start, stop)] = job = next(trainer.jobs())
    means = trainer.gradient(trainer.prepare(job)).metrics.tolist()
    metrics = dict(zip(network.objective.metrics, means, strict=True))
    draw = np.random.default_rng([config.seed, epoch + 1, start, stop - start]).random(stop - start)

    def encoded(words: list[str], batch: Batch) -> list[Tensor]:
        rows = network.words.vocabulary.lookup(words).astype(np.int64)
        tables = [table[torch.from_numpy(rows)] for table in network.tables]
        plans = [encoder.plan(batch) for encoder in network.encoder_list]
        return network.encode([torch.arange(len(words))], plans, tables)

    def c(one: Tensor, other: Tensor) -> float:
        return torch.cosine_similarity(one, other).item() / TEMPERATURE

    where = neighbour_targets(trainer.source.positions(np.arange(start, stop)), "document")
    total, turned = 0.0, 0
    for sentence in where.anchor.tolist():
        batch = cache.read(start + sentence, start + sentence + 1)
        (words,) = batch.words()
        if not (allowed := choices(words, batch)):
            continue
        i, j = allowed[int(draw[sentence] * len(allowed))]
        swapped = [words[j] if k == i else words[i] if k == j else word for k, word in enumerate(words)]
        own, other = encoded(words, batch), encoded(swapped, batch)
        ways = list(itertools.permutations(range(len(own)), 2))
        for a, b in ways:
            for this, that in ((own, other), (other, own)):
                right, wrong = (math.exp(c(this[a], candidate[b])) for candidate in (this, that))
                total -= math.log(right / (right + wrong)) / 2 / len(ways)
        turned += 1
    assert turned > 5
    assert metrics["loss/exchange"] == pytest.approx(total / len(where.anchor), rel=1e-9)
    pairs = [value for name, value in metrics.items() if name.startswith("loss/") and "," in name]
    assert metrics["loss"] == pytest.approx(np.mean(pairs) + 0.7 * metrics["loss/exchange"], rel=1e-9)


def test_lawyer_and_doctor() -> None:
    tree = "The:2:det lawyer:3:nsubj praised:0:root two:5:nummod doctors:3:obj"
    words, heads, relations = zip(*(token.split(":") for token in tree.split()), strict=True)
    batch = Batch(
        **{"sentence_offsets": np.array([0, 5, 6]), "flags": np.zeros(2, np.uint8), "fields": ()},
        **{"token": np.arange(6), "head": np.array([*heads, 0], int)},
        **{"relations": (*relations, "root"), "relation": np.arange(6)},
    )
    places, found = exchange(batch, word_flags([*words, "Yes"]), np.array([0.5, 0.5]))
    assert places.tolist() == [0, 4, 2, 3, 1, 5] and found.tolist() == [True, False]


@pytest.mark.parametrize("direction", ["forward", "both"])
def test_gradient_is_the_numerical_one(direction: str) -> None:
    objective = Objective(("a", "b"), 3, ObjectiveConfig(exchange=2.0, direction=direction)).double()
    where = neighbour_targets(make_positions(7, seed=2), "document")
    mask = torch.arange(7) % 3 > 0
    assert torch.autograd.gradcheck(lambda *x: objective(x, where, exchanged_B=mask).loss, drawn(4, 7, 3))


def test_cached_gradient_equals_the_plain_one(config: TrainConfig) -> None:
    config = changed(config, table={"dropout": 0.2}, loop={"segments": 2})
    assert_close(first_gradient(config), first_gradient(changed(config, loop={"micro_batch": 7})), 1e-10)


def test_a_killed_run_ends_in_the_same_bytes(config: TrainConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parsing.training.loop.CHECKPOINT_S", 0.0)
    main(config)
    broken = changed(config, name="broken")
    killed_after(broken, 5, monkeypatch)
    main(broken)
    assert_same_bits(newest(config), newest(broken))


def test_without_dependency_trees_it_says_so(config: TrainConfig, tmp_path: Path) -> None:
    caches.write_cache(tmp_path / "const", [("a", "b")] * 40, views=("const",))
    lacking = changed(config, views="const,const", trees=tmp_path / "const")
    with pytest.raises(UserError, match=r"--objective.exchange 0\.7: exchanges words by dependency trees"):
        Trainer(lacking, open_trees(lacking.trees))
