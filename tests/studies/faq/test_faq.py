"""FAQ retrieval: metrics and rankers against loops, negatives, tuning, chat, bad files."""

from __future__ import annotations

import gzip
import json
import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.ranking.faq import read_entries, read_faq
from corpora.ranking.queries import split
from corpora.support.errors import UserError
from studies.faq.config import TuningConfig
from studies.faq.evaluate import embed_faq, evaluate_faq, map_tuner, relevance
from studies.faq.rank import bm25, cosines, measure, tfidf
from studies.faq.siamese import (
    SiameseMap,
    contrast,
    hard_negatives,
    random_negatives,
    tune,
    tuned_scores,
)
from tests.conftest import ROOT
from tests.senteval_runner.encoders import RandomBag

TOPICS = ("password", "invoice", "delivery", "refund", "account", "language", "printer", "holiday")


def write_set(folder: Path) -> Path:
    """Eight entries, four queries about each."""
    folder.mkdir(parents=True)
    faq = [f"d{i}\tHow do I change the {t} ?\tOpen the {t} page and edit it ." for i, t in enumerate(TOPICS)]
    queries = [f"q{i}.{k}\tchange {'my ' * k}{t} please" for i, t in enumerate(TOPICS) for k in range(4)]
    qrels = [f"q{i}.{k}\td{i}\t1" for i in range(len(TOPICS)) for k in range(4)]
    (folder / "faq.tsv").write_text("\n".join(["doc_id\tquestion\tanswer", *faq]) + "\n")
    (folder / "queries.tsv").write_text("\n".join(["query_id\tquery", *queries]) + "\n")
    (folder / "qrels.tsv").write_text(
        "\n".join(["query_id\tdoc_id\trelevance", *qrels, "q0.0\td1\t0"]) + "\n"
    )
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_set(tmp_path / "toy")


def bag(sentences) -> np.ndarray:
    return RandomBag(64).encode(sentences)


def test_measure_equals_a_loop(folder: Path) -> None:
    faq = read_faq(folder)
    ids = list(faq.queries)
    scores = np.random.default_rng(0).integers(0, 4, (len(ids), len(faq.entries))).astype(float)  # with ties
    ranks = []
    for query, row in zip(ids, scores, strict=True):
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))
        ranks.append(1 + next(r for r, i in enumerate(order) if faq.entries[i].doc_id in faq.relevant[query]))
    expected = {"accuracy": np.mean([r == 1 for r in ranks]), "mrr": np.mean([1 / r for r in ranks])}
    assert measure(faq, ids, scores) == pytest.approx(expected)


def test_bm25_equals_its_formula() -> None:
    texts = ["the red printer prints", "the blue door", "red red wine and bread at the table"]
    queries = ["red printer", "unknown words", "the table"]
    documents = [text.split() for text in texts]
    mean = sum(map(len, documents)) / len(documents)

    def score(query: str, document: list[str]) -> float:
        total = 0.0
        for word in query.split():
            holding = sum(word in d for d in documents)
            idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            count = Counter(document)[word]
            total += idf * count / (count + 1.5 * (1 - 0.75 + 0.75 * len(document) / mean))
        return total

    expected = [[score(query, document) for document in documents] for query in queries]
    np.testing.assert_allclose(bm25(queries, texts), expected, atol=1e-5)


def test_texts_without_words_rank_alike() -> None:
    for ranker in (bm25, tfidf):
        scores = ranker(["a red one", "b"], ["q", "?", "r"])
        assert scores.shape == (2, 3) and not scores.any()


def test_rankers_find_the_topic(folder: Path) -> None:
    faq = read_faq(folder)
    texts = [entry.question for entry in faq.entries]
    # Random vectors of one word in ten are noisy; the lexical rankers know the topics' words are rare.
    for ranker, least in ((bm25, 1.0), (tfidf, 1.0), (lambda q, t: cosines(bag, q, t), 0.6)):
        scores = ranker(list(faq.queries.values()), texts)
        assert scores.shape == (len(faq.queries), len(texts))
        assert measure(faq, list(faq.queries), scores)["accuracy"] >= least


