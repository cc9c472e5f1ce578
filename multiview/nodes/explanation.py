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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

from corpora.support.errors import UserError
from multiview.nodes.states import NodeBatch, Tree
from parsing.trees.batch import CONST_FALLBACK, DEP_FALLBACK, TOO_LONG, Batch, Inventories
from parsing.trees.sentences import ParsedSentence, batch_sentences, figure, page, shown


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
    number: int
    """From 1, best first; the drawings carry it."""
    a: Subtree
    b: Subtree
    cosine: float
    """Of the two nodes' vectors."""


@dataclass(frozen=True)
class Explanation:
    """What of two sentences matches, by view.

    ``str`` draws it as text, a notebook shows pictures, :meth:`to_html` makes a page.
    """

    a: ParsedSentence
    b: ParsedSentence
    cosine: float
    """Of the sentences' vectors, all views below side by side."""
    cosines: Mapping[str, float]
    """Of the sentences' vectors in each view; the second view of a name is ``dep 2``."""
    trees: Mapping[str, Tree]
    """The tree of each view that has one."""
    matches: Sequence[Match]
    """View by view, best first."""

    def __str__(self) -> str:
        parts = [f"A  {_text(self.a)}\nB  {_text(self.b)}", self._closeness()]
        for view in self.trees:
            lines = [f"  [{m.number}] {m.cosine:.4f}  {m.a.words}  |  {m.b.words}" for m in self._of(view)]
            parts.append("\n".join([f"{view}:", *(lines or ["  no subtrees match"])]))
            parts += [f"{side}, {view}\n{self._drawing(view, side, svg=False)}" for side in "AB"]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p><b>A</b> {escape(_text(self.a))}<br><b>B</b> {escape(_text(self.b))}</p>"]
        parts.append(f"<p>{escape(self._closeness())}</p>")
        for view in self.trees:
            rows = [
                f'<tr><td>[{m.number}]</td><td>{m.cosine:.4f}</td><td class="text">{escape(m.a.words)}</td>'
                f'<td class="text">{escape(m.b.words)}</td></tr>'
                for m in self._of(view)
            ]
            head = '<tr><th></th><th>cosine</th><th class="text">in A</th><th class="text">in B</th></tr>'
            table = f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"
            parts += [f"<h3>{escape(view)}</h3>", table if rows else "<p>No subtrees match.</p>"]
            parts += [figure(f"{side}, {view}", self._drawing(view, side, svg=True)) for side in "AB"]
        return "\n".join(parts)

    def to_html(self) -> str:
        """A page that needs no other file and no network."""
        return page(f"{_text(self.a)} | {_text(self.b)}", self._repr_html_())

    def _closeness(self) -> str:
        views = ", ".join(f"{view} {cosine:.4f}" for view, cosine in self.cosines.items())
        return f"cosine {self.cosine:.4f} ({views})"

    def _of(self, view: str) -> list[Match]:
        return [match for match in self.matches if match.view == view]

    def _drawing(self, view: str, side: str, *, svg: bool) -> str:
        """The tree of one sentence; a number in brackets is at the top of each subtree that matches."""
        sentence = self.a if side == "A" else self.b
        marked = [(match.a if side == "A" else match.b, f" [{match.number}]") for match in self._of(view)]
        if self.trees[view] == "dep":
            relations = list(sentence.relations or ())
            for subtree, mark in marked:
                relations[subtree.top] += mark
            return replace(sentence, relations=relations, spans=None).drawings(svg=svg)[0]
        tags, spans = list(sentence.tags or ()), list(sentence.spans or ())
        places = {span[:2]: index for index, span in enumerate(spans)}
        for subtree, mark in marked:
            place = places.get((subtree.positions[0], subtree.positions[-1] + 1))
            if place is None:  # a word without a constituent of its own
                tags[subtree.top] += mark
            else:
                spans[place] = (*spans[place][:2], spans[place][2] + mark)
        return replace(sentence, tags=tags, spans=spans, heads=None).drawings(svg=svg)[0]


