"""A judge that is fitted to pairs of one's own: how it is saved and refused."""

from dataclasses import replace
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from multiview.judge import FEATURES, Judge, facts
from multiview.judge.judge import JUDGE_FOLDER, UNHEEDED
from multiview.judge.weights import Weights
from multiview.structure import negation, poles
from parsing.trees import role_rules
from runtime.errors import UserError
from runtime.files import read_record, write_record
from tests.fixtures.pairs import SAME, SWAPPED

PEOPLE = ("lawyer", "doctor", "nurse", "king")


class Counts:
    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[len(text), text.count("a") + 1.0] for text in texts])


def test_a_judge_of_ones_own_is_saved_as_json(judge: Judge, tmp_path: Path) -> None:
    pairs = [SAME, SWAPPED, *((a, b) for a in ("He came.", "She left.") for b in ("He came.", "She sang."))]
    fitted_judge = Judge.fit(pairs, [1, 0, 1, 0, 0, 0], encoder=Counts(), source=judge.source, pull=0.1)
    fitted_judge.save(tmp_path / "own.json")
    loaded_judge = Judge.load(tmp_path / "own.json", encoder=Counts(), source=judge.source)
    same, loaded = ([p.probability for p in one.pairs(pairs)] for one in (fitted_judge, loaded_judge))
    assert loaded == pytest.approx(same, abs=1e-4)
    assert fitted_judge(*SAME).probability > fitted_judge(*SWAPPED).probability + 0.2
    for encoder, name in ((None, "none"), (type("Others", (Counts,), {})(), "Others")):
        with pytest.raises(UserError, match=f"was fitted beside Counts, not {name}"):
            Judge.load(tmp_path / "own.json", encoder=encoder, source=judge.source)
    with pytest.raises(UserError, match="was fitted beside no encoder"):
        Judge.load("pairs-with-mrpc", encoder=Counts(), source=judge.source)


def test_a_fit_keeps_what_its_pairs_do_not_speak_of_and_tells_what_broke(judge: Judge, caplog) -> None:
    people = [*permutations(PEOPLE, 2)]
    passives = [(f"The {a} praised the {b}.", f"The {b} was praised by the {a}.") for a, b in people]
    pairs = [*passives, *((f"The {a} praised the {b}.", f"The {b} praised the {a}.") for a, b in people)]
    own = Judge.fit(pairs, [1] * len(people) + [0] * len(people), source=judge.source)
    about = own.weights.about
    assert about["broken checks"] == [] == caplog.messages
    assert about["start"] == judge.weights.about and about["pairs"] == len(pairs)
    opposites = [
        ("Switch the camera on.", "Switch the new camera off."),
        ("The film is good.", "The old film is bad."),
    ]
    wrong = Judge.fit([*opposites, *pairs], [1, 1, *[0] * len(pairs)], source=judge.source, pull=1e-3)
    broken = wrong.weights.about["broken checks"]
    assert "passive: My sister wrote this song. | This song was written by my sister." in broken
    assert set(broken) <= set(wrong.broken_checks()) and not set(broken) & set(judge.broken_checks())
    assert [check in " ".join(caplog.messages) for check in broken] == [True] * len(broken)
    judgement = wrong(*opposites[0])
    assert judgement.probability > 0.5 and f"opposite: on | off{UNHEEDED}" in str(judgement)
    assert UNHEEDED not in str(judge(*opposites[0]))


@pytest.mark.parametrize(("probability", "threshold"), [(0.4, 0.3), (0.6, 0.5), (0.6, 0.9), (0.4, 0.5)])
def test_an_opposite_is_marked_if_the_judge_accepts_the_pair(
    judge: Judge, probability: float, threshold: float
) -> None:
    judgement = judge("Turn on the light.", "Turn off the light.")
    changed = replace(judgement, probability=probability, threshold=threshold)
    assert changed.same == (probability >= threshold) == (f"on | off{UNHEEDED}" in str(changed))
    assert "above" not in UNHEEDED, "a probability below .5 may reach the threshold"


TWO = [SAME, SWAPPED]


