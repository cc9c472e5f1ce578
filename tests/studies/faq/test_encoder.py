"""FAQ retrieval with the whole encoder tuned: draws, losses against loops, learning, kill and resume."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from corpora.ranking.faq import FaqSet, read_faq
from corpora.ranking.questions import split
from corpora.support.errors import UserError
from senteval_runner.towers.transformer import load_whole
from studies.faq import encoder
from studies.faq.__main__ import cli
from studies.faq.config import EncoderConfig, FaqConfig
from studies.faq.encoder import (
    ContrastRetriever,
    EncoderTuner,
    Labelled,
    LabelledPairs,
    PairRetriever,
    refuse_untunable,
)
from studies.faq.evaluate import Job, embed_faq, relevance, side_texts, splits
from studies.faq.siamese import retrieved_negatives
from studies.finetune.config import TinyConfig
from studies.finetune.examples import Examples
from studies.finetune.tiny import build_tiny
from tests.studies.faq.test_faq import fix_split, write_set

CONFIG = EncoderConfig(objective="contrast", epochs=6, batch_size=8, learning_rate=1e-3, save_every=3)


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
    best = retrieved_negatives(generator.random((7, 11)), relevant, 3)
    for kept in (best, None):
        source = Labelled([f"q{i}" for i in range(7)], relevant, kept, 3, seed=5)
        passes = [source.draw(k).target for k in range(20)]
        assert len(source) == 7 and passes[0].shape == (7, 4)
        assert np.array_equal(source.draw(3).target, passes[3])
        for target in passes:
            assert relevant[np.arange(7), target[:, 0]].all()
            assert not relevant[np.arange(7)[:, None], target[:, 1:]].any()
            assert kept is None or np.array_equal(target[:, 1:], best)
        assert any(not np.array_equal(passes[0], target) for target in passes[1:])


def test_pairs_are_the_drawn_entries() -> None:
    relevant = np.eye(6, dtype=bool)
    entries = [f"e{i}" for i in range(6)]
    labelled = Labelled([f"q{i}" for i in range(6)], relevant, None, 4, seed=5)
    pairs = LabelledPairs(labelled, entries)
    drawn, target = pairs.draw(2), labelled.draw(2).target
    assert len(pairs) == len(drawn) == 6 * 5
    for i in range(6):
        rows = slice(5 * i, 5 * i + 5)
        assert drawn.first[rows] == [f"q{i}"] * 5 and drawn.second is not None
        assert drawn.second[rows] == [entries[e] for e in target[i]] and drawn.second[5 * i] == f"e{i}"
        assert drawn.target[rows].tolist() == [1, 0, 0, 0, 0]


def test_the_pair_loss_equals_a_loop() -> None:
    """UNI: softmax of a linear layer over [u; v; |u-v|]."""
    texts = ["a", "b", "x", "y", "z"]
    net = PairRetriever(Table(texts), texts[2:], seed=3)
    weight, bias = net.head.linear.weight.detach().numpy(), net.head.linear.bias.detach().numpy()
    pairs = [("a", "x", 1), ("a", "y", 0), ("b", "z", 0)]
    losses = []
    for query, entry, label in pairs:
        u, v = net.tower.embed([query, entry]).detach().numpy()
        logits = weight @ np.concatenate([u, v, np.abs(u - v)]) + bias
        losses.append(-math.log(math.exp(logits[label]) / sum(math.exp(x) for x in logits)))
    assert net.loss(Examples.of_pairs(pairs)).item() == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_the_contrast_equals_a_loop() -> None:
    queries, entries = ["a", "b"], ["x", "y", "z"]
    net = ContrastRetriever(Table(queries + entries), entries, temperature=0.5)
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
    from senteval_runner.vectors.encoders import open_model

    sides = {side: side_texts(faq, side) for side in ("question", "answer")}
    return EncoderTuner(
        faq.name,
        list(faq.queries.values()),
        sides,
        {model: embed_faq(faq, as_vectors(open_model(model, device="cpu")))},
        relevance(faq, list(faq.queries)),
        config,
        folder,
        device="cpu",
    )


def job(faq: FaqSet, model: str) -> Job:
    train, test = split(len(faq.queries), 0.5, 0)
    return Job(model, "question", "retrieved", 0, train, test)


@pytest.mark.parametrize("objective", ["pair", "contrast"])
def test_tuning_learns_what_it_is_taught(faq: FaqSet, model: str, tmp_path: Path, objective) -> None:
    rows = np.arange(len(faq.queries))
    taught = Job(model, "question", "retrieved", 0, rows, rows)
    config = replace(CONFIG, objective=objective, epochs=15, learning_rate=5e-3)
    tuned = tuner(faq, model, tmp_path, config)
    frozen = tuned.vectors[model]
    right = relevance(faq, list(faq.queries))

    def accuracy(table: np.ndarray) -> float:
        return float(right[rows, table.argmax(1)].mean())

    before = accuracy(frozen["query"] @ frozen["question"].T)
    assert accuracy(tuned(taught)) > max(0.8, before)


def test_a_stopped_tuning_resumes_to_the_same_bits(
    faq: FaqSet, model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = job(faq, model)
    whole = tuner(faq, model, tmp_path / "whole")
    scores = whole(work)
    assert scores.shape == (len(work.test), len(faq.entries))
    plain, calls = ContrastRetriever.loss, []

    def stopping(self: ContrastRetriever, examples: Examples) -> torch.Tensor:
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return plain(self, examples)

    monkeypatch.setattr(ContrastRetriever, "loss", stopping)
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


def write_papers_set(folder: Path) -> Path:
    """A set of the paper's size: 300 entries, 1,200 training and 200 test queries."""
    folder.mkdir()
    queries = [f"q{i}\twhat is number {i % 300} about" for i in range(1400)]
    tables = {
        "faq.tsv": ("doc_id\tquestion\tanswer", [f"d{i}\tnumber {i} ?\tit is {i} ." for i in range(300)]),
        "queries-train.tsv": ("query_id\tquery", queries[:1200]),
        "queries-test.tsv": ("query_id\tquery", queries[1200:]),
        "qrels.tsv": ("query_id\tdoc_id\trelevance", [f"q{i}\td{i % 300}\t1" for i in range(1400)]),
    }
    for name, (header, rows) in tables.items():
        (folder / name).write_text("\n".join([header, *rows]) + "\n")
    return folder


def test_the_papers_preset(
    tmp_path: Path, model: str, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setattr("studies.faq.run.is_here", lambda name: Path(name).is_dir())
    assert cli(["--preset", "paper"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "300 pairs, 1,200 training and 200 test queries" in told
    for name in ("google-bert/bert-base-chinese", "hfl/chinese-xlnet-base", "hfl/chinese-xlnet-mid"):
        assert f"https://huggingface.co/{name}" in told
    folder = write_papers_set(tmp_path / "insurance")
    faq = read_faq(folder)
    train, test = splits(faq, FaqConfig(sets=(folder,)))[0]
    assert (len(faq.entries), len(train), len(test)) == (300, 1200, 200)


def test_a_run_writes_table_8(tmp_path: Path, model: str) -> None:
    folder = fix_split(write_set(tmp_path / "toy"))
    options = ("--runs", "2", "--encoder.epochs", "1", "--encoder.max-length", "16", "--device", "cpu")
    assert cli([str(folder), "--models", model, *options, "--output", str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "tables.md").read_text().splitlines()
    methods = [line.split(" | ")[0].strip("| ") for line in lines if line.startswith("| ")]
    assert methods == ["Method", ":---", "TF-IDF", "BM25", model, f"{model} + FAQ"]
