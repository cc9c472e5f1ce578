"""Universal Dependencies as the official validator wants them at its first three levels.

A parser's trees have mistakes that the guidelines exclude, a second subject or a comma across other arcs. To
mend them, a relation that cannot be becomes ``dep`` (or ``nmod``, ``flat``), and punctuation moves. UPOS is
made of a treebank's tags and relations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from unicodedata import normalize

from corpora.characters import plain
from corpora.text import Sentence

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
_FEW = "conj goeswith punct reparandum"
_BELOW = {
    "cc": f"fixed {_FEW}", "fixed": _FEW, "goeswith": "", "punct": "punct",
    "det": f"advmod case cc clf compound det discourse fixed flat obl parataxis {_FEW}",
    **dict.fromkeys(("aux", "cop"), f"cc fixed {_FEW}"),
    **dict.fromkeys(("case", "clf", "mark"), f"advmod cc fixed obl {_FEW}"),
}  # fmt: skip
"""By relation of a word that hardly takes dependents: the relations that these may have."""


def valid(sentence: Sentence) -> Sentence:
    """Return the sentence with a tree that the guidelines allow; words composed, a missing relation ``dep``.

    Trees with other labels, or over 256 words (time grows with the square), stay as they are otherwise.
    """
    words = tuple(normalize("NFC", " ".join(word.split())) or "_" for word in sentence.tokens)
    pairs = zip(sentence.heads or (), sentence.relations or (), strict=True)
    named = tuple(name if name != "_" else "dep" if head else "root" for head, name in pairs)
    sentence = replace(sentence, tokens=words, relations=named or None)
    names = bases_of(named)
    if not sentence.heads or not names or len(names) > 256 or not RELATIONS.issuperset(names):
        return sentence
    while (mended := _relabelled(sentence, sentence.heads)) != sentence:
        sentence = mended
    return replace(sentence, heads=_reattached(sentence.heads or (), bases_of(sentence.relations or ())))


def _relabelled(sentence: Sentence, heads: Sequence[int]) -> Sentence:
    """Replace relations that cannot stand beside the others, once."""
    names = list(sentence.relations or ())
    bases, seen = bases_of(names), set()
    upos = universal_tags(sentence.tokens, sentence.tags or ("_",) * len(names), names)
    clauses = {head for head, base in zip(heads, bases, strict=True) if base in ("cop", "csubj", "nsubj")}
    # Of two subjects the one nearer to the verb is right twice as often (GUM dev).
    for at in sorted(range(len(heads)), key=lambda at: abs(heads[at] - at - 1)):
        head, base, above = heads[at], bases[at], bases[heads[at] - 1]
        only = base in ("csubj", "nsubj", "obj") and not names[at].endswith("subj:outer")
        place = (head, base[-3:]) if only else (head, at)
        apart = base == "goeswith" and head != at and (heads[at - 1], bases[at - 1]) != (head, base)
        if not head:
            names[at] = names[at] if base == "root" else "root"
        elif base == "root" or apart or place in seen or (base in RIGHTWARD and head > at + 1):
            names[at] = "dep"
        elif base == "fixed" and upos[head - 1] == "PROPN":
            names[at] = "flat"
        elif base == "obl" and above in NOMINAL and upos[head - 1] in NOUNS and head not in clauses:
            names[at] = "nmod" + names[at][3:]
        if head and base not in _BELOW.get(above, base).split():
            names[head - 1] = "dep"
        seen.add(place)
    return replace(sentence, relations=tuple(names))


def _reattached(heads: Sequence[int], bases: Sequence[str]) -> tuple[int, ...]:
    """Attach each punctuation mark to a unit that begins or ends at it, so that no arc crosses its own."""
    places, marks = list(heads), [word for word, base in enumerate(bases, 1) if base == "punct"]
    words = [word for word, base in enumerate(bases, 1) if base not in ("goeswith", "punct")]
    near = {m: [*[w for w in words if w < m][-1:], *[w for w in words if w > m][:1]] for m in marks}
    arcs = sorted((abs(w - heads[w - 1]), w, heads[w - 1]) for w in words if heads[w - 1])
    for mark in marks * 3:
        if _crossings(places, mark, places[mark - 1]):
            # It stays, or goes to an end of the shortest arc over the mark (or the root), or to a neighbour.
            over = next(([w, h] for _, w, h in arcs if min(w, h) < mark < max(w, h)), [heads.index(0) + 1])
            options = [places[mark - 1], *over, *near[mark]]
            places[mark - 1] = min(options, key=lambda head: _crossings(places, mark, head))
    for mark in marks * 2:
        if _crossings(places, mark, places[mark - 1]):  # arcs of words cross each other
            for other in marks:
                places[other - 1] = near[mark][0] if near[other] == near[mark] else places[other - 1]
    return tuple(places)


def _crossings(heads: Sequence[int], mark: int, head: int) -> int:
    """Say how many words and arcs an arc from ``head`` to ``mark`` crosses."""
    above, inner = set(_upwards(heads, head)), range(min(mark, head) + 1, max(mark, head))
    ends = ((top, min(w, top), max(w, top)) for w, top in enumerate(heads, 1) if top)
    arcs = sum(a < mark < b and (a if head < mark else b) in inner and top not in above for top, a, b in ends)
    return arcs + sum(head not in _upwards(heads, word) for word in inner)


def _upwards(heads: Sequence[int], word: int) -> Iterator[int]:
    while word:
        yield word
        word = heads[word - 1]


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
