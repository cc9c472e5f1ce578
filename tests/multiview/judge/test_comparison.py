"""Words and arcs of pairs are compared as a slow way does; opposites are found between two sentences."""

from itertools import combinations, pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from multiview.judge import Judge
from multiview.judge.comparison import Arcs, Comparison, Words
from multiview.judge.facts import Facts, FormTable, PairFacts, WordClass, all_poles, has_judge_poles
from multiview.judge.one_form import DAYS_AND_MONTHS
from parsing.trees.role_rules import ROLE

OPPOSITES = ["enable", "disabled", "good", "bad", "on", "off", "before", "after", "must", "may"]
WORDS = ["cat", "cats", "dog", *OPPOSITES, "two", "2", "three", "Rome", "May", "Monday"]


class Word(NamedTuple):
    """A word of a sentence that is made at random."""

    text: str
    is_content: bool
    sign: int


class Arc(NamedTuple):
    """An arc of such a sentence; head and dependent are positions."""

    role: int
    head: int
    dependent: int


Sentence = tuple[list[Word], list[Arc]]


@st.composite
def sentences(draw: st.DrawFn) -> Sentence:
    sign = st.sampled_from([1, 1, -1])
    words = draw(st.lists(st.builds(Word, st.sampled_from(WORDS), st.booleans(), sign), max_size=7))
    if not words:
        return words, []
    position = st.integers(0, len(words) - 1)
    role = st.sampled_from([ROLE.AGENT, ROLE.AT, ROLE.THAN])
    return words, draw(st.lists(st.builds(Arc, role, position, position), max_size=5))


def facts_of(rows: list[Sentence], forms: FormTable) -> Facts:
    words = [word for row in rows for word in row[0]]
    arcs = [(row[0], arc) for row in rows for arc in row[1]]
    form = forms.add([word.text for word in words])
    heads, dependents = ([row[arc[end]] for row, arc in arcs] for end in (1, 2))
    return Facts(
        word_count=np.array([len(row[0]) for row in rows]),
        form=form,
        is_content=np.array([word.is_content for word in words], bool),
        is_preposition=np.zeros(len(words), bool),
        sign=np.array([word.sign for word in words], np.int64),
        word_class=np.array([forms.forms[number].word_class for number in form], np.int64),
        arc_count=np.array([len(row[1]) for row in rows]),
        role=np.array([arc.role for _, arc in arcs], np.int64),
        head=forms.add([head.text for head in heads]),
        dependent=forms.add([dependent.text for dependent in dependents]),
        head_position=np.array([arc.head for _, arc in arcs], np.int64),
        dependent_position=np.array([arc.dependent for _, arc in arcs], np.int64),
        arc_sign=np.array([a.sign * b.sign for a, b in zip(heads, dependents, strict=True)], np.int64),
        head_sign=np.array([head.sign for head in heads], np.int64),
        negation_count=np.array([sum(word.sign < 0 for word in row[0]) for row in rows]),
    )


class SlowSide:
    """One sentence of one pair, compared with the other word by word and arc by arc."""

    def __init__(self, own: Sentence, forms: FormTable) -> None:
        form_of = {form.text: form for form in forms.forms}
        self.forms = [form_of[word.text] for word in own[0]]
        self.bases = [form.base for form in self.forms]
        self.word_signs = [form.sign * word.sign for form, word in zip(self.forms, own[0], strict=True)]
        is_particle = [form.word_class == WordClass.PARTICLE for form in self.forms]
        self.is_compared = [w.is_content or off for w, off in zip(own[0], is_particle, strict=True)]
        self.is_content = [w.is_content and not off for w, off in zip(own[0], is_particle, strict=True)]
        self.arcs = [(arc.role, self.bases[arc.head], self.bases[arc.dependent]) for arc in own[1]]
        self.arc_signs = [self.word_signs[arc.head] * self.word_signs[arc.dependent] for arc in own[1]]

    def compare(self, other: "SlowSide") -> None:
        self.word_match = matches(self.bases, self.word_signs, other.bases, other.word_signs)
        self.arc_match = matches(self.arcs, self.arc_signs, other.arcs, other.arc_signs)
        self.follows_same = [bigram in other.bigrams() for bigram in self.bigrams()]
        unmatched_there = [arc for arc in other.arcs if arc not in self.arcs]
        arcs = [*zip(self.arcs, self.arc_match, strict=True)]
        self.is_refilled = [not same and arc[:2] in [o[:2] for o in other.arcs] for arc, same in arcs]
        self.is_moved = [not same and arc[2] in [o[2] for o in unmatched_there] for arc, same in arcs]
        self.is_turned = [role == ROLE.THAN and (role, b, a) in other.arcs for role, a, b in self.arcs]
        words = zip(self.is_content, self.word_match, strict=True)
        self.unmatched = [
            form for form, (one, same) in zip(self.forms, words, strict=True) if one and not same
        ]

    def bigrams(self) -> list[tuple[str, str]]:
        return [*pairwise(["", *self.bases])]

    def words_with_poles(self) -> list[dict[str, float]]:
        """Return for each word of which a pole may be opposed its poles, signed."""
        words = zip(self.bases, self.word_signs, self.is_content, self.word_match, strict=True)
        return [
            {pole: np.sign(weight) * sign for pole, weight in all_poles(base).items()}
            for base, sign, is_content, match in words
            if not match and (is_content or has_judge_poles(base))
        ]

    def opposed_and_agreeing(self, other: "SlowSide") -> tuple[int, int]:
        there = {item for poles in other.words_with_poles() for item in poles.items()}
        opposed = sum(same < 0 and one for same, one in zip(self.word_match, self.is_compared, strict=True))
        agreeing = 0
        for poles in self.words_with_poles():
            opposed += any((p, s) not in there and (p, -s) in there for p, s in poles.items())
            agreeing += any((p, s) in there for p, s in poles.items())
        return opposed, agreeing

    def single_words(self) -> list[str]:
        content = [base for base, one in zip(self.bases, self.is_content, strict=True) if one]
        return [base for base in content if content.count(base) == 1]


