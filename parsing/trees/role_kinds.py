"""What the rules of :mod:`parsing.trees.roles` ask of labels and of words, as bits.

The compiled rules hold these bits, and numba's cache looks at the file of the rules alone: who changes the
order here deletes ``parsing/trees/__pycache__``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_LABELS = {
    "subject": "nsubj csubj nsubjpass csubjpass nsubj:pass csubj:pass",
    "outer subject": "nsubj:outer csubj:outer",
    "passive subject": "nsubjpass csubjpass nsubj:pass csubj:pass",
    "clausal subject": "csubj csubj:outer csubjpass csubj:pass ccomp",
    "object": "obj dobj",
    "indirect object": "iobj dative",
    "agent": "obl:agent agent",
    "oblique": "obl obl:agent obl:arg obl:unmarked obl:tmod obl:npmod nmod nmod:poss nmod:unmarked nmod:desc "
    "nmod:tmod nmod:npmod poss agent tmod npadvmod",
    "possessor": "nmod:poss poss",
    "attribute": "amod compound nn",
    "number": "nummod num",
    "adverb": "advmod neg",
    "adverbial clause": "advcl",
    "relative": "acl:relcl advcl:relcl rcmod relcl",
    "participle": "acl vmod partmod infmod",
    "conjunct": "conj",
    "case": "case mark prep possessive",
    "passive": "aux:pass auxpass nsubj:pass csubj:pass nsubjpass csubjpass",
    "auxiliary": "aux aux:pass auxpass",
    "copula": "cop",
    "open": "xcomp",
    "complement": "ccomp xcomp pcomp",
    "name": "flat flat:name appos name",
    "determiner": "det predet det:predet",
    "preposition": "prep agent dative",
    "prepositional object": "pobj pcomp",
    "beside": "parataxis",
    "root": "root ROOT",
    "function": "punct cc cc:preconj preconj expl discourse",
    "expletive": "expl",
}
KIND_BITS = {name: 1 << number for number, name in enumerate(_LABELS)}
"""The bit of each kind of relation."""
_WORDS = {
    "not": "not n't never neither nor hardly",
    "no": "no",
    "by": "by",
    "to": "to for into unto towards toward onto",
    "from": "from out",
    "of": "of 's ’s '",
    "than": "than",
    "as": "as",
    "after": "after",
    "before": "before until till",
    "relative": "who whom that which whose",
    "relative adverb": "where when why how wherever whenever however",
    "time or way": "way time day days reason moment",
    "preposition": "about across against around at behind by for from in into like near of on onto over "
    "through to toward towards under upon with without",
    "pronoun": "one it who this that",
    "what": "what",
    "do": "do does did doing done",
    # The lower pole of what is compared: "lighter than" says what "not as heavy as" does.
    "less": "less fewer lower smaller shorter younger lighter slower weaker poorer cheaper narrower thinner "
    "softer quieter colder cooler darker worse nearer closer",
    "bare": "be is are was were am been do does did have has had will would can could should may might must "
    "shall 's 're 'm",
}
FLAG = {name: 1 << number for number, name in enumerate(_WORDS)}
"""The bit of each set of words."""
ING = 1 << len(_WORDS)
"""The bit of words in -ing."""
_FLAGS_OF = {
    word: sum(flag for name, flag in FLAG.items() if word in _WORDS[name].split())
    for words in _WORDS.values()
    for word in words.split()
}


def relation_bits(relations: Sequence[str]) -> NDArray[np.int64]:
    """What each relation of a cache's inventory is, as bits: int64 [R]."""
    return np.array(
        [
            sum(bit for name, bit in KIND_BITS.items() if label in _LABELS[name].split())
            for label in relations
        ],
        np.int64,
    )


def word_flags(words: Sequence[str]) -> NDArray[np.int64]:
    """Which of the words that a rule asks for each one is, as bits: int64 [U]."""
    lower = [word.lower() for word in words]
    return np.array([_FLAGS_OF.get(w, 0) | (ING if w.endswith("ing") else 0) for w in lower], np.int64)
