"""A multi-view encoder as a tower: the heads train its encoders and word tables through parsed sentences.

Shapes: B texts, D width over all views.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from corpora.support.files import read_json
from multiview.folder.files import save_member, save_members
from multiview.folder.names import model_folder
from multiview.folder.reading import select
from multiview.model import MultiViewEncoder
from parsing.cache.format import Batch


class MultiViewTower(nn.Module):
    """Reads one sentence at a time; its vector is the concatenation of all views, so nothing is pooled.

    Args:
        folder: folder of the model, or ``builtin``.
        device: device of the model.
    """

    joint = False

    def __init__(self, folder: Path, device: str | torch.device) -> None:
        super().__init__()
        self.folder = model_folder(folder)
        self.encoder = MultiViewEncoder.load(folder, device=device)
        self.networks = nn.ModuleList(member.network for member in self.encoder.members)
        self.dim = self.encoder.get_sentence_embedding_dimension()
        self._rows: dict[str, int] = {}
        self._parsed: Batch | None = None

    def prepare(self, texts: Iterable[str]) -> None:
        """Parse all distinct texts now, so that a step only selects from arrays."""
        distinct = sorted(set(texts))
        self._rows = {text: row for row, text in enumerate(distinct)}
        self._parsed = self._parse(distinct)

    def embed(self, texts: Sequence[str], pooling: str | None = None) -> Tensor:
        """Vectors [B, D] of all views; ``pooling`` is ignored."""
        if self._parsed is not None and all(text in self._rows for text in texts):
            batch = select(self._parsed, np.array([self._rows[text] for text in texts]))
        else:
            batch = self._parse(texts)
        return self.encoder.vectors(batch)

    def embed_pairs(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Not possible: a tree belongs to one sentence (``joint`` is False)."""
        raise AssertionError("a multi-view encoder reads one sentence at a time")

    def save(self, folder: Path) -> None:
        """A model folder like the one it came from, with the new weights."""
        names = [f"member-{place}" for place in range(len(self.encoder.members))]
        several = len(names) > 1
        card = f"Fine-tuned from {self.folder.name}.\n"
        training = {
            "fine_tuned_from": read_json(self.folder / "config.json").get("training", self.folder.name)
        }
        for name, member in zip(names, self.encoder.members, strict=True):
            save_member(folder / name if several else folder, member, card=card, training=training)
        if several:
            save_members(folder, names, card=card)

    def _parse(self, texts: Sequence[str]) -> Batch:
        return self.encoder.reader.parse(
            [self.encoder.reader.tokens(text) for text in texts], self.encoder.requires
        )
