"""The same words in other places: each sentence of a batch with two of its words exchanged.

"The lawyer praised the doctor" becomes "The doctor praised the lawyer": a negative that a bag of words cannot
tell from the sentence. By the canonical roles of the cached dependency tree, these words may be exchanged:

- two fillers of one head in different roles (who acts and what is acted on, a recipient, a place);
- the attributes, the numbers or the owners of two heads;
- what is compared, two events in time, an owner and what is owned: both ends of one arc.

The exchanged sentence keeps the trees, and with them the plans of all views; only its tokens differ. One
exchange is drawn for each sentence in each epoch.

Legend of dimension suffixes: B sentences, N tokens, M arcs, C exchanges.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parsing.trees.batch import Batch
from parsing.trees.roles import ROLES, Arcs, canonical_arcs, relation_bits, word_flags

Int = NDArray[np.int64]


def _places(*roles: str) -> list[int]:
    return [ROLES.index(role) for role in roles]


FILLERS = _places("agent", "patient", "to", "from", "at")
PROPERTIES = _places("attr", "num", "poss")
ENDS = _places("than", "before", "poss")


class WordFlags:
    """In place of a vocabulary, to read what the rules of roles ask of each token from a cache."""

    key = "flags of words"

    def lookup(self, types: list[str]) -> NDArray[np.int32]:
        """The flags of each type: int32 [len(types)]."""
        return word_flags(types).astype(np.int32)


def exchanges(arcs: Arcs, token: NDArray[np.integer], sentence: Int) -> tuple[Int, Int]:
    """Pairs of tokens whose words may be exchanged, two arrays [C].

    Args:
        arcs: of the batch.
        token: [N], a word's number; equal words are not exchanged.
        sentence: [N], each token's sentence.
    """
    role, head, dependent = arcs.role, arcs.head, arcs.dependent
    filler, end = (np.flatnonzero(np.isin(role, roles)) for roles in (FILLERS, ENDS))
    one, other = _pairs_within(head[filler], filler)
    differ = role[one] != role[other]
    firsts, seconds = [dependent[one[differ]], head[end]], [dependent[other[differ]], dependent[end]]
    for kind in PROPERTIES:
        alike = np.flatnonzero(role == kind)
        one, other = _pairs_within(sentence[head[alike]], alike)
        differ = head[one] != head[other]
        firsts.append(dependent[one[differ]])
        seconds.append(dependent[other[differ]])
    first, second = np.concatenate(firsts), np.concatenate(seconds)
    useful = token[first] != token[second]
    return first[useful], second[useful]


def _pairs_within(group: Int, members: Int) -> tuple[Int, Int]:
    """All pairs of members of the same group, two arrays."""
    order = np.argsort(group, kind="stable")
    ordered, places = group[order], np.arange(len(group))
    more = np.searchsorted(ordered, ordered, side="right") - places - 1
    first = np.repeat(places, more)
    second = first + 1 + np.arange(len(first)) - np.repeat(np.cumsum(more) - more, more)
    return members[order[first]], members[order[second]]


def exchange(
    batch: Batch, flags: NDArray[np.integer], draw: NDArray[np.float64]
) -> tuple[Int, NDArray[np.bool_]]:
    """The token whose word stands at each place after an exchange, [N], and which sentences have one, [B].

    Args:
        batch: trees with dependencies.
        flags: [N], of :class:`WordFlags`.
        draw: [B], from 0 to below 1: which of a sentence's exchanges, in the order of their tokens.
    """
    relation = relation_bits(batch.relations)[batch.relation]
    arcs = canonical_arcs(batch.head, relation, flags.astype(np.int64), batch.sentence_offsets)
    size = len(batch.token)
    sentence = np.repeat(np.arange(len(batch)), np.diff(batch.sentence_offsets))
    one, other = exchanges(arcs, batch.token, sentence)
    lower, upper = np.divmod(np.unique(np.minimum(one, other) * size + np.maximum(one, other)), size)
    count = np.bincount(sentence[lower], minlength=len(batch))
    found = count > 0
    chosen = (np.cumsum(count) - count + (draw * count).astype(np.int64))[found]
    place = np.arange(size)
    place[lower[chosen]], place[upper[chosen]] = upper[chosen], lower[chosen]
    return place, found
