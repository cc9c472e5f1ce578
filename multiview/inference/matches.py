"""Explains the cosine of two sentences by the subtrees that match best, drawn on both trees.

A pair of subtrees has the score cosine · √(words of the smaller subtree), so that of two pairs of similar
cosine the larger one comes first. The pair of the highest score is the first match, the best of the remaining
pairs is the second, and so on. These pairs are never a match:

- a pair of which one subtree is already in a match;
- a pair that is, on both sides, inside an earlier match;
- the two whole sentences, whose cosine is printed anyway;
- a pair whose cosine is not positive, two equal single words, and a pair with a single punctuation mark.

Legend of dimension suffixes: B the two sentences, N subtrees of the first, M of the second, W words of a
sentence, D embedding size.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from multiview.libraries.arrays import unit_rows
from parsing.trees.batch import CONST_FALLBACK, DEP_FALLBACK, TOO_LONG, Batch, Inventories
from parsing.trees.drawings import display_name
from parsing.trees.sentences import ParsedSentence, batch_sentences
from runtime.errors import UserError
from runtime.process import loading

if TYPE_CHECKING:  # importing the registry compiles functions
    from multiview.encoders.registry import ViewStack
    from multiview.judge.reasons import Binding

Float = NDArray[np.floating]
Tree = Literal["dep", "const", ""]
"""The kind of tree whose subtrees the nodes of a view stand for; "" if they stand for no subtrees."""


@dataclass(frozen=True, slots=True)
class Subtree:
    """A word with all its descendants in a dependency tree, or a constituent."""

    positions: tuple[int, ...]
    """The positions of its words, from 0."""
    words: str
    """The words joined by spaces, with … where a discontinuous subtree skips words of the sentence."""
    top: int
    """The position of the root word of a dependency subtree, or of the first word of a constituent."""


@dataclass(frozen=True, slots=True)
class Match:
    """A subtree of the first sentence and one of the second."""

    view: str
    a: Subtree
    b: Subtree
    cosine: float
    """The cosine of the two nodes' vectors."""


@dataclass(frozen=True, repr=False)
class Explanation:
    """The cosines of two sentences and, for each view, the subtrees that match; ``str`` draws the trees."""

    a: ParsedSentence
    b: ParsedSentence
    cosine: float
    """The cosine of the two sentences, as :meth:`multiview.model.MultiViewEncoder.similarity` returns it."""
    cosines: Mapping[str, float]
    """The cosines of the views by :attr:`ViewNodes.name`, and of meaning and structure if there are both."""
    trees: Mapping[str, Tree]
    """The kind of tree of each view that reads trees."""
    matches: Sequence[Match]
    """The matches of all views, those of one view best first."""
    bindings: Sequence[Binding] = ()
    """The bindings of both sentences, different ones first; empty if there are no dependency trees."""

    def __str__(self) -> str:
        cosines = ", ".join(f"{name} {cosine:.4f}" for name, cosine in self.cosines.items())
        parts = [f"A  {_text(self.a)}\nB  {_text(self.b)}", f"cosine {self.cosine:.4f} ({cosines})"]
        if self.bindings:
            parts.append("\n".join(["bindings:", *map(str, self.bindings)]))
        for view, tree in self.trees.items():
            matches = [match for match in self.matches if match.view == view]
            lines = [f"{view}:"]
            for number, match in enumerate(matches, start=1):
                lines.append(f"  [{number}] {match.cosine:.4f}  {match.a.words}  |  {match.b.words}")
            parts.append("\n".join(lines if matches else [*lines, "  no subtrees match"]))
            parts.append(f"A, {view}\n{_drawing(self.a, tree, [match.a for match in matches])}")
            parts.append(f"B, {view}\n{_drawing(self.b, tree, [match.b for match in matches])}")
        return "\n\n".join(parts)

    __repr__ = __str__


@dataclass(frozen=True, kw_only=True, slots=True)
class ViewNodes:
    """What one view computes for two sentences: a vector of each sentence, and a state of each node."""

    name: str
    """The name of the view; a second view dep is ``dep 2``."""
    tree: Tree
    vectors: Float
    """The vectors of the sentences, [B, width]."""
    states: list[Float]
    """The states of the nodes of each sentence, [N, D]."""


