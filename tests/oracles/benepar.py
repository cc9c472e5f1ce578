"""Our constituency models in benepar's own ``ChartParser``, and its untouched ``parse``.

The oracle of the tests and the peer of the benchmark: the same weights have to give the same trees.

Shapes: B sentences, T positions (both boundaries included), D encoder output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from benepar.char_lstm import CharacterLSTM, RetokenizerForCharLSTM
from benepar.nkutil import HParams
from benepar.parse_chart import ChartParser
from torch import Tensor, nn

from parsing.libraries.benepar import BeneparParser
from parsing.networks.constituency import ConstituencyModel
from parsing.networks.features import TypeTable, WordBatch, make_batch
from parsing.trees.batch import ConstituencyParse


def to_benepar(model: ConstituencyModel) -> ChartParser:
    """Benepar's own parser around our weights; its stock ``parse`` works, its training does not."""
    return _Builtin(model).eval()


def stock_parse(
    parser: ChartParser, sentences: Sequence[Sequence[str]], *, subbatch_max_tokens: int | None = None
) -> list[ConstituencyParse]:
    """Trees from benepar's untouched ``parse``; batches are of as many words."""
    found = BeneparParser(parser, {})
    found.positions = subbatch_max_tokens or found.positions
    return found.parse(sentences)


class _Builtin(ChartParser):
    """``ChartParser`` with our sentence encoder where its own reader and encoder stand."""

    def __init__(self, model: ConstituencyModel) -> None:
        width = model.encoder.output_dim
        super().__init__(
            tag_vocab={tag: i for i, tag in enumerate(model.tags)},
            label_vocab={label: i for i, label in enumerate(model.labels)},
            char_vocab={},
            hparams=HParams(
                use_chars_lstm=False,
                use_pretrained=False,
                use_encoder=False,
                d_model=width,
                d_label_hidden=model.config.label_hidden,
                predict_tags=True,
                d_tag_hidden=model.config.tag_hidden,
                tag_loss_scale=5.0,
                force_root_constituent=True,
            ),
        )
        self.f_label.load_state_dict(model.span_head.state_dict())
        self.f_tag.load_state_dict(model.tag_head.state_dict())
        self.retokenizer = _Retokenizer(TypeTable(model.vocabulary))
        self.char_encoder = _Words(model)
        self.morpho_emb_dropout, self.add_timing, self.encoder = nn.Identity(), _NoTiming(), _Interleave()


@dataclass(frozen=True)
class _Batch:
    """Words that stay on the host, from where our encoder takes them; benepar moves what it gets."""

    words: WordBatch

    def to(self, device: torch.device) -> _Batch:
        """Itself."""
        return self


class _Words(CharacterLSTM):
    """Our encoder, called where benepar calls its character LSTM."""

    def __init__(self, model: ConstituencyModel) -> None:
        nn.Module.__init__(self)
        self.inner = model.encoder

    def forward(self, batch: _Batch, valid_token_mask: Tensor) -> Tensor:
        """States [B, T, D]; the mask is the batch's own."""
        result: Tensor = self.inner(batch.words)
        return result


class _NoTiming(nn.Identity):
    """No positions are added; benepar asks for the longest sentence."""

    timing_table = torch.empty(1_000_000, 0)


class _Interleave(nn.Module):
    """The order that benepar undoes after its encoder."""

    def forward(self, states_BTD: Tensor, mask: Tensor) -> Tensor:
        """[B, T, D]: forward and backward features alternate."""
        return torch.stack(states_BTD.chunk(2, -1), -1).flatten(-2)


class _Retokenizer(RetokenizerForCharLSTM):
    """Words to rows of a type table in the shape that benepar expects of a reader."""

    def __init__(self, table: TypeTable) -> None:
        self.table = table

    def __call__(
        self, words: Sequence[str], space_after: Any = None, return_tensors: str = "np"
    ) -> dict[str, Any]:
        """The words; the mask counts both boundaries."""
        return {"words": words, "valid_token_mask": np.ones(len(words) + 2, bool)}

    def pad(self, examples: Sequence[dict[str, Any]], return_tensors: str = "pt") -> dict[str, Any]:
        """A padded batch under the names that benepar's ``forward`` reads."""
        batch = make_batch(self.table, [example["words"] for example in examples], end_boundary=True)
        return {
            "char_ids": _Batch(batch),
            "valid_token_mask": torch.arange(batch.types_BT.shape[1]) < batch.lengths_B[:, None],
        }
