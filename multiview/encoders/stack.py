"""The views of a model: one encoder per view, over one vocabulary.

Legend of dimension suffixes: N tokens, U distinct rows of a batch, E word-vector size, B sentences, D hidden.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from multiview.config import EncoderConfig, Pooling
from multiview.encoders.registry import Encoder, build_view, trained_views
from multiview.engines.plan import Plan
from multiview.words.table import WordTable


@dataclasses.dataclass(frozen=True)
class Reading:
    """How sentences' vectors are made of a network's states; no weight depends on it."""

    pooling: Pooling
    added: tuple[str, ...]
    """Views without weights."""
    scales: tuple[float, ...]
    """Factor on each view's vectors, of added ones as well."""


class ViewStack(nn.Module):
    """Encoders and word vectors of all views; weights are drawn from torch's global generator.

    Args:
        views: registered names in order, repeats allowed.
        words: vocabulary and vectors.
        config: of every encoder.
    """

    def __init__(self, views: Sequence[str], words: WordTable, config: EncoderConfig) -> None:
        super().__init__()
        self.views = tuple(views)
        self.config = config
        self.encoders = nn.ModuleList(
            build_view(view, words.dim, config.dim, config.engine, forget_bias=config.forget_bias)
            for view in views
        )
        self.words = words
        for encoder in self.encoder_list:
            encoder.pooling = config.pooling
            encoder.use_words(words.trained_vocabulary)
        self.scales = (1.0,) * len(self.views)
        """Factor on each view's vectors when sentences are encoded; training knows none."""

    @property
    def encoder_list(self) -> list[Encoder]:
        """The encoders in view order."""
        return list(self.encoders)  # type: ignore[arg-type]

    @property
    def tables(self) -> nn.ParameterList:
        """The trained word tables [W, E], one per view; none with fixed vectors."""
        return self.words.tables

    @property
    def dim(self) -> int:
        """Size of the concatenated vectors."""
        return sum(self.widths)

    @property
    def widths(self) -> list[int]:
        """Size of each view's vectors."""
        return [encoder.width for encoder in self.encoder_list]

    @property
    def reading(self) -> Reading:
        """How this network's sentences are read."""
        added = self.views[len(trained_views(self.views)) :]
        return Reading(self.config.pooling, added, self.scales)

    def as_read(self, reading: Reading) -> ViewStack:
        """The same network whose sentences are read in another way."""
        config = dataclasses.replace(self.config, pooling=reading.pooling)
        with torch.random.fork_rng(devices=[]):
            other = ViewStack([*trained_views(self.views), *reading.added], self.words, config)
        other.encoders.load_state_dict(self.encoders.state_dict())
        other.scales = reading.scales
        return other

    @torch.no_grad()
    def scale_and_equalise(self) -> None:
        """Adjust the tree encoders' new weights as the configuration says.

        ``recurrent_scale`` multiplies the weights that act on children; below 1, a tree starts closer to a
        weighted sum of its words. ``equal_inputs`` copies the input weights of i, o, u from the first tree
        view to the others, so that the views of a sentence start out alike. With different random
        projections they would start at cosine 0.
        """
        weights = [dict(encoder.named_parameters()) for encoder in self.encoder_list]
        trees = [named for named in weights if "recurrent_weight" in named]
        for named in trees:
            named["recurrent_weight"].mul_(self.config.recurrent_scale)
            if self.config.equal_inputs:
                named["input_weight"].copy_(trees[0]["input_weight"])

    def encode(self, tokens: Sequence[Tensor], plans: Sequence[Plan], rows: Sequence[Tensor]) -> list[Tensor]:
        """Sentence vectors [B, width] of each view.

        Args:
            tokens: int64 [N] per view, or a single entry for all: each token's word among ``rows``.
            plans: one per view.
            rows: word vectors [U, E] per view, or a single entry for all (fixed vectors).
        """
        return [
            encoder(rows[position % len(rows)], plan, tokens[position % len(tokens)])
            for position, (encoder, plan) in enumerate(zip(self.encoders, plans, strict=True))
        ]

    def inputs(
        self, positions: Sequence[int], types: list[str], token: NDArray[np.int64]
    ) -> Iterator[tuple[Encoder, Tensor, Tensor]]:
        """The encoders of some views, the vectors [U, E] of the words that each reads, and ``token``.

        Args:
            positions: which views.
            types: distinct words, U of them.
            token: int64 [N], index of each token's word in ``types``.
        """
        table_rows = self.words.vocabulary.lookup(types)
        encoders = self.encoder_list
        for position in positions:
            weightless = position >= len(self.tables)
            rows_UE = self.words.rows(0 if weightless else position, table_rows)
            yield encoders[position], rows_UE, torch.from_numpy(token).to(rows_UE.device)

    def weights(self) -> dict[str, Tensor]:
        """The weights that a model folder keeps: encoders and word tables, on the CPU."""
        kept = {n: v for n, v in self.state_dict().items() if n.startswith(("encoders.", "words."))}
        return {name: value.detach().cpu().contiguous() for name, value in kept.items()}