def matches(keys: list, signs: list[int], other_keys: list, other_signs: list[int]) -> list[int]:
    """Return 1 where the other side has the key and sign, -1 where it has the key alone, else 0."""
    there = [*zip(other_keys, other_signs, strict=True)]
    return [
        1 if (key, sign) in there else -int(key in other_keys) for key, sign in zip(keys, signs, strict=True)
    ]


def slow_moves(a: SlowSide, b: SlowSide) -> tuple[float, int]:
    """Return the share of inversions and the number of breaks."""
    common_b = [base for base in b.single_words() if base in a.single_words()]
    ranks = [common_b.index(base) for base in a.single_words() if base in common_b]
    pairs = [*combinations(ranks, 2)]
    breaks = sum(after != before + 1 for before, after in pairwise([-1, *ranks, len(ranks)]))
    return sum(second < first for first, second in pairs) / max(len(pairs), 1), breaks


def slow_difference(a: SlowSide, b: SlowSide, opposed: int, agreeing: int) -> bool:
    """Tell whether two sentences differ by values alone, as many on each side, or by opposites alone."""

    def is_value(form) -> bool:
        return form.word_class == WordClass.NUMBER or form.text.lower() in DAYS_AND_MONTHS

    values = [sum(map(is_value, side.unmatched)) for side in (a, b)]
    lengths = [len(side.unmatched) for side in (a, b)]
    if values[0] == values[1] > 0 and values == lengths:
        return True
    is_turned = opposed > 0 and not agreeing and slow_moves(a, b)[1] == 0
    return is_turned and sum(lengths) in (0, 2 * opposed)


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(sentences(), sentences()), min_size=1, max_size=4))
def test_pairs_are_compared_as_in_a_slow_way(pairs: list[tuple[Sentence, Sentence]]) -> None:
    forms = FormTable()
    facts = facts_of([row for pair in pairs for row in pair], forms)
    comparison = Comparison(PairFacts(facts, forms, np.arange(2 * len(pairs)).reshape(-1, 2)))
    opposed, agreeing = comparison.opposed_and_agreeing
    inversions, breaks = comparison.moves
    for number, pair in enumerate(pairs):
        a, b = (SlowSide(sentence, forms) for sentence in pair)
        a.compare(b)
        b.compare(a)
        for column, side in enumerate((a, b)):
            words: Words = comparison.words[column]
            arcs: Arcs = comparison.arcs[column]
            of_words, of_arcs = words.of_pair(number), arcs.of_pair(number)
            assert words.match[of_words].tolist() == side.word_match
            assert words.follows_same[of_words].tolist() == side.follows_same
            assert arcs.match[of_arcs].tolist() == side.arc_match
            assert arcs.is_refilled[of_arcs].tolist() == side.is_refilled
            assert arcs.is_moved[of_arcs].tolist() == side.is_moved
            assert arcs.is_turned_comparison[of_arcs].tolist() == side.is_turned
            for word_class in WordClass:
                count = sum(form.word_class == word_class for form in side.unmatched)
                assert comparison.unmatched_of_class(word_class)[column][number] == count
        counts = [a.opposed_and_agreeing(b), b.opposed_and_agreeing(a)]
        turned = max(sum(a.is_turned), sum(b.is_turned))
        expected = min(counts[0][0], counts[1][0]) + turned, max(min(counts[0][1], counts[1][1]) - turned, 0)
        assert (opposed[number], agreeing[number]) == expected
        assert (inversions[number], breaks[number]) == pytest.approx(slow_moves(a, b))
        assert comparison.differ_in_one_thing[number] == slow_difference(a, b, *expected)


@pytest.mark.parametrize(
    "pair",
    [("Turn it on and off.", "Turn it off and on again."), ("It is on.", "Is it off or on?")],
)
def test_a_word_beside_its_opposite_is_no_opposite(judge: Judge, pair: tuple[str, str]) -> None:
    judgement = judge(*pair)
    assert judgement.numbers["opposites"] == 0
    assert {reason.kind for reason in judgement.reasons} <= {"missing"}


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
