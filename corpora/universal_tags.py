"""UPOS of English words, made of a treebank's tags and relations, for CoNLL-U."""

from __future__ import annotations

from collections.abc import Sequence

from corpora.characters import plain

_UPOS = {
    tag: upos
    for upos, tags in {
        "ADJ": "JJ JJR JJS", "ADP": "IN RP", "ADV": "RB RBR RBS WRB", "AUX": "MD", "CCONJ": "CC",
        "DET": "DT PDT WDT", "INTJ": "UH", "NOUN": "NN NNS", "NUM": "CD", "PART": "POS TO",
        "PRON": "EX PRP PRP$ WP WP$", "PROPN": "ADD NNP NNPS", "PUNCT": ". , : `` '' -LRB- -RRB- HYPH NFP",
        "SCONJ": "", "SYM": "$ # SYM", "VERB": "VB VBD VBG VBN VBP VBZ",
    }.items()
    for tag in (upos, *tags.split())
}  # fmt: skip
TAKES = {
    "advmod": "ADV ADJ CCONJ DET PART SYM", "amod": "ADJ ADV NOUN NUM SYM VERB X", "aux": "AUX", "cop": "AUX",
    "case": "ADP ADV PART SYM VERB", "cc": "CCONJ ADV SYM", "det": "DET PRON", "expl": "PRON DET PART",
    "goeswith": "X", "mark": "SCONJ ADV PART VERB", "nummod": "NUM NOUN SYM", "punct": "PUNCT",
}  # fmt: skip
"""By relation: the usual UPOS, then others that it may have (level 3 of the official validator)."""
NOUNS = ("NOUN", "PRON", "PROPN")
NOMINAL = ("dislocated", "expl", "iobj", "nmod", "nsubj", "obj", "obl", "vocative")
RIGHTWARD = ("appos", "conj", "fixed", "flat", "goeswith")
RELATIONS = {
    *TAKES, "clf", *NOMINAL, *RIGHTWARD, "_", "acl", "advcl", "ccomp", "compound", "csubj", "dep",
    "discourse", "list", "orphan", "parataxis", "reparandum", "root", "xcomp",
}  # fmt: skip


def universal_tags(words: Sequence[str], tags: Sequence[str], relations: Sequence[str]) -> list[str]:
    """Return UPOS by word: what Penn tags say, as far as Universal Dependencies allow with a relation."""
    tags_of_words = []
    for word, tag, relation in zip(words, tags, bases_of(relations), strict=True):
        upos = _UPOS.get(tag, tag if tag in _UPOS.values() else "X")
        if plain(word).lower() in ("not", "n't") and (tag == "RB" or relation == "advmod"):
            upos = "PART"  # English negates with it; German Not is a noun
        elif upos == "DET" and relation not in ("det", "advmod"):
            upos = "PRON"
        elif (tag, relation) == ("TO", "case"):
            upos = "ADP"
        elif upos == "PUNCT" and relation not in ("punct", "root", "_"):
            upos = "SYM"
        elif upos == "PROPN" and relation == "fixed":
            upos = "NOUN"
        usual, *others = TAKES.get(relation, upos).split()
        tags_of_words.append(upos if upos in others else usual)
    return tags_of_words


def bases_of(relations: Sequence[str]) -> list[str]:
    """Return the relations without their subtypes."""
    return [name.partition(":")[0] for name in relations]