def nodes_of(batch: Batch, network: ViewStack, positions: Sequence[int]) -> Iterator[ViewNodes]:
    """Encode a batch, and yield the vectors and states of each view at ``positions`` of a network."""
    views_of_name: Counter[str] = Counter()
    token_count, words = int(batch.sentence_offsets[-1]), batch.distinct_words()
    for view, x_UE, token_N in network.encoder_inputs(positions, *words):
        plan = view.plan(batch)
        h_ND = view.forward_nodes(x_UE, plan, token_N)
        tree: Tree = ""
        if "const" in view.requires and len(h_ND) == 2 * token_count - len(batch):
            tree = "const"
        elif "dep" in view.requires and len(h_ND) == token_count:
            tree = "dep"
        views_of_name[view.name] += 1
        number = views_of_name[view.name]
        vectors, nodes = (x.detach().float().cpu().numpy() for x in (view(x_UE, plan, token_N), h_ND))
        yield ViewNodes(
            name=view.name if number == 1 else f"{view.name} {number}",
            tree=tree,
            vectors=vectors,
            states=np.split(nodes, plan.node_offsets[1:-1]),
        )


def explain_pair(
    batch: Batch,
    inventories: Inventories,
    nodes: Sequence[ViewNodes],
    sentence_vectors: Mapping[str, Float],
    top: int,
) -> Explanation:
    """Return the explanation of the cosine of two sentences.

    Args:
        batch: The two parsed sentences.
        inventories: The names of the tags, relations and labels of ``batch``.
        nodes: The states of each view, as :func:`nodes_of` yields them.
        sentence_vectors: Vectors [2, D] by name: those of the sentences under "", and parts of them that have
            a cosine of their own, such as meaning and structure.
        top: The largest number of matches for each view.

    Raises UserError if a sentence is too long for the parsers, or if no view reads trees.
    """
    with loading():
        from multiview.judge.comparison import Comparison  # here, because the import compiles functions
        from multiview.judge.facts import facts_of_pairs
        from multiview.judge.reasons import bindings

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
        if view.tree:
            matches += _matches_of(view, batch, pair, inventories.dummy_label, top)
    vectors = {**sentence_vectors, **{view.name: view.vectors for view in nodes}}
    cosines = {name: float(np.dot(*unit_rows(pair_BD))) for name, pair_BD in vectors.items()}
    cosine = cosines.pop("")
    pair_bindings: list[Binding] = []
    if "relation" in batch.fields:
        rows = np.array([0, 1])
        pair_bindings = bindings(Comparison(facts_of_pairs([(rows, batch)], rows[None])), 0)
    return Explanation(pair[0], pair[1], cosine, cosines, trees, matches, pair_bindings)


def _matches_of(
    view: ViewNodes, batch: Batch, pair: Sequence[ParsedSentence], dummy_label: int, top: int
) -> Iterator[Match]:
    covers, unit_vectors, subtrees = [], [], []
    for row, sentence in enumerate(pair):
        cover_NW, is_subtree_N = covers_of(batch, row, view.tree, dummy_label)
        cover_NW = cover_NW[is_subtree_N]
        # The nodes of a dependency tree are its words.
        top_N = np.flatnonzero(is_subtree_N) if view.tree == "dep" else cover_NW.argmax(1)
        covers.append(cover_NW)
        unit_vectors.append(unit_rows(view.states[row][is_subtree_N]))
        nodes = zip(cover_NW, top_N.tolist(), strict=True)
        subtrees.append([_subtree(sentence, cover_W, top_word) for cover_W, top_word in nodes])
    cosine_NM = unit_vectors[0] @ unit_vectors[1].T
    trivial_NM = np.zeros(cosine_NM.shape, bool)
    for n, m in np.ndindex(cosine_NM.shape):
        trivial_NM[n, m] = _is_trivial(subtrees[0][n], subtrees[1][m])
    for n, m in best_matches(cosine_NM, covers[0], covers[1], trivial_NM, top):
        yield Match(view.name, subtrees[0][n], subtrees[1][m], float(cosine_NM[n, m]))


