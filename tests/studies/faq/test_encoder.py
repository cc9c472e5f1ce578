"""FAQ retrieval with the whole encoder tuned: draws, the loss against a loop, learning, kill and resume."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from corpora.ranking.faq import FaqSet, read_faq
from corpora.ranking.queries import split
from corpora.support.errors import UserError
from senteval_runner.towers.transformer import load_whole
from studies.faq import encoder
from studies.faq.config import EncoderConfig
from studies.faq.encoder import EncoderTuner, Labelled, Retriever, refuse_untunable
from studies.faq.evaluate import Job, embed_faq, relevance, side_texts
from studies.faq.siamese import hard_negatives
from studies.finetune.config import TinyConfig
from studies.finetune.examples import Examples
from studies.finetune.tiny import build_tiny
from tests.studies.faq.test_faq import write_set

CONFIG = EncoderConfig(epochs=6, batch_size=8, learning_rate=1e-3, save_every=3)


class Table(nn.Module):
    """A tower of one vector per text."""

    dim = 3

    def __init__(self, texts: list[str]) -> None:
        super().__init__()
        self.rows = {text: row for row, text in enumerate(texts)}
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(len(texts), self.dim))

    def embed(self, texts: list[str]) -> torch.Tensor:
        return self.table[[self.rows[text] for text in texts]]


@pytest.fixture(scope="module")
def faq(tmp_path_factory: pytest.TempPathFactory) -> FaqSet:
    return read_faq(write_set(tmp_path_factory.mktemp("faq") / "toy"))


@pytest.fixture(scope="module")
def model(faq: FaqSet, tmp_path_factory: pytest.TempPathFactory) -> str:
    texts = [*faq.queries.values(), *side_texts(faq, "question"), *side_texts(faq, "answer")]
    config = TinyConfig(layers=1, hidden=32, vocabulary=300)
    return str(build_tiny(tmp_path_factory.mktemp("tiny") / "bert", texts, config, seed=1))


def test_draws_are_right_entries_and_wrong_ones() -> None:
    generator = np.random.default_rng(0)
    relevant = generator.random((7, 11)) < 0.3
    relevant[:, 0] = True
    hard = hard_negatives(generator.random((7, 11)), relevant, 3)
    for kept in (hard, None):
        source = Labelled([f"q{i}" for i in range(7)], relevant, kept, 3, seed=5)
        passes = [source.draw(k).target for k in range(20)]
        assert len(source) == 7 and passes[0].shape == (7, 4)
        assert np.array_equal(source.draw(3).target, passes[3])
        for target in passes:
            assert relevant[np.arange(7), target[:, 0]].all()
            assert not relevant[np.arange(7)[:, None], target[:, 1:]].any()
            assert kept is None or np.array_equal(target[:, 1:], hard)
        assert any(not np.array_equal(passes[0], target) for target in passes[1:])


def test_the_loss_equals_a_loop() -> None:
    queries, entries = ["a", "b"], ["x", "y", "z"]
    net = Retriever(Table(queries + entries), entries, temperature=0.5)
    target = np.array([[2, 0], [0, 1]])

    def cosine(a: str, b: str) -> float:
        u, v = net.tower.embed([a, b]).detach()
        return float(u @ v / (u.norm() * v.norm()))

    losses = []
    for query, row in zip(queries, target, strict=True):
        right, wrong = (math.exp(cosine(query, entries[i]) / 0.5) for i in row)
        losses.append(-math.log(right / (right + wrong)))
    assert net.loss(Examples(queries, None, target)).item() == pytest.approx(sum(losses) / 2, rel=1e-5)
    expected = [[cosine(query, entry) for entry in entries] for query in queries]
    np.testing.assert_allclose(net.scores(queries), expected, atol=1e-6)


def tuner(faq: FaqSet, model: str, folder: Path, config: EncoderConfig = CONFIG) -> EncoderTuner:
    from senteval_runner.vectors.embed import as_vectors
    from senteval_runner.vectors.encoders import resolve_encoder

    sides = {side: side_texts(faq, side) for side in ("question", "answer")}
    return EncoderTuner(
        faq.name,
        list(faq.queries.values()),
        sides,
        {model: embed_faq(faq, as_vectors(resolve_encoder(model, device="cpu")))},
        relevance(faq, list(faq.queries)),
        config,
        folder,
        device="cpu",
    )


def job(faq: FaqSet, model: str) -> Job:
    train, test = split(len(faq.queries), 0.5, 0)
    return Job(model, "question", "hard", 0, train, test)


def test_tuning_learns_what_it_is_taught(faq: FaqSet, model: str, tmp_path: Path) -> None:
    rows = np.arange(len(faq.queries))
    taught = Job(model, "question", "hard", 0, rows, rows)
    tuned = tuner(faq, model, tmp_path, replace(CONFIG, epochs=15, learning_rate=5e-3))
    frozen = tuned.vectors[model]
    right = relevance(faq, list(faq.queries))

    def accuracy(table: np.ndarray) -> float:
        return float(right[rows, table.argmax(1)].mean())

    before = accuracy(frozen["query"] @ frozen["question"].T)
    assert accuracy(tuned(taught)) > max(0.9, before)


def test_a_stopped_tuning_resumes_to_the_same_bits(
    faq: FaqSet, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = job(faq, model)
    whole = tuner(faq, model, tmp_path / "whole")
    scores = whole(work)
    assert scores.shape == (len(work.test), len(faq.entries))
    plain, calls = Retriever.loss, []

    def stopping(self: Retriever, examples: Examples) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return plain(self, examples)

    monkeypatch.setattr(Retriever, "loss", stopping)
    with pytest.raises(KeyboardInterrupt):
        tuner(faq, model, tmp_path / "parts")(work)
    np.testing.assert_array_equal(tuner(faq, model, tmp_path / "parts")(work), scores)
    assert len(calls) == 5 + 12 - 3  # the second process goes on at step 3
    assert not list((tmp_path / "parts").rglob("training"))
    monkeypatch.setattr(encoder, "fit", None)  # finished scores need no training
    (next((tmp_path / "parts").rglob("scores.npy")).parent / "training").mkdir()  # killed after the scores
    np.testing.assert_array_equal(tuner(faq, model, tmp_path / "parts")(work), scores)
    assert not list((tmp_path / "parts").rglob("training"))
    with pytest.raises(UserError, match="other options or texts"):
        tuner(faq, model, tmp_path / "parts", replace(CONFIG, epochs=7))(work)


def test_a_whole_model_embeds_as_itself(model: str) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize

    from senteval_runner.towers.transformer import TransformerTower

    plain = SentenceTransformer(model, device="cpu")
    texts = ["change my printer please", "the refund", "delivery"]
    with torch.no_grad():
        ours = load_whole(model).eval().embed(texts)
        assert np.allclose(ours.numpy(), plain.encode(texts, show_progress_bar=False), atol=1e-5)
        longer = SentenceTransformer(modules=[*plain, Normalize()], device="cpu")
        unit = TransformerTower(longer, None).eval().embed(texts)
    torch.testing.assert_close(unit, nn.functional.normalize(ours, dim=-1), atol=1e-5, rtol=1e-4)


def test_what_cannot_be_tuned_is_named(tmp_path: Path, model: str) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a 1 2\nb 3 4\n")
    refuse_untunable([model])
    for spec in (str(words), f"{model}+{words}"):
        with pytest.raises(UserError, match="not one transformer or multi-view model"):
            refuse_untunable([spec])
    with pytest.raises(UserError, match="cannot be loaded") as error:
        load_whole(str(tmp_path))
    assert "\n" not in str(error.value)
