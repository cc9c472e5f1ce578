"""Training that goes on from a model (``--start``), on a text, on pairs, or on both.

The loss contrasts the *meanings* of sentences, the vectors of which cosines are taken, and holds each meaning
to the one that the start gives the sentence (:class:`~multiview.training.objective.MeaningObjective`;
docs/equations.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from multiview.config import NO_VIEWS, ContinueConfig
from multiview.encoders.meaning import Readout, Scale
from multiview.encoders.registry import ViewStack, trained_views, view_class
from multiview.folder.card import StartCard
from multiview.folder.files import Model, ModelRecord, load_model, model_folder, model_record, model_sha256
from multiview.folder.reading import SentenceReader
from multiview.model import MultiViewEncoder
from multiview.model_config import MeaningConfig
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

VECTORS_FOLDER = Path("runs/vectors")
"""The folder in which the start's vectors of a text are kept for later runs."""


@dataclass(frozen=True)
class Start:
    """The model that training goes on from: a folder, or ``builtin``."""

    record: ModelRecord
    model: Model
    sha256: str

    @classmethod
    def open(cls, name: str) -> Self:
        """Open ``--start``. Raises UserError if it is damaged, of another version or not finite."""
        folder = model_folder(name)
        start = cls(model_record(folder), load_model(folder), model_sha256(folder))
        for weight_name, weight in start.model.network.state_dict().items():
            if not weight_name.startswith("scale.") and not weight.isfinite().all():
                raise UserError(f"--start {name}: its weights {weight_name} are not finite; give another")
        return start

    def vectors(self, trees: TreeCache) -> Float:
        """Return the start's meanings of all sentences of a text, float32 [sentences, K], each at length 1.

        They are stored in ``VECTORS_FOLDER`` and read from there by later runs.
        """
        source = {"model": self.sha256, "trees": trees.identity["content_sha256"]}
        folder = VECTORS_FOLDER / f"start-{json_digest(source, 16)}"
        path, encoder = folder / "vectors.npy", MultiViewEncoder(self.model)
        encode = partial(encoder.encode, None, trees=trees, normalize_embeddings=True)
        make_once(folder, source, [path.name], lambda: write_array(path, encode()))
        vectors: Float = read_array(path, 2)
        return vectors


def continued_program(config: ContinueConfig, distributed: DistributedContext) -> TrainingProgram:
    """Build the program that trains ``--start`` further on a text, on pairs, or on both in turns.

    Raises UserError if the start is damaged or has no such view, if it cannot read the trees, or if there are
    too few pairs.
    """
    if config.pairs and distributed.world > 1:
        raise UserError("--pairs: one process at a time learns from them; start without torchrun")
    device = pick_device(config.device, distributed.local_rank)
    text_trees = open_trees(config.trees) if config.reads_text else None
    start = Start.open(config.start)
    views, trained = _choose_views(config, start.model.network)
    pair_sets = read_pair_sets(config.pairs, config.validation, config.seed) if config.pairs else None
    all_trees = _trees_to_read(start, views, text_trees, pair_sets)
    start_vectors = [start.vectors(trees) for trees in all_trees]
    network, objective = _network_to_train(config, start, views, trained, all_trees)
    text = pairs = None
    if text_trees is not None:
        source = _step_source(config, network, text_trees, start_vectors[0])
        vectors_to_compare = partial(_vectors_to_compare, objective)
        text = TextSteps(source, config.loop, vectors_to_compare, distributed, device)
    if pair_sets is not None:
        source = _step_source(config, network, all_trees[-1], start_vectors[-1])
        pairs = PairSteps(pair_sets, source, objective, batch=config.loop.batch, device=device)
    digest_of_pairs = {} if pairs is None else {"content of --pairs": pairs.sha256}
    learns_from_grades_alone = text is None and pair_sets is not None and pair_sets[0].is_graded
    network.to(device)
    return TrainingProgram(
        device=device,
        network=network,
        optimiser=Optimiser(network),
        text=text,
        pairs=pairs,
        trees=all_trees[0],
        content_digests={"content of --start": start.sha256, **digest_of_pairs},
        select="pairs/spearman" if learns_from_grades_alone else "-loss",
        scale_sample=text.sample() if text is not None and network.scale is None else (),
        card=StartCard(config, all_trees[0]),
        words_origin="the start's",
        start=config.start,
        training_record={"start": {"model": config.start, "sha256": start.sha256}},
        structure=start.record.structure,
        structure_size=start.record.structure_size,
    )


