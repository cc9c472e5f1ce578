"""A model that training goes on from: its views, which are trained, and the vectors that it is held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from multiview.config import NO_VIEWS, TrainConfig
from multiview.encoders.meaning import Readout
from multiview.encoders.registry import ViewEncoder, trained_views, view_class
from multiview.folder.files import Model, load_model, model_folder, model_record, model_sha256
from multiview.folder.reading import SentenceReader
from multiview.model import MultiViewEncoder
from multiview.words.vectors import Float
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import json_digest, read_array, write_array
from runtime.folders import make_once

KEPT = Path("runs/vectors")
"""Folder of the start's vectors of a text, which are computed once."""


@dataclass(frozen=True)
class StartModel:
    """A loaded model, the views that it will have, and which of them are trained."""

    folder: Path
    model: Model
    views: list[str]
    trained: list[str]
    structure: float
    structure_size: int

    @classmethod
    def open(cls, config: TrainConfig) -> StartModel:
        """Load ``--start``, with the views of ``--views`` that it lacks before those without weights.

        A model that is damaged, of another version or not finite is a UserError, and so is
        a view that cannot be trained.
        """
        folder = model_folder(config.start)
        record, model = model_record(folder), load_model(folder)
        for name, weight in model.network.state_dict().items():
            if not name.startswith("scale.") and not weight.isfinite().all():
                raise UserError(f"--start {config.start}: its weights {name} are not finite; give another")
        own_views, chosen = list(model.network.views), config.view_list
        if config.views == NO_VIEWS and model.network.readout is None:
            raise UserError(f"--views none: {config.start} has no read-out to train; name views")
        if not config.views:
            chosen = trained_views(own_views)
        for view in chosen:
            if view_class(view).weightless:
                raise UserError(f"--views {config.views}: {view} has nothing to train; leave it out")
        if len(set(own_views)) < len(own_views):
            raise UserError(f"--start {config.start}: has one view twice, which cannot be told apart")
        if len(set(chosen)) < len(chosen):
            raise UserError(f"--views {config.views}: names a view twice; name each once")
        new_views = [view for view in chosen if view not in own_views]
        if new_views and model.network.words.tables:
            raise UserError(f"--views {config.views}: {new_views[0]} can join a start of fixed words only")
        place = len(trained_views(own_views))
        views = [*own_views[:place], *new_views, *own_views[place:]]
        trained = [view for view in views if view in chosen]
        return cls(folder, model, views, trained, record.structure, record.structure_size)

    @property
    def sha256(self) -> str:
        """A hash of the model's files."""
        return model_sha256(self.folder)

    @property
    def reader(self) -> SentenceReader:
        """What parses sentences by the start's parsers."""
        return SentenceReader(self.model.parsers)

    @property
    def requires(self) -> set[str]:
        """The annotations that the views read, those that join too."""
        return {need for view in self.views for need in view_class(view).requires}

    @property
    def encoders(self) -> list[ViewEncoder | None]:
        """The encoders of :attr:`views`; None for those that join."""
        own_encoders = dict(zip(self.model.network.views, self.model.network.encoder_list, strict=True))
        return [own_encoders.get(view) for view in self.views]

    def readout_for(self, widths: Sequence[int]) -> Readout | None:
        """Return the read-out, which ignores the views that join; ``widths`` are those of :attr:`views`."""
        network = self.model.network
        if network.readout is None:
            return None
        blocks_of_views = dict(
            zip(network.views, network.readout.weight.split(network.widths, 1), strict=True)
        )
        blocks = [
            blocks_of_views.get(view, torch.zeros(network.readout.dim, width))
            for view, width in zip(self.views, widths, strict=True)
        ]
        return Readout(torch.cat(blocks, dim=1), network.readout.bias.clone(), network.readout.origin)

    def check_trees(self, trees: TreeCache) -> None:
        """Refuse trees that lack what a view reads, or that other parsers made than the start's."""
        try:
            self.reader.check_trees(trees, self.requires)
        except UserError as error:
            raise UserError(f"{error}; or train new views over these trees: --start none") from None

    def vectors(self, trees: TreeCache) -> Float:
        """Return the start's vectors of a text, [sentences, K], for cosine; they are kept for other runs."""
        source = {"model": self.sha256, "trees": trees.identity["content_sha256"]}
        folder = KEPT / f"start-{json_digest(source, 16)}"
        path = folder / "vectors.npy"

        def write() -> None:
            encoder = MultiViewEncoder(self.model)
            write_array(path, encoder.encode(None, trees=trees, normalize_embeddings=True))

        make_once(folder, source, [path.name], write)
        vectors: Float = read_array(path, 2)
        return vectors
