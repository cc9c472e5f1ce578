"""FAQ retrieval: metrics and rankers against loops, negatives, tuning, bad files."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.ranking.faq import read_faq
from corpora.ranking.questions import split
from corpora.support.errors import UserError
from studies.faq.config import FaqConfig, TuningConfig
from studies.faq.evaluate import Job, Row, embed_faq, evaluate_faq, map_tuner, relevance, retrieved, splits
from studies.faq.rank import bm25, cosines, measure, tfidf
from studies.faq.report import score_table
from studies.faq.siamese import (
    SiameseMap,
    contrast,
    random_negatives,
    retrieved_negatives,
    tune,
    tuned_scores,
)
from tests.fixtures import browser
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


def fix_split(folder: Path) -> Path:
    """The first query about each entry tests, the others train."""
    header, *lines = (folder / "queries.tsv").read_text().splitlines()
    test = [line for line in lines if line.split("\t")[0].endswith(".0")]
    for part, chosen in (("test", test), ("train", [line for line in lines if line not in test])):
        (folder / f"queries-{part}.tsv").write_text("\n".join([header, *chosen]) + "\n")
    (folder / "queries.tsv").unlink()
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
    best = retrieved_negatives(scores, relevant, 3)
    for row, chosen in enumerate(best):
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
    for wrong in (retrieved_negatives(cosine, relevant, 4), None):
        model = tune(queries, entries, relevant, config, retrieved_QK=wrong, seed=1)
        again = tune(queries, entries, relevant, config, retrieved_QK=wrong, seed=1)
        assert all(torch.equal(p, q) for p, q in zip(model.parameters(), again.parameters(), strict=True))
        after = tuned_scores(model, queries, entries)
        assert (after.argmax(1) == target).mean() > (plain.argmax(1) == target).mean()


def test_the_files_fix_who_trains_and_who_tests(folder: Path) -> None:
    faq = read_faq(folder)
    assert faq.train is None
    with pytest.raises(UserError, match="no queries-train"):
        splits(faq, FaqConfig())
    fixed = read_faq(fix_split(folder))
    assert fixed.queries.keys() == faq.queries.keys()
    for train, test in splits(fixed, FaqConfig(runs=3)):
        ids = list(fixed.queries)
        assert {ids[row] for row in test} == {f"q{i}.0" for i in range(len(TOPICS))}
        assert sorted([*train, *test]) == list(range(32))
    drawn = splits(fixed, FaqConfig(split="random", runs=2, train_fraction=0.25))
    assert [len(train) for train, _ in drawn] == [8, 8] and not np.array_equal(drawn[0][0], drawn[1][0])
    train, test = split(10, 0.5, 3)
    assert sorted([*train, *test]) == list(range(10)) and len(train) == 5


def test_bad_parts_are_named(folder: Path) -> None:
    fix_split(folder)
    test = folder / "queries-test.tsv"
    kept = test.read_text()
    test.write_text(kept + "q0.1\ttwice\n")
    with pytest.raises(UserError, match=r"queries-test.tsv: query 'q0.1' is in queries-train.tsv too"):
        read_faq(folder)
    test.write_text("query_id\tquery\nq99\tabout nothing\n")
    with pytest.raises(
        UserError, match=r"qrels.tsv:\d+: unknown query|no query of queries-test\.tsv has a relevant"
    ):
        read_faq(folder)
    (folder / "qrels.tsv").write_text("query_id\tdoc_id\trelevance\nq0.1\td0\t1\n")
    with pytest.raises(UserError, match=r"no query of queries-test\.tsv has a relevant entry"):
        read_faq(folder)
    test.unlink()
    with pytest.raises(UserError, match="no such file"):
        read_faq(folder)


def test_rows_are_those_of_table_8(folder: Path) -> None:
    faq = read_faq(fix_split(folder))
    assert relevance(faq, ["q1.0"]).nonzero()[1].tolist() == [1]
    vectors = {"bag": embed_faq(faq, bag), "other": embed_faq(faq, RandomBag(16).encode)}
    tuner = map_tuner(vectors, relevance(faq, list(faq.queries)), TuningConfig(epochs=1, rank=4))
    rows = evaluate_faq(faq, list(vectors), vectors, tuner, FaqConfig(runs=2))
    assert [(r["method"], r["sampling"]) for r in rows] == [
        ("TF-IDF", None),
        ("BM25", None),
        ("bag", None),
        ("other", None),
        ("bag", "retrieved"),
        ("other", "retrieved"),
    ]
    assert all((r["accuracy_sd"] is None) == (r["sampling"] is None) for r in rows)
    assert all(0 <= r["accuracy"] <= r["mrr"] <= 1 and r["side"] == "question" for r in rows)
    sides = FaqConfig(runs=1, sides=("answer", "question"), sampling=("random", "retrieved"), split="random")
    rows = evaluate_faq(faq, ["bag"], vectors, tuner, sides)
    assert len(rows) == 2 * (2 + 1 + 2) and rows[0]["side"] == "answer"
    assert all(r["accuracy_sd"] == 0 for r in rows)


def test_the_table_has_unis_layout() -> None:
    """Two rows of UNI's Table 8."""

    def row(method: str, sampling, accuracy: float, sd: float | None, mrr: float) -> Row:
        return Row(
            set="insurance", side="question", method=method, sampling=sampling,
            accuracy=accuracy, accuracy_sd=sd, mrr=mrr, mrr_sd=None,
        )  # fmt: skip

    rows = [row("BM25", None, 0.825, None, 0.856), row("BERT-base", "retrieved", 0.944, 0.022, 0.961)]
    assert score_table(rows, "Query against question").markdown().splitlines() == [
        "### Query against question",
        "",
        "| Method | Acc. | Std. | MRR |",
        "| :--- | ---: | ---: | ---: |",
        "| BM25 | 82.5 | – | 0.856 |",
        "| BERT-base + FAQ | **94.4** | 2.2 | **0.961** |",
    ]