def _step_source(
    config: ContinueConfig, network: MultiViewNetwork, trees: TreeCache, start_vectors: Float
) -> StepSource:
    """Return the source of steps from trees, with the start's vectors of their sentences, [sentences, K]."""
    return StepSource(
        trees,
        network,
        boundary=config.objective.boundary,
        micro_batch=config.loop.micro_batch,
        seed=config.seed,
        target_vectors=start_vectors,
    )


def _vectors_to_compare(
    objective: MeaningObjective, view_vectors: Sequence[Sequence[Tensor]], word_means: Sequence[Tensor]
) -> dict[str, Tensor]:
    """Return the vectors that each recall@1 is measured on: the meanings, and the words' means.

    Every number of the words' means is centred and divided by its deviation.
    """
    meaning_NK = torch.cat([objective.meaning(views) for views in view_vectors])
    words_NW = Scale.measure(word_means)(torch.cat(list(word_means)))
    return {"recall@1": meaning_NK, "recall@1/words": words_NW}


def loss_of(config: ContinueConfig) -> MeaningConfig:
    """Return the options of the loss, with a weight ``keep`` and a temperature where these are None.

    A text has far more positives than a file of pairs, and a neighbour in a text is less like the anchor than
    the partner in a pair; therefore meanings are held to those of the start more strongly on a text. A few
    pairs are soon learned by heart, which a higher temperature delays.
    """
    loss = config.objective
    if loss.keep is None:
        loss = replace(loss, keep=20.0 if config.reads_text else 5.0)
    if loss.temperature is None:
        loss = replace(loss, temperature=0.05 if config.reads_text else 0.1)
    return loss


def _choose_views(config: ContinueConfig, start: ViewStack) -> tuple[list[str], list[str]]:
    """Return the names of all views of the new model, and of those that are trained.

    Views that join the start's come after its trained views and before its views without weights. Raises
    UserError if a view cannot be trained.
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
    if new_views and start.readout is None:  # the new meanings would have more numbers than the start's
        raise UserError(
            f"--views {config.views}: {new_views[0]} can join a start with a read-out only; fit one by "
            "python -m multiview.readout"
        )
    position = len(trained_views(own_views))
    views = [*own_views[:position], *new_views, *own_views[position:]]
    return views, [view for view in views if view in chosen]


def _trees_to_read(
    start: Start, views: Sequence[str], text_trees: TreeCache | None, pair_sets: PairSets | None
) -> list[TreeCache]:
    """Return the trees of the text, if there is one, and those of the pairs, which are parsed here.

    Raises UserError if the start cannot read the trees.
    """
    reader = SentenceReader(start.model.parsers)
    requires = {annotation for view in views for annotation in view_class(view).requires}
    all_trees = [] if text_trees is None else [text_trees]
    if pair_sets is not None:
        all_trees.append(parse_pairs(pair_sets, reader, requires))
    for trees in all_trees:
        try:
            reader.check_trees(trees, requires)
        except UserError as error:
            raise UserError(f"{error}; or train new views over these trees: --start none") from None
    return all_trees


def _network_to_train(
    config: ContinueConfig,
    start: Start,
    views: Sequence[str],
    trained: Sequence[str],
    all_trees: Sequence[TreeCache],
) -> tuple[MultiViewNetwork, MeaningObjective]:
    """Return the start's network with the views that join it, and the objective, which is set in it.

    The weights of views that join are drawn from the seed of the run. The read-out and the trained views
    alone have gradients.
    """
    torch.manual_seed(config.seed)
    network = _with_new_views(start.model.network, views)
    if network.readout is not None:
        network.readout.origin += f"; went on with {', '.join(trees.folder.name for trees in all_trees)}"
    positions = network.positions_to_contrast(trained)
    network.requires_grad_(False)
    for module in (network.readout, *(network.encoder_list[position] for position in positions)):
        if module is not None:
            module.requires_grad_(True)
    network.objective = objective = MeaningObjective(network.readout, positions, loss_of(config))
    return network, objective


def _with_new_views(start: ViewStack, views: Sequence[str]) -> MultiViewNetwork:
    """Return a network of the start's weights, in which views that are new have weights drawn at random.

    The read-out has zeros for the numbers of new views, so that the model's meanings are those of the start.
    """
    own_encoders = dict(zip(start.views, start.encoder_list, strict=True))
    network = MultiViewNetwork(views, start.words, start.config, [own_encoders.get(view) for view in views])
    network.scale = start.scale if network.dim == start.dim else None
    if (readout := start.readout) is not None:
        own_blocks = dict(zip(start.views, readout.weight.split(start.widths, 1), strict=True))
        widths = zip(views, network.widths, strict=True)
        blocks = [own_blocks.get(view, torch.zeros(readout.dim, width)) for view, width in widths]
        network.readout = Readout(torch.cat(blocks, dim=1), readout.bias.clone(), readout.origin)
    return network
