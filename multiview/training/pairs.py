"""Pairs of sentences as a source of steps: the rows of each epoch, what they are compared by, their scores.

A step has half as many rows as a segment of text has sentences. All its sentences are candidates of each
other, but for those that belong together, directly or through other rows (:func:`pair_targets`).

Legend of dimension suffixes: B sentences of a step, P pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr
from torch import Tensor

from corpora.training_pairs import Example, PairSet, connected_groups, read_training_pairs, text_key
from multiview.folder.reading import SentenceReader
from multiview.folder.sentence_trees import parse_sentences
from multiview.training.data import Step, StepSource, move_to_device
from multiview.training.gradient import MultiViewNetwork
from multiview.training.objective import Grades, MeaningObjective, pair_targets
from parsing.trees.batch import ANNOTATIONS
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import json_digest

HELD_OUT_SHARE = 0.1
"""Share of the pairs that validates, where no file is given for that."""
PAIR_TREES = Path("runs/pairs")
PairSets = tuple[PairSet, PairSet]
"""Pairs to train on, and those held out."""


def read_pair_sets(files: Sequence[Path], validation: Path | None, seed: int) -> PairSets:
    """Read ``--pairs``: those to train on and those held out, without a sentence in common."""
    pairs = read_training_pairs(files)
    if validation is None:
        training, held_out = pairs.split(HELD_OUT_SHARE, seed)
    else:
        held_out = read_training_pairs([validation])
        if held_out.is_graded != pairs.is_graded:
            raise UserError(f"--validation {validation}: needs the columns of --pairs")
        training = pairs.without(held_out)
    has_one_grade = any(pairs.is_graded and len(part.grades) < 2 for part in (training, held_out))
    if len(training) < 2 or has_one_grade:
        raise UserError(
            f"--pairs {', '.join(pairs.names)}: {len(training):,} rows to train on and {len(held_out):,} "
            "that are held out are too few, or have one grade; give more, or --validation"
        )
    return training, held_out


def parse_pairs(sets: Sequence[PairSet], reader: SentenceReader, requires: Set[str]) -> TreeCache:
    """Parse the sentences of all sets into a cache of their own, ``runs/pairs/…``, once.

    ``requires`` are the annotations that the views read.
    """
    tokens = [reader.tokens(text) for text in _distinct_texts(sets)]
    needs = sorted(requires & ANNOTATIONS.keys())
    folder = PAIR_TREES / json_digest([tokens, reader.identities, needs], 12)
    parse_sentences(tokens, folder, reader, needs, name=folder.name)
    return TreeCache.open(folder)


class PairSteps:
    """The training pairs in steps; ``source`` reads the cache of :func:`parse_pairs` over the same sets."""

    def __init__(
        self,
        sets: PairSets,
        source: StepSource,
        objective: MeaningObjective,
        *,
        batch: int,
        device: torch.device,
    ) -> None:
        self.training, self.validation = sets
        self.source, self.objective, self.device = source, objective, device
        self.rows_per_step = max(batch // 2, 2)
        grades = [grade for grade in self.training.grades if grade is not None] or [0.0, 1.0]
        self.grade_range = min(grades), max(grades)
        self.sha256 = json_digest([pairs.sha256 for pairs in sets], 64)
        self.row_of_text = {text: row for row, text in enumerate(_distinct_texts(sets))}
        self.groups = connected_groups(example.sentences[:2] for pairs in sets for example in pairs.examples)
        blocks = range(0, len(self.validation), self.rows_per_step)
        self.validation_steps = [
            self._step(self.validation.examples[b : b + self.rows_per_step]) for b in blocks
        ]
        self.held_out = sum(step.sentences for step in self.validation_steps)

    def of_epoch(self, epoch: int) -> list[Callable[[], Step]]:
        """List the steps of an epoch, read when they are called; a last one of a single row is left out."""
        order = np.random.default_rng([self.source.seed, epoch]).permutation(len(self.training))
        starts = range(0, len(order), self.rows_per_step)
        rows_of_steps = [order[first : first + self.rows_per_step] for first in starts]
        return [partial(self.prepare, rows) for rows in rows_of_steps if len(rows) > 1]

    def prepare(self, rows: NDArray[np.int64]) -> Step:
        """Read and plan a step, and queue its copy to the device."""
        step = self._step([self.training.examples[row] for row in rows])
        step_on_device: Step = move_to_device(step, self.device)
        return step_on_device

    def _step(self, examples: Sequence[Example]) -> Step:
        texts = list(dict.fromkeys(text for example in examples for text in example.sentences))
        number_of_text = {text: number for number, text in enumerate(texts)}
        numbers = [[number_of_text[text] for text in example.sentences] for example in examples]
        rows_B = np.array([self.row_of_text[text] for text in texts], dtype=np.int64)
        if self.training.is_graded:
            first, second = torch.tensor(numbers).T
            low, high = self.grade_range
            grades = (torch.tensor([example.grade for example in examples]) - low) / (high - low)
            return self.source.prepare_sentences(rows_B, Grades(first, second, grades))
        # Negatives that no row pairs are groups of their own.
        group_B = [self.groups.get(text_key(text), len(self.groups) + row) for row, text in enumerate(texts)]
        return self.source.prepare_sentences(rows_B, pair_targets(numbers, np.array(group_B)))

    @torch.no_grad()
    def scores(self, network: MultiViewNetwork, *, autocast: bool = False) -> dict[str, float]:
        """Measure the held-out pairs: loss, and accuracy@1 or, of grades, Spearman's correlation."""
        anchors, sums, cosines = 0, torch.zeros(()), []
        for step_on_host in self.validation_steps:
            step: Step = move_to_device(step_on_host, self.device)
            (segment,) = step.segments
            (batch,) = segment.micro_batches
            with torch.autocast(self.device.type, torch.bfloat16, enabled=autocast):
                features = network.encode(batch.tokens, batch.plans, step.leaves(network.words))
            sums = sums.to(self.device) + self.objective(features, segment.targets, segment.teacher)[1]
            anchors += step.anchors
            if isinstance(segment.targets, Grades):
                cosines.append(_cosines(self.objective.meaning(features), segment.targets))
        names = self.objective.metrics_of(segment.targets)
        scores = dict(zip((f"pairs/{name}" for name in names), (sums / anchors).tolist(), strict=True))
        if cosines:
            grades = [example.grade for example in self.validation.examples]
            cosine_P = torch.cat(cosines).cpu()
            varies = bool(cosine_P.min() < cosine_P.max())  # else there is no correlation
            scores["pairs/spearman"] = float(spearmanr(cosine_P, grades).statistic) if varies else 0.0
        return {**scores, "loss": scores["pairs/loss"]}


def _distinct_texts(sets: Sequence[PairSet]) -> list[str]:
    return list(dict.fromkeys(text for pairs in sets for text in pairs.sentences()))


def _cosines(meaning_BK: Tensor, grades: Grades) -> Tensor:
    return (meaning_BK[grades.first] * meaning_BK[grades.second]).sum(dim=1)
