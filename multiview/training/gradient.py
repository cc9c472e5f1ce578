"""The network that is trained, and the gradient of one step: plain, or cached over micro-batches.

Gradient caching (Gao et al. 2021) trains batches that do not fit into memory: encode the micro-batches
without a graph, differentiate the loss with respect to the features, then encode each micro-batch again and
backpropagate its part of that gradient. Nothing in the encoders is random, so the gradient is the same.

Legend of dimension suffixes: B sentences, D hidden, U distinct word rows, E word-vector size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from corpora.support.errors import UserError
from multiview.config import TrainConfig
from multiview.encoders.registry import Reading, ViewStack, trained_views
from multiview.folder.files import load_members, member_names, member_record, model_sha256
from multiview.folder.names import model_folder
from multiview.folder.reading import Reader
from multiview.training.data import MicroBatch, Segment, Step
from multiview.training.distributed import DistributedContext
from multiview.training.objective import Objective
from multiview.words.sources import OWN_SHARE, new_table, tuned_table
from multiview.words.table import WordTable
from multiview.words.vectors import WordVectors
from multiview.words.vocabulary import Vocabulary, corpus_words
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


def warm_start(config: TrainConfig, folder: Path, trees: TreeCache) -> ViewStack:
    """The views of a model, with the words of a corpus added to its own.

    Trained tables take in the most frequent words of the corpus that they lack, see
    :meth:`multiview.words.table.WordTable.grown`. The words of a model of fixed vectors stay as they are, or
    with ``--words tuned`` become trained tables, whose new words start as :func:`tuned_table` says. In both,
    the corpus's words come first, by their frequency there, so that a view which weighs words by their place
    (``hash``) has this corpus's weights. The objective's weights are not part of a model.

    Args:
        config: of the training.
        folder: of the model.
        trees: the corpus.

    Raises:
        UserError: no model there, or its views, encoders, words or parsers are not those of this run.
    """
    if member_names(folder) != [""]:
        raise UserError(
            f"--init {folder}: holds the models {', '.join(member_names(folder))}; name one of these "
            "folders, or give --words both"
        )
    record = member_record(folder)
    mode = record.words.mode if config.words == "tuned" else config.words
    compared: list[tuple[str, object, object]] = [
        ("--views", ",".join(config.view_list), ",".join(trained_views(record.views))),
        ("--words", mode, record.words.mode),
        ("--table.case", config.table.case, record.words.case),
        ("--encoder.dim", config.encoder.dim, record.encoder.dim),
    ]
    if config.words != "tuned" or record.words.mode == "trained":
        compared.append(("--table.buckets", config.table.buckets, record.words.buckets))
    for option, wanted, found in compared:
        if wanted != found:
            raise UserError(f"{option} {wanted}: --init {folder} has {found}; give that, or another model")
    (member,) = load_members(folder)
    network = member.network
    requires = {need for encoder in network.encoder_list for need in encoder.requires}
    Reader([member]).check_trees(trees, requires)
    origin = f"continued from `{config.init}` (SHA-256 {model_sha256(folder)[:16]})"
    if config.words != "fixed":
        own = network.words.trained_vocabulary
        here, _ = corpus_words(trees.type_counts(), config.table)
        words = list(dict.fromkeys([*here, *own.words]))
        origin += f" with {len(words) - len(own):,} words more"
        if network.words.fixed is None:
            network.words = network.words.grown(words)
        else:
            more = Vocabulary(words, buckets=config.table.buckets, case=own.case)
            vectors = WordVectors(own.words, network.words.fixed)
            network.words = tuned_table(config, more, vectors, OWN_SHARE)
    network.words.origin = origin
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
