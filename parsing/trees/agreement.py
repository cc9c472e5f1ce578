"""How far two parsers agree: one on a GPU, and the same on the CPU."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parsing.trees.parsers import ConstituencyParse, DependencyParse


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
