"""The role that each word has to its head, for encoders that read a tree from its leaves up.

It is that of the canonical arc between the two (:mod:`parsing.trees.roles`), so that a doctor who is praised
has the role of one whom somebody praised. Where the arc runs the other way, as from the verb of a relative
clause to the noun above it, the child has the role turned round: it has that noun for its patient. Children
without an arc have a role by the kind of their label alone, Stanford's prepositions for instance, and the
rest are conjuncts, function words, or anything else.
"""

from functools import cache

import numpy as np

from parsing.trees.batch import Batch, Int64
from parsing.trees.role_rules import KIND_BITS, ROLE_OF_KIND, ROLES, relation_bits, word_flags
from parsing.trees.roles import canonical_arcs, parents

CHILD_ROLES = (*ROLES, *(f"has {role}" for role in ROLES), "conjunct", "function", "other")


@cache
def _of_labels(relations: tuple[str, ...]) -> tuple[Int64, Int64]:
    """Return the kinds of each relation as bits, and its place in ``CHILD_ROLES``: int64 [R] both."""
    bits = relation_bits(relations)
    names = [next((ROLE_OF_KIND[k] for k in ROLE_OF_KIND if kinds & KIND_BITS[k]), "other") for kinds in bits]
    return bits, np.array([CHILD_ROLES.index(name) for name in names], np.int64)


def child_roles(batch: Batch) -> Int64:
    """Return places in ``CHILD_ROLES``, int64 [N], of the tokens of a batch; a root's says nothing."""
    types, word_N = batch.distinct_words()
    bits, by_label = _of_labels(tuple(batch.relations))
    word, relation = word_flags(types)[word_N], bits[batch.relation]
    arcs = canonical_arcs(batch.head, relation, word, batch.sentence_offsets)
    parent, role = parents(batch.head, batch.sentence_offsets), by_label[batch.relation]
    for child, above, first in ((arcs.head, arcs.dependent, len(ROLES)), (arcs.dependent, arcs.head, 0)):
        ours = np.flatnonzero(parent[child] == above)[::-1]  # of several arcs, the first counts
        role[child[ours]] = arcs.role[ours] + first
    return role
