"""Compare a parser in reduced precision or on a GPU with fp32 on the CPU: agreement of the trees, speed."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

import numpy as np

from parsing.trees.parsers import ConstituencyParse, DependencyParse

ALTERNATIONS = 3

Parse = TypeVar("Parse")


class Parses(Protocol[Parse]):
    """Any parser."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[Parse]:
        """One parse per sentence."""
        ...


def dependency_agreement(
    ours: Sequence[DependencyParse], reference: Sequence[DependencyParse]
) -> dict[str, float]:
    """In per cent: tokens with the same head, with the same head and relation, sentences with equal trees."""
    heads = [a.heads == b.heads for a, b in zip(ours, reference, strict=True)]
    both = [h & (a.relations == b.relations) for h, a, b in zip(heads, ours, reference, strict=True)]
    return {
        "same_heads": 100 * float(np.concatenate(heads).mean()),
        "same_relations": 100 * float(np.concatenate(both).mean()),
        "same_trees": 100 * float(np.mean([same.all() for same in both])),
    }


def constituency_agreement(
    ours: Sequence[ConstituencyParse], reference: Sequence[ConstituencyParse]
) -> dict[str, float]:
    """In per cent: F1 of labelled spans, words with the same tag, sentences with equal trees."""
    tags = [a.tags == b.tags for a, b in zip(ours, reference, strict=True)]
    pairs = [(_spans(a), _spans(b)) for a, b in zip(ours, reference, strict=True)]
    shared, total = sum(len(a & b) for a, b in pairs), sum(len(a) + len(b) for a, b in pairs)
    same = [t.all() and a == b for t, (a, b) in zip(tags, pairs, strict=True)]
    return {
        "same_spans": 200 * shared / total,
        "same_tags": 100 * float(np.concatenate(tags).mean()),
        "same_trees": 100 * float(np.mean(same)),
    }


def _spans(parse: ConstituencyParse) -> set[tuple[int, int, int]]:
    return set(zip(parse.starts.tolist(), parse.ends.tolist(), parse.labels.tolist(), strict=True))


def compare(
    parser: Parses[Parse],
    reference: Parses[Parse],
    sentences: Sequence[Sequence[str]],
    agreement: Callable[[list[Parse], list[Parse]], dict[str, float]],
    *,
    clock: Callable[[], float] = time.process_time,
) -> dict[str, float]:
    """Measure and print the agreement and the speed ratio by ``clock``.

    The parsers take turns, after one unmeasured pass each.
    """
    values = agreement(parser.parse(sentences), reference.parse(sentences))
    ratios = []
    for _ in range(ALTERNATIONS):
        slow, fast = _seconds(reference, sentences, clock), _seconds(parser, sentences, clock)
        ratios.append(slow / fast)
    listed = ", ".join(f"{name.replace('_', ' ')} {value:.2f} %" for name, value in values.items())
    ratio = statistics.median(ratios)
    print(f"against fp32: {listed}")
    print(f"speed {ratio:.2f} times fp32's ({min(ratios):.2f} to {max(ratios):.2f})")
    return {**values, "speed_ratio": ratio}


def _seconds(parser: Parses[Parse], sentences: Sequence[Sequence[str]], clock: Callable[[], float]) -> float:
    start = clock()
    parser.parse(sentences)
    return clock() - start
