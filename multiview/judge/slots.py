"""Compares sentences slot by slot (who, whom, what is done, where, their attributes), for graded similarity.

The vector of a slot is the sum of the vectors of its words, at length 1. The vector of a word is its word
vector, to which the hashed spelling with poles is concatenated, because opposites have nearly the same word
vectors. Two sentences are compared in a slot by the cosine.

Legend of dimension suffixes: n pairs, N pairs of a chunk, S sentences, T their words, M their arcs, U forms,
E size of a form's vector, L slots.
"""

import numpy as np
from scipy.sparse import csr_array

from multiview.judge.facts import Facts, Ints, PairFacts
from multiview.judge.pair_features import FormVectors
from multiview.judge.weights import SLOTS, Floats
from multiview.libraries.arrays import unit_rows
from multiview.structure.poles import known_opposites, signed_spellings
from multiview.words.table import WordTable
from parsing.trees.role_rules import ROLE

_SLOT = {name: index for index, name in enumerate(SLOTS)}
SPELLING_SHARE = 0.3
"""The share of spelling, with poles, in the squared length of a word's vector."""
SPELLING_WIDTH = 256
"""The size of the hashed spelling."""
PAIRS_AT_A_TIME = 2048
"""The number of pairs whose slots are compared at a time, to bound the memory."""


def slot_cosines(pairs: PairFacts, table: WordTable) -> tuple[Floats, Floats]:
    """Return the cosine of each slot, [n, L], and one weighted by :data:`SLOTS` over all slots, [n].

    A slot that one of the two sentences does not fill has 0.
    """
    texts = [form.text for form in pairs.forms.forms]
    word_UE = unit_rows(table.rows(0, table.vocabulary.lookup(texts)).float().cpu().numpy())
    spelling_UE = unit_rows(signed_spellings(texts, SPELLING_WIDTH, known_opposites()))
    vector_UE: FormVectors = np.hstack(
        [word_UE * (1 - SPELLING_SHARE) ** 0.5, spelling_UE * SPELLING_SHARE**0.5], dtype=np.float32
    )
    words = _words_in_slots(pairs.facts, len(texts))
    weight_L = np.array([*SLOTS.values()])
    cosines, lengths = [np.empty((0, len(SLOTS)))], [np.empty(0)]
    for first in range(0, len(pairs.row_n2), PAIRS_AT_A_TIME):
        sentence_2N = pairs.row_n2[first : first + PAIRS_AT_A_TIME].T
        row_2NL = sentence_2N[:, :, None] * len(SLOTS) + np.arange(len(SLOTS))
        sums = [unit_rows(words[row_NL.ravel()] @ vector_UE) for row_NL in row_2NL]
        cosines.append(np.einsum("me,me->m", *sums).reshape(-1, len(SLOTS)).astype(np.float64))
        filled = [side.any(axis=1).reshape(-1, len(SLOTS)) @ weight_L for side in sums]
        lengths.append(np.sqrt(np.multiply(*filled)))
    cosine_nL = np.concatenate(cosines)
    return cosine_nL, cosine_nL @ weight_L / np.maximum(np.concatenate(lengths), 1e-9)


def _words_in_slots(facts: Facts, form_count: int) -> csr_array:
    """Return the sum of the signs of each content word in each slot of each sentence, [S * L, U]."""
    word_T = np.flatnonzero(facts.is_content)
    form_T = facts.form[word_T]
    sentence_T = np.repeat(np.arange(len(facts.word_count)), facts.word_count)[word_T]
    slot_T = _slot_of_each(sentence_T * form_count + form_T, facts, form_count)
    sign_T = facts.sign[word_T].astype(np.float32)
    shape = (len(facts.word_count) * len(SLOTS), form_count)
    return csr_array((sign_T, (sentence_T * len(SLOTS) + slot_T, form_T)), shape)


def _slot_of_each(word_T: Ints, facts: Facts, form_count: int) -> Ints:
    """Return the number of each word's slot, [T].

    A word that fits several slots goes to the first of :data:`SLOTS`; one that fits none goes to "rest". A
    word is given as the number of its sentence times ``form_count``, plus the number of its form.
    """
    sentence_M = np.repeat(np.arange(len(facts.arc_count)), facts.arc_count)
    head_M, dependent_M = (sentence_M * form_count + form for form in (facts.head, facts.dependent))
    is_of_predicate_M = np.isin(facts.role, [ROLE.AGENT, ROLE.PATIENT, ROLE.TO, ROLE.FROM])
    predicates = head_M[is_of_predicate_M]
    fits = np.concatenate(
        [
            _slot_of_dependents(facts.role, head_M, dependent_M),
            np.full(len(predicates), _SLOT["predicate"]),
        ]
    )
    _, number = np.unique(np.concatenate([word_T, dependent_M, predicates]), return_inverse=True)
    first_slot = np.full(len(number), _SLOT["rest"])
    np.minimum.at(first_slot, number[len(word_T) :], fits)
    return first_slot[number[: len(word_T)]]


def _slot_of_dependents(role_M: Ints, head_M: Ints, dependent_M: Ints) -> Ints:
    """Return the number of the slot that each arc gives its dependent, [M]; len(SLOTS) if it gives none."""
    is_agent_M, is_patient_M = role_M == ROLE.AGENT, role_M == ROLE.PATIENT
    is_attribute_M = np.isin(role_M, [ROLE.ATTR, ROLE.POSS, ROLE.NUM, ROLE.IS])
    slot_M = np.full(len(role_M), len(SLOTS))
    for slot, is_in_M in (  # a later slot replaces an earlier one
        ("adverb", role_M == ROLE.ADV),
        ("other attribute", is_attribute_M),
        ("attribute of patient", is_attribute_M & np.isin(head_M, dependent_M[is_patient_M])),
        ("attribute of agent", is_attribute_M & np.isin(head_M, dependent_M[is_agent_M])),
        ("place", np.isin(role_M, [ROLE.TO, ROLE.FROM, ROLE.AT])),
        ("patient", is_patient_M),
        ("agent", is_agent_M),
    ):
        slot_M[is_in_M] = _SLOT[slot]
    return slot_M
