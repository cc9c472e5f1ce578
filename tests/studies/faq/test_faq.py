"""FAQ retrieval: metrics and losses against loops, negatives, tables, the preset, bad files."""

import itertools
import json
import math
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from torch import nn

from corpora.ranking.lexical import Bm25, Tfidf
from runtime.errors import UserError
from studies.faq import evaluate
from studies.faq.__main__ import cli
from studies.faq.evaluate import cosines, labelled_pairs, read_faq
from studies.finetune.backbone import build_tiny
from studies.finetune.training import tunable_tower
from tests.fixtures.senteval import write_word_vectors
from tests.studies.faq.faq_set import TEXTS, TOPICS, write_set


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_set(tmp_path / "toy")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tiny") / "bert"
    return str(build_tiny(folder, TEXTS, layers=1, width=32, vocabulary=300))


def test_measure_equals_a_loop(folder: Path) -> None:
    data = read_faq(folder)
    shape = len(data.test), len(data.questions)
    scores = np.random.default_rng(0).integers(0, 4, shape).astype(float)  # with ties
    ranks = []
    for query, row in zip(data.test, scores, strict=True):
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))
        ranks.append(1 + order.index(data.relevant_QN[query].argmax()))
    metrics = {"accuracy": np.mean([r == 1 for r in ranks]), "mrr": np.mean([1 / r for r in ranks])}
    assert data.measure(scores) == pytest.approx(metrics)


def test_the_files_fix_who_trains_and_who_tests(folder: Path) -> None:
    data = read_faq(folder)
    assert [data.queries[row] for row in data.test] == [f"change {topic} please" for topic in TOPICS]
    assert len(data.train) == 24 and data.relevant_QN.sum() == 32
    assert data.answers[0] == "Open the password page and edit it ."


def test_bm25_equals_its_formula() -> None:
    texts = ["the red printer prints", "the blue door", "red red wine and bread at the table"]
    documents = [text.split() for text in texts]
    mean = sum(map(len, documents)) / len(documents)
    for query in ("red printer", "unknown words", "the table"):
        scores = np.zeros(3)
        for word, (place, document) in itertools.product(query.split(), enumerate(documents)):
            holding, count = sum(word in d for d in documents), document.count(word)
            idf = math.log(1 + (len(documents) - holding + 0.5) / (holding + 0.5))
            scores[place] += idf * count / (count + 1.5 * (1 - 0.75 + 0.75 * len(document) / mean))
        np.testing.assert_allclose(Bm25(texts).scores(query), scores, atol=1e-5)
    assert not Tfidf(["q", "?", "r"]).scores("a red one").any()  # texts without words


@pytest.mark.parametrize("method", [Bm25, Tfidf])
def test_chinese_is_read_by_character(method: type[Bm25] | type[Tfidf]) -> None:
    """UNI's set is Chinese: as words, clauses without a space would share nothing."""
    entries = ["80岁的老人可以买意外险吗？", "有什么保险推荐吗", "Can I get insurance?"]
    scores = [method(entries).scores(query) for query in ("老人能买意外险吗", "请推荐保险", "insurance 80")]
    assert [row.argmax() for row in np.array(scores)[:2]] == [0, 1]
    assert (scores[2] > 0).tolist() == [True, False, True]  # other words as before
    # However their characters are written.
    index = method(["two cafe\u0301s", "an of\u00adfice"])
    assert [np.flatnonzero(index.scores(query)).tolist() for query in ("Cafés", "oﬃce")] == [[0], [1]]


@pytest.mark.parametrize("by_retriever", [True, False])
def test_pairs_are_a_right_entry_and_wrong_ones(*, by_retriever: bool) -> None:
    generator = np.random.default_rng(0)
    relevant = generator.random((7, 11)) < 0.3
    relevant[:, 0] = True
    scores = generator.random((7, 11)) if by_retriever else None
    entries = [f"e{i}" for i in range(11)]
    draw = labelled_pairs([f"q{i}" for i in range(7)], entries, relevant, scores, seed=5)
    passes = [draw(k) for k in range(300)]
    assert len(passes[0]) == 7 * 5 and draw(3).second == passes[3].second
    counts = Counter[int]()
    for examples in passes:
        assert examples.first == [f"q{i}" for i in range(7) for _ in range(5)]
        assert examples.target.tolist() == [1, 0, 0, 0, 0] * 7
        assert examples.second is not None
        rows = np.array([entries.index(text) for text in examples.second]).reshape(7, 5)
        assert np.take_along_axis(relevant, rows, 1).tolist() == [[True] + [False] * 4] * 7
        assert all(len(set(row)) == 5 for row in rows.tolist())
        counts.update(rows[0, 1:].tolist())
    wrong = np.flatnonzero(~relevant[0])
    if scores is None:  # drawn evenly
        assert set(counts) == set(wrong.tolist()) and max(counts.values()) < 1.5 * 300 * 4 / len(wrong)
    else:
        assert set(counts) == set(sorted(wrong.tolist(), key=lambda i: -scores[0, i])[:4])


