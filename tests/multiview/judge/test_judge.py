"""The judge of pairs: what it says, why, and how it is fitted, saved and refused."""

import pickle
import re
import time
import unicodedata
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from multiview.judge import NUMBERS, Judge, facts
from multiview.judge.__main__ import cli, read_file
from multiview.judge.facts import MAX_WORDS
from multiview.judge.judge import JUDGE_FOLDER, UNHEEDED, read_numbers
from multiview.judge.weights import Weights
from multiview.structure import negation, poles
from parsing.trees import role_rules
from runtime.cli import warn_once
from runtime.errors import UserError
from runtime.files import read_record, write_record

SAME = ("The lawyer praised the doctor.", "The doctor was praised by the lawyer.")
SWAPPED = ("The lawyer praised the doctor.", "The doctor praised the lawyer.")
PEOPLE = ("lawyer", "doctor", "nurse", "king")


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge.load()


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (SWAPPED, "roles: agent of praised: lawyer | doctor"),
        (("How do I enable the camera?", "How do I disable the camera?"), "opposite: enable | disable"),
        (("He bought two hats.", "He bought three hats."), "number: two | three"),
        (("He lived in Rome.", "He lived in Paris."), "name: Rome | Paris"),
        (("The king came.", "The king did not come."), "negation: came | not come"),
        (("The door is unlocked.", "The door is locked."), "negation: unlocked | locked"),
        (("Turn on the light.", "Turn off the light."), "opposite: on | off"),
        (("Switch the camera on.", "Switch the camera off."), "opposite: on | off"),
        (("Turn up the volume.", "Turn down the volume."), "opposite: up | down"),
        (("How do I enable 2FA?", "How do I turn off 2FA?"), "opposite: enable | off"),
        (("Turn up the volume.", "Decrease the volume."), "opposite: up | decrease"),
        (("Eat before the walk.", "Eat after the walk."), "opposite: before | after"),
        (("Call me if it rains.", "Call me unless it rains."), "opposite: if | unless"),
        (("The bag weighs 5 kg.", "The bag weighs 5 g."), "number: 5000 | 5"),
        (("Where is SKU-99182-B?", "Where is SKU-99128-B?"), "number: SKU-99182 | SKU-99128"),
        (("I don t like it.", "I like it."), "negation: not like | like"),
        (("The cat sat.", "The dog sat."), "missing: cat | dog"),
        (("I like tea.", "I like coffee."), "missing: tea | coffee"),
    ],
)
def test_pairs_that_differ_have_a_reason(judge: Judge, pair: tuple[str, str], reason: str) -> None:
    judgement = judge(*pair)
    assert judgement.probability < 0.5
    assert reason in [str(one) for one in judgement.reasons] and reason in str(judgement)
    assert judgement.numbers.keys() == NUMBERS.keys()


@pytest.mark.parametrize(
    "pair",
    [
        SAME,
        ("The film is good.", "The film is not bad."),
        ("Rain", "Rain"),
        ("", ""),
        ("The cat sat.", "A cat sat."),
        ("The dog barked.", "A dog barked."),
        ("He left.", "He has left."),
        ("I'm tired.", "I am tired."),
        ("She sings.", "She sang."),
        ("Turn on the light.", "Turn the light on."),
    ],
)
def test_pairs_that_say_the_same(judge: Judge, pair: tuple[str, str]) -> None:
    judgement = judge(*pair)
    assert judgement.probability > 0.5
    assert {reason.kind for reason in judgement.reasons} <= {"agreeing"}


def test_a_synonym_is_accepted_more_readily_than_an_opposite(judge: Judge) -> None:
    same, other = judge.pairs([("enable 2FA", "turn on 2FA"), ("enable 2FA", "disable 2FA")])
    assert same.probability > 0.5 > other.probability + 0.4


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The cat sat.", "The cat sat."),
        ("The camera should be enabled.", "the  camera should be enabled"),
        ("He came!", ("He", "came", ".")),
        ("I don't know.", "I don’t know."),
        ("The café is open.", unicodedata.normalize("NFD", "The café is open.")),
        ("It is cooperation.", "It is co\u00adoperation."),
        ("It is open.", "It\u200b is open."),
        ("Press on and off.", "Press ‘on’ and “off”."),
    ],
)
def test_a_sentence_says_the_same_as_itself(judge: Judge, a: Any, b: Any) -> None:
    assert judge(a, b).probability == judge(b, a).probability == 1
    assert not judge(a, b).reasons
    assert judge("It is a part.", "It is apart.").probability < 1
    assert [judge(*pair).probability for pair in (("", "Rain"), ("Rain", "!"))] == [0, 0]


