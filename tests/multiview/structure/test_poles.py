"""Opposites agree and disagree as they should, and a negation turns what it is meant for."""

import numpy as np
import pytest

from multiview.folder.reading import TextSource
from multiview.structure.joining import structure_vectors
from multiview.structure.poles import Opposites, known_opposites, signed_spellings

WHOLE = (
    "invaluable unless under inside disclose nevertheless until uncle important inform discover display bless"
)


@pytest.mark.parametrize(
    ("word", "base", "sign"),
    [
        ("unhappier", "happy", -1),
        ("stopped", "stop", 1),
        ("gave", "give", 1),
        ("bigger", "big", 1),
        ("cheaper", "cheap", 1),
        ("non-fat", "fat", -1),
        ("careless", "careful", -1),
        ("uninstalled", "install", -1),
        *((word, word, 1) for word in WHOLE.split()),
    ],
)
def test_words_are_read_as_a_base_and_a_sign(word: str, base: str, sign: int) -> None:
    assert known_opposites().base_and_sign(word) == (base, sign)


@pytest.mark.parametrize(
    ("one", "other", "sign"),
    [
        ("good", "bad", -1),
        ("enable", "disabled", -1),
        ("light", "dark", -1),
        ("light", "heavy", -1),
        ("heavy", "dark", 0),
        ("unhappy", "happier", -1),
        ("man", "woman", 0),
        ("black", "white", 0),
        ("buy", "sell", 0),
        ("teach", "learn", 0),
        ("north", "south", 0),
        ("right", "correct", 1),  # both opposed to incorrect
    ],
)
def test_pairs_are_opposed_and_what_they_share_is_not_a_class(one: str, other: str, sign: int) -> None:
    known = known_opposites()
    assert known.agreement(one, other) == known.agreement(other, one) == sign
    cosine = float(np.prod(signed_spellings([one, other], 1024, known), axis=0).sum())
    assert cosine * sign > 0.1 if sign else abs(cosine) < 0.4


def test_weights_of_a_word_have_length_1() -> None:
    known = known_opposites()
    assert all(
        sum(w**2 for w in known.poles(base).values()) == pytest.approx(1) for base in ("light", "good")
    )
    assert len(known.antonyms) > 1500 and known.antonyms["hot"] >= {"cold"}


def test_another_list_makes_other_opposites(packaged_encoder) -> None:
    own, pair = Opposites([("zig", "zag", "50")]), ["He likes the zig.", "He likes the zag."]
    assert (own.agreement("zigs", "zag"), known_opposites().agreement("zigs", "zag")) == (-1, 0)
    assert own.agreement("hot", "cold") == 0 and own.poles("zag") == {"zig|zag": -1}
    source = TextSource.of(packaged_encoder)
    cosines = [float(np.prod(structure_vectors(source, pair, one), axis=0).sum()) for one in (own, None)]
    assert cosines[0] < cosines[1] - 0.3


@pytest.mark.parametrize(
    ("one", "other", "least", "most"),
    [
        ("The film is good.", "The film is not bad.", 0.2, 1),
        ("The film is good.", "The film is bad.", -1, 0),
        ("The film is good.", "The film isn’t good.", -1, -0.5),
        ("The film isn't unhappy.", "The film is happy.", 0.8, 1),
        ("He is not a young man.", "He is an old man.", 0.3, 1),
        ("Turn on the light.", "Turn off the light.", -1, 0.1),
        ("Enable it.", "Disable it.", -1, 0),
        ("He drinks tea with milk.", "He drinks tea without milk.", -1, 0.6),
        ("Nobody praised the king.", "Everybody praised the king.", -1, 0),
        ("Not all men came.", "All men came.", -1, -0.5),
        ("The king did not come or write.", "The king did not come and he did not write.", 0.3, 1),
        ("Neither the king nor the queen came.", "The king and the queen came.", -1, 0.5),
        ("I don't think it is good.", "I think it is not good.", 0.9, 1),
        ("A man is playing a guitar.", "There is no man playing a guitar.", -1, 0),
        ("He not only sang but danced.", "He sang and danced.", 0.2, 1),
        ("She is older than he.", "He is younger than she.", 0.6, 1),
        ("She is older than he.", "She is younger than he.", -1, 0.3),
        ("She is older than he.", "He is not as old as she.", 0.6, 1),
        ("He has a heavy box.", "He has a dark box.", 0, 0.9),
        ("A sold B to C.", "C bought B from A.", -0.1, 1),
    ],
)
def test_structure_has_signs(packaged_encoder, one: str, other: str, least: float, most: float) -> None:
    a, b = packaged_encoder.structure_vectors([one, other])
    assert least <= float(a @ b) <= most + 1e-5
