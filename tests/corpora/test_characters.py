"""Characters of one word: what reads the same, what stays, and where it stands in the text."""

import sys
from unicodedata import decomposition, normalize

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpora.characters import index_of_words, normalise_text, original_words

FAMILY, ENGLAND, HEART = "👩\u200d👧", "🏴\U000e0067\U000e0062\U000e007f", "❤\ufe0f\u200d🔥"
PERSIAN, CONJUNCT = "می\u200cخواهم", "क\u094d\u200dष"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (normalize("NFD", "Việt 한국어 é x̄"), "Việt 한국어 é x̄"),
        ("\ufeffa\u200bb\u00adc\u200e\u202ad\u2066e\u2060f\ufeff", "abcdef"),
        ("ca\u200dn\u200ct", "cant"),
        ("e\u200b\u0301", "é"),
        ("don’t donʼt don‘t don´t it‛s Hawaiʻi", "don't don't don't don't it's Hawai'i"),
        ("don′t don＇t don`t IT`S n`t", "don't don't don't IT'S n't"),
        ("`s", "'s"),
        ("``a'' `b' 5`6 `s", "``a'' `b' 5`6 `s"),
        ("well‑known well‐known", "well-known well-known"),
        ("ﬁrst ﬂight oﬃce baﬄe oﬀ ﬅ ﬆ", "first flight office baffle off st st"),
        ("m² ½ Ⅷ … ，“a” – ĳ æ", "m² ½ Ⅷ … ，“a” – ĳ æ"),
        (f"{FAMILY} {ENGLAND} {HEART} ☎\ufe0e", f"{FAMILY} {ENGLAND} {HEART.replace('️', '')} ☎"),
        ("a\U000e0061\U000e0062", "a"),
        (f"{PERSIAN} {CONJUNCT} می\u200c", f"{PERSIAN} {CONJUNCT} می"),
        ("\u200d", "\u200d"),
        ("\U000e0067\U000e007f", "\U000e0067\U000e007f"),
        ("\u200b\u200c\u2060", ""),
        ("a\u00a0b\u2028c\t\x07", "a\u00a0b\u2028c\t\x07"),
    ],
)
def test_what_reads_the_same_is_the_same(text: str, expected: str) -> None:
    assert normalise_text(text) == expected == normalise_text(expected)


ODD = st.text("asﬁ.'` \u0301\u0308\u0327\u00ad\u200b\u200c\u200d\ufe0f’👩❤ᄒ\u1161\u11abکم\u0344\ufeff\ud800")


@given(ODD | st.text())
@example("a \u0301b’")
def test_words_come_back_as_they_are_written(text: str) -> None:
    plain_text = normalise_text(text)
    assert normalise_text(plain_text) == plain_text
    words, end = original_words(text, plain_text.split()), 0
    assert [normalise_text(word) for word in words] == plain_text.split()
    for word in words:  # in order, one after another
        end = text.index(word, end) + len(word)


def test_every_character_that_can_be_composed_is_found_in_the_text() -> None:
    for point in range(sys.maxunicode + 1):
        parts = decomposition(chr(point)).split()
        if len(parts) == 2 and "<" not in parts[0]:
            whole = "".join(chr(int(part, 16)) for part in parts)
            assert original_words(f"’{whole}", [normalise_text(f"’{whole}")]) == [f"’{whole}"]


def test_a_plain_word_has_its_own_place() -> None:
    places = index_of_words(["n’t", "'s", "’s", "\u200b"], first=1)
    assert (places["n't"], places["'s"], places["’s"], places.get("")) == (1, 2, 3, None)