def test_a_pair_is_the_same_alone_in_a_batch_and_the_other_way(judge: Judge) -> None:
    pairs = [SAME, SWAPPED, ("Rain", "It rains in two towns."), SAME[::-1]]
    probabilities = [judgement.probability for judgement in judge.pairs(pairs)]
    assert probabilities == pytest.approx([judge(*pair).probability for pair in pairs], abs=1e-5)
    assert probabilities[0] == pytest.approx(probabilities[3], abs=1e-5)
    assert judge.pairs([]) == []
    # A word with its opposite on one side alone, several opposites, a repeated word, another count of words.
    sentences = (
        *("It is on.", "Is it on or off?", "Turn it off and on.", "It is not off.", "Up and down.", ""),
        *(
            "A good man is bad.",
            "Bad men are evil and good.",
            "He is not good and not bad.",
            "Two men, 3 men.",
        ),
        *("The lawyer praised the doctor, the doctor the lawyer.", "In May Anna came to Rome from Rome."),
    )
    every_pair = [(a, b) for a in sentences for b in sentences]
    one_way, other_way = (read_numbers([p[::d] for p in every_pair], judge.source)[1] for d in (1, -1))
    np.testing.assert_allclose(one_way, other_way, atol=1e-6)
    for a, b in (("Turn it on and off.", "Turn it off and on again."), ("It is on.", "Is it off or on?")):
        assert judge(a, b).numbers["opposites"] == 0 and not [
            r for r in judge(a, b).reasons if r.kind != "missing"
        ]
    assert [judgement.probability for judgement in judge.pairs(np.array(pairs))] == probabilities
    tokens = judge(("The", "lawyer", "praised", "the", "doctor", "."), SAME[1])
    assert tokens.probability == pytest.approx(probabilities[0], abs=1e-5)


def test_a_comparison_the_other_way_is_an_opposite(judge: Judge) -> None:
    smaller, same, larger = (
        judge("The effect is smaller than the error.", other)
        for other in (
            "The effect is smaller than the mistake.",
            "The error is larger than the effect.",
            "The effect is larger than the error.",
        )
    )
    assert [judgement.numbers["opposites"] for judgement in (smaller, same, larger)] == [0, 0, 1]
    assert same.probability > 0.5 > larger.probability and not larger.numbers["agreeing"]


def test_numbers_of_a_pair(judge: Judge) -> None:
    pairs = [("The red hat fell.", "The blue hat fell."), SWAPPED, ("Anna met two men.", "Anna met men.")]
    _, rows = read_numbers(pairs, judge.source)
    number = dict(zip(NUMBERS, rows.T, strict=True))
    assert number["words"].tolist() == pytest.approx([2 / 3, 1, (3 / 4 + 1) / 2])
    assert number["moved"].tolist() == pytest.approx([0, 1, 0])
    assert number["missing names"].tolist() == [0, 0, 1]
    assert number["inversions"].tolist() == pytest.approx([0, 1, 0])
    assert number["other words"][1] == 1 > number["worst partner"][0]
    assert number["exchanges"].tolist() == [0, 1, 0]


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


def test_the_judge_in_the_package_knows_its_checks(judge: Judge) -> None:
    assert len(judge.broken_checks()) <= 2


TWO = [SAME, SWAPPED]


