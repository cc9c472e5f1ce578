"""Why two sentences are close: the subtrees that match best, drawn on both trees.

Pairs of subtrees are ranked by the cosine of their vectors times the square root of the words of the smaller
one, so that of two pairs about as close the larger one comes first. The best pair is taken, then the best of
those that are left, and so on:

- a subtree is in one match at most;
- a pair inside a match, on both sides, says nothing new and is left out;
- so are the two whole sentences, whose cosine is shown anyway, pairs whose cosine is not positive, the same
  single word twice, and single punctuation marks.

Legend of dimension suffixes: B the two sentences, N subtrees of the first, M of the second, W words of a
sentence, D embedding size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from multiview.pretrained import unit_rows
from runtime.errors import UserError

if TYPE_CHECKING:
    from multiview.comparison.reasons import Binding
    from multiview.outputs import Networks
    from parsing.trees.batch import Batch, Inventories
    from parsing.trees.sentences import ParsedSentence

Float = NDArray[np.floating]
Tree = Literal["dep", "const", ""]
"""What the nodes of a view are; "" if they are no subtrees."""


@dataclass(frozen=True, slots=True)
class Subtree:
    """A word with all below it (DEP), or a constituent (CONST)."""

    positions: tuple[int, ...]
    """Of its words, from 0."""
    words: str
    """With … where a discontinuous subtree leaves words out."""
    top: int
    """Position of the highest word; of a constituent, that of its first word."""


@dataclass(frozen=True, slots=True)
class Match:
    """A subtree of the first sentence and one of the second."""

    view: str
    a: Subtree
    b: Subtree
    cosine: float
    """Of the two nodes' vectors."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """Says what of two sentences matches, by view; it prints as text."""

    a: ParsedSentence
    b: ParsedSentence
    cosine: float
    """Of the sentences' vectors, as :meth:`multiview.model.MultiViewEncoder.similarity` gives it."""
    cosines: Mapping[str, float]
    """Of meaning and structure, where vectors have both; and of each view, the second of a name ``dep 2``."""
    trees: Mapping[str, Tree]
    """The tree of each view that has one."""
    matches: Sequence[Match]
    """View by view, best first."""
    bindings: Sequence[Binding] = ()
    """Who did what to whom in both, those first that differ; empty without dependency trees."""

    def __str__(self) -> str:
        views = ", ".join(f"{view} {cosine:.4f}" for view, cosine in self.cosines.items())
        parts = [f"A  {_text(self.a)}\nB  {_text(self.b)}", f"cosine {self.cosine:.4f} ({views})"]
        if self.bindings:
            parts.append("\n".join(["bindings:", *map(str, self.bindings)]))
        for view, tree in self.trees.items():
            matches = [match for match in self.matches if match.view == view]
            lines = [f"  [{n}] {m.cosine:.4f}  {m.a.words}  |  {m.b.words}" for n, m in enumerate(matches, 1)]
            parts.append("\n".join([f"{view}:", *(lines or ["  no subtrees match"])]))
            parts.append(f"A, {view}\n{_drawing(self.a, tree, [match.a for match in matches])}")
            parts.append(f"B, {view}\n{_drawing(self.b, tree, [match.b for match in matches])}")
        return "\n\n".join(parts)

    __repr__ = __str__


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewNodes:
    """The nodes of one view: a dependency tree's are its words, a constituency tree's those of its cover."""

    name: str
    """Of the view; the second view of a name is ``dep 2``."""
    tree: Tree
    vectors: Float
    """[B, width], the view's part of the sentences' vectors."""
    states: list[Float]
    """[N, D] of each sentence."""


