"""How alike two sentences are: graded, by rule for some, and beside the probability."""

import pickle
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks.similarity import halves
from multiview.judge import Judge
from multiview.judge.__main__ import cli
from multiview.judge.similarity import SimilarityWeights, weights_of
from runtime.errors import UserError
from runtime.files import read_record, write_record
from tests.fixtures.pairs import SAME, SWAPPED
from tools.fit_similarity import Graded, fit

RISING = (
    ("The lawyer praised the doctor.", "It rained in the mountains all night."),
    ("The lawyer praised the doctor.", "The attorney sued the hospital."),
    ("The lawyer praised the doctor.", "The attorney praised the physician."),
    ("The lawyer praised the doctor.", "The lawyer praised the doctor."),
)


@pytest.mark.parametrize("name", ["free", "rated"])
def test_it_is_graded(judge: Judge, name: str) -> None:
    judge = Judge.load(similarity=name, source=judge.source)
    similarities = [judgement.similarity for judgement in judge.pairs(RISING)]
    assert all(less < more for less, more in pairwise(similarities)) and similarities[-1] == 1
    assert similarities[0] < 0.2
    assert judge.similarity(*SWAPPED) < judge.similarity(*SAME)


def test_it_is_the_same_alone_in_a_batch_and_the_other_way(judge: Judge) -> None:
    pairs = [*RISING, SAME, SWAPPED, ("Rain", "It rains in two towns.")]
    together = [judgement.similarity for judgement in judge.pairs(pairs)]
    assert together == pytest.approx([judge.similarity(*pair) for pair in pairs], abs=1e-5)
    assert together == pytest.approx([judge.similarity(*pair[::-1]) for pair in pairs], abs=1e-5)
    assert [j.similarity for j in judge.pairs(pairs[::-1])] == pytest.approx(together[::-1], abs=1e-5)


def test_empty_and_foreign_texts(judge: Judge) -> None:
    assert [judge.similarity(*pair) for pair in (("", "Rain"), ("Rain", "!"), ("", ""))] == [0, 0, 1]
    foreign = judge.pairs([("Der Hund schläft.", "Der Hund schläft!"), ("猫が寝ている", "Der Hund schläft.")])
    assert foreign[0].similarity == 1 and 0 <= foreign[1].similarity < 0.5


def test_what_long_texts_share_is_alike(judge: Judge) -> None:
    shared = "The committee met in the town hall and read the minutes aloud. " * 12
    short = judge.similarity("He flew to Paris.", "It rained in the mountains.")
    long = judge.similarity(f"{shared}He flew to Paris.", f"{shared}It rained in the mountains.")
    assert short < 0.4 and 0.9 < long < 1


def test_slots_say_where_sentences_are_alike(judge: Judge) -> None:
    slots = judge("The lawyer praised the doctor.", "The lawyer praised the garden.").slots
    assert slots["agent"] == pytest.approx(1, abs=1e-6) and slots["patient"] < 0.5
    assert "adverb" not in slots


def test_an_encoder_beside_and_the_weights_of_the_judge_change_nothing(judge: Judge) -> None:
    class Beside:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.ones((len(texts), 2))

    for other in (Judge.load("pairs-with-mrpc", source=judge.source), Judge(judge.weights, Beside())):
        assert other.similarity(*SWAPPED) == pytest.approx(judge.similarity(*SWAPPED), abs=1e-6)


def test_judgements_travel_with_their_similarity(judge: Judge) -> None:
    judgement = judge(*SWAPPED)
    assert pickle.loads(pickle.dumps(judgement)).similarity == judgement.similarity
    assert len(pickle.dumps(judgement)) < 100_000


def test_weights_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.json"):
        Judge.load(similarity=tmp_path / "none.json")
    file = tmp_path / "weights.json"
    weights_of("free").save(file)
    assert Judge.load(similarity=file).similarity_weights == weights_of("free")
    write_record(file, {**read_record(file), "numbers": ["words"]})
    with pytest.raises(UserError, match="fit it anew"):
        Judge.load(similarity=file)


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str], judge: Judge) -> None:
    assert cli([*SWAPPED, "--similarity"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{judge.similarity(*SWAPPED):.2f} alike; ") and "  agent " in "\n".join(rest)
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{a}\t{b}\n" for a, b in RISING), encoding="utf-8")
    assert cli([str(file), "--similarity", "--similarity-weights", "rated"]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    rated = Judge.load(similarity="rated", source=judge.source)
    assert [float(row[0]) for row in rows] == pytest.approx(
        [rated.similarity(*pair) for pair in RISING], abs=1e-4
    )
    assert [row[2] for row in rows] == [a for a, _ in RISING]


def test_halves_of_plain_sentences_share_no_verb() -> None:
    parted = [("the a v1 the b", "the a v2 the b"), ("the a v3 the b", "the c v4 the d")] * 3
    chain = [(f"the a v{n} the b", f"the a v{n + 1} the b") for n in range(8)]
    for pairs in (parted, chain):
        half = halves(pairs)
        verbs = [
            {text.split()[2] for pair, own in zip(pairs, half, strict=True) if own == side for text in pair}
            for side in (0, 1)
        ]
        assert min(map(len, verbs)) >= 2 and not verbs[0] & verbs[1]
    assert halves(chain).count(-1) == 1


def test_a_fit_meets_the_grades_of_its_pairs() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3000, len(SimilarityWeights.required_features)))
    grades = 1 / (1 + np.exp(-features[:, 0] - features[:, 1]))
    parts = [Graded(features[:2900], grades[:2900], 1.0), Graded(features[:50], 1 - grades[:50], 1e-6)]
    fitted = fit(parts, 1.0)
    assert np.abs(fitted.probabilities(features[2900:]) - grades[2900:]).mean() < 0.1
