"""A model goes on: its meanings are contrasted anew, and each is held to what it was (docs/equations.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from multiview.config import NO_VIEWS, ContinueConfig, MeaningConfig
from multiview.encoders.meaning import Readout, Scale
from multiview.encoders.registry import ViewStack, trained_views, view_class
from multiview.folder.card import StartCard
from multiview.folder.files import Model, ModelRecord, load_model, model_folder, model_record, model_sha256
from multiview.folder.reading import SentenceReader
from multiview.model import MultiViewEncoder
from multiview.training.data import StepSource, open_trees
from multiview.training.gradient import DistributedContext, MultiViewNetwork, Optimiser
from multiview.training.objective import MeaningObjective
from multiview.training.pairs import PairSets, PairSteps, parse_pairs, read_pair_sets
from multiview.training.text import TextSteps
from multiview.training.trainer import TrainingProgram
from multiview.words.vectors import Float
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.errors import UserError
from runtime.files import json_digest, read_array, write_array
from runtime.folders import make_once
from runtime.training_state import Values

VECTORS_FOLDER = Path("runs/vectors")
"""Folder of the start's vectors of a text, which are computed once."""


@dataclass(frozen=True)
class Start:
    """The model that training goes on from: a folder, or ``builtin``."""

    record: ModelRecord
    model: Model
    sha256: str

    @classmethod
    def open(cls, name: str) -> Self:
        """Open ``--start``; one that is damaged, of another version or not finite is a UserError."""
        folder = model_folder(name)
        start = cls(model_record(folder), load_model(folder), model_sha256(folder))
        for weight_name, weight in start.model.network.state_dict().items():
            if not weight_name.startswith("scale.") and not weight.isfinite().all():
                raise UserError(f"--start {name}: its weights {weight_name} are not finite; give another")
        return start

    def vectors(self, trees: TreeCache) -> Float:
        """Return the vectors of a text, [sentences, K], for cosine; they are stored for other runs."""
        source = {"model": self.sha256, "trees": trees.identity["content_sha256"]}
        folder = VECTORS_FOLDER / f"start-{json_digest(source, 16)}"
        path, encoder = folder / "vectors.npy", MultiViewEncoder(self.model)
        encode = partial(encoder.encode, None, trees=trees, normalize_embeddings=True)
        make_once(folder, source, [path.name], lambda: write_array(path, encode()))
        vectors: Float = read_array(path, 2)
        return vectors


class ContinuedModel(TrainingProgram):
    """Views and read-out of ``--start``, views that join it, and a text, pairs, or both in turns."""

    def __init__(self, config: ContinueConfig, distributed: DistributedContext) -> None:
        if config.pairs and distributed.world > 1:
            raise UserError("--pairs: one process at a time learns from them; start without torchrun")
        self.device = pick_device(config.device, distributed.local_rank)
        text_trees = [open_trees(config.trees)] if config.reads_text else []
        self.start, self.before = Start.open(config.start), [config.start]
        model = self.start.model
        views, trained = _choose_views(config, model.network)
        reader = SentenceReader(model.parsers)
        requires = {need for view in views for need in view_class(view).requires}
        pair_sets = read_pair_sets(config.pairs, config.validation, config.seed) if config.pairs else None
        all_trees = text_trees + ([parse_pairs(pair_sets, reader, requires)] if pair_sets else [])
        _check_trees(reader, all_trees, requires)
        self.contents = {"content of --start": self.start.sha256}
        vectors_before = [self.start.vectors(trees) for trees in all_trees]
        torch.manual_seed(config.seed)
        self.network = _network(model.network, views)
        if self.network.readout is not None:
            texts = ", ".join(trees.folder.name for trees in all_trees)
            self.network.readout.origin += f"; went on with {texts}"
        positions = _leave_to_train(self.network, trained)
        self.objective = MeaningObjective(self.network.readout, positions, loss_of(config))
        self.network.objective = self.objective
        sources = [
            StepSource(
                trees,
                self.network,
                boundary=config.objective.boundary,
                micro_batch=config.loop.micro_batch,
                seed=config.seed,
                teacher=vectors,
            )
            for trees, vectors in zip(all_trees, vectors_before, strict=True)
        ]
        self.parts = []
        if text_trees:
            text = TextSteps(sources[0], config.loop, self.vectors, distributed, self.device)
            self.parts.append(text)
            if self.network.scale is None:
                self.sample = text.sample()
        if pair_sets:
            self._learn_from_pairs(pair_sets, sources[-1], config)
        self.trees, self.card = all_trees[0], StartCard(config, all_trees[0])
        self.network.to(self.device)
        self.updates = Optimiser(self.network)

    def _learn_from_pairs(self, pair_sets: PairSets, source: StepSource, config: ContinueConfig) -> None:
        """Add pairs to what is learned from; without a text, graded ones select the weights."""
        pairs = PairSteps(pair_sets, source, self.objective, batch=config.loop.batch, device=self.device)
        self.parts.append(pairs)
        self.contents["content of --pairs"] = pairs.sha256
        if pair_sets[0].is_graded and not config.reads_text:
            self.select = "pairs/spearman"

    def vectors(
        self, features: Sequence[Sequence[Tensor]], word_means: Sequence[Tensor]
    ) -> dict[str, Tensor]:
        """Return meanings, and the words' means, each number of these centred and at one deviation."""
        meaning_NK = torch.cat([self.objective.meaning(views) for views in features])
        words_NW = Scale.measure(word_means)(torch.cat(list(word_means)))
        return {"recall@1": meaning_NK, "recall@1/words": words_NW}

    def save(self, folder: Path, training: Values, scores: Values, **_: Any) -> None:
        """Write the model folder, which names the start and has its structure."""
        start, record = {"model": self.before[0], "sha256": self.start.sha256}, self.start.record
        structure = {"structure": record.structure, "structure_size": record.structure_size}
        super().save(folder, {**training, "start": start}, scores, **structure)


