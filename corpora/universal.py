"""Mend dependency trees so that the official validator of Universal Dependencies takes them, levels 1 to 3.

A parser's trees have mistakes that the guidelines exclude, such as a second subject, or a comma whose arc
crosses others. A relation that cannot be becomes ``dep`` (or ``nmod``, ``flat``), and punctuation moves.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from unicodedata import normalize

from corpora.text import Sentence
from corpora.treebanks import read_packaged_table, strip_subtypes, universal_tags

NOUNS = ("NOUN", "PRON", "PROPN")
NOMINALS = ("dislocated", "expl", "iobj", "nmod", "nsubj", "obj", "obl", "vocative")
RIGHTWARD = ("appos", "conj", "fixed", "flat", "goeswith")
"""Relations whose head comes before the word."""
MAX_WORDS = 256
"""Longest sentence to mend, because the time grows with the square."""
_ROWS = read_packaged_table("relations.tsv")
RELATIONS = {row["relation"] for row in _ROWS}
_DEPENDENTS = {row["relation"]: row["dependents"] for row in _ROWS if row["dependents"]}
"""By relation of a function word: the relations that its dependents may have, or "none"."""


def mend_tree(sentence: Sentence) -> Sentence:
    """Return the sentence with words composed (NFC) and a tree that the guidelines allow.

    A tree with labels of another scheme, or of more than 256 words, stays, but a missing relation is ``dep``.
    """
    words = tuple(normalize("NFC", " ".join(word.split())) or "_" for word in sentence.tokens)
    arcs = zip(sentence.heads or (), sentence.relations or (), strict=True)
    relations = tuple(name if name != "_" else "dep" if head else "root" for head, name in arcs)
    sentence = replace(sentence, tokens=words, relations=relations or None)
    bases = strip_subtypes(relations)
    if not sentence.heads or not bases or len(bases) > MAX_WORDS or not RELATIONS.issuperset(bases):
        return sentence
    while (changed_relations := _relabel(sentence, sentence.heads, relations)) != relations:
        relations = changed_relations
    heads = _reattach_punctuation(sentence.heads, strip_subtypes(relations))
    return replace(sentence, heads=heads, relations=relations)


def _relabel(sentence: Sentence, heads: Sequence[int], relations: tuple[str, ...]) -> tuple[str, ...]:
    """Replace relations that cannot stand beside the others; the new ones may exclude more."""
    mended = list(relations)
    bases = strip_subtypes(relations)
    upos = universal_tags(sentence.tokens, sentence.tags or ("_",) * len(heads), relations)
    clauses = {head for head, base in zip(heads, bases, strict=True) if base in ("cop", "csubj", "nsubj")}
    filled_slots = set()  # head, and "ubj" or "obj"
    # Of two subjects the one nearer to the verb is right twice as often (GUM dev).
    for place in sorted(range(len(heads)), key=lambda place: abs(heads[place] - place - 1)):
        head, base, base_of_head = heads[place], bases[place], bases[heads[place] - 1]
        slot = (head, base[-3:])
        is_unique = base in ("csubj", "nsubj", "obj") and not relations[place].endswith("subj:outer")
        is_second = is_unique and slot in filled_slots
        follows_part = head == place or (heads[place - 1], bases[place - 1]) == (head, base)
        is_detached = base == "goeswith" and not follows_part
        if not head:
            mended[place] = relations[place] if base == "root" else "root"
        elif base == "root" or is_second or is_detached or (base in RIGHTWARD and head > place + 1):
            mended[place] = "dep"
        elif base == "fixed" and upos[head - 1] == "PROPN":
            mended[place] = "flat"
        elif base == "obl" and base_of_head in NOMINALS and upos[head - 1] in NOUNS and head not in clauses:
            mended[place] = "nmod" + relations[place][3:]
        if head and base not in _DEPENDENTS.get(base_of_head, base).split():
            mended[head - 1] = "dep"
        if is_unique:
            filled_slots.add(slot)
    return tuple(mended)


def _reattach_punctuation(heads: Sequence[int], bases: Sequence[str]) -> tuple[int, ...]:
    """Attach each punctuation mark to a unit that begins or ends at it, so that no arc crosses its own."""
    new_heads = list(heads)
    marks = [word for word, base in enumerate(bases, 1) if base == "punct"]
    words = [word for word, base in enumerate(bases, 1) if base not in ("goeswith", "punct")]
    arcs = sorted((abs(word - heads[word - 1]), word, heads[word - 1]) for word in words if heads[word - 1])
    neighbours = {
        mark: [*[word for word in words if word < mark][-1:], *[word for word in words if word > mark][:1]]
        for mark in marks
    }
    for mark in marks * 3:
        if not _count_crossings(new_heads, mark, new_heads[mark - 1]):
            continue
        # It stays, or goes to an end of the shortest arc over it (or to the root), or to a neighbour.
        ends = [[word, head] for _, word, head in arcs if min(word, head) < mark < max(word, head)]
        candidates = [new_heads[mark - 1], *(ends[0] if ends else [heads.index(0) + 1]), *neighbours[mark]]
        new_heads[mark - 1] = min(candidates, key=lambda head: _count_crossings(new_heads, mark, head))
    for mark in marks * 2:
        if _count_crossings(new_heads, mark, new_heads[mark - 1]):  # arcs of words cross each other
            for other_mark in marks:
                if neighbours[other_mark] == neighbours[mark]:
                    new_heads[other_mark - 1] = neighbours[mark][0]
    return tuple(new_heads)


def _count_crossings(heads: Sequence[int], mark: int, head: int) -> int:
    """Count the words and arcs that an arc from ``head`` to ``mark`` crosses."""
    ancestors = set(_path_to_root(heads, head))
    words_between = range(min(mark, head) + 1, max(mark, head))
    count = sum(head not in _path_to_root(heads, word) for word in words_between)
    for word, head_of_word in enumerate(heads, 1):
        low, high = min(word, head_of_word), max(word, head_of_word)
        is_over_mark = head_of_word and head_of_word not in ancestors and low < mark < high
        if is_over_mark and (low if head < mark else high) in words_between:
            count += 1
    return count


def _path_to_root(heads: Sequence[int], word: int) -> Iterator[int]:
    while word:
        yield word
        word = heads[word - 1]
