"""Duplicates among texts, and a search that is judged."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from multiview.duplicates import duplicates
from multiview.judge import Judge
from multiview.search import __main__ as search
from multiview.serve import worker
from multiview.serve.__main__ import cli as serve
from runtime.errors import UserError

TEXTS = [
    "How do I enable 2FA?",
    "The lawyer praised the doctor.",
    "How do I disable 2FA?",
    "The doctor praised the lawyer.",
    "The doctor was praised by the lawyer.",
    "How can I enable 2FA?",
    "How do I enable 2FA?",
]


class Line:
    """An encoder and a judge of numbers: cosines fall with their distance, and two say the same up to 1."""

    def __init__(self) -> None:
        self.judged: list[tuple[str, str]] = []

    def encode(self, texts: list[str]) -> np.ndarray:
        angle = np.array([float(text) for text in texts]) / 100
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)

    def pairs(self, pairs: list[tuple[str, str]]) -> list[Any]:
        self.judged += pairs
        return [SimpleNamespace(same=abs(float(a) - float(b)) <= 1) for a, b in pairs]


def test_groups_are_of_texts_that_say_the_same_not_of_near_ones() -> None:
    assert duplicates(TEXTS) == [[0, 5, 6], [1, 4]]


def test_a_chain_does_not_lead_away_from_the_first_of_a_group() -> None:
    line: Any = Line()
    groups = duplicates(["0", "1", "2", "9", "3", "9", "1"], judge=line, encoder=line, neighbours=2)
    assert groups == [[0, 1, 6], [2, 4], [3, 5]]


def test_what_is_near_to_a_member_is_judged_with_the_first_of_its_group() -> None:
    line: Any = Line()
    texts = ["0", "0.4", "0.5", "0.9"]
    assert duplicates(texts, judge=line, encoder=line, neighbours=1) == [[0, 1, 2, 3]]
    assert ("0", "0.9") in line.judged and len(line.judged) == len(set(line.judged))


def test_texts_that_are_not_near_are_not_judged() -> None:
    line: Any = Line()
    texts = ["0", "0.5", "90", "90.5", "180"]
    assert duplicates(texts, judge=line, encoder=line) == [[0, 1], [2, 3]]
    assert ("0", "90") in line.judged and ("0", "180") not in line.judged
    line.judged.clear()
    duplicates(texts, judge=line, encoder=line, cosine=0.99)
    assert line.judged == [("0", "0.5"), ("90", "90.5")]
    assert duplicates(texts, judge=line, encoder=line, cosine=np.float32(0.5)) == [[0, 1], [2, 3]]
    for wrong in (2, True, "0.5"):
        with pytest.raises(UserError, match=r"duplicates: cosine: .* is not from -1 to 1"):
            duplicates(texts, cosine=wrong)  # type: ignore[arg-type]


def test_the_threshold_decides_and_few_texts_need_no_judge() -> None:
    line: Any = Line()
    line.pairs = lambda pairs: [SimpleNamespace(same=True, probability=0.8) for _ in pairs]
    assert duplicates(["1", "2"], judge=line, encoder=line, threshold=0.81) == []
    assert duplicates(["1", "2"], judge=line, encoder=line, threshold=0.8) == [[0, 1]]
    assert duplicates([]) == duplicates(["a"]) == [] and duplicates(["a", "a"]) == [[0, 1]]


@pytest.mark.parametrize(
    ("texts", "options", "fault"),
    [
        ("a text", {}, "no list of texts"),
        (["a", 3], {}, r"text 1, a int \(3\), is no string"),
        (["a"], {"neighbours": 0}, "neighbours"),
        (["a"], {"threshold": 1}, "threshold"),
        (["a"], {"threshold": "x"}, "threshold"),
        (["a"], {"judge": "pairs"}, "judge: a str .* is no judge; Judge.load reads a file"),
        (["a"], {"encoder": "all-MiniLM-L6-v2"}, "has no encode"),
    ],
)
def test_what_is_wrong_is_named(texts: Any, options: dict[str, Any], fault: str) -> None:
    with pytest.raises(UserError, match=f"duplicates: .*{fault}"):
        duplicates(texts, **options)


def test_vectors_that_do_not_fit_the_texts_are_refused() -> None:
    for rows in (1, 3):
        encoder = SimpleNamespace(encode=lambda texts, rows=rows: np.eye(rows, 4))
        with pytest.raises(UserError, match=rf"encode\(\) returned float64 \[{rows}, 4\] for 2 sentences"):
            duplicates(["a", "b"], encoder=encoder)


def test_a_judged_search_leaves_out_what_says_something_else(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("\n".join(TEXTS) + "\n")
    assert search.cli(["builtin", "in.txt", "How can I enable 2FA?", "--judge", "pairs", "--top", "2"]) == 0
    kept, rest = capsys.readouterr().out.split("left out, as they say something else: 4\n")
    assert [int(line.split()[1]) for line in kept.splitlines()] == [5, 0]
    reasons = {int(line.split()[1]): line for line in rest.splitlines()}
    assert sorted(reasons) == [1, 2, 3, 4] and reasons[2].endswith("(opposite: enable | disable)")


def test_no_more_than_twenty_are_judged_and_measuring_is_by_cosine(
    tmp_path: Path, capsys, monkeypatch, refusal
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("in.txt").write_text("".join(f"Tom has {n} hats.\n" for n in range(30)))
    judged: list[Any] = []
    pairs_of = Judge.pairs
    monkeypatch.setattr(Judge, "pairs", lambda self, pairs: judged.extend(pairs) or pairs_of(self, pairs))
    assert search.cli(["builtin", "in.txt", "Tom has 3 hats.", "--judge", "pairs"]) == 0
    assert len(judged) == search.NEAREST_JUDGED and "  1.00  Tom has 3 hats." in capsys.readouterr().out
    assert "leave out --judge" in refusal(
        search.cli, "builtin", "in.txt", "--queries", "q.tsv", "--judge", "pairs"
    )


def test_every_door_takes_a_judge_of_ones_own_with_its_threshold(
    judge: Judge, tmp_path: Path, capsys, monkeypatch, refusal
) -> None:
    monkeypatch.chdir(tmp_path)
    strict = Judge(judge.weights, source=judge.source)
    pair = ("How do I turn on 2FA?", "How do I enable 2FA?")
    assert strict(*pair).same and duplicates(pair, judge=strict) == [[0, 1]]
    about = {**strict.weights.about, "threshold": {"threshold": 0.9999}}
    strict.weights = replace(strict.weights, about=about)
    strict.save("strict.json")
    loaded = Judge.load("strict.json", source=judge.source)
    assert loaded(*pair).probability > 0.5 and not loaded(*pair).same
    assert duplicates(pair, judge=loaded) == []
    assert duplicates(pair, judge=loaded, threshold=0.5) == [[0, 1]]
    Path("in.txt").write_text(f"{pair[1]}\n")
    assert search.cli(["builtin", "in.txt", pair[0], "--judge", "strict.json"]) == 0
    assert "left out, as they say something else: 1\n" in capsys.readouterr().out
    monkeypatch.setattr(worker, "_models", worker.WorkerModels("builtin", None, "strict.json", 20, 20))
    assert worker.judge([pair])[0]["same"] is False
    assert (
        refusal(serve, "builtin", "--judge", "none.json")
        == "python -m multiview.serve: none.json: no such file"
    )
    for value in ("0.9", 2, float("nan"), True, None):
        assert replace(strict.weights, about={"threshold": {"threshold": value}}).threshold == 0.5