def _is_trivial(one: Subtree, other: Subtree) -> bool:
    """Tell whether two subtrees are the same single word, or one of them is a punctuation mark."""
    single_words = [side.words.lower() for side in (one, other) if len(side.positions) == 1]
    if any(not any(map(str.isalnum, word)) for word in single_words):
        return True
    return len(single_words) == 2 and single_words[0] == single_words[1]


def covers_of(
    batch: Batch, row: int, tree: Tree, dummy_label: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which words are below each node of a sentence, bool [N, W], and which nodes are subtrees, [N].

    Nodes that exist only because trees are binarised are no subtrees, nor are the nodes of a fallback tree.
    """
    first, stop = batch.sentence_offsets[row : row + 2].tolist()
    cover_NW = np.eye(stop - first, dtype=bool)
    is_subtree_N = np.ones(stop - first, dtype=bool)
    if tree == "dep":
        head = batch.head[first:stop]
        for word in range(stop - first):
            ancestor = word
            while ancestor >= 0:
                cover_NW[ancestor, word] = True
                ancestor = head[ancestor] - 1
    else:
        inner_nodes = slice(first - row, stop - row - 1)
        for left, right in zip(batch.left[inner_nodes], batch.right[inner_nodes], strict=True):
            cover_NW = np.vstack([cover_NW, cover_NW[left] | cover_NW[right]])
        is_subtree_N = np.append(is_subtree_N, batch.label[inner_nodes] != dummy_label)
    is_fallback = batch.flags[row] & (DEP_FALLBACK if tree == "dep" else CONST_FALLBACK)
    return cover_NW, is_subtree_N & (not is_fallback)


def best_matches(
    cosine_NM: Float,
    covers_NW: NDArray[np.bool_],
    covers_MW: NDArray[np.bool_],
    trivial_NM: NDArray[np.bool_],
    top: int,
) -> list[tuple[int, int]]:
    """Return matches (n, m), best first, by the rules at the top of this module.

    Args:
        cosine_NM: the cosine of each subtree of the first and each of the second sentence.
        covers_NW: the words below each subtree of the first sentence.
        covers_MW: the words below each subtree of the second sentence.
        trivial_NM: the pairs that are no match whatever their cosine.
        top: the largest number of matches. Of equal scores the first in row order is taken.
    """
    size_N, size_M = covers_NW.sum(1), covers_MW.sum(1)
    score_NM = cosine_NM * np.sqrt(np.minimum(size_N[:, None], size_M))
    both_whole_NM = (size_N == covers_NW.shape[1])[:, None] & (size_M == covers_MW.shape[1])
    score_NM[both_whole_NM | trivial_NM | (cosine_NM <= 0)] = 0
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
    positions = np.flatnonzero(cover_W).tolist()
    words: list[str] = []
    for position in positions:
        if words and not cover_W[position - 1]:
            words.append("…")
        words.append(display_name(sentence.words[position]))
    return Subtree(tuple(positions), " ".join(words), top)


def _drawing(sentence: ParsedSentence, tree: Tree, subtrees: Sequence[Subtree]) -> str:
    """Draw the tree of a sentence; the root of a subtree has the number of its match in brackets."""
    tags, spans = list(sentence.tags or ()), list(sentence.spans or ())
    relations = list(sentence.relations or ())
    index_of_span = {span[:2]: index for index, span in enumerate(spans)}
    for number, subtree in enumerate(subtrees, start=1):
        index = index_of_span.get((subtree.positions[0], subtree.positions[-1] + 1))
        if tree == "dep":
            relations[subtree.top] += f" [{number}]"
        elif index is None:  # a word without a constituent of its own
            tags[subtree.top] += f" [{number}]"
        else:
            spans[index] = (*spans[index][:2], f"{spans[index][2]} [{number}]")
    if tree == "dep":
        return replace(sentence, relations=relations, spans=None).drawings()[0]
    return replace(sentence, tags=tags, spans=spans, heads=None).drawings()[0]


def _text(sentence: ParsedSentence) -> str:
    return " ".join(map(display_name, sentence.words))
