"""Why two sentences are close: the subtrees that match best, drawn on both trees.

Legend of dimension suffixes: B the two sentences, N nodes, W words of a sentence, D embedding size.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.support.errors import UserError
from multiview.nodes.matching import best_matches
from multiview.nodes.states import NodeBatch, Subtrees, Tree, ViewNodes, positions_of, subtrees_of, words_of
from parsing.cache.format import TOO_LONG, Inventories
from parsing.sentences import ParsedSentence, batch_sentences
from parsing.trees.draw import figure, page, shown


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
    :mod:`multiview.nodes.matching` says how matches are chosen.
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
            parts.append("\n".join([f"{view}:", *(self._lines(view) or ["  no subtrees match"])]))
            parts += [f"{side}, {view}\n{self._drawing(view, side, svg=False)}" for side in "AB"]
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [f"<p><b>A</b> {escape(_text(self.a))}<br><b>B</b> {escape(_text(self.b))}</p>"]
        parts.append(f"<p>{escape(self._closeness())}</p>")
        for view in self.trees:
            parts += [f"<h3>{escape(view)}</h3>", self._table(view)]
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

    def _lines(self, view: str) -> list[str]:
        """A line per match."""
        return [f"  [{m.number}] {m.cosine:.4f}  {m.a.words}  |  {m.b.words}" for m in self._of(view)]

    def _table(self, view: str) -> str:
        if not self._of(view):
            return "<p>No subtrees match.</p>"
        rows = [
            f"<tr><td>[{match.number}]</td><td>{match.cosine:.4f}</td>"
            f'<td class="text">{escape(match.a.words)}</td><td class="text">{escape(match.b.words)}</td></tr>'
            for match in self._of(view)
        ]
        head = '<tr><th></th><th>cosine</th><th class="text">in A</th><th class="text">in B</th></tr>'
        return f"<table><thead>{head}</thead><tbody>{''.join(rows)}</tbody></table>"

    def _drawing(self, view: str, side: str, *, svg: bool) -> str:
        """The tree of one sentence; a number in brackets is at the top of each subtree that matches."""
        sentence = self.a if side == "A" else self.b
        marked = [(match.a if side == "A" else match.b, f"[{match.number}]") for match in self._of(view)]
        if self.trees[view] == "dep":
            relations = list(sentence.relations or ())
            for subtree, mark in marked:
                relations[subtree.top] += f" {mark}"
            drawn = replace(sentence, relations=relations, spans=None)
        else:
            tags, spans = list(sentence.tags or ()), list(sentence.spans or ())
            places = {span[:2]: index for index, span in enumerate(spans)}
            for subtree, mark in marked:
                start, end = subtree.positions[0], subtree.positions[-1] + 1
                if (start, end) in places:
                    label = f"{spans[places[start, end]][2]} {mark}"
                    spans[places[start, end]] = (start, end, label)
                else:  # a word without a constituent of its own
                    tags[start] += f" {mark}"
            drawn = replace(sentence, tags=tags, spans=spans, heads=None)
        return drawn.drawings(svg=svg)[0]


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
    order = np.argsort(nodes.places)
    sentences = list(batch_sentences(nodes.batch, inventories))
    a, b = (sentences[row] for row in order)
    for sentence in (a, b):
        if sentence.flags & TOO_LONG:
            raise UserError(
                f"explain: {_text(sentence)[:60]!r} ... has {len(sentence.words)} words, too many for the "
                "parsers; there is no tree to explain"
            )
    parts = torch.split(vectors_BD.float(), [view.width for view in nodes.views], dim=1)
    matches = []
    for view in nodes.views:
        if view.tree:
            subtrees = subtrees_of(nodes.batch, view.tree, inventories.dummy_label)
            matches += _matches(view, subtrees, a, b, order, top)
    return Explanation(
        a=a,
        b=b,
        cosine=_cosine(vectors_BD.float()),
        cosines={view.view: _cosine(part) for view, part in zip(nodes.views, parts, strict=True)},
        trees=trees,
        matches=tuple(matches),
    )


def _matches(
    view: ViewNodes,
    subtrees: Subtrees,
    a: ParsedSentence,
    b: ParsedSentence,
    order: NDArray[np.int64],
    top: int,
) -> list[Match]:
    """The matches of one view."""
    sides, covers, rows = [], [], []
    for sentence, row in zip((a, b), order, strict=True):
        own = np.arange(subtrees.offset_B[row], subtrees.offset_B[row + 1])
        own = own[subtrees.named_N[own] & subtrees.parsed_N[own]]
        found = [_subtree(sentence, subtrees, int(node), int(subtrees.offset_B[row])) for node in own]
        covers_NW = np.zeros((len(own), len(sentence.words)), dtype=bool)
        for line, subtree in zip(covers_NW, found, strict=True):
            line[list(subtree.positions)] = True
        sides.append(found)
        covers.append(covers_NW)
        rows.append(
            torch.nn.functional.normalize(view.h_ND[torch.from_numpy(own).to(view.h_ND.device)].float())
        )
    cosine_NM = (rows[0] @ rows[1].T).cpu().numpy()
    trivial_NM = np.array([[_trivial(one, other) for other in sides[1]] for one in sides[0]], dtype=bool)
    trivial_NM = trivial_NM.reshape(cosine_NM.shape)
    return [
        Match(view.view, number, sides[0][one], sides[1][other], float(cosine_NM[one, other]))
        for number, (one, other) in enumerate(
            best_matches(cosine_NM, covers[0], covers[1], trivial_NM, top), start=1
        )
    ]


def _subtree(sentence: ParsedSentence, subtrees: Subtrees, node: int, start: int) -> Subtree:
    positions = positions_of(subtrees, node, sentence.heads or ())
    words = words_of([shown(word) for word in sentence.words], positions)
    # The nodes of a dependency tree are its words.
    top = node - start if node - start in positions else positions[0]
    return Subtree(positions, words, top)


def _trivial(one: Subtree, other: Subtree) -> bool:
    """Whether both are the same word, or one is a punctuation mark."""
    if len(one.positions) == len(other.positions) == 1 and one.words.lower() == other.words.lower():
        return True
    return any(len(s.positions) == 1 and not any(map(str.isalnum, s.words)) for s in (one, other))


def _cosine(vectors_BD: Tensor) -> float:
    """Of two vectors."""
    return float(torch.nn.functional.cosine_similarity(vectors_BD[0], vectors_BD[1], dim=0))


def _text(sentence: ParsedSentence) -> str:
    return " ".join(map(shown, sentence.words))
