"""Search: against a sort of all scores, and the command."""

import io
import itertools
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from multiview import encode
from multiview.model import MultiViewEncoder
from multiview.search import __main__ as search
from multiview.search import nearest, semantic_search
from runtime.errors import UserError
from tests.fixtures.builtin import LINES
from tests.fixtures.trees import toy_corpus


@pytest.mark.parametrize("top_k", [1, 6, 40, 1000])
def test_a_search_in_blocks_is_the_sort_of_all_scores(top_k: int, monkeypatch) -> None:
    """Also with equal scores, zeros of both signs, vectors of length 0, and more hits than rows."""
    monkeypatch.setattr(nearest, "BLOCK_QUERIES", 3)
    monkeypatch.setattr(nearest, "BLOCK_SCORES", 3 * 7)
    random = np.random.default_rng(0)
    for scale in (1, 5):
        queries = random.integers(-scale, scale + 1, (8, 3)).astype(np.float32)
        stored = random.integers(-scale, scale + 1, (40, 3)).astype(np.float32)
        lengths = np.linalg.norm(queries, axis=1)[:, None] * np.linalg.norm(stored, axis=1)
        cosines = np.round(queries @ stored.T / np.where(lengths > 0, lengths, 1), 5)
        for row, hits in zip(cosines, semantic_search(queries, stored, top_k=top_k), strict=True):
            np.testing.assert_allclose([hit.score for hit in hits], np.sort(row)[::-1][:top_k], atol=2e-5)
            assert [hit.score for hit in hits] == pytest.approx(
                row[[hit.corpus_id for hit in hits]], abs=2e-5
            )
            ties = itertools.pairwise(hits)
            assert all(a.score > b.score or a.corpus_id < b.corpus_id for a, b in ties)
            assert len({hit.corpus_id for hit in hits}) == min(top_k, 40)
    assert semantic_search(queries[:0], stored) == [] and semantic_search(queries, stored[:0]) == [[]] * 8


def test_the_memory_of_a_search_does_not_grow_with_queries_times_rows() -> None:
    """5,000 x 20,000 scores would take 400 MB."""
    random = np.random.default_rng(0)
    queries, stored = (random.standard_normal((n, 8), np.float32) for n in (5_000, 20_000))
    tracemalloc.start()
    hits = semantic_search(queries, stored, top_k=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(hits) == 5_000 and peak < 150e6


@pytest.mark.parametrize("top_k", [0, -1, 2.0, True, np.bool_(True), "3", None])
def test_a_number_of_hits_that_is_none_is_refused(top_k: object) -> None:
    with pytest.raises(UserError, match=r"search: top_k=.*: must be a whole number from 1"):
        semantic_search(np.eye(4), np.eye(4), top_k=top_k)


def test_vectors_may_be_tensors_and_ragged_lists_are_refused() -> None:
    expected = semantic_search(np.eye(2), np.eye(2))
    assert semantic_search(torch.eye(2, requires_grad=True), torch.eye(2).bfloat16()) == expected
    with pytest.raises(UserError, match="search: a list that is no array"):
        semantic_search([[1.0], [1.0, 2.0]], np.eye(2))  # type: ignore[arg-type]


def test_search_command(
    seq_model: Path, corpus: Path, tmp_path: Path, toy_trees, monkeypatch, capsys
) -> None:
    def search_lines(*arguments: object) -> list[str]:
        assert search.cli([str(seq_model), *map(str, arguments)]) == 0
        return capsys.readouterr().out.splitlines()

    first, second = search_lines(corpus, LINES[2], "--top", 2)
    assert first.split(maxsplit=2) == ["1.0000", "1", LINES[2]] and float(second.split()[0]) < 1
    # Several queries, from standard input, against stored vectors of the corpus.
    assert encode.cli([str(seq_model), str(corpus), "--output", str(tmp_path / "v.npy")]) == 0
    capsys.readouterr()
    typed = io.BytesIO(f"{LINES[2]}\n\n{LINES[0]}\n".encode())
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=typed))
    lines = search_lines(corpus, "--top", 1, "--vectors", tmp_path / "v.npy")
    assert [line.rpartition("  ")[2] for line in lines] == [LINES[2], LINES[2], LINES[0], LINES[0]]
    words = " ".join(toy_corpus()[0][3])  # of a tree cache; a sentence is its own nearest
    assert search_lines(toy_trees, words, "--top", 1)[0].split(maxsplit=2)[::2] == ["1.0000", words]


