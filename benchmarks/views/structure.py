"""What kind of sentence a test item is: its length, its depth, its constructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from corpora.senteval.files import read_task
from corpora.support.errors import UserError
from multiview.folder.files import KINDS
from parsing.cache.format import view_fields
from parsing.cache.reader import TreeCache
from senteval_runner.protocol.results import TaskResult
from senteval_runner.vectors.evaluation_trees import find_caches

CLASSIFICATION = ("MR", "CR", "SUBJ", "TREC")
"""Tasks whose items are single sentences."""
LENGTHS = ((1, 10), (11, 20), (21, 30), (31, 10_000))
DEPTHS = ((0, 3), (4, 5), (6, 7), (8, 10_000))
CONSTRUCTIONS = {
    "coordination": ("conj",),
    "relative clause": ("acl:relcl",),
    "adverbial clause": ("advcl",),
    "clausal complement": ("ccomp", "xcomp"),
    "passive": ("nsubj:pass", "csubj:pass"),
}
"""Universal Dependencies' relations that show them."""


@dataclass(frozen=True)
class Structure:
    """Of one sentence, by the parser's tree."""

    length: int
    depth: int
    """Edges on the longest path from the root of the dependency tree to a word."""
    relations: frozenset[str]

    def kinds(self) -> list[str]:
        """The rows of the table that it belongs to."""
        found = [f"length {span(low, high)}" for low, high in LENGTHS if low <= self.length <= high]
        found += [f"depth {span(low, high)}" for low, high in DEPTHS if low <= self.depth <= high]
        return found + [name for name, shown in CONSTRUCTIONS.items() if self.relations.intersection(shown)]


def span(low: int, high: int) -> str:
    """A range as the table shows it."""
    return f"over {low - 1}" if high == 10_000 else f"{low} to {high}"


def kind_names() -> list[str]:
    """All rows of the table, in order."""
    lengths = [f"length {span(*bounds)}" for bounds in LENGTHS]
    return [*lengths, *(f"depth {span(*bounds)}" for bounds in DEPTHS), *CONSTRUCTIONS]


def structures(parsed: Path, trained_on: TreeCache) -> dict[tuple[str, ...], Structure]:
    """Every parsed evaluation sentence.

    Args:
        parsed: folder of the evaluation sentences' caches.
        trained_on: cache by the same parsers.

    Raises:
        UserError: nothing was parsed by those parsers.
    """
    cache = find_caches(parsed, {need: trained_on.identity[kind] for need, kind in KINDS.items()})
    if cache is None:
        raise UserError(f"{parsed}: no trees of evaluation sentences by the parsers of {trained_on.folder}")
    found: dict[tuple[str, ...], Structure] = {}
    names = np.array(cache.relations)
    for start in range(0, len(cache), 8192):
        batch = cache.read(start, min(start + 8192, len(cache)), view_fields(["dep"]))
        bounds = batch.sentence_offsets
        for words, low, high in zip(batch.words(), bounds[:-1], bounds[1:], strict=True):
            shown = frozenset(names[np.unique(batch.relation[low:high])].tolist())
            found[tuple(words)] = Structure(len(words), int(batch.dep_height[low:high].max()), shown)
    return found


def accuracy_by_kind(
    results: Mapping[str, TaskResult],
    data: Path,
    known: Mapping[tuple[str, ...], Structure],
    tasks: Sequence[str] = CLASSIFICATION,
) -> dict[str, tuple[float, int]]:
    """Accuracy in percent over the items of all tasks and the number of items, by kind of sentence.

    Args:
        results: of one system, by task.
        data: SentEval's folder.
        known: see :func:`structures`.
        tasks: tasks of single sentences.
    """
    right: dict[str, list[bool]] = {name: [] for name in kind_names()}
    for task in tasks:
        result, splits = results[task], read_task(task, data).splits
        for split, gold in result.gold.items():
            for tokens, wanted, given in zip(splits[split].a, gold, result.predictions[split], strict=True):
                for kind in known[tuple(tokens) or (".",)].kinds():
                    right[kind].append(wanted == given)
    return {kind: (100 * float(np.mean(hits)), len(hits)) for kind, hits in right.items() if hits}
