"""The probes' questions about one sentence, answered from its words, dependencies and constituents.

Definitions follow Conneau et al. (2018), "What you can cram into a single vector", section 2.
Every function returns None for a sentence the task leaves out.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from nltk import Tree

from corpora.documents import Sentence

LENGTH_BINS: Final = ((5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28))
MIN_TOKENS: Final = LENGTH_BINS[0][0]
MAX_TOKENS: Final = LENGTH_BINS[-1][1]
PAST: Final = frozenset({"VBD"})
PRESENT: Final = frozenset({"VBP", "VBZ"})
SINGULAR: Final = frozenset({"NN"})
PLURAL: Final = frozenset({"NNS"})
CLOSING: Final = frozenset({".", "!", "?", "''", '"', "”", "’", ")", "-RRB-"})


class Annotated:
    """One sentence with the tree structures the probes need, built on first use.

    Args:
        sentence: needs PTB ``tags``; dependency and constituency probes need ``heads``,
            ``relations`` (Universal Dependencies) and ``tree`` (PTB brackets).
    """

    def __init__(self, sentence: Sentence) -> None:
        self.sentence = sentence
        self.tokens = sentence.tokens

    @cached_property
    def tree(self) -> Tree | None:
        """The tree below TOP/ROOT, or None without constituents."""
        if self.sentence.tree is None:
            return None
        # nltk reads a bracket after a backslash as part of the word; no probe reads the tree's words.
        tree = Tree.fromstring(self.sentence.tree.replace("\\", "/"))
        while tree.label() in ("", "TOP", "ROOT") and len(tree) == 1 and isinstance(tree[0], Tree):
            tree = tree[0]
        return tree

    @cached_property
    def text(self) -> str:
        """Tokens joined by one space, as SentEval's files have them."""
        return " ".join(self.tokens)

    def children(self, head: int) -> list[int]:
        """0-based dependents of the 0-based token ``head``."""
        assert self.sentence.heads is not None
        return [j for j, h in enumerate(self.sentence.heads) if h == head + 1]


def bare(label: str) -> str:
    """A constituent label without function tags and indices: ``NP-SBJ-1`` is ``NP``."""
    return label if label.startswith("-") else label.split("-")[0].split("=")[0]


def length_bin(a: Annotated) -> str | None:
    """Sentence length in six bins of 5 to 28 tokens."""
    n = len(a.tokens)
    return next((str(i) for i, (low, high) in enumerate(LENGTH_BINS) if low <= n <= high), None)


def depth(a: Annotated) -> str | None:
    """Edges on the longest path from the sentence's root constituent to a word."""
    if a.tree is None:
        return None
    return str(a.tree.height() - 1)


def top_constituents(a: Annotated) -> str | None:
    """The sequence of constituents right below a sentence's top S, e.g. ``ADVP_NP_VP_.``."""
    if a.tree is None or bare(a.tree.label()) != "S":
        return None
    return "_".join(bare(child.label()) for child in a.tree if isinstance(child, Tree))


def _root(a: Annotated) -> int | None:
    heads = a.sentence.heads
    return heads.index(0) if heads is not None and 0 in heads else None


def main_verb(a: Annotated) -> int | None:
    """The finite verb of the main clause: the root, or its only finite auxiliary or copula."""
    root = _root(a)
    if root is None or a.sentence.tags is None or a.sentence.relations is None:
        return None
    tags, relations = a.sentence.tags, a.sentence.relations
    if tags[root] in PAST | PRESENT:
        return root
    helpers = [j for j in a.children(root) if relations[j].split(":")[0] in ("aux", "cop")]
    finite = [j for j in helpers if tags[j] in PAST | PRESENT]
    if len(finite) != 1 or any(tags[j] == "MD" for j in helpers):
        return None
    return finite[0]


def tense(a: Annotated) -> tuple[str, str] | None:
    """(PAST or PRES, the verb that shows it) of the main clause."""
    verb = main_verb(a)
    if verb is None:
        return None
    assert a.sentence.tags is not None
    return "PAST" if a.sentence.tags[verb] in PAST else "PRES", a.tokens[verb].lower()


def noun_number(a: Annotated, relation: str) -> tuple[str, str] | None:
    """(NN or NNS, the noun) of the root verb's only ``nsubj`` or ``obj``."""
    root = _root(a)
    if root is None or a.sentence.tags is None or a.sentence.relations is None:
        return None
    tags, relations = a.sentence.tags, a.sentence.relations
    if not tags[root].startswith("VB"):
        return None
    nouns = [j for j in a.children(root) if relations[j].split(":")[0] == relation]
    if len(nouns) != 1 or tags[nouns[0]] not in SINGULAR | PLURAL:
        return None
    return tags[nouns[0]], a.tokens[nouns[0]].lower()


def coordinated_clauses(a: Annotated) -> tuple[int, int, int] | None:
    """Borders of exactly two coordinated clauses that make up the sentence.

    Returns:
        (end of the first clause, start of the second, end of the second) in tokens. The first clause starts
        at 0; between the two is the conjunction with its comma, after the second closing punctuation.
    """
    if a.tree is None or bare(a.tree.label()) != "S":
        return None
    spans: list[tuple[str, int, int]] = []
    at = 0
    for child in a.tree:
        if not isinstance(child, Tree):
            return None
        width = len(child.leaves())
        spans.append((bare(child.label()), at, at + width))
        at += width
    clauses = [span for span in spans if span[0] == "S"]
    if len(clauses) != 2 or spans[0] != clauses[0] or clauses[0][1] != 0:
        return None
    (_, _, first_end), (_, second_start, second_end) = clauses
    between = [label for label, start, _ in spans if first_end <= start < second_start]
    after = [label for label, start, _ in spans if start >= second_end]
    if "CC" not in between or not set(between) <= {"CC", ",", ":"}:
        return None
    if any(a.tokens[j] not in CLOSING for j in range(second_end, len(a.tokens))) or len(after) > 2:
        return None
    return first_end, second_start, second_end


def invert_clauses(
    tokens: tuple[str, ...], borders: tuple[int, int, int], proper_first: bool
) -> tuple[str, ...]:
    """Swap the two clauses and move sentence case to the new first word.

    Args:
        tokens: the sentence.
        borders: of :func:`coordinated_clauses`.
        proper_first: the first word keeps its capital (a name, or "I").
    """
    first_end, second_start, second_end = borders
    first, second = list(tokens[:first_end]), list(tokens[second_start:second_end])
    if not proper_first:
        first[0] = first[0][:1].lower() + first[0][1:]
    second[0] = second[0][:1].upper() + second[0][1:]
    return (*second, *tokens[first_end:second_start], *first, *tokens[second_end:])