def test_a_line_of_several_sentences_is_searched_by_each(
    seq_model: Path, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("long.txt").write_text(
        "Dr. Low sleeps.\n\nA cat sat.  A dog\tran! Why?\nThe end.\n", encoding="utf-8"
    )
    for keep in ([], ["--keep"], ["--keep"]):
        assert search.cli([str(seq_model), "long.txt", "A dog ran!", "--top", "9", *keep]) == 0
        rows = [line.split(maxsplit=2) for line in capsys.readouterr().out.splitlines()]
        assert rows[0] == ["1.0000", "1", "A dog ran!"]
        places = {text: row for _, row, text in rows}
        assert places.pop("Dr. Low sleeps.") == "0" and places.pop("The end.") == "2"
        assert places == dict.fromkeys(["A cat sat.", "A dog ran!", "Why?"], "1")


def test_search_is_measured(seq_model: Path, corpus: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    """A sentence finds itself; of the texts the one that shares words is found by them."""
    monkeypatch.chdir(tmp_path)
    queries = tmp_path / "queries.tsv"
    queries.write_text(f"query\trelevant\n{LINES[2]}\t{LINES[2]}\n{LINES[0]}\t{LINES[0]}\n", encoding="utf-8")
    assert search.cli([str(seq_model), str(corpus), "--queries", str(queries)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["queries", "2", "among"]
    assert "P@1 100.0, MRR 100.0, recall@10 100.0" in lines[1] and lines[1].startswith(str(seq_model))
    queries.write_text("query\trelevant\nx\tnot there\n", encoding="utf-8")
    assert search.cli([str(seq_model), str(corpus), "--queries", str(queries)]) == 2
    assert "lacks the relevant sentence 'not there'" in capsys.readouterr().err


def test_search_keeps_the_vectors_of_a_text(seq_model: Path, corpus: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(corpus.parent)
    encoded: list[int] = []
    real = MultiViewEncoder._vectors

    def counting(self, inputs, *options):
        encoded.append(len(inputs) if isinstance(inputs, list) else 1)
        return real(self, inputs, *options)

    monkeypatch.setattr(MultiViewEncoder, "_vectors", counting)

    def ask(*more: str) -> tuple[int, str]:
        """Sentences encoded by a question, itself included, and the nearest one."""
        encoded.clear()
        assert search.cli([str(seq_model), "in.txt", "cat", "--keep", "--top", "1", *more]) == 0
        return sum(encoded), capsys.readouterr().out

    first = ask()
    assert [first[0], ask()] == [3, (1, first[1])]
    stored_vectors = next(Path("runs/vectors").glob("search-*/vectors.npy"))
    stored_vectors.write_bytes(stored_vectors.read_bytes()[:-1])  # damaged: made again
    assert [ask(), ask()] == [first, (1, first[1])]
    assert [ask("--views", "0-seq")[0], ask("--views", "0-seq")[0]] == [3, 1]
    corpus.write_text("\x1b[31mcat\tand dog\n" + corpus.read_text())
    answer = ask()
    assert answer[0] == 4 and "\x1b" not in answer[1]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("MODEL -", "give the queries as arguments"),
        ("MODEL in.txt", "-, line 2: not UTF-8"),
        ("MODEL none.txt q", "none.txt: no such file"),
        ("MODEL in.txt q --vectors other.npy", "holds 3 x 2 numbers"),
        ("MODEL in.txt q --structure -0.0 --views none", "view 'none'"),
    ],
)
def test_what_cannot_be_searched_is_one_line(
    seq_model: Path, corpus: Path, monkeypatch, words: str, message: str, refusal
) -> None:
    monkeypatch.chdir(corpus.parent)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"cat\n\xff\n")))
    np.save("other.npy", np.zeros((3, 2), dtype=np.float32))
    assert message in refusal(search.cli, *words.replace("MODEL", str(seq_model)).split())
    assert "an empty one" in refusal(search.cli, str(seq_model), "in.txt", "cat", " ")
