"""Finds the sentences that say the same among many: near ones by cosine, and the judge decides.

Legend of dimension suffixes: N distinct texts, D embedding size.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from corpora.sentences import describe_value, read_elements
from multiview.judge import Judge
from multiview.model import MultiViewEncoder
from multiview.search import semantic_search
from runtime.errors import UserError, check_count

Pair = tuple[int, int]


def duplicates(
    texts: Iterable[str],
    *,
    judge: Judge | None = None,
    encoder: Any = None,
    neighbours: int = 10,
    cosine: float = 0.5,
    threshold: float | None = None,
) -> list[list[int]]:
    """Return groups of rows that say the same, the rows of each in their order.

    Every row of a group says the same as its first by the judge, so that a chain of near texts does not lead
    away from it. Only pairs of near texts are judged, so some duplicates are not found. A UserError names the
    argument that is wrong.

    Args:
        texts: The sentences, all in memory.
        judge: Decides; by default the one in the package.
        encoder: Finds the near ones by ``encode(list of str) -> [N, D]``; by default `builtin`'s meaning.
        neighbours: How many near texts of each are judged.
        cosine: The least cosine of two that are judged: the judge knows sentences with words in common.
        threshold: The probability from which on two say the same; by default the judge's own, which is 0.5
            unless :meth:`Judge.threshold` found another.
    """
    text_list = read_elements(texts, "duplicates", "texts")
    for row, text in enumerate(text_list):
        if not isinstance(text, str):
            raise UserError(f"duplicates: text {row}, {describe_value(text)}, is no string")
    neighbours = check_count(neighbours, "duplicates: neighbours")
    if not isinstance(cosine, float | int) or not -1 <= cosine <= 1:
        raise UserError(f"duplicates: cosine: {describe_value(cosine)} is not from -1 to 1")
    if threshold is not None and (not isinstance(threshold, float | int) or not 0 <= threshold < 1):
        raise UserError(f"duplicates: threshold: {describe_value(threshold)} is not in [0, 1)")
    distinct = list(dict.fromkeys(text_list))  # many copies of one would leave no room among its neighbours
    first_of = list(range(len(distinct)))
    if len(distinct) > 1:
        encoder = encoder or MultiViewEncoder.load("builtin", "cpu", structure=0)
        vectors_ND = np.asarray(encoder.encode(distinct))
        hits = semantic_search(vectors_ND, vectors_ND, top_k=neighbours + 1)
        near = {
            (min(n, hit.corpus_id), max(n, hit.corpus_id))
            for n, row in enumerate(hits)
            for hit in row
            if hit.score >= cosine
        }
        first_of = _first_of_each(
            distinct, sorted(pair for pair in near if len({*pair}) > 1), judge, threshold
        )
    number = {text: n for n, text in enumerate(distinct)}
    groups: dict[int, list[int]] = {}
    for row, text in enumerate(text_list):
        groups.setdefault(first_of[number[text]], []).append(row)
    return [rows for rows in groups.values() if len(rows) > 1]


def _first_of_each(
    texts: list[str], wanted: list[Pair], judge: Judge | None, threshold: float | None
) -> list[int]:
    """Return the first text of each text's group, its own number where it says the same as none before it.

    Two texts may be near to a third and not to each other: what is near to a member is judged with its first.
    """
    judge = judge or Judge.load()
    says_same: dict[Pair, bool] = {}
    while True:
        judgements = judge.pairs([(texts[a], texts[b]) for a, b in wanted])
        says_same |= {
            pair: judgement.same if threshold is None else judgement.probability >= threshold
            for pair, judgement in zip(wanted, judgements, strict=True)
        }
        accepted: dict[int, list[int]] = {}
        for (a, b), is_same in says_same.items():
            if is_same:
                accepted.setdefault(b, []).append(a)
        first_of: list[int] = []
        for b in range(len(texts)):
            firsts = [a for a in accepted.get(b, ()) if first_of[a] == a]
            first_of.append(min(firsts, default=b))
        unjudged = {
            (first_of[a], b)
            for b, others in accepted.items()
            for a in others
            if first_of[b] == b and (first_of[a], b) not in says_same
        }
        if not unjudged:
            return first_of
        wanted = sorted(unjudged)
