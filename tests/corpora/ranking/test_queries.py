"""The measures of search against plain counting, and files of queries with and without a corpus."""

from pathlib import Path

import numpy as np
import pytest

from corpora.ranking.queries import QuerySet, ranks_of, read_queries, report_lines
from runtime.errors import UserError


def write(path: Path, *rows: str) -> Path:
    path.write_text("".join(row + "\n" for row in rows), encoding="utf-8")
    return path


def test_measures_equal_counting_with_ties() -> None:
    random = np.random.default_rng(4)
    scores_QN = random.integers(0, 12, (40, 30)).astype(np.float32)
    relevant = [np.sort(random.choice(30, size=1 + q % 3, replace=False)) for q in range(40)]
    measures = []
    for scores_N, indices in zip(scores_QN, relevant, strict=True):
        order = sorted(range(30), key=lambda index: (-scores_N[index], index))
        ranks = [1 + order.index(index) for index in indices]
        assert ranks_of(scores_N, indices).tolist() == ranks
        measures.append((min(ranks) == 1, 1 / min(ranks), sum(rank <= 10 for rank in ranks) / len(ranks)))
    # Vectors whose cosines are the scores: 30 numbers and what is missing to length 1.
    shares = scores_QN / 100
    rest = np.sqrt(1 - (shares**2).sum(axis=1, keepdims=True))
    data = QuerySet(["q"] * 40, ["t"] * 30, relevant)
    scores = data.score_vectors(np.concatenate([shares, rest], axis=1), np.eye(30, 31))
    assert list(scores.values()) == pytest.approx(np.mean(measures, axis=0))


def test_queries_of_a_file_and_of_a_corpus(tmp_path: Path) -> None:
    path = write(
        tmp_path / "q.tsv",
        "query\trelevant\tnegative",
        "how to close a file\tClose it.\tDelete it.",
        "how to open a file\tOpen it.\t",
        "how to open a file\tTake  open().\t",
        "Close it.\thow to close a file\t",
    )
    data = read_queries(path)
    assert data.queries == ["how to close a file", "how to open a file", "Close it."]
    assert data.texts == ["how to close a file", "Close it.", "Delete it.", "Open it.", "Take  open()."]
    assert [indices.tolist() for indices in data.relevant] == [[1], [3, 4], [0]]
    corpus = ["take open().", "x", "OPEN it.", "close it.", "how to close a file", "Open it."]
    assert [indices.tolist() for indices in read_queries(path, corpus).relevant] == [[3], [0, 2, 5], [4]]
    with pytest.raises(UserError, match=r"q\.tsv: the corpus lacks the relevant sentence 'take open\(\)\.'"):
        read_queries(path, corpus[1:])
    graded = write(tmp_path / "g.tsv", "sentence1\tsentence2\tscore", "a\tb\t1", "a\tc\t2")
    with pytest.raises(UserError, match=r"g\.tsv: has grades; a file of queries has"):
        read_queries(graded)


def test_words_find_what_shares_them(tmp_path: Path) -> None:
    path = write(tmp_path / "q.tsv", "question\tanswer", "open file\topen a file", "the moon\tmoon landing")
    scores = read_queries(path).score_words()
    assert scores["TF-IDF"] == {"P@1": 1.0, "MRR": 1.0, "recall@10": 1.0}
    assert set(scores) <= {"BM25", "TF-IDF"}
    turned = np.eye(2), np.eye(2)[::-1]  # each query's vector is the other's answer
    lines = dict(report_lines(read_queries(path), {"mine": turned}))
    assert lines["queries"] == "2 among 2 sentences; per cent:"
    assert lines["mine"] == "P@1 0.0, MRR 50.0, recall@10 100.0"
    assert lines["TF-IDF"] == "P@1 100.0, MRR 100.0, recall@10 100.0"
