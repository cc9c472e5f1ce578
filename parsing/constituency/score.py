"""Labelled bracket scores after EVALB (Sekine & Collins 1997), and tag accuracy.

The rules, which the numbers in model cards follow:

- Function tags are stripped, traces removed, unary chains are one bracket per label (``S::VP`` is two).
- The wrapper (``TOP``, ``ROOT``) is no bracket. The whole sentence's own label is one, as in EVALB.
- Punctuation is deleted before brackets are compared, by the gold tags that EVALB's COLLINS.prm names:
  ``, : . `` ''`` (not hyphens and brackets). Brackets that are empty then vanish.
- Brackets count with multiplicity: precision = matched / predicted, recall = matched / gold, F1 their
  harmonic mean over the whole treebank. ADVP and PRT are different labels (COLLINS.prm equates them).
- Tags are compared at every word, punctuation included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from parsing.trees.brackets import CHAIN, SpanTree

PUNCTUATION = frozenset({",", ":", ".", "``", "''"})
"""Gold tags of the words that bracket scores do not see (EVALB's COLLINS.prm)."""


@dataclass(frozen=True, kw_only=True)
class ConstituencyScores:
    """Scores of a treebank, in per cent."""

    precision: float
    recall: float
    f1: float
    tags: float
    """Words with the gold tag."""
    complete: float
    """Sentences with exactly the gold brackets."""
    sentences: int


def brackets(tree: SpanTree, gold_tags: Iterable[str]) -> Counter[tuple[int, int, str]]:
    """Labelled brackets with multiplicity, over the words that are not punctuation."""
    kept = [0]  # words that are not punctuation before each fencepost
    for tag in gold_tags:
        kept.append(kept[-1] + (tag not in PUNCTUATION))
    return Counter(
        (kept[start], kept[end], label)
        for start, end, chain in tree.spans
        if kept[start] < kept[end] and chain
        for label in chain.split(CHAIN)
    )


def score_trees(gold: Iterable[SpanTree], predicted: Iterable[SpanTree]) -> ConstituencyScores:
    """Compare two treebanks of the same sentences.

    Raises:
        ValueError: they differ in the number of sentences or of words in one.
    """
    matched = in_gold = in_predicted = tags = words = complete = sentences = 0
    for one, other in zip(gold, predicted, strict=True):
        if len(one.words) != len(other.words):
            raise ValueError(f"sentence {sentences + 1}: {len(one.words)} words against {len(other.words)}")
        a, b = brackets(one, one.tags), brackets(other, one.tags)
        matched += (a & b).total()
        in_gold += a.total()
        in_predicted += b.total()
        complete += a == b
        tags += sum(x == y for x, y in zip(one.tags, other.tags, strict=True))
        words += len(one.words)
        sentences += 1
    return ConstituencyScores(
        precision=_percent(matched, in_predicted),
        recall=_percent(matched, in_gold),
        f1=_percent(2 * matched, in_gold + in_predicted),
        tags=_percent(tags, words),
        complete=_percent(complete, sentences),
        sentences=sentences,
    )


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0
