"""The nearest phrases of a corpus, a batch of its nodes at a time.

A phrase is a constituent (CONST) or a word with all below it (DEP). Sentences that no parser could take have
no phrases. Of phrases with the same words, whatever their case, the best one stays.

Legend of dimension suffixes: Q queries, N nodes, D embedding size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from corpora.support.errors import UserError
from corpora.support.terminal import printable
from multiview.nodes.states import NodeBatch, ViewNodes, positions_of, subtrees_of, words_of

MARKS = "«»"
DIGITS = 6
"""Of a cosine that rank phrases: the same words in another batch may differ in the last bit."""

Rank = tuple[float, int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class PhraseHit:
    """A phrase of the corpus."""

    corpus_id: int
    """Row of its sentence in the corpus."""
    score: float
    """Cosine."""
    positions: tuple[int, ...]
    """Of the phrase's words in the sentence, from 0."""
    sentence: tuple[str, ...]
    """Words of the sentence."""

    @property
    def phrase(self) -> str:
        """Its words, with … where a discontinuous phrase leaves some out."""
        return words_of(self.sentence, self.positions)

    def __str__(self) -> str:
        """The sentence, with the phrase in « »."""
        inside = set(self.positions)
        words = []
        for position, word in enumerate(map(printable, self.sentence)):
            if position in inside:
                before = "" if position - 1 in inside else MARKS[0]
                after = "" if position + 1 in inside else MARKS[1]
                word = f"{before}{word}{after}"
            words.append(word)
        return " ".join(words)


class NearestPhrases:
    """Keeps the best phrases for each query, over batches in any order.

    Args:
        queries_QD: [Q, D], one row per query.
        top_k: phrases per query.
        max_words: longest phrase; the shortest has two words.
    """

    def __init__(self, queries_QD: Tensor, *, top_k: int, max_words: int) -> None:
        self.queries_QD = torch.nn.functional.normalize(queries_QD.float())
        self.top_k, self.max_words = top_k, max_words
        self._best: list[dict[str, PhraseHit]] = [{} for _ in range(len(queries_QD))]

    def add(self, nodes: NodeBatch, dummy_label: int) -> None:
        """Look at the phrases of a batch, those of its only view.

        Args:
            nodes: sentences with places in the corpus.
            dummy_label: label of the nodes that binarisation adds.
        """
        view = _only(nodes)
        subtrees = subtrees_of(nodes.batch, view.tree, dummy_label)
        wanted_N = (subtrees.size_N >= 2) & (subtrees.size_N <= self.max_words)
        kept = np.flatnonzero(wanted_N & subtrees.named_N & subtrees.parsed_N)
        h_ND = view.h_ND[torch.from_numpy(kept).to(view.h_ND.device)].float()
        scores_QN = (self.queries_QD @ torch.nn.functional.normalize(h_ND).T).cpu().numpy()
        sentences, offsets = list(nodes.batch.words()), nodes.batch.sentence_offsets
        for best, scores_N in zip(self._best, scores_QN, strict=True):
            full = len(best) == self.top_k
            worst = min((_rounded(hit.score) for hit in best.values()), default=0.0) if full else -np.inf
            for index in np.argsort(-scores_N, kind="stable").tolist():
                if _rounded(float(scores_N[index])) < worst:
                    break
                node = int(kept[index])
                row = int(np.searchsorted(subtrees.offset_B, node, "right")) - 1
                head = (
                    nodes.batch.head[offsets[row] : offsets[row + 1]].tolist() if view.tree == "dep" else []
                )
                positions = positions_of(subtrees, node, head)
                hit = PhraseHit(
                    int(nodes.places[row]), float(scores_N[index]), positions, tuple(sentences[row])
                )
                words = hit.phrase.lower()
                if words not in best or _rank(hit) < _rank(best[words]):
                    best[words] = hit
            for words, _ in sorted(best.items(), key=lambda item: _rank(item[1]))[self.top_k :]:
                del best[words]

    def hits(self) -> list[list[PhraseHit]]:
        """The best phrases of each query, best first; of equal ones the first in the corpus."""
        return [sorted(best.values(), key=_rank) for best in self._best]


def root_vectors(nodes: NodeBatch) -> Tensor:
    """Vectors [B, D] of the roots of whole sentences, in the order of the batch; from its only view."""
    view = _only(nodes)
    # Of labels only phrases depend.
    root_B = torch.from_numpy(subtrees_of(nodes.batch, view.tree, -1).root_B)
    return view.h_ND[root_B.to(view.h_ND.device)]


def _only(nodes: NodeBatch) -> ViewNodes:
    """The first view, if it has trees."""
    view = nodes.views[0]
    if not view.tree:
        raise UserError(f"view {view.view!r} has no phrases: it reads no trees")
    return view


def _rank(hit: PhraseHit) -> Rank:
    return -_rounded(hit.score), hit.corpus_id, hit.positions


def _rounded(score: float) -> float:
    return round(score, DIGITS)
