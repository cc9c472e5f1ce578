"""Finds groups of sentences that say the same: cosines choose pairs, and the judge decides about each.

Legend of dimension suffixes: N distinct texts, D embedding size.
"""

from collections.abc import Iterable
from typing import Any

from corpora.sentences import describe_value, read_elements
from multiview.judge import Judge
from multiview.libraries.arrays import check_encoder, check_vectors
from multiview.model import MultiViewEncoder
from multiview.search import semantic_search
from runtime.errors import UserError, check_count, is_number

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
    """Return groups of texts that say the same, each a list of ascending indices of ``texts``.

    By the judge, every text of a group says the same as the first text of the group, so that a chain of
    similar texts does not drift away from it. Only pairs of similar texts are judged, so some duplicates are
    not found.

    >>> from multiview.duplicates import duplicates
    >>> duplicates(["How do I enable 2FA?", "How do I disable 2FA?", "How can I enable 2FA?"])
    [[0, 2]]

    Args:
        texts: The sentences.
        judge: Decides whether two texts say the same; by default the judge in the package.
        encoder: An object with ``encode(list of str) -> [N, D]``, whose cosines choose the pairs that are
            judged; by default ``builtin``.
        neighbours: The number of nearest texts with which each text is judged.
        cosine: The smallest cosine of a pair that is judged. The judge was fitted to sentences with words in
            common, so it is not reliable for others.
        threshold: The smallest probability of two texts that say the same; by default the threshold of the
            judge, which is 0.5 unless :meth:`Judge.choose_threshold` found another.

    Raises UserError if an argument has a wrong type or value.
    """
    text_list = read_elements(texts, "duplicates", "texts")
    for row, text in enumerate(text_list):
        if not isinstance(text, str):
            raise UserError(f"duplicates: text {row}, {describe_value(text)}, is no string")
    neighbours = check_count(neighbours, "duplicates: neighbours")
    if not is_number(cosine, -1, 1):
        raise UserError(f"duplicates: cosine: {describe_value(cosine)} is not from -1 to 1")
    if threshold is not None and (not is_number(threshold, 0, 1) or threshold == 1):
        raise UserError(f"duplicates: threshold: {describe_value(threshold)} is not in [0, 1)")
    if judge is not None and not callable(getattr(judge, "pairs", None)):
        raise UserError(f"duplicates: judge: {describe_value(judge)} is no judge; Judge.load reads a file")
    if encoder is not None:
        check_encoder(encoder, "duplicates")
    distinct = list(dict.fromkeys(text_list))  # else copies of a text would be all its neighbours
    first_of = list(range(len(distinct)))
    if len(distinct) > 1:
        encoder = encoder or MultiViewEncoder.load("builtin", "cpu", structure=0)
        vectors_ND = check_vectors(encoder.encode(distinct), distinct, type(encoder).__name__)[0]
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
    """Return for each text the index of the first text of its group, its own if it is the first.

    A text may be similar to a member of a group but not to its first text. That pair, which is not in
    ``wanted``, is then judged as well.
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