def test_each_query_is_compared_with_each_entry() -> None:
    tower, table = nn.Module(), torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    tower.embed = lambda texts: table[["abxyz".index(text) for text in texts]]
    similarity = nn.functional.cosine_similarity(table[:2, None], table[None, 2:], dim=-1)
    np.testing.assert_allclose(cosines(tower, ["a", "b"], ["x", "y", "z"]), similarity, atol=1e-6)


@pytest.mark.usefixtures("fake_device")
def test_a_run_writes_table_8_and_names_what_cannot_be_tuned(
    folder: Path, tmp_path: Path, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words, out = write_word_vectors(tmp_path / "words.txt", ["change", "please"]), tmp_path / "out"
    tower, pairs = Mock(wraps=tunable_tower), Mock(wraps=labelled_pairs)
    monkeypatch.setattr(evaluate, "tunable_tower", tower)
    monkeypatch.setattr(evaluate, "labelled_pairs", pairs)
    options = ("--models", str(words), model, "--retriever", str(words), "--runs", "1", "--epochs", "1")
    assert cli([str(folder), *options, "--device", "cpu", "--output", str(out)]) == 2
    lines = (out / "report.md").read_text().splitlines()
    methods = [line.split(" | ")[0].strip("| ") for line in lines if line.startswith("| ")]
    assert methods == ["Method", ":---", "TF-IDF", "BM25", str(words), model, f"{model} + FAQ"]
    results = json.loads((out / "results.json").read_text())
    assert [cell["accuracy"] for cell in results["cells"] if cell["cell"] == "toy: BM25"] == [1.0]
    assert len(results["cells"]) == 5 and "not one transformer" in results["left_out"][0]
    # Negatives by the retriever, to which all entries are alike; dropout as in UNI's training.
    assert np.ptp(pairs.call_args.args[3]) < 1e-6 and tower.call_args.kwargs["dropout"] == 0.1


def test_the_papers_rows_stand_below_and_what_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    words = write_word_vectors(tmp_path / "words.txt", ["change", "please"])
    options = ("--models", str(words), "runs/burt/x-nli", "--retriever", str(words), "--runs", "1")
    assert cli([str(folder), "--preset", "paper", *options, "--output", str(tmp_path / "out")]) == 2
    report = (tmp_path / "out/report.md").read_text()
    assert "| XLNet-mid + NLI + FAQ † | 96.2 | 1.2 | 0.974 |" in report
    assert "Seeds of what is trained: 1" in report
    assert "runs/burt/x-nli: model 'runs/burt/x-nli': no such file or folder" in report


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("q0.0\td99\t1", r"qrels\.tsv:2: unknown entry 'd99'"),
        ("q0.0\td1\t٣", "relevance '٣' is not a whole number"),
        ("q0.1\td0\t1", "no query of queries-test.tsv has a relevant"),
    ],
)
def test_bad_files_are_named(folder: Path, rows: str, message: str) -> None:
    (folder / "qrels.tsv").write_text(f"query_id\tdoc_id\trelevance\n{rows}\n")
    with pytest.raises(UserError, match=message):
        read_faq(folder)


def test_queries_in_one_table_all_test_and_texts_are_split_into_words(folder: Path, model: str) -> None:
    (folder / "queries-train.tsv").unlink()
    text = (folder / "queries-test.tsv").read_text().replace(" please", ", please?")
    (folder / "queries-test.tsv").rename(folder / "queries.tsv").write_text(text)
    header, *rows = (folder / "qrels.tsv").read_text().splitlines()
    kept = [row for row in rows if row.split("\t")[0].endswith(".0")]
    (folder / "qrels.tsv").write_text("\n".join([header, *kept]) + "\n")
    data = read_faq(folder)
    assert len(data.train) == 0 and len(data.test) == 8
    assert data.queries[0] == "change password , please ?"
    report = folder / "report"
    assert cli([str(folder), "--models", model, "--output", str(report)]) == 0
    names = [cell["cell"] for cell in json.loads((report / "results.json").read_text())["cells"]]
    assert names == [f"toy: {method}" for method in ("TF-IDF", "BM25", model)]  # nothing is tuned