def test_negatives_are_wrong() -> None:
    generator = np.random.default_rng(0)
    scores = generator.random((6, 9))
    relevant = generator.random((6, 9)) < 0.3
    hard = hard_negatives(scores, relevant, 3)
    for row, chosen in enumerate(hard):
        expected = sorted((i for i in range(9) if not relevant[row, i]), key=lambda i: -scores[row, i])[:3]
        assert chosen.tolist() == expected
    drawn = Counter()
    for _ in range(300):
        sample = random_negatives(relevant, 3, generator)
        assert not relevant[np.arange(6)[:, None], sample].any()
        assert all(len(set(row)) == 3 for row in sample.tolist())
        drawn.update(sample[0].tolist())
    wrong = np.flatnonzero(~relevant[0])
    assert set(drawn) == set(wrong.tolist())
    assert max(drawn.values()) < 1.5 * 300 * 3 / len(wrong)


def test_loss_equals_its_formula() -> None:
    generator = torch.Generator().manual_seed(0)
    query, positive = torch.randn(2, 3, 5, generator=generator, dtype=torch.float64)
    negative = torch.randn(3, 4, 5, generator=generator, dtype=torch.float64)
    losses = []
    for b in range(3):
        right = math.exp(float(query[b] @ positive[b]) / 0.5)
        wrong = sum(math.exp(float(query[b] @ negative[b, k]) / 0.5) for k in range(4))
        losses.append(-math.log(right / (right + wrong)))
    assert float(contrast(query, positive, negative, 0.5)) == pytest.approx(sum(losses) / 3)


def test_tuning_starts_at_the_encoder_and_learns() -> None:
    generator = np.random.default_rng(0)
    entries = generator.normal(size=(20, 16))
    rotation = np.linalg.qr(generator.normal(size=(16, 16)))[0]
    target = np.repeat(np.arange(20), 4)
    queries = entries[target] @ (0.4 * np.eye(16) + 0.6 * rotation) + 0.3 * generator.normal(size=(80, 16))
    relevant = target[:, None] == np.arange(20)
    plain = tuned_scores(SiameseMap(16, 4, 0), queries, entries)
    cosine = (queries / np.linalg.norm(queries, axis=1, keepdims=True)) @ (
        entries / np.linalg.norm(entries, axis=1, keepdims=True)
    ).T
    np.testing.assert_allclose(plain, cosine, atol=1e-5)
    config = TuningConfig(epochs=15, rank=16, learning_rate=1e-2)
    for negatives in ("hard", "random"):
        model = tune(queries, entries, relevant, config, negatives=negatives, seed=1)
        again = tune(queries, entries, relevant, config, negatives=negatives, seed=1)
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters(), strict=True))
        after = tuned_scores(model, queries, entries)
        assert (after.argmax(1) == target).mean() > (plain.argmax(1) == target).mean()


