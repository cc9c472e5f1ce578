"""Training on pairs of sentences: the steps of each epoch, the pairs that are held out, the scores on these.

A step has half as many rows of ``--pairs`` as a segment of text has sentences. In a step each sentence is a
negative of every other, except of the sentences that rows pair it with, directly or through other rows
(:func:`~multiview.training.targets.pair_targets`).

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

from corpora.training_pairs import Example, PairSet, connected_groups, read_training_pairs, text_key
from multiview.folder.reading import SentenceReader
from multiview.folder.sentence_trees import parse_sentences
from multiview.training.data import Step, StepSource, move_to_device
from multiview.training.gradient import MultiViewNetwork
from multiview.training.objective import MeaningObjective
from multiview.training.targets import Grades, pair_targets
from parsing.trees.batch import ANNOTATIONS
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import json_digest

HELD_OUT_SHARE = 0.1
"""The share of the pairs that is held out for validation, unless ``--validation`` names a file."""
PAIR_TREES = Path("runs/pairs")
"""The folder of the tree caches of pairs."""
PairSets = tuple[PairSet, PairSet]
"""The pairs to train on, and the held-out pairs."""


def read_pair_sets(files: Sequence[Path], validation: Path | None, seed: int) -> PairSets:
    """Read files of pairs; return those to train on and those held out, without a sentence in common.

    ``validation`` is the file of held-out pairs; without one a share of the pairs is drawn by the seed.
    Raises UserError if it has other columns, if there are too few pairs, or if all grades are the same.
    """
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
    """Return a tree cache of the distinct sentences of all sets, which is in ``runs/pairs/`` or made there.

    ``requires`` are the annotations that the views read.
    """
    tokens = [reader.tokens(text) for text in _distinct_texts(sets)]
    needs = sorted(requires & ANNOTATIONS.keys())
    folder = PAIR_TREES / json_digest([tokens, reader.identities, needs], 12)
    parse_sentences(tokens, folder, reader, needs, name=folder.name)
    return TreeCache.open(folder)


class PairSteps:
    """The training steps of a file of pairs, and its held-out pairs.

    Args:
        sets: the pairs to train on, and the held-out pairs.
        source: reads and plans sentences of the cache that :func:`parse_pairs` returned for ``sets``.
        objective: the loss, which also makes the meanings that grades are compared with.
        batch: the sentences of a step; it has half as many rows.
        device: where steps are copied to.
    """

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
        """Return the steps of an epoch as functions, each of which reads and plans its step when called.

        Rows are shuffled by the seed and the epoch. A last step of a single row is left out.
        """
        order = np.random.default_rng([self.source.seed, epoch]).permutation(len(self.training))
        starts = range(0, len(order), self.rows_per_step)
        rows_of_steps = [order[first : first + self.rows_per_step] for first in starts]
        return [partial(self.prepare, rows) for rows in rows_of_steps if len(rows) > 1]

    def prepare(self, rows: NDArray[np.int64]) -> Step:
        """Read and plan the step of some rows, and queue its copy to the device."""
        step = self._step([self.training.examples[row] for row in rows])
        step_on_device: Step = move_to_device(step, self.device)
        return step_on_device

    def _step(self, examples: Sequence[Example]) -> Step:
        texts = list(dict.fromkeys(text for example in examples for text in example.sentences))
        index_of_text = {text: index for index, text in enumerate(texts)}
        indices = [[index_of_text[text] for text in example.sentences] for example in examples]
        rows_B = np.array([self.row_of_text[text] for text in texts], dtype=np.int64)
        if self.training.is_graded:
            first, second = torch.tensor(indices).T
            low, high = self.grade_range
            grades = (torch.tensor([example.grade for example in examples]) - low) / (high - low)
            return self.source.prepare_sentences(rows_B, Grades(first, second, grades))
        # A text that no row pairs with another, a given negative, is a group of its own.
        group_B = [self.groups.get(text_key(text), len(self.groups) + row) for row, text in enumerate(texts)]
        return self.source.prepare_sentences(rows_B, pair_targets(indices, np.array(group_B)))

    @torch.no_grad()
    def scores(self, network: MultiViewNetwork, *, autocast: bool = False) -> dict[str, float]:
        """Return a network's scores on the held-out pairs, each name with ``pairs/`` in front.

        They are the metrics of the objective and, if the pairs have grades, Spearman's correlation of the
        grades with the cosines of the meanings. The loss is returned as ``loss``, too.
        """
        anchors, sums, cosines_of_steps = 0, torch.zeros(()), []
        for step_on_host in self.validation_steps:
            step: Step = move_to_device(step_on_host, self.device)
            (segment,) = step.segments
            (batch,) = segment.micro_batches
            with torch.autocast(self.device.type, torch.bfloat16, enabled=autocast):
                view_vectors = network.encode(batch.tokens, batch.plans, step.leaves(network.words))
            _, metrics = self.objective(view_vectors, segment.targets, segment.target_vectors)
            sums = sums.to(self.device) + metrics
            anchors += step.anchors
            if isinstance(segment.targets, Grades):
                cosines_of_steps.append(segment.targets.cosines(self.objective.meaning(view_vectors)))
        names = self.objective.metrics_of(segment.targets)
        scores = dict(zip((f"pairs/{name}" for name in names), (sums / anchors).tolist(), strict=True))
        if cosines_of_steps:
            grades = [example.grade for example in self.validation.examples]
            cosine_P = torch.cat(cosines_of_steps).cpu()
            varies = bool(cosine_P.min() < cosine_P.max())  # the correlation of a constant is undefined
            scores["pairs/spearman"] = float(spearmanr(cosine_P, grades).statistic) if varies else 0.0
        return {**scores, "loss": scores["pairs/loss"]}


def _distinct_texts(sets: Sequence[PairSet]) -> list[str]:
    """Return every sentence of the sets once, in order of appearance; its place is its row in the cache."""
    return list(dict.fromkeys(text for pairs in sets for text in pairs.sentences()))
