"""Readers of passage sets: made files in the published formats, malformed ones, the real ones."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from corpora.ranking.sets import PassageSet, Question, filter_questions, read_set
from runtime.errors import UserError
from tests.studies.passages import passage_sets


def texts(data: PassageSet, q: Question) -> list[tuple[str, bool]]:
    return [(data.passages[row], bool(right)) for row, right in zip(q.candidates, q.relevant, strict=True)]


def test_wikipassageqa(tmp_path: Path) -> None:
    data = read_set(str(passage_sets.write_wikipassageqa(tmp_path / "wikipassageqa")))
    one, two = data.splits["train"]
    assert texts(data, one) == [("First part .", True), ("Second part .", False), ("Third part .", True)]
    assert texts(data, two) == [("Only one .", True)]
    assert [q.id for q in filter_questions(data, "mixed").splits["dev"]] == ["1"]


def test_insuranceqa(tmp_path: Path) -> None:
    data = read_set(str(passage_sets.write_insuranceqa(tmp_path / "insuranceqa")))
    one, two = data.splits["train"]
    assert one.text == "what is it"
    assert texts(data, one) == [("a policy", True), ("a premium", True), ("no", False), ("yes", False)]
    assert texts(data, two)[3] == ("yes", True)
    test = data.splits["test"][0]
    assert texts(data, test) == [("no", False), ("a policy", True), ("a premium", False)]
    assert test.missed_count == 1 and data.splits["dev"][0].missed_count == 0


def test_quasar(tmp_path: Path) -> None:
    data = read_set(f"quasar-t={passage_sets.write_quasar(tmp_path / 'q')}")
    one, two = data.splits["test"]
    assert texts(data, one) == [("The Dog barks .", True), ("The dogs bark .", False), ("A cow .", False)]
    assert texts(data, two) == [("It is a cat .", True), ("A fox .", False)]


def test_searchqa(tmp_path: Path) -> None:
    data = read_set(str(passage_sets.write_searchqa(tmp_path / "searchqa")))
    for questions in data.splits.values():
        assert len(questions) == 3
        for q in questions:
            assert q.relevant.tolist() == [True, False]
            assert q.text.startswith("Who wins race") and "<" not in q.text


POOL, CONTEXTS = "question.test1.label.token_idx.pool", "contexts/short/dev_contexts.json.gz"
RESULTS = "val/000001-tag.json"


@pytest.mark.parametrize(
    ("write", "name", "old", "new", "message"),
    [
        (passage_sets.write_wikiqa, "train.tsv", "\t0\twhere", "\t2\twhere", "label '2' is neither"),
        (passage_sets.write_wikipassageqa, "dev.tsv", "0,2", "0,9", ":2: document 12: passage '9' is not"),
        (passage_sets.write_insuranceqa, POOL, "3 1 2", "3 1 77", ":1: answer '77'"),
        (passage_sets.write_searchqa, RESULTS, "search_results", "results", "'search_results' is a list"),
        (passage_sets.write_quasar, CONTEXTS, "[[", "[0, [", ":1: contexts are not pairs"),
    ],
)
def test_malformed_files_are_named(
    tmp_path: Path, write: Callable[[Path], Path], name: str, old: str, new: str, message: str
) -> None:
    kind = write.__name__.removeprefix("write_").replace("quasar", "quasar-t")
    path = write(tmp_path / kind) / name
    opener = gzip.open if name.endswith(".gz") else open
    with opener(path, "rt", encoding="utf-8") as stream:
        text = stream.read()
    assert old in text
    with opener(path, "wt", encoding="utf-8") as stream:
        stream.write(text.replace(old, new, 1))
    with pytest.raises(UserError, match=message) as error:
        read_set(str(tmp_path / kind))
    assert Path(name).name in str(error.value) and "\n" not in str(error.value)


def test_questions_are_filtered_by_kind() -> None:
    both, right, wrong = (
        Question(name, name, np.arange(2), np.array(labels, dtype=bool))
        for name, labels in (("b", [1, 0]), ("r", [1, 1]), ("w", [0, 0]))
    )
    splits = {"train": [both, right], "dev": [both, right, wrong], "test": [both, right, wrong]}
    data = PassageSet(Path("x"), ["p", "q"], splits, [])
    for keep, ids in (("answered", "br"), ("mixed", "b"), ("all", "brw")):
        names = {
            name: "".join(q.id for q in part) for name, part in filter_questions(data, keep).splits.items()
        }
        assert names == {"train": "b", "dev": ids, "test": ids}
    with pytest.raises(UserError, match="no question of test is left"):
        filter_questions(PassageSet(Path("x"), [], {"test": [wrong]}, []), "answered")


@pytest.mark.data
def test_real_sets(data_folder: Path) -> None:
    def counts(name: str) -> dict[str, tuple[int, ...]]:
        splits = read_set(str(data_folder / "retrieval" / name)).splits
        return {split: (len(part), sum(len(q.candidates) for q in part)) for split, part in splits.items()}

    assert counts("wikiqa") == {"train": (873, 8672), "dev": (126, 1130), "test": (243, 2351)}
    # As many candidates as published; the questions are the ids the files hold.
    assert counts("trecqa") == {"train": (93, 4718), "dev": (81, 1148), "test": (95, 1517)}
    clean = filter_questions(read_set(str(data_folder / "retrieval" / "trecqa")), "mixed")
    assert [len(clean.splits[s]) for s in ("dev", "test")] == [65, 68]  # the published "clean" sets
