"""Training of new views, whose weights start at random (Simoulin & Crabbé 2021, sections 2 and 3).

The loss contrasts the views of a text's sentences with each other
(:class:`~multiview.training.objective.Objective`; docs/equations.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from multiview.config import NewViewsConfig
from multiview.encoders.meaning import Scale
from multiview.encoders.registry import trained_views
from multiview.folder.card import Card
from multiview.training.data import StepSource, open_teacher, open_trees
from multiview.training.gradient import DistributedContext, MultiViewNetwork, Optimiser
from multiview.training.objective import Objective
from multiview.training.text import TextSteps
from multiview.training.trainer import TrainingProgram
from multiview.words.sources import WordSource
from multiview.words.table import WordTable
from runtime.device import pick_device
from runtime.errors import UserError


def new_views_program(config: NewViewsConfig, distributed: DistributedContext) -> TrainingProgram:
    """Build the program that trains new views on a text, with the word vectors that ``--words`` asks for.

    Raises UserError if views or words cannot be trained, or if the trees lack what a view reads.
    """
    trained = _views_to_train(config)
    device = pick_device(config.device, distributed.local_rank)
    trees = open_trees(config.trees)
    word_source = WordSource.of(config, trees)
    teacher = None if config.objective.teacher is None else open_teacher(config.objective.teacher, trees)
    words = word_source.new_table(len(trained))
    network = _new_network(config, trained, words, teacher_dim=0 if teacher is None else teacher.shape[1])
    source = StepSource(
        trees,
        network,
        boundary=config.objective.boundary,
        finds_itself=config.objective.same > 0,
        micro_batch=config.loop.micro_batch,
        dropout=config.table.dropout,
        seed=config.seed,
        target_vectors=teacher,
    )
    text = TextSteps(source, config.loop, partial(_vectors_to_compare, words.dim), distributed, device)
    network.to(device)
    return TrainingProgram(
        device=device,
        network=network,
        optimiser=Optimiser(network, table_rate=config.table.rate, table_update=config.table.update),
        text=text,
        trees=trees,
        content_digests={},
        scale_sample=text.sample() if config.preset != "paper" else (),  # the paper's features have no scale
        card=Card(config, trees),
        words_origin=words.origin or "trained from nothing",
        word_source=word_source,
    )


def _views_to_train(config: NewViewsConfig) -> list[str]:
    """Return the views that have weights. Raises UserError if there are fewer than two, or others precede."""
    views = config.view_list
    trained = trained_views(views)
    if len(trained) < 2 or trained != views[: len(trained)]:
        raise UserError(f"--views {config.views}: give two views or more that are trained, then the others")
    return trained


def _new_network(
    config: NewViewsConfig, trained: Sequence[str], words: WordTable, *, teacher_dim: int
) -> MultiViewNetwork:
    """Return the network and its objective, with weights that are drawn from the seed of the run."""
    torch.manual_seed(config.seed)
    network = MultiViewNetwork(config.view_list, words, config.encoder)
    network.positions_to_contrast(trained)  # refuses views of several widths
    network.objective = Objective(trained, network.widths[0], config.objective, network.dim, teacher_dim)
    network.start_as_bags()
    return network


def _vectors_to_compare(
    word_dim: int, view_vectors: Sequence[Sequence[Tensor]], word_means: Sequence[Tensor]
) -> dict[str, Tensor]:
    """Return the vectors that each recall@1 is measured on, each number centred and divided by its deviation.

    recall@1 is that of the views side by side, recall@1/words that of the mean of the words' vectors, and
    recall@1/both that of the two concatenated. Where the last is larger than the first, the mean becomes the
    model's last view (``--beside``). ``word_dim`` is the size of a vector in one word table.
    """
    all_views = [torch.cat([view.float() for view in views], dim=1) for views in view_vectors]
    # The view BAG reads the first table.
    pairs = zip(all_views, word_means, strict=True)
    both = [torch.cat([views, words[:, :word_dim]], dim=1) for views, words in pairs]
    compared = {"recall@1": all_views, "recall@1/words": word_means, "recall@1/both": both}
    return {name: Scale.measure(parts)(torch.cat(list(parts))) for name, parts in compared.items()}