def loss_of(config: ContinueConfig) -> MeaningConfig:
    """Return the loss, with its temperature and the weight of what meanings were.

    A text has far more positives than a file of pairs, and they say less of what is alike. A few pairs are
    soon learned by heart, which a higher temperature delays.
    """
    loss = config.objective
    if loss.keep is None:
        loss = replace(loss, keep=20.0 if config.reads_text else 5.0)
    if loss.temperature is None:
        loss = replace(loss, temperature=0.05 if config.reads_text else 0.1)
    return loss


def _choose_views(config: ContinueConfig, start: ViewStack) -> tuple[list[str], list[str]]:
    """Return the views of the model, those that join before those without weights, and which are trained.

    A view that cannot be trained is a UserError.
    """
    own_views, chosen = list(start.views), config.view_list
    if config.views == NO_VIEWS and start.readout is None:
        raise UserError(f"--views none: {config.start} has no read-out to train; name views")
    if not config.views:
        chosen = trained_views(own_views)
    for view in chosen:
        if view_class(view).weightless:
            raise UserError(f"--views {config.views}: {view} has nothing to train; leave it out")
    if len(set(own_views)) < len(own_views):
        raise UserError(f"--start {config.start}: has one view twice, which cannot be told apart")
    new_views = [view for view in chosen if view not in own_views]
    if new_views and start.words.tables:
        raise UserError(f"--views {config.views}: {new_views[0]} can join a start of fixed words only")
    position = len(trained_views(own_views))
    views = [*own_views[:position], *new_views, *own_views[position:]]
    return views, [view for view in views if view in chosen]


def _check_trees(reader: SentenceReader, all_trees: Sequence[TreeCache], requires: set[str]) -> None:
    """Refuse trees that the start cannot read."""
    for trees in all_trees:
        try:
            reader.check_trees(trees, requires)
        except UserError as error:
            raise UserError(f"{error}; or train new views over these trees: --start none") from None


def _leave_to_train(network: MultiViewNetwork, trained: Sequence[str]) -> list[int]:
    """Let the read-out and the trained views alone have gradients; return the positions of these views."""
    positions = network.positions_to_contrast(trained)
    network.requires_grad_(False)
    for module in (network.readout, *(network.encoder_list[position] for position in positions)):
        if module is not None:
            module.requires_grad_(True)
    return positions


def _network(start: ViewStack, views: Sequence[str]) -> MultiViewNetwork:
    """Return the start with views that join it, which its read-out ignores."""
    own_encoders = dict(zip(start.views, start.encoder_list, strict=True))
    network = MultiViewNetwork(views, start.words, start.config, [own_encoders.get(view) for view in views])
    network.scale = start.scale if network.dim == start.dim else None
    if (readout := start.readout) is not None:
        own_blocks = dict(zip(start.views, readout.weight.split(start.widths, 1), strict=True))
        widths = zip(views, network.widths, strict=True)
        blocks = [own_blocks.get(view, torch.zeros(readout.dim, width)) for view, width in widths]
        network.readout = Readout(torch.cat(blocks, dim=1), readout.bias.clone(), readout.origin)
    return network