@pytest.mark.parametrize(
    ("pairs", "labels", "options", "message"),
    [
        ([SAME], [1], {}, "both must occur"),
        (TWO, [1, 2], {}, "neither 0 nor 1"),
        (TWO, [1], {}, "one for each pair"),
        (["ab"], [1], {}, "pair 0, .* is no two sentences"),
        ([SAME, ("a",)], [1, 0], {}, "pair 1, .* is no two sentences"),
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


def test_numbers_that_hardly_vary_do_not_leave_a_deviation_of_zero(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).random((6, len(NUMBERS)))
    numbers[:, 0] = 1 - 1e-8 * numbers[:, 0]
    Weights.fit(numbers, np.array([0, 1] * 3)).save(tmp_path / "own.json")
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
    for module, name in (
        (poles, "TABLES"),
        (facts, "TABLES"),
        (negation, "PARTICLES"),
        (role_rules, "TABLES"),
    ):
        with monkeypatch.context() as changed, pytest.raises(UserError, match=r"own\.json: .* fit it anew"):
            changed.setattr(module, name, ())
            Weights.load(tmp_path / "own.json")
    assert Weights.load(tmp_path / "own.json").tables == judge.weights.tables


def test_a_file_may_be_called_like_a_judge_in_the_package(judge: Judge, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    replace(judge.weights, about={"mine": 1}).save(Path("pairs"))
    assert Judge.load("./pairs", source=judge.source).weights.about == {"mine": 1}
    assert "data" in Judge.load("pairs", source=judge.source).weights.about


def test_judgements_are_compared_hashed_and_pickled(judge: Judge) -> None:
    judgement = judge(*SWAPPED)
    copy = pickle.loads(pickle.dumps(judgement))
    assert copy == judgement == judge(*SWAPPED) and hash(copy) == hash(judgement)
    assert copy.reasons == judgement.reasons


def test_reasons_of_long_texts_are_few_and_soon_found(judge: Judge) -> None:
    judgement = judge("The film is good. " * 300, "The film is not good. " * 300)
    assert [reason.kind for reason in judgement.reasons].count("negation") == 1
    texts = [" ".join(f"{letter}{n}x" for n in range(8000)) for letter in "ab"]
    judgement = judge(*texts)
    start = time.process_time()
    (missing,) = judgement.reasons
    assert time.process_time() - start < 2 and len(missing.a.split(", ")) == MAX_WORDS


def test_the_command_judges_a_pair_or_a_table(tmp_path: Path, capsys, refusal) -> None:
    assert cli(["A dog barked.", ""]) == 0, "an empty sentence is a sentence"
    capsys.readouterr()
    assert cli([*SWAPPED]) == 0
    assert "roles: agent of praised: lawyer | doctor" in capsys.readouterr().out
    (tmp_path / "pairs.tsv").write_text("\t".join(SAME) + "\n" + "\t".join(SWAPPED) + "\n")
    assert cli([str(tmp_path / "pairs.tsv"), "--judge", "pairs-with-mrpc"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert float(rows[0][0]) > 0.5 > float(rows[1][0]) and rows[1][3].startswith("roles: ")
    for alone in (str(tmp_path / "none.tsv"), "The cat sat. " * 30):
        assert f"{alone}: no such file; to judge two sentences, give both" in refusal(cli, alone)
    (tmp_path / "empty.tsv").touch()
    assert "holds no rows" in refusal(cli, tmp_path / "empty.tsv")
    (tmp_path / "bad.json").write_text("{}")
    assert "bad.json" in refusal(cli, *SAME, "--judge", tmp_path / "bad.json")


@pytest.mark.parametrize(
    ("text", "pairs", "labels"),
    [
        ('He said "no" to it.\tNo.\n', [('He said "no" to it.', "No.")], []),
        ('"He said ""no"" to it."\t"No."\n', [('He said "no" to it.', "No.")], []),
        ("A.\tB.\t1\nC.\tD.\t0\n", [("A.", "B."), ("C.", "D.")], [1, 0]),
        ("sentence1\tsentence2\nA.\tB.\n", [("A.", "B.")], []),
        ("id\tlabel\tsentence2\tsentence1\n7\t1\tB.\tA.\n", [("A.", "B.")], [1]),
        ("A\u2028B.\tC.\n", [("A\u2028B.", "C.")], []),
    ],
)
def test_rows_of_a_file(tmp_path: Path, text: str, pairs: list[tuple[str, str]], labels: list[int]) -> None:
    (tmp_path / "pairs.tsv").write_text(text, encoding="utf-8")
    assert read_file(tmp_path / "pairs.tsv") == (pairs, labels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"The caf\xe9.\tThe cafe.\n", "pairs.tsv:1: not UTF-8"),
        (b"A.\tB.\t1\nC.\tD.\n", "pairs.tsv:2: expected 3 cells"),
        (b"A.\tB.\tyes\n", "pairs.tsv:1: expected a label 0 or 1, found 'yes'"),
        (b"A.\t\n", "pairs.tsv:1: expected 2 cells"),
        (b"A.\n", "pairs.tsv:1: expected two sentences"),
        (b"sentence1\tsentence2\n", "holds no rows"),
        (b"sentence1\tsentence2\tsentence1\nA\tB\tC\n", "two columns are called sentence1"),
    ],
)
def test_a_file_without_pairs_is_refused(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "pairs.tsv").write_bytes(text)
    with pytest.raises(UserError, match=re.escape(message)):
        read_file(tmp_path / "pairs.tsv")


def test_labels_are_compared_and_control_characters_are_not_printed(tmp_path: Path, capsys) -> None:
    rows = [(*SAME, "1"), (*SWAPPED, "0"), ("The \x1b[31mcat\u2028sat.", "A dog ran.", "1")]
    (tmp_path / "pairs.tsv").write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")
    assert cli([str(tmp_path / "pairs.tsv")]) == 0
    printed = capsys.readouterr().out
    assert len(printed.split("\n")) == 5 and not {"\x1b", "\u2028"} & {*printed}
    assert "accuracy 66.7, area under the ROC curve" in printed and "of 3 pairs" in printed
    assert cli(["The \x1b[31mcat sat.", "A \x1b[31mdog\u2028sat."]) == 0
    assert not {"\x1b", "\u2028"} & {*capsys.readouterr().out}


def test_a_threshold_is_kept_in_the_judges_file(tmp_path: Path, monkeypatch) -> None:
    own = Judge.load()
    score = np.random.default_rng(0).random(2000)
    monkeypatch.setattr(Judge, "pairs", lambda self, pairs: [SimpleNamespace(probability=p) for p in score])
    found = own.threshold([SAME] * 2000, score > 0.3, precision=0.98)
    own.save(tmp_path / "own.json")
    kept = Judge.load(tmp_path / "own.json", source=own.source).weights.about["threshold"]
    assert kept == {"precision": 0.98, **found._asdict()} and 0.25 < found.threshold < 0.35
    for precision in (1, 0.2, "x", None):
        with pytest.raises(UserError, match="precision"):
            own.threshold(TWO, [1, 0], precision=precision)
    with pytest.raises(UserError, match="both must occur"):
        own.threshold([SAME], [1])
    with pytest.raises(UserError, match=r"[01] pairs that say the same"):
        own.threshold([SAME] * 2000, [1] + [0] * 1999)


def test_the_command_draws_precision_against_hit_rate(tmp_path: Path, capsys, refusal) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "pairs.tsv"
    file.write_text("".join("\t".join(row) + "\n" for row in ((*SAME, "1"), (*SWAPPED, "0"))))
    assert cli([str(file), "--labels"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["hit", "rate", "precision"] and len(lines) == 12
    assert lines[1].split()[:2] == ["100.0%", "100.0%"]
    assert (tmp_path / "pairs.tsv.png").read_bytes()[:4] == b"\x89PNG" and lines[-1] == f"{file}.png"
    file.write_text("\t".join(SAME) + "\n")
    assert "--labels needs labels, 0 and 1" in refusal(cli, file, "--labels")


PINNED = {
    SAME: 0.9990,
    SWAPPED: 0.0340,
    ("How do I enable 2FA?", "How do I disable 2FA?"): 0.0103,
    ("How do I enable 2FA?", "How do I turn on 2FA?"): 0.9384,
    ("The parcel has arrived.", "The parcel has not arrived."): 0.0039,
    ("He bought two hats in Rome.", "He bought three hats in Rome."): 0.2153,
    ("She flew from Rome to Paris.", "She flew from Paris to Rome."): 0.0534,
    ("A red hat on a blue coat.", "A blue hat on a red coat."): 0.0113,
    ("Turn it on and off.", "Turn it on and off again."): 0.9098,
    ("She sings.", "She sang."): 0.8264,
}
"""Probabilities of the judge in the package: they hang on weights, classes of words and the parser."""


def test_probabilities_of_ten_pairs(judge: Judge) -> None:
    probabilities = [judgement.probability for judgement in judge.pairs(list(PINNED))]
    assert probabilities == pytest.approx([*PINNED.values()], abs=1e-3)


FILLER = "The committee met in the old town hall on Monday and read the minutes of the last meeting aloud. "
DIFFERING = [
    ("The lawyer praised the doctor.", "The doctor praised the lawyer."),
    ("The council approved the plan.", "The council did not approve the plan."),
    ("They flew to Paris.", "They flew to London."),
]


@pytest.mark.parametrize(("before", "after"), [(4, 0), (0, 6), (20, 20), (45, 0)])
def test_a_difference_is_found_in_long_texts(judge: Judge, before: int, after: int) -> None:
    long_pairs = [tuple(FILLER * before + text + " " + FILLER * after for text in pair) for pair in DIFFERING]
    for pair, judgement, of_sentences in zip(
        DIFFERING, judge.pairs(long_pairs), judge.pairs(DIFFERING), strict=True
    ):
        assert (
            judgement.probability == pytest.approx(of_sentences.probability, abs=1e-5)
            and judgement.probability < 0.5
        )
        assert judgement.a.startswith(FILLER) or pair[0] in judgement.a
        assert str(judgement.reasons) == str(of_sentences.reasons)


def test_long_texts_of_the_same_sentences_or_with_one_more(judge: Judge) -> None:
    other = "The door is open. "
    text = FILLER * 9
    assert judge(text + other, other + text).probability > 0.5  # in another order
    assert judge(text, text + other).probability < 0.5 > judge(text + other, text).probability
    tokens = tuple(text.split())
    assert judge((*tokens, "Go", "on", "."), (*tokens, "Stop", ".")).probability < 0.5
    assert judge(text, text.replace("town", "to\u00adwn").upper()).probability == 1


def test_that_roles_are_not_compared_in_long_texts_is_said(judge: Judge, caplog) -> None:
    warn_once.cache_clear()
    one = "The lawyer praised the doctor and " * 30
    assert judge(one + "left.", one.replace("doctor", "nurse") + "left.").probability <= 1
    assert "two texts differ over more than 120 words" in caplog.text
