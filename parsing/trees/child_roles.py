"""The role of each word to its head in the tree, for encoders that read a tree from its leaves up.

It is the role of the canonical arc between the word and its head (:mod:`parsing.trees.roles`). Therefore the
doctor is the patient both in "the doctor was praised" and in "she praised the doctor". If the arc starts at
the word, as from the verb of a relative clause to the noun above it, the word's role is "has" and the role of
the arc, such as "has patient". If there is no arc, the kind of the word's relation decides, and the role may
also be "conjunct", "function" or "other".
"""

from functools import cache

import numpy as np

from parsing.trees.batch import Batch, Int64
from parsing.trees.role_rules import ROLE_OF_RELATION, ROLES, relation_bits, word_flags
from parsing.trees.roles import canonical_arcs, parents

CHILD_ROLES = (*ROLES, *(f"has {role}" for role in ROLES), "conjunct", "function", "other")


@cache
def _relation_tables(relations: tuple[str, ...]) -> tuple[Int64, Int64]:
    """Return the kinds of each relation as bits, and its index in ``CHILD_ROLES``: int64 [R] both."""
    roles = [ROLE_OF_RELATION.get(relation, "other") for relation in relations]
    return relation_bits(relations), np.array([CHILD_ROLES.index(role) for role in roles], np.int64)


def child_roles(batch: Batch) -> Int64:
    """Return each token's role as an index in ``CHILD_ROLES``, int64 [N]; that of a root means nothing."""
    types, word_N = batch.distinct_words()
    kinds_R, role_R = _relation_tables(tuple(batch.relations))
    kinds_N, flags_N = kinds_R[batch.relation], word_flags(types)[word_N]
    arcs = canonical_arcs(batch.head, kinds_N, flags_N, batch.sentence_offsets)
    parent_N = parents(batch.head, batch.sentence_offsets)
    role_N = role_R[batch.relation]
    for child, parent, offset in ((arcs.head, arcs.dependent, len(ROLES)), (arcs.dependent, arcs.head, 0)):
        # Reversed, so that the first arc of a child is written last.
        tree_arcs = np.flatnonzero(parent_N[child] == parent)[::-1]
        role_N[child[tree_arcs]] = arcs.role[tree_arcs] + offset
    return role_N
