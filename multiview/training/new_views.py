"""New views from nothing, trained by contrast with each other (Simoulin & Crabbé 2021, sections 2 and 3)."""

from __future__ import annotations

from collections.abc import Sequence

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
from runtime.device import pick_device
from runtime.errors import UserError


class NewViews(TrainingProgram):
    """Views and words whose weights the seed decides, and a text, whose neighbours they are to find.

    recall@1/both is that of the views and the mean of their words: where it is larger than that of the views
    alone, the model has the mean as its last view (``--beside``).
    """

    def __init__(self, config: NewViewsConfig, distributed: DistributedContext) -> None:
        views, table, objective = config.view_list, config.table, config.objective
        trained = trained_views(views)
        if len(trained) < 2 or trained != views[: len(trained)]:
            raise UserError(
                f"--views {config.views}: give two views or more that are trained, then the others"
            )
        self.device = pick_device(config.device, distributed.local_rank)
        self.trees = open_trees(config.trees)
        self.word_source = WordSource.of(config, self.trees)
        teacher = None if objective.teacher is None else open_teacher(objective.teacher, self.trees)
        words = self.word_source.new_table(len(trained))
        self.words = words.origin or "trained from nothing"
        torch.manual_seed(config.seed)
        self.network = network = MultiViewNetwork(views, words, config.encoder)
        network.positions_to_contrast(trained)
        teacher_dim = 0 if teacher is None else teacher.shape[1]
        network.objective = Objective(trained, network.widths[0], objective, network.dim, teacher_dim)
        network.start_as_bags()
        source = StepSource(
            self.trees,
            network,
            boundary=objective.boundary,
            finds_itself=objective.same > 0,
            micro_batch=config.loop.micro_batch,
            dropout=table.dropout,
            seed=config.seed,
            teacher=teacher,
        )
        self.text = TextSteps(source, config.loop, self.vectors, distributed, self.device)
        self.parts, self.contents = [self.text], {}
        if config.preset != "paper":  # whose features have no scale
            self.sample = self.text.sample()
        self.card = Card(config, self.trees)
        network.to(self.device)
        self.updates = Optimiser(network, table_rate=table.rate, table_update=table.update)

    def vectors(
        self, features: Sequence[Sequence[Tensor]], word_means: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """Return views side by side, the words' means, and both, each number centred and at one deviation."""
        all_views = [torch.cat([view.float() for view in views], dim=1) for views in features]
        # The view BAG reads the first table.
        pairs = zip(all_views, word_means, strict=True)
        both = [torch.cat([views, words[:, : self.network.words.dim]], dim=1) for views, words in pairs]
        compared = {"recall@1": all_views, "recall@1/words": word_means, "recall@1/both": both}
        return {name: Scale.measure(parts)(torch.cat(list(parts))) for name, parts in compared.items()}
