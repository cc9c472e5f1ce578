"""The network that is trained, and the gradient of one step: plain, or cached over micro-batches.

Gradient caching (Gao et al. 2021) trains batches that do not fit into memory: encode the micro-batches
without a graph, differentiate the loss with respect to the features, then encode each micro-batch again and
backpropagate its part of that gradient. Nothing in the encoders is random, so the gradient is the same.

Legend of dimension suffixes: B sentences, D hidden, U distinct word rows, E word-vector size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from multiview.config import TrainConfig
from multiview.encoders.stack import Reading, ViewStack
from multiview.folder.names import model_folder
from multiview.training.data import MicroBatch, Segment, Step
from multiview.training.distributed import DistributedContext
from multiview.training.objective import Objective
from multiview.words.new import new_table, warm_start
from multiview.words.table import WordTable
from parsing.cache.reader import TreeCache


class MultiViewNetwork(ViewStack):
    """The views and their objective; a model folder keeps only the views.

    Args:
        config: of the training.
        words: vocabulary and vectors.
        teacher_dim: size of the teacher's vectors; 0 without a teacher.
    """

    model_reading: Reading | None = None
    """How the model that ``--init`` named is read, and so is the one that comes of it."""

    def __init__(self, config: TrainConfig, words: WordTable, teacher_dim: int = 0) -> None:
        super().__init__(config.view_list, words, config.encoder)
        self.objective = Objective(
            self.views, config.encoder.width, config.objective, config.teacher, teacher_dim
        )

    @classmethod
    def new(cls, config: TrainConfig, trees: TreeCache, teacher_dim: int = 0) -> MultiViewNetwork:
        """A network with new weights, which depend only on the configuration, the corpus and ``--init``.

        Args:
            config: for one model, so ``words`` is not ``both``.
            trees: the corpus.
            teacher_dim: size of the teacher's vectors; 0 without a teacher.
        """
        start = None if config.init is None else warm_start(config, model_folder(config.init), trees)
        words = new_table(config, trees) if start is None else start.words
        torch.manual_seed(config.seed)
        network = cls(config, words, teacher_dim)
        if start is None:
            network.scale_and_equalise()
        else:
            network.encoders.load_state_dict(start.encoders.state_dict())
            network.model_reading = start.reading
        return network


@dataclass
class StepResult:
    """Metrics of a step over all processes, and the gradient of its word vectors."""

    table_rows: Tensor
    """int64 [U], distinct rows over all processes."""
    row_gradients: list[Tensor]
    """[U, E] per table; empty with fixed vectors."""
    metrics: Tensor
    """float64, means over the step's anchors of what :attr:`Objective.metrics` names. They stay on the
    device, since to read one waits for it."""


def step_gradient(
    network: MultiViewNetwork, step: Step, distributed: DistributedContext, *, autocast: bool = False
) -> StepResult:
    """Compute the gradient of the step's mean loss; those of dense parameters are left in ``.grad``.

    Args:
        network: parameters and objective.
        step: this process's part of the step.
        distributed: this process among all.
        autocast: bfloat16 matrix products in the encoders.
    """
    rows = step.rows.leaves(network.words)
    scale = 1.0 / max(step.anchors, 1)
    sums = [_backward(network, segment, rows, scale, autocast) for segment in step.segments]
    distributed.sum_gradients([p for n, p in network.named_parameters() if not n.startswith("words.")])
    table_rows, gradients = distributed.sum_rows(
        step.rows, [_gradient(leaf) for leaf in rows if leaf.requires_grad]
    )
    return StepResult(table_rows, gradients, distributed.sum(torch.stack(sums).sum(0)) * scale)


def _backward(
    network: MultiViewNetwork, segment: Segment, rows: Sequence[Tensor], scale: float, autocast: bool
) -> Tensor:
    """Add the gradient of ``scale`` times the segment's summed loss; return its sums."""

    def encode(micro_batch: MicroBatch) -> list[Tensor]:
        with torch.autocast(rows[0].device.type, torch.bfloat16, enabled=autocast):
            return network.encode(micro_batch.tokens, micro_batch.plans, rows)

    micro_batches = segment.micro_batches
    cached = len(micro_batches) > 1
    if cached:
        with torch.no_grad():
            parts = [encode(micro_batch) for micro_batch in micro_batches]
        features = [torch.cat(view).requires_grad_() for view in zip(*parts, strict=True)]
    else:
        features = encode(micro_batches[0])
    value = network.objective(features, segment.targets, segment.teacher)
    (value.loss * scale).backward()
    if cached:
        sizes = [micro_batch.sentences for micro_batch in micro_batches]
        slices = zip(*(_gradient(leaf).split(sizes) for leaf in features), strict=True)
        for micro_batch, gradient in zip(micro_batches, slices, strict=True):
            torch.autograd.backward(encode(micro_batch), list(gradient))
    sums: Tensor = value.sums
    return sums


def _gradient(leaf: Tensor) -> Tensor:
    return leaf.grad if leaf.grad is not None else torch.zeros_like(leaf)
