"""The network that is trained: the views of a model and the objective over their vectors."""

from __future__ import annotations

import torch

from multiview.config import TrainConfig
from multiview.encoders.stack import Reading, ViewStack
from multiview.folder.names import model_folder
from multiview.training.objective import Objective
from multiview.training.warm_start import warm_start
from multiview.words.new import new_table
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
