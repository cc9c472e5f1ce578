"""The sets of pairs of :mod:`benchmarks.opposites`."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from corpora.inputs import read_table
from corpora.senteval.files import TaskData, read_task
from corpora.senteval.structure import FILLINGS, Pair, read_pairs
from multiview.encoders import poles
from senteval_runner.protocol.correlation import Scores
from tools.fit_judge import CAPTIONS, exchanged, read_half

TRIPLETS = ("SemAntoNeg", *CAPTIONS)
CANNOT = {"claims": "wikifactcheck_english_0", "reviews": "sentiment_labelled_sentences"}
QUORA = 2000
"""Pairs drawn of Quora's."""


class PairSet(NamedTuple):
    """Pairs of sentences; some come in rows of several."""

    gold: Scores
    """[n], 1 where both say the same, else 0; or how much alike they are."""
    texts: list[tuple[str, str]]
    size: int = 1
    """Pairs that are drawn together: 3 of a triplet's row, all of a frame."""

    def first(self, limit: int) -> PairSet:
        """The first pairs, in whole rows and at least one; all if ``limit`` is 0."""
        end = max(limit - limit % self.size, self.size) if limit else len(self.texts)
        return PairSet(self.gold[:end], self.texts[:end], self.size)


def read_sets(data: Path, hans: Path | None, *, scored: bool) -> dict[str, PairSet]:
    """The sets of a half, by name."""
    pairs = read_half(data, scored=scored)
    if hans:
        rows = list(read_pairs("HANS", hans))
        pairs["HANS"] = random.Random(0).sample(rows, len(rows))  # the file is sorted by label
    if scored:
        for name, file in CANNOT.items():
            pairs[name] = list(read_pairs("Opposites", data / f"structure/cannot_{file}.tsv"))
        quora = read_table(data / "paraphrase/quora_duplicates_eval_split.tsv.gz", ("sentence1", "sentence2"))
        same: list[Pair] = [(True, row.cells[0], row.cells[1]) for row in quora]
        pairs["Quora"] = random.Random(0).sample(same, QUORA)
    sizes = {"Binding": 2 * FILLINGS, **dict.fromkeys(TRIPLETS, 3)}
    sets = {
        name: PairSet(np.array([float(p[0]) for p in part]), [p[1:] for p in part], sizes.get(name, 1))
        for name, part in pairs.items()
    }
    folder, split = data / "senteval", "test" if scored else "train"
    similar = _graded(read_task("STSBenchmark", folder), split)
    sets["STS-B"] = similar if scored else _without_others(similar, folder)
    sets["SICK-R"] = _graded(read_task("SICKRelatedness", folder), split)
    return sets


def _graded(task: TaskData, split: str) -> PairSet:
    rows = task.splits[split]
    texts = [(" ".join(a), " ".join(b)) for a, b in zip(rows.a, rows.b or [], strict=True)]
    return PairSet(np.array(rows.y, np.float64), texts)


def _without_others(similar: PairSet, folder: Path) -> PairSet:
    """STS-B's rows but for the pairs that other tasks have."""
    known: set[frozenset[str]] = set()
    for task in (read_task(name, folder) for name in ("STS12", "STS14", "STS16")):
        known |= {_letters(pair) for split in task.splits for pair in _graded(task, split).texts}
    new = [row for row, pair in enumerate(similar.texts) if _letters(pair) not in known]
    return PairSet(similar.gold[new], [similar.texts[row] for row in new])


def _letters(pair: tuple[str, str]) -> frozenset[str]:
    return frozenset(re.sub(r"\W", "", text.lower()) for text in pair)


@contextmanager
def without_antonyms(found: PairSet) -> Iterator[None]:
    """Take the pairs of antonyms of SemAntoNeg's rows out of the list of the structure vector."""
    rows = zip(found.texts[::3], found.texts[2::3], strict=True)
    forms = []
    for pair in {frozenset(exchanged(no_not, paraphrase)) for (_, paraphrase), (_, no_not) in rows}:
        forms.append({form for word in pair for form in (*poles.bases(word), poles.signed(word)[0])})

    def is_taken(one: str, other: str) -> bool:
        bases = {poles.signed(one)[0], poles.signed(other)[0]}
        return any({one, other} <= pair or bases <= pair for pair in forms)

    kept = [row for row in poles._table("opposites.tsv") if not is_taken(row["one"], row["other"])]
    caches = (poles.antonyms, poles.signed, poles._poles)
    with patch.object(poles, "_table", lambda name: kept):
        for cache in caches:
            cache.cache_clear()
        yield
    for cache in caches:
        cache.cache_clear()