def test_rows_have_every_method(folder: Path) -> None:
    faq = read_faq(folder)
    vectors = {"bag": embed_faq(faq, bag)}
    tuner = map_tuner(vectors, relevance(faq, list(faq.queries)), TuningConfig(epochs=1, rank=4))
    rows = evaluate_faq(faq, vectors, tuner, seeds=2, train_fraction=0.5)
    assert len(rows) == 2 * (2 + 3)
    assert {(r["method"], r["training"]) for r in rows} == {
        ("BM25", "none"),
        ("TF-IDF", "none"),
        ("bag", "none"),
        ("bag", "random negatives"),
        ("bag", "hard negatives"),
    }
    assert len(evaluate_faq(faq, vectors, tuner, seeds=1, train_fraction=0.5, sides=["answer"])) == 5
    assert all(0 <= r["accuracy"] <= r["mrr"] <= 1 and r["mrr_sd"] >= 0 for r in rows)
    train, test = split(10, 0.5, 3)
    assert sorted([*train, *test]) == list(range(10)) and len(train) == 5
    assert relevance(faq, ["q1.0"]).nonzero()[1].tolist() == [1]


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("faq.tsv", "doc_id\tquestion\nd0\tx\n", "no column 'answer'"),
        ("faq.tsv", "doc_id\tquestion\tanswer\nd0\tx\n", ":2: expected 3 cells"),
        ("faq.tsv", "doc_id\tquestion\tanswer\nd0\tx\t \n", ":2: column 'answer' is empty"),
        ("faq.tsv", "doc_id\tquestion\tanswer\nd0\tx\ty\nd0\tx\ty\n", ":3: doc_id 'd0' occurs twice"),
        ("faq.tsv", "doc_id\tquestion\tanswer\n", "holds no rows"),
        ("qrels.tsv", "query_id\tdoc_id\trelevance\nq0.0\td99\t1\n", ":2: unknown entry 'd99'"),
        ("qrels.tsv", "query_id\tdoc_id\trelevance\nq99\td0\t1\n", ":2: unknown query 'q99'"),
        ("queries.tsv", "query_id\tquery\nq0.0\tx\nq0.0\ty\n", ":3: query_id 'q0.0' occurs twice"),
        ("qrels.tsv", "query_id\tdoc_id\trelevance\nq0.0\td0\tyes\n", "relevance 'yes'"),
        ("qrels.tsv", "query_id\tdoc_id\trelevance\nq0.0\td0\t--1\n", "relevance '--1'"),
        ("qrels.tsv", "query_id\tdoc_id\trelevance\nq0.0\td0\t0\n", "no query has a relevant entry"),
    ],
)
def test_bad_files_are_named(folder: Path, name: str, text: str, told: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(UserError, match=told) as error:
        read_faq(folder)
    assert name in str(error.value)


def test_other_bad_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_entries(tmp_path / "none.tsv")
    (tmp_path / "faq.tsv").write_bytes(b"doc_id\xff")
    with pytest.raises(UserError, match="not UTF-8"):
        read_entries(tmp_path / "faq.tsv")
    table = gzip.compress("".join(f"{i}\t{i * i}\t{i}\n" for i in range(500)).encode())
    for damaged in (b"no gzip", table[:99], table[:50] + b"\0" * 9 + table[59:]):
        (tmp_path / "faq.tsv.gz").write_bytes(damaged)
        with pytest.raises(UserError, match="is the file whole"):
            read_entries(tmp_path / "faq.tsv.gz")


@pytest.mark.data
def test_real_sets(data_folder: Path) -> None:
    stack = read_faq(data_folder / "retrieval" / "stackfaq")
    covid = read_faq(data_folder / "retrieval" / "covidfaq")
    assert (len(stack.entries), len(stack.queries)) == (719, 1249)
    assert (len(covid.entries), len(covid.queries)) == (68, 1387)


def test_commands(folder: Path, command, tmp_path: Path) -> None:
    done = command("studies.faq", folder, "--output", tmp_path / "out", "--seeds", 2)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert [row["accuracy"] for row in rows if row["method"] == "BM25"] == [1.0, 1.0]
    assert "BM25" in (tmp_path / "out" / "report.html").read_text()
    dry = command("studies.faq", folder, "--models", "random:seq", "--output", tmp_path / "dry", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "random:seq (" in dry.stdout and not (tmp_path / "dry").exists()
    assert "texts        48 different ones" in dry.stdout  # 32 queries, 8 questions, 8 answers
    same = command("studies.faq", folder, write_set(tmp_path / "other" / "toy"), "--seeds", 1)
    assert same.returncode == 2 and "two sets have the name toy" in same.stderr
    chat = subprocess.run(
        [sys.executable, "-m", "studies.faq", "--chat", str(folder / "faq.tsv")],
        cwd=ROOT, input="where is my refund\n\n", capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert chat.returncode == 0, chat.stderr
    assert "Open the refund page" in chat.stdout
    assert command("studies.faq").returncode == 2