def explain_pair(nodes: NodeBatch, vectors_BD: Tensor, inventories: Inventories, top: int) -> Explanation:
    """The best matches of two sentences.

    Args:
        nodes: of the two sentences, with all fields of their trees.
        vectors_BD: [2, D], sentence vectors in the order of the batch, the views of ``nodes`` side by side.
        inventories: names of the trees' ids.
        top: matches for each view at most.

    Raises:
        UserError: a sentence is too long for the parsers, or no view has trees.
    """
    trees: dict[str, Tree] = {view.view: view.tree for view in nodes.views if view.tree}
    if not trees:
        names = ", ".join(view.view for view in nodes.views)
        raise UserError(f"explain: no trees in {names}; it needs a model with the view dep or const")
    order = np.argsort(nodes.places).tolist()
    sentences = list(batch_sentences(nodes.batch, inventories))
    pair = [sentences[row] for row in order]
    for sentence in pair:
        if sentence.flags & TOO_LONG:
            raise UserError(
                f"explain: {_text(sentence)[:60]!r} ... has {len(sentence.words)} words, too many for the "
                "parsers; there is no tree to explain"
            )
    matches = []
    for view in nodes.views:
        if not view.tree:
            continue
        covers, rows, subtrees = [], [], []
        for row, sentence in zip(order, pair, strict=True):
            cover_NW, named_N = covers_of(nodes.batch, row, view.tree, inventories.dummy_label)
            covers.append(cover_NW[named_N])
            rows.append(normalize(view.h_ND[view.sentence_N == row].cpu()[torch.from_numpy(named_N)].float()))
            # The nodes of a dependency tree are its words.
            tops = np.flatnonzero(named_N) if view.tree == "dep" else cover_NW[named_N].argmax(1)
            pairs = zip(covers[-1], tops.tolist(), strict=True)
            subtrees.append([_subtree(sentence, cover_W, top_word) for cover_W, top_word in pairs])
        cosine_NM = (rows[0] @ rows[1].T).numpy()
        trivial = [[_trivial(one, other) for other in subtrees[1]] for one in subtrees[0]]
        trivial_NM = np.array(trivial, dtype=bool).reshape(cosine_NM.shape)
        best = best_matches(cosine_NM, covers[0], covers[1], trivial_NM, top)
        matches += [
            Match(view.view, number, subtrees[0][one], subtrees[1][other], float(cosine_NM[one, other]))
            for number, (one, other) in enumerate(best, start=1)
        ]
    parts = vectors_BD.float().split([view.width for view in nodes.views], dim=1)
    named = zip((view.view for view in nodes.views), parts, strict=True)
    return Explanation(
        a=pair[0],
        b=pair[1],
        cosine=_cosine(vectors_BD.float()),
        cosines={view: _cosine(part_BD) for view, part_BD in named},
        trees=trees,
        matches=tuple(matches),
    )


def covers_of(
    batch: Batch, row: int, tree: Tree, dummy_label: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which words are under each node of a sentence, bool [N, W], and which nodes are subtrees, bool [N].

    Nodes that only binarisation made are none, and those of a stand-in for a tree that no parser could give.

    Args:
        batch: with the fields of the tree, ``label`` included.
        row: which sentence.
        tree: ``dep`` or ``const``.
        dummy_label: label of the nodes that binarisation adds.
    """
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
    cosine_NM: NDArray[np.floating],
    covers_NW: NDArray[np.bool_],
    covers_MW: NDArray[np.bool_],
    trivial_NM: NDArray[np.bool_],
    top: int,
) -> list[tuple[int, int]]:
    """The matches, best first; of equal ones the first in row order.

    Args:
        cosine_NM: [N, M], cosine of every pair of subtrees.
        covers_NW: bool [N, W], whether a word is under a subtree of the first sentence.
        covers_MW: bool [M, W], the same for the second; its W is another.
        trivial_NM: bool [N, M], pairs to leave out.
        top: matches at most.
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
    positions = np.flatnonzero(cover_W).tolist()
    words = []
    for before, position in zip([positions[0] - 1, *positions], positions, strict=False):
        words += ["…"] * (position > before + 1) + [shown(sentence.words[position])]
    return Subtree(tuple(positions), " ".join(words), top)


def _trivial(one: Subtree, other: Subtree) -> bool:
    if len(one.positions) == len(other.positions) == 1 and one.words.lower() == other.words.lower():
        return True
    return any(len(s.positions) == 1 and not any(map(str.isalnum, s.words)) for s in (one, other))


def _cosine(vectors_BD: Tensor) -> float:
    return float(cosine_similarity(vectors_BD[0], vectors_BD[1], dim=0))


def _text(sentence: ParsedSentence) -> str:
    return " ".join(map(shown, sentence.words))