@pytest.mark.parametrize(
    ("pairs", "labels", "options", "message"),
    [
        ([SAME], [1], {}, "both must occur"),
        (TWO, [1, 2], {}, "neither 0 nor 1"),
        (TWO, [1], {}, "one for each pair"),
        (["ab"], [1], {}, "pair 0, .* is not a pair of sentences"),
        ([SAME, ("a",)], [1, 0], {}, "pair 1, .* is not a pair of sentences"),
        ("ab", [1, 0], {}, "is no list of pairs"),
        (TWO, [1, [0, 1]], {}, "label 1, .* is neither 0 nor 1"),
        (TWO, np.ma.array([1, 0], mask=[False, True]), {}, "label 1"),
        (TWO, [float("nan"), 1], {}, "label 0"),
        *((TWO, [1, 0], {"pull": value}, "pull") for value in (0, -1, float("nan"), 1e-300, "3", True)),
        *((TWO, [1, 0], {"encoder": encoder}, "encode") for encoder in (3, "builtin", Counts)),
        (TWO, [1, 0], {"source": "builtin"}, "source|encode"),
        (TWO, [1, 0], {"about": "mine"}, "about"),
    ],
)
def test_what_no_judge_can_be_fitted_to_is_refused(judge, pairs, labels, options, message: str) -> None:
    with pytest.raises(UserError, match=message):
        Judge.fit(pairs, labels, **({"source": judge.source} | options))


@pytest.mark.parametrize("key", ["mean", "deviation", "weight", "about", "numbers"])
@pytest.mark.parametrize("value", [None, 3, "x", [None], ["1"], [[1.0]], [1e308], [10**400], [], "nothing"])
def test_a_damaged_file_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    record = read_record(JUDGE_FOLDER / "pairs.json")
    repeated = value * len(record[key]) if isinstance(value, list) else value
    changed = {name: part for name, part in record.items() if name != key or value != "nothing"}
    write_record(tmp_path / "own.json", changed | ({} if value == "nothing" else {key: repeated}))
    with pytest.raises(UserError, match=r"own\.json"):
        Judge.load(tmp_path / "own.json")


def test_features_that_hardly_vary_do_not_leave_a_deviation_of_zero(tmp_path: Path) -> None:
    features = np.random.default_rng(0).random((6, len(FEATURES)))
    features[:, 0] = 1 - 1e-8 * features[:, 0]
    Weights.fit(features, np.array([0, 1] * 3), strength=5.0).save(tmp_path / "own.json")
    assert Weights.load(tmp_path / "own.json").deviation[0] == 1


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)
DEEP: dict[str, Any] = {}
for _ in range(300):
    DEEP = {"a": DEEP}


@pytest.mark.parametrize("value", [{1}, float("nan"), "\ud800", CIRCLE, DEEP, {1: 2, "1": 3}, {None: 1}])
def test_what_the_judge_is_about_is_json(judge: Judge, tmp_path: Path, value: Any) -> None:
    weights = replace(judge.weights, about={"x": value})
    with pytest.raises(UserError, match="no JSON"):
        weights.save(tmp_path / "own.json")
    assert not list(tmp_path.iterdir())


def test_a_judge_fitted_on_other_tables_is_refused(judge: Judge, tmp_path: Path, monkeypatch) -> None:
    judge.save(tmp_path / "own.json")
    for place, name in (
        (poles, "TABLES"),
        (poles.known_opposites(), "rows"),
        (facts, "TABLES"),
        (negation, "TABLES"),
        (role_rules, "TABLES"),
    ):
        with monkeypatch.context() as changed, pytest.raises(UserError, match=r"own\.json: .* fit it anew"):
            changed.setattr(place, name, ())
            Weights.load(tmp_path / "own.json")
    assert Weights.load(tmp_path / "own.json").tables == judge.weights.tables


def test_a_file_may_be_called_like_a_judge_in_the_package(judge: Judge, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    replace(judge.weights, about={"mine": 1}).save(Path("pairs"))
    assert Judge.load("./pairs", source=judge.source).weights.about == {"mine": 1}
    assert "data" in Judge.load("pairs", source=judge.source).weights.about


def test_a_threshold_is_kept_in_the_judges_file(tmp_path: Path, monkeypatch) -> None:
    own = Judge.load()
    score = np.random.default_rng(0).random(2000)
    monkeypatch.setattr(Judge, "pairs", lambda self, pairs: [SimpleNamespace(probability=p) for p in score])
    found = own.choose_threshold([SAME] * 2000, score > 0.3, precision=0.98)
    own.save(tmp_path / "own.json")
    kept = Judge.load(tmp_path / "own.json", source=own.source).weights.about["threshold"]
    assert kept == {"precision": 0.98, **found._asdict()} and 0.25 < found.threshold < 0.35
    for precision in (1, 0.2, "x", None):
        with pytest.raises(UserError, match="precision"):
            own.choose_threshold(TWO, [1, 0], precision=precision)
    with pytest.raises(UserError, match="both must occur"):
        own.choose_threshold([SAME], [1])
    with pytest.raises(UserError, match=r"has [01] that say the same"):
        own.choose_threshold([SAME] * 2000, [1] + [0] * 1999)