def nodes_of(batch: Batch, networks: Networks) -> Iterator[ViewNodes]:
    """Yield the nodes of every chosen view of some networks."""
    seen: Counter[str] = Counter()
    tokens, words = int(batch.sentence_offsets[-1]), batch.distinct_words()
    for view, x_UE, token_N in chain(
        *(network.encoder_inputs(places, *words) for network, places in networks)
    ):
        plan = view.plan(batch)
        h_ND = view.forward_nodes(x_UE, plan, token_N)
        tree: Tree = ""
        if "const" in view.requires and len(h_ND) == 2 * tokens - len(batch):
            tree = "const"
        elif "dep" in view.requires and len(h_ND) == tokens:
            tree = "dep"
        seen[view.name] += 1
        name = view.name if seen[view.name] == 1 else f"{view.name} {seen[view.name]}"
        vectors, nodes = (x.detach().float().cpu().numpy() for x in (view(x_UE, plan, token_N), h_ND))
        states = np.split(nodes, plan.node_offsets[1:-1])
        yield ViewNodes(name=name, tree=tree, vectors=vectors, states=states)


def explain_pair(
    batch: Batch,
    inventories: Inventories,
    nodes: Sequence[ViewNodes],
    wholes: Mapping[str, Float],
    top: int,
) -> Explanation:
    """Return the best matches of the two sentences of a batch, at most ``top`` for each view.

    ``wholes`` are the sentences' vectors [2, D], first whole, then in parts. A sentence that is too long for
    the parsers, and views without trees, are a UserError.
    """
    from parsing.trees.batch import TOO_LONG
    from parsing.trees.sentences import batch_sentences

    trees = {view.name: view.tree for view in nodes if view.tree}
    if not trees:
        names = ", ".join(view.name for view in nodes)
        raise UserError(f"explain: no trees in {names}; it needs a model with the view dep or const")
    pair = list(batch_sentences(batch, inventories))
    for sentence in pair:
        if sentence.flags & TOO_LONG:
            raise UserError(
                f"explain: {_text(sentence)[:60]!r} ... has {len(sentence.words)} words, too many for the "
                "parsers; there is no tree to explain"
            )
    matches: list[Match] = []
    for view in nodes:
        matches += _matches_of(view, batch, pair, inventories.dummy_label, top) if view.tree else []
    vectors = {**wholes, **{view.name: view.vectors for view in nodes}}
    cosines = {name: float(np.dot(*unit_rows(pair_BD))) for name, pair_BD in vectors.items()}
    whole = cosines.pop(next(iter(wholes)))
    bindings = _bindings_of(batch) if "relation" in batch.fields else []
    return Explanation(pair[0], pair[1], whole, cosines, trees, matches, bindings)


def _bindings_of(batch: Batch) -> list[Binding]:
    from multiview.comparison.facts import Forms, ReadPairs, read_facts  # here: it compiles
    from multiview.comparison.reasons import bindings

    forms = Forms()
    return bindings(ReadPairs(read_facts(batch, forms), forms, np.array([[0, 1]])), 0)


def _matches_of(
    view: ViewNodes, batch: Batch, pair: Sequence[ParsedSentence], dummy_label: int, top: int
) -> Iterator[Match]:
    covers, units, subtrees = [], [], []
    for row, sentence in enumerate(pair):
        cover_NW, named_N = covers_of(batch, row, view.tree, dummy_label)
        cover_NW = cover_NW[named_N]
        # The nodes of a dependency tree are its words.
        tops = np.flatnonzero(named_N) if view.tree == "dep" else cover_NW.argmax(1)
        covers.append(cover_NW)
        units.append(unit_rows(view.states[row][named_N]))
        subtrees.append([_subtree(sentence, *one) for one in zip(cover_NW, tops.tolist(), strict=True)])
    cosine_NM = units[0] @ units[1].T
    trivial_NM = np.zeros(cosine_NM.shape, bool)
    for place, (one, other) in zip(np.ndindex(cosine_NM.shape), product(*subtrees), strict=True):
        single = [side.words.lower() for side in (one, other) if len(side.positions) == 1]
        marks = any(not any(map(str.isalnum, words)) for words in single)
        trivial_NM[place] = marks or (len(single) == 2 and single[0] == single[1])
    for n, m in best_matches(cosine_NM, covers[0], covers[1], trivial_NM, top):
        yield Match(view.name, subtrees[0][n], subtrees[1][m], float(cosine_NM[n, m]))