def test_one_retriever_serves_all_models(folder: Path) -> None:
    faq = read_faq(folder)
    vectors = {"bag": embed_faq(faq, bag), "bert": embed_faq(faq, RandomBag(16).encode)}
    rows = np.arange(8)
    relevant = relevance(faq, list(faq.queries))[rows]
    job = Job("bag", "question", "retrieved", 0, rows, rows)
    own, by_bert = (retrieved(vectors, job, relevant, 4, name) for name in (None, "bert"))
    assert own is not None and by_bert is not None and not np.array_equal(own, by_bert)
    scores = vectors["bert"]["query"][rows] @ vectors["bert"]["question"].T
    np.testing.assert_array_equal(by_bert, retrieved_negatives(scores, relevant, 4))


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
        (
            "qrels.tsv",
            "query_id\tdoc_id\trelevance\nq0.0\td0\t0\n",
            "no query of queries.tsv has a relevant entry",
        ),
    ],
)
def test_bad_files_are_named(folder: Path, name: str, text: str, told: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(UserError, match=told) as error:
        read_faq(folder)
    assert name in str(error.value)


@pytest.mark.data
def test_real_sets(data_folder: Path) -> None:
    stack = read_faq(data_folder / "retrieval" / "stackfaq")
    covid = read_faq(data_folder / "retrieval" / "covidfaq")
    assert (len(stack.entries), len(stack.queries)) == (719, 1249)
    assert (len(covid.entries), len(covid.queries)) == (68, 1387)


def test_commands(folder: Path, command, tmp_path: Path) -> None:
    done = command("studies.faq", folder, "--split", "random", "--output", tmp_path / "out", "--runs", 2)
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "out" / "results.json").read_text())["rows"]
    assert [row["accuracy"] for row in rows if row["method"] == "BM25"] == [1.0]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "BM25" in page
    browser.look(page, tmp_path)
    options = ("--split", "random", "--tune", "map")
    same = command("studies.faq", folder, write_set(tmp_path / "other" / "toy"), *options)
    assert same.returncode == 2 and "two sets have the name toy" in same.stderr
    assert command("studies.faq").returncode == 2
