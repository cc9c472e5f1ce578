"""Readers of passage sets: made files in the published formats, malformed ones, the real ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpora.ranking.lexical import Bm25
from corpora.ranking.questions import PassageSet, Question, filtered, question
from corpora.ranking.read import parse_spec, read_set
from corpora.ranking.trec import cut
from corpora.ranking.trivia import contains
from corpora.support.errors import UserError
from tests.studies.passages import passage_sets


def read(spec: object) -> PassageSet:
    return read_set(str(spec), split_seed=0)


def texts(data: PassageSet, q: Question) -> list[tuple[str, bool]]:
    return [(data.passages[row], bool(right)) for row, right in zip(q.candidates, q.relevant, strict=True)]


def test_specs() -> None:
    assert parse_spec("a/WikiQA") == ("wikiqa", Path("a/WikiQA"))
    assert parse_spec("trecqa=x/y") == ("trecqa", Path("x/y"))
    assert parse_spec("data/cranfield") == ("trec", Path("data/cranfield"))
    for bad in ("a/other", "other=a/wikiqa"):
        with pytest.raises(UserError, match="write FORMAT=FOLDER"):
            parse_spec(bad)
    with pytest.raises(UserError, match="no such folder"):
        read("wikiqa=none")


def test_tokenised_table(tmp_path: Path) -> None:
    data = read(passage_sets.write_wikiqa(tmp_path / "wikiqa", (3, 2, 2)))
    assert {split: len(questions) for split, questions in data.splits.items()} == {
        "train": 3,
        "dev": 2,
        "test": 2,
    }
    first = data.splits["train"][0]
    assert first.id == "train0" and first.text.startswith("where does the ")
    assert len(first.candidates) == 5 and first.relevant.sum() == 1
    assert len(set(data.passages)) == len(data.passages)


def test_published_wikiqa_is_tokenised_and_filtered(tmp_path: Path) -> None:
    data = read(passage_sets.write_published_wikiqa(tmp_path / "wikiqa"))
    q = data.splits["test"][0]
    assert q.text == "How big is it ?"
    assert texts(data, q) == [("It is 3 m high , they say .", True), ("Nobody knows .", False)]
    kept = filtered(data, "answered", None)
    assert [q.id for q in kept.splits["test"]] == ["Q0"]
    assert any("test: 1 of 2 questions without a relevant" in note for note in kept.notes)
    assert [q.id for q in filtered(data, "all", None).splits["test"]] == ["Q0", "Q1"]
    assert [q.id for q in filtered(data, "all", 1).splits["test"]] == ["Q0"]


def test_jacana(tmp_path: Path) -> None:
    data = read(passage_sets.write_jacana(tmp_path / "trecqa"))
    one, two = data.splits["dev"]
    assert (one.id, one.text, two.id, two.text) == ("1.4", "Who leads ?", "1.4#2", "Who follows ?")
    assert texts(data, one) == [("She leads & wins .", True), ("Nobody came .", False)]
    assert texts(data, two) == [("Nobody came .", False)]
    assert "trained on TRAIN-ALL.xml" in data.notes
    with pytest.raises(UserError, match="no question of test is left"):
        filtered(PassageSet("x", data.passages, {"test": [two]}, []), "answered", None)


def test_wikipassageqa(tmp_path: Path) -> None:
    data = read(passage_sets.write_wikipassageqa(tmp_path / "wikipassageqa"))
    one, two = data.splits["train"]
    assert texts(data, one) == [("First part .", True), ("Second part .", False), ("Third part .", True)]
    assert texts(data, two) == [("Only one .", True)]
    assert [q.id for q in filtered(data, "mixed", None).splits["dev"]] == ["1"]


def test_insuranceqa(tmp_path: Path) -> None:
    data = read(passage_sets.write_insuranceqa(tmp_path / "insuranceqa"))
    one, two = data.splits["train"]
    assert one.text == "what is it"
    assert texts(data, one) == [("a policy", True), ("a premium", True), ("no", False), ("yes", False)]
    assert texts(data, two)[3] == ("yes", True)
    test = data.splits["test"][0]
    assert texts(data, test) == [("no", False), ("a policy", True), ("a premium", False)]
    assert test.missed == 1 and data.splits["dev"][0].missed == 0


def test_quasar(tmp_path: Path) -> None:
    data = read(f"quasar-t={passage_sets.write_quasar(tmp_path / 'q')}")
    one, two = data.splits["test"]
    assert texts(data, one) == [("The Dog barks .", True), ("The dogs bark .", False), ("A cow .", False)]
    assert texts(data, two) == [("It is a cat .", True), ("A fox .", False)]
    assert "contexts: short" in data.notes


def test_answers_are_found_as_whole_words() -> None:
    assert contains("In New-York City", "new york")
    assert not contains("a newer york", "new york")
    assert not contains("anything", "?!")


@pytest.mark.parametrize("form", ["split", "folder", "tsv"])
def test_searchqa(tmp_path: Path, form: str) -> None:
    folder = tmp_path / "searchqa"
    if form == "tsv":
        passage_sets.write_searchqa_tsv(folder)
    else:
        passage_sets.write_searchqa(folder, split=form == "split")
    data = read(folder)
    questions = [q for part in data.splits.values() for q in part]
    assert len(questions) == (6 if form == "tsv" else 9)
    assert ("split 60 / 20 / 20" in " ".join(data.notes)) == (form != "split")
    for q in questions:
        assert q.relevant.tolist() == [True, False]
        assert q.text.startswith("Who wins race") and "<" not in q.text


def test_trec_collection(tmp_path: Path) -> None:
    folder = passage_sets.write_trec(tmp_path / "cranfield")
    data = read(folder)
    assert {s: len(q) for s, q in data.splits.items()} == {"train": 9, "dev": 3, "test": 3}
    assert [q.id for q in read(folder).splits["test"]] == [q.id for q in data.splits["test"]]
    ids = sorted(int(q.id) for part in data.splits.values() for q in part)
    assert ids == list(range(15))
    q = data.splits["test"][0]
    assert len(q.candidates) == 30 and data.passages[q.candidates[-1]] == "."
    assert data.passages[0].startswith("title 0 . the dog")
    assert [int(i) % 10 for i in np.flatnonzero(q.relevant)] == [int(q.id) % 10] * 2


def test_collection_cut_by_bm25(tmp_path: Path) -> None:
    data = read(passage_sets.write_trec(tmp_path / "cranfield"))
    short = cut(data, 2)
    assert short.name == "cranfield@2" and not short.is_collection
    for split, questions in short.splits.items():
        for q, whole in zip(questions, data.splits[split], strict=True):
            scores = Bm25(data.passages).scores(whole.text)[whole.candidates]
            best = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:2]
            assert q.candidates[:2].tolist() == whole.candidates[best].tolist()
            if split == "train":
                assert q.relevant.sum() == whole.relevant.sum() and q.missed == 0
            else:
                assert len(q.candidates) == 2 and q.relevant.sum() + q.missed == whole.relevant.sum()


def test_trec_judgements_without_header(tmp_path: Path) -> None:
    folder = passage_sets.write_trec(tmp_path / "trec")
    before = read(folder)
    rows = [row.split("\t") for row in (folder / "qrels.tsv").read_text().splitlines()[1:]]
    (folder / "qrels.tsv").unlink()
    (folder / "qrels.txt").write_text("".join(f"{q} 0 {d} {g}\n" for q, d, g in rows))
    after = read(folder)
    assert [q.relevant.tolist() for q in after.splits["test"]] == [
        q.relevant.tolist() for q in before.splits["test"]
    ]


def replace_text(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new, 1))


BAD: list[tuple[str, Callable[[Path], Path], str, str, str, str]] = [
    ("wikiqa", passage_sets.write_wikiqa, "train.tsv", "\t0\twhere", "\t2\twhere", "label '2' is neither"),
    (
        "wikiqa",
        passage_sets.write_wikiqa,
        "dev.tsv",
        "\t0\twhere",
        "\twhere",
        r"dev\.tsv:\d+: expected 4 cells",
    ),
    ("wikiqa", passage_sets.write_wikiqa, "dev.tsv", "label", "mark", "no column 'label'"),
    ("wikiqa", passage_sets.write_wikiqa, "test.tsv", "where does", "why does", "has another text"),
    ("trecqa", passage_sets.write_jacana, "DEV.xml", "<QApairs id='1.4'>\n", "", "before its question"),
    (
        "wikipassageqa",
        passage_sets.write_wikipassageqa,
        "dev.tsv",
        "0,2",
        "0,9",
        ":2: document 12 has no passage '9'",
    ),
    ("wikipassageqa", passage_sets.write_wikipassageqa, "dev.tsv", "\t7\t", "\t8\t", "no document '8'"),
    (
        "wikipassageqa",
        passage_sets.write_wikipassageqa,
        "document_passages.json",
        '{"12"',
        '["12"',
        "not JSON",
    ),
    (
        "insuranceqa",
        passage_sets.write_insuranceqa,
        "answers.label.token_idx",
        "idx_7",
        "idx_99",
        ":3: word 'idx_99'",
    ),
    (
        "insuranceqa",
        passage_sets.write_insuranceqa,
        "question.test1.label.token_idx.pool",
        "3 1 2",
        "3 1 77",
        ":1: answer '77'",
    ),
    (
        "insuranceqa",
        passage_sets.write_insuranceqa,
        "question.train.token_idx.label",
        "\t1 2",
        "",
        "expected 2 cells",
    ),
    (
        "cranfield",
        passage_sets.write_trec,
        "qrels.tsv",
        "\td0\t",
        "\td99\t",
        ":2: unknown document 'd99'",
    ),
    ("cranfield", passage_sets.write_trec, "qrels.tsv", "\t1\n", "\tyes\n", "relevance 'yes'"),
    ("cranfield", passage_sets.write_trec, "queries.tsv", "query_id", "id", "no column 'query_id'"),
]


@pytest.mark.parametrize(("kind", "write", "name", "old", "new", "told"), BAD)
def test_malformed_files_are_named(
    tmp_path: Path, kind: str, write: Callable[[Path], Path], name: str, old: str, new: str, told: str
) -> None:
    folder = write(tmp_path / kind)
    assert old in (folder / name).read_text()
    replace_text(folder / name, old, new)
    with pytest.raises(UserError, match=told) as error:
        read(folder)
    assert name in str(error.value) and "\n" not in str(error.value)


def test_malformed_trivia(tmp_path: Path) -> None:
    folder = passage_sets.write_searchqa(tmp_path / "searchqa", split=True)
    path = folder / "val" / "000001-tag.json"
    path.write_text(json.dumps({"question": "Who?", "answer": "x"}))
    with pytest.raises(UserError, match=r"000001-tag.json: no key 'search_results'"):
        read(folder)
    path.write_text(json.dumps({"question": "Who?", "answer": "x", "search_results": None}))
    with pytest.raises(UserError, match=r"000001-tag.json: search_results is no list"):
        read(folder)
    quasar = passage_sets.write_quasar(tmp_path / "quasar-t")
    (quasar / "contexts" / "short" / "dev_contexts.json.gz").unlink()
    (quasar / "dev_contexts.json").write_text('{"uid": "t9", "contexts": []}\n')
    with pytest.raises(UserError, match=r"dev_contexts.json:1: no question 't9'"):
        read(quasar)
    (quasar / "dev_contexts.json").write_text('{"uid": "t1", "contexts": null}\n')
    with pytest.raises(UserError, match=r"dev_contexts.json:1: contexts is no list"):
        read(quasar)
    (quasar / "dev_contexts.json").write_text('{"uid": "t1", "contexts"\n')
    with pytest.raises(UserError, match=r"dev_contexts.json:1: not JSON"):
        read(quasar)
    (quasar / "dev_contexts.json").unlink()
    with pytest.raises(UserError, match=r"no dev_contexts\.json\.gz"):
        read(quasar)


def test_no_files(tmp_path: Path) -> None:
    for kind in ("wikiqa", "searchqa", "cranfield", "quasar-t", "insuranceqa", "wikipassageqa"):
        (tmp_path / kind).mkdir()
        with pytest.raises(UserError):
            read(tmp_path / kind)
    with pytest.raises(UserError, match="too few to split"):
        read(passage_sets.write_trec(tmp_path / "few" / "trec", queries=4))


def test_questions_are_filtered_by_kind() -> None:
    both, right, wrong = (question(n, n, [0, 1], v) for n, v in (("b", [1, 0]), ("r", [1, 1]), ("w", [0, 0])))
    splits = {"train": [both, right], "dev": [both, right, wrong], "test": [both, right, wrong]}
    data = PassageSet("x", ["p", "q"], splits, [])
    for keep, ids in (("answered", "br"), ("mixed", "b"), ("all", "brw")):
        kept = filtered(data, keep, None).splits
        assert "".join(q.id for q in kept["dev"]) == "".join(q.id for q in kept["test"]) == ids
        assert [q.id for q in kept["train"]] == ["b"]


@pytest.mark.data
def test_real_sets(data_folder: Path) -> None:
    def counts(name: str) -> dict[str, tuple[int, ...]]:
        found = read(data_folder / "retrieval" / name).counts()
        return {split: tuple(values.values())[:2] for split, values in found.items()}

    assert counts("wikiqa") == {"train": (873, 8672), "dev": (126, 1130), "test": (243, 2351)}
    # As many candidates as published; the questions are the ids the files hold.
    assert counts("trecqa") == {"train": (93, 4718), "dev": (81, 1148), "test": (95, 1517)}
    clean = filtered(read(data_folder / "retrieval" / "trecqa"), "mixed", None)
    assert [len(clean.splits[s]) for s in ("dev", "test")] == [65, 68]  # the published "clean" sets
    cranfield = read(data_folder / "retrieval" / "cranfield")
    assert sum(len(part) for part in cranfield.splits.values()) == 225
    assert len(cranfield.splits["test"][0].candidates) == 1400
    assert sum(int(q.relevant.sum()) for part in cranfield.splits.values() for q in part) == 1837 - 225
