"""Tree encoders read like layers: the root, mean and maximum over nodes, nodes by height.

The "layers" are ``all`` nodes and ``h0``, ``h1``, ... the nodes of one height (leaves and words without
dependents have height 0). A sentence without a node of that height gives its root. Several views are
concatenated as in the model's own vectors.

Legend of dimension suffixes: K columns, n sentences, B sentences of a batch, N nodes, D vector size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.support.errors import UserError
from senteval_runner.protocol.features import Float
from senteval_runner.towers.config import BackboneConfig
from senteval_runner.towers.units import Column
from senteval_runner.vectors.encoders import load_multiview
from senteval_runner.vectors.sources import Source

if TYPE_CHECKING:
    from multiview.model import MultiViewEncoder
    from multiview.nodes.states import ViewNodes
    from parsing.cache.reader import TreeCache

POOLINGS = ("root", "mean", "max")


class TreeBackbone:
    """A model folder of ``multiview.train``, or untrained encoders.

    Args:
        source: the folder, or ``random:dep,const``.
        config: heights, trees, device, batch size.
    """

    poolings: tuple[str, ...] = POOLINGS
    compared: tuple[str, ...] = ("all",)

    def __init__(self, source: Source, config: BackboneConfig) -> None:
        if not config.heights:
            raise UserError("--heights: expected at least one number")
        self.source, self.config, self.name = source, config, source.name
        self.heights = {f"h{height}": height for height in sorted(set(config.heights))}
        self.layers: tuple[str, ...] = ("all", *self.heights)
        self.columns: list[Column] = [
            (layer, pooling)
            for layer in self.layers
            for pooling in POOLINGS
            if pooling != "root" or layer == "all"
        ]
        self.dim = self.model.get_sentence_embedding_dimension()

    @cached_property
    def model(self) -> MultiViewEncoder:
        """The encoder on its device, read at the roots: the columns pool by themselves."""
        model = load_multiview(self.source, self.config.device)
        for member in model.members:
            for encoder in member.network.encoder_list:
                encoder.pooling = "root"
            member.network.scales = (1.0,) * len(member.network.views)
        return model

    @cached_property
    def cache(self) -> TreeCache | None:
        """The tree cache of the sentences, if one was given."""
        from parsing.cache.reader import TreeCache

        return TreeCache.open(self.config.trees) if self.config.trees else None

    def identity(self) -> list[Any]:
        """Weights (the parsers' hashes are in the model folder)."""
        return [self.source.key]

    def notes(self, cut: int) -> list[str]:
        """What a height means."""
        return [f"{self.name}: a sentence without a node of a height gives its root there"]

    @torch.inference_mode()
    def encode(self, sentences: Sequence[list[str]]) -> tuple[Float, NDArray[np.bool_]]:
        """All columns of token lists, float32 [K, n, D]; no sentence is shortened."""
        out_KND = np.empty((len(self.columns), len(sentences), self.dim), dtype=np.float32)
        batches = self.model.node_states(sentences, batch_size=self.config.batch_size, trees=self.cache)
        for nodes in batches:
            widths = [view.width for view in nodes.views]
            roots = self.model.vectors(nodes.batch).split(widths, dim=1)
            parts = [self._columns(root_BD, view) for root_BD, view in zip(roots, nodes.views, strict=True)]
            out_KND[:, nodes.places] = torch.cat(parts, dim=2).float().cpu().numpy()
        return out_KND, np.zeros(len(sentences), dtype=bool)

    def _columns(self, root_BD: Tensor, nodes: ViewNodes) -> Tensor:
        """The columns of one view: [K, B, D]."""
        out = []
        for layer, pooling in self.columns:
            if pooling == "root":
                out.append(root_BD)
                continue
            kept_N = torch.ones_like(nodes.height_N, dtype=torch.bool)
            if layer != "all":
                kept_N = nodes.height_N == self.heights[layer]
            out.append(pool_nodes(root_BD, nodes.h_ND[kept_N], nodes.sentence_N[kept_N], pooling))
        return torch.stack(out)


def pool_nodes(root_BD: Tensor, h_ND: Tensor, sentence_N: Tensor, pooling: str) -> Tensor:
    """Mean or maximum [B, D] over the nodes of each sentence; the root of a sentence without nodes."""
    count_B1 = torch.bincount(sentence_N, minlength=len(root_BD))[:, None]
    if pooling == "mean":
        total_BD = torch.zeros_like(root_BD).index_add_(0, sentence_N, h_ND)
        pooled_BD = total_BD / count_B1.clamp(min=1)
    else:
        lowest_BD = torch.full_like(root_BD, float("-inf"))
        index_ND = sentence_N[:, None].expand_as(h_ND)
        pooled_BD = lowest_BD.scatter_reduce_(0, index_ND, h_ND, "amax")
    return torch.where(count_B1 > 0, pooled_BD, root_BD)