def covers_of(
    batch: Batch, row: int, tree: Tree, dummy_label: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which words are under each node of a sentence, bool [N, W], and which are subtrees, bool [N].

    Nodes that only binarisation made are none, and those of a stand-in for a tree that no parser could give.
    """
    from parsing.trees.batch import CONST_FALLBACK, DEP_FALLBACK

    start, stop = batch.sentence_offsets[row : row + 2].tolist()
    cover_NW = np.eye(stop - start, dtype=bool)
    named_N = np.ones(stop - start, dtype=bool)
    if tree == "dep":
        head = batch.head[start:stop]
        for word in range(stop - start):
            above = word
            while above >= 0:
                cover_NW[above, word] = True
                above = head[above] - 1
    else:
        inner = slice(start - row, stop - row - 1)
        for left, right in zip(batch.left[inner], batch.right[inner], strict=True):
            cover_NW = np.vstack([cover_NW, cover_NW[left] | cover_NW[right]])
        named_N = np.append(named_N, batch.label[inner] != dummy_label)
    fallback = batch.flags[row] & (DEP_FALLBACK if tree == "dep" else CONST_FALLBACK)
    return cover_NW, named_N & (not fallback)


def best_matches(
    cosine_NM: Float,
    covers_NW: NDArray[np.bool_],
    covers_MW: NDArray[np.bool_],
    trivial_NM: NDArray[np.bool_],
    top: int,
) -> list[tuple[int, int]]:
    """Return the matches, at most ``top``, best first; of equal ones the first in row order.

    Covers say whether a word is under a subtree, of the first sentence and of the second, whose W is another.
    """
    size_N, size_M = covers_NW.sum(1), covers_MW.sum(1)
    score_NM = cosine_NM * np.sqrt(np.minimum(size_N[:, None], size_M))
    whole_NM = (size_N == covers_NW.shape[1])[:, None] & (size_M == covers_MW.shape[1])
    score_NM[whole_NM | trivial_NM | (cosine_NM <= 0)] = 0
    matches: list[tuple[int, int]] = []
    while len(matches) < top and score_NM.size:
        one, other = divmod(int(score_NM.argmax()), score_NM.shape[1])
        if score_NM[one, other] <= 0:
            break
        matches.append((one, other))
        score_NM[one], score_NM[:, other] = 0, 0
        inside_N = ~(covers_NW & ~covers_NW[one]).any(1)
        inside_M = ~(covers_MW & ~covers_MW[other]).any(1)
        score_NM[np.ix_(inside_N, inside_M)] = 0
    return matches


def _subtree(sentence: ParsedSentence, cover_W: NDArray[np.bool_], top: int) -> Subtree:
    from parsing.trees.drawings import display_name

    positions = np.flatnonzero(cover_W).tolist()
    words = []
    for before, position in zip([positions[0] - 1, *positions], positions, strict=False):
        words += ["…"] * (position > before + 1) + [display_name(sentence.words[position])]
    return Subtree(tuple(positions), " ".join(words), top)


def _drawing(sentence: ParsedSentence, tree: Tree, marked: Sequence[Subtree]) -> str:
    """Draw the tree of a sentence; the number of a match, in brackets, is at the top of its subtree."""
    tags, spans = list(sentence.tags or ()), list(sentence.spans or ())
    relations = list(sentence.relations or ())
    places = {span[:2]: index for index, span in enumerate(spans)}
    for number, subtree in enumerate(marked, start=1):
        place = places.get((subtree.positions[0], subtree.positions[-1] + 1))
        if tree == "dep":
            relations[subtree.top] += f" [{number}]"
        elif place is None:  # a word without a constituent of its own
            tags[subtree.top] += f" [{number}]"
        else:
            spans[place] = (*spans[place][:2], f"{spans[place][2]} [{number}]")
    if tree == "dep":
        return replace(sentence, relations=relations, spans=None).drawings()[0]
    return replace(sentence, tags=tags, spans=spans, heads=None).drawings()[0]


def _text(sentence: ParsedSentence) -> str:
    from parsing.trees.drawings import display_name

    return " ".join(map(display_name, sentence.words))
