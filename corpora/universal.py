"""Change dependency trees so that the validator of Universal Dependencies accepts them, levels 1 to 3.

The trees of a parser may break the guidelines, for example by a second subject, or a comma whose arc crosses
others. A relation that is not allowed becomes ``dep`` (or ``nmod``, ``flat``), and punctuation marks get
another head.
"""

from bisect import bisect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from unicodedata import normalize

from corpora.text import Sentence
from corpora.treebanks import read_packaged_table, strip_subtypes, universal_tags

NOMINALS = ("dislocated", "expl", "iobj", "nmod", "nsubj", "obj", "obl", "vocative")
RIGHTWARD = ("appos", "conj", "fixed", "flat", "goeswith")
"""The relations whose head must come before the word."""
RELATIONS = {row["relation"]: row["dependents"] for row in read_packaged_table("relations.tsv")}
"""The relations that a function word's dependents may have, or "none", by its own relation."""


def mend_tree(sentence: Sentence) -> Sentence:
    """Return the sentence with words composed (NFC) and a tree that the guidelines allow.

    A tree with labels of another scheme, or of more than 256 words, is not changed, except that a missing
    relation becomes ``dep``.
    """
    words = tuple(normalize("NFC", " ".join(word.split())) or "_" for word in sentence.tokens)
    arcs = zip(sentence.heads or (), sentence.relations or (), strict=True)
    relations = tuple(name if name != "_" else "dep" if head else "root" for head, name in arcs)
    sentence = replace(sentence, tokens=words, relations=relations or None)
    bases = strip_subtypes(relations)
    if not sentence.heads or not bases or len(bases) > 256 or not RELATIONS.keys() >= {*bases}:
        return sentence  # the time is quadratic in the length
    while (changed_relations := _relabel(sentence, sentence.heads, relations)) != relations:
        relations = changed_relations
    heads = _reattach_punctuation(sentence.heads, strip_subtypes(relations))
    return replace(sentence, heads=heads, relations=relations)


def _relabel(sentence: Sentence, heads: Sequence[int], relations: tuple[str, ...]) -> tuple[str, ...]:
    """Replace relations that other relations of the tree exclude; the new ones may exclude further ones."""
    mended = list(relations)
    bases = strip_subtypes(relations)
    upos = universal_tags(sentence.tokens, sentence.tags or ("_",) * len(heads), relations)
    clauses = {head for head, base in zip(heads, bases, strict=True) if base in ("cop", "csubj", "nsubj")}
    nominals = {word for word, tag in enumerate(upos, 1) if tag in ("NOUN", "PRON", "PROPN")} - clauses
    first_of_key: dict[object, int] = {}  # by head, and "ubj" or "obj"; other words have their own keys
    # The subject nearer to the verb is kept, because it is right twice as often as the other (GUM dev).
    for index in sorted(range(len(heads)), key=lambda index: abs(heads[index] - index - 1)):
        head, base, base_of_head = heads[index], bases[index], bases[heads[index] - 1]
        is_unique = base in ("csubj", "nsubj", "obj") and not relations[index].endswith("subj:outer")
        key = (head, base[-3:]) if is_unique else index
        is_second = first_of_key.setdefault(key, index) != index
        follows_part = head == index or (heads[index - 1], bases[index - 1]) == (head, base)
        is_detached = base == "goeswith" and not follows_part
        if not head:
            mended[index] = relations[index] if base == "root" else "root"
        elif base == "root" or is_second or is_detached or (base in RIGHTWARD and head > index + 1):
            mended[index] = "dep"
        elif base == "fixed" and upos[head - 1] == "PROPN":
            mended[index] = "flat"
        elif base == "obl" and base_of_head in NOMINALS and head in nominals:
            mended[index] = "nmod" + relations[index][3:]
        if head and base not in (RELATIONS[base_of_head] or base).split():
            mended[head - 1] = "dep"
    return tuple(mended)


def _reattach_punctuation(heads: Sequence[int], bases: Sequence[str]) -> tuple[int, ...]:
    """Attach each punctuation mark to a unit that begins or ends at it, so that no arc crosses its own."""
    new_heads = list(heads)
    marks = [word for word, base in enumerate(bases, 1) if base == "punct"]
    words = [word for word, base in enumerate(bases, 1) if base not in ("goeswith", "punct")]
    arcs = [(word, heads[word - 1]) for word in words if heads[word - 1]]
    arcs.sort(key=lambda arc: abs(arc[0] - arc[1]))
    index_of_mark = {mark: bisect(words, mark) for mark in marks}  # of the next word
    neighbours = {mark: words[max(index - 1, 0) : index + 1] for mark, index in index_of_mark.items()}
    for mark in marks * 3:
        if _count_crossings(new_heads, mark, new_heads[mark - 1]):
            # Candidates are its head, the ends of the shortest arc over it (or the root), and its neighbours.
            arcs_over_mark = (arc for arc in arcs if min(arc) < mark < max(arc))
            ends = next(arcs_over_mark, [heads.index(0) + 1])
            candidates = [new_heads[mark - 1], *ends, *neighbours[mark]]
            new_heads[mark - 1] = min(candidates, key=lambda head: _count_crossings(new_heads, mark, head))
    for mark in marks * 2:
        if _count_crossings(new_heads, mark, new_heads[mark - 1]):  # because arcs of words cross each other
            for other_mark in marks:
                if neighbours[other_mark] == neighbours[mark]:
                    new_heads[other_mark - 1] = neighbours[mark][0]
    return tuple(new_heads)


def _count_crossings(heads: Sequence[int], mark: int, head: int) -> int:
    """Count the words and arcs that an arc from ``head`` to ``mark`` crosses."""
    ancestors = [*_path_to_root(heads, head)]
    words_between = range(min(mark, head) + 1, max(mark, head))
    count = sum(head not in _path_to_root(heads, word) for word in words_between)
    for arc in enumerate(heads, 1):
        low, high = sorted(arc)
        is_over_mark = low < mark < high and arc[1] not in (0, *ancestors)
        count += is_over_mark and (low if head < mark else high) in words_between
    return count


def _path_to_root(heads: Sequence[int], word: int) -> Iterator[int]:
    while word:
        yield word
        word = heads[word - 1]
