"""A model of ``multiview.train`` before its first step: what training itself has to beat.

``start:MODEL?corpus=CACHE`` is the untrained control with the model's own vocabulary, initial weighting and
seed. ``random:VIEWS`` draws plain random weights instead, which is the control of the papers. The weights are
not stored: they are made again as ``multiview.train`` made them, from the configuration in the model's
folder and the tree cache that it was trained on, whose word counts decide vocabulary and initial weighting.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch

from corpora.support.config import config_from_json
from corpora.support.errors import UserError
from corpora.support.files import sha256_file
from multiview.config import TrainConfig
from multiview.encoders.stack import Reading
from multiview.folder.files import Member, member_names, member_record
from multiview.folder.names import model_folder
from multiview.model import MultiViewEncoder
from parsing.cache.reader import TreeCache
from parsing.networks.device import pick_device

START = "start:"
PATTERN = re.compile(r"start:(?P<model>[^?]+)(?:\?corpus=(?P<corpus>.+))?")


@dataclass(frozen=True)
class StartSpec:
    """What a spec says."""

    model: str
    """The trained model."""
    corpus: Path
    """Tree cache that it was trained on."""

    @classmethod
    def parse(cls, spec: str) -> Self:
        """Read a spec.

        Raises:
            UserError: it is none, or names no tree cache.
        """
        found = PATTERN.fullmatch(spec)
        if found is None or found["corpus"] is None:
            model = found["model"] if found else "MODEL"
            raise UserError(
                f"model {spec!r}: vocabulary and initial weights come from the tree cache that the model was "
                f"trained on: start:{model}?corpus=runs/trees/NAME"
            )
        if not (Path(found["corpus"]) / "manifest.json").is_file():
            raise UserError(f"model {spec!r}: {found['corpus']}: no tree cache")
        return cls(found["model"], Path(found["corpus"]))

    @property
    def name(self) -> str:
        """For tables."""
        return f"{START}{Path(self.model).name}"

    @property
    def identity(self) -> str:
        """Tells the corpus from others, without reading it whole."""
        return sha256_file(self.corpus / "manifest.json")


def load_start(spec: StartSpec, device: str | torch.device | None = None) -> MultiViewEncoder:
    """The encoder as it was before its first step.

    Args:
        spec: model and corpus.
        device: cpu, cuda, ...; None takes a GPU if there is one.

    Raises:
        UserError: the model was not trained on this cache, or not by ``multiview.train``.
    """
    folder, trees = model_folder(spec.model), TreeCache.open(spec.corpus)
    members = [_start(folder / name, trees) for name in member_names(folder)]
    return MultiViewEncoder(members, device=pick_device(device), name=spec.name)


def _start(folder: Path, trees: TreeCache) -> Member:
    """One model's network, made by what makes it for training."""
    from multiview.training.trainer import Trainer

    record = member_record(folder)
    values = record.training.get("config")
    if values is None:
        raise UserError(f"{folder}: has no record of multiview.train, so its start cannot be made again")
    if record.training.get("trees") != trees.identity.get("content_sha256"):
        raise UserError(f"{trees.folder}: is not the tree cache that {folder} was trained on")
    config = config_from_json(TrainConfig, values, where=folder / "config.json")
    # A compact copy may have other hash buckets than training had.
    words = dataclasses.replace(config.vocabulary, buckets=record.words.buckets)
    config = dataclasses.replace(config, vocabulary=words)
    with torch.random.fork_rng(devices=[]):
        network = Trainer(dataclasses.replace(config, device="cpu"), trees).network
    added = tuple(record.views[len(network.views) :])
    reading = Reading(record.encoder.pooling, added, record.scales or (1.0,) * len(record.views))
    return Member(network.as_read(reading), dict(record.parsers), record.corpus)
