"""Our constituency models in benepar's own ``ChartParser``, and its untouched ``parse``.

The oracle of the tests and the peer of the benchmark: the same weights have to give the same trees.

Legend of dimension suffixes: B sentences, T positions (both boundaries included), D encoder output.
"""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from benepar.nkutil import HParams
from benepar.parse_chart import ChartParser
from torch import nn

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
    """Return the trees of benepar's own ``parse``, in batches of as many words."""
    ours = BeneparParser(parser, {})
    ours.positions = subbatch_max_tokens or ours.positions
    return ours.parse(sentences)


class _Builtin(ChartParser):
    """``ChartParser`` with our sentence encoder where it expects a pretrained transformer."""

    def __init__(self, model: ConstituencyModel) -> None:
        super().__init__(
            tag_vocab={tag: i for i, tag in enumerate(model.tags)},
            label_vocab={label: i for i, label in enumerate(model.labels)},
            char_vocab={},
            hparams=HParams(
                use_chars_lstm=False,
                use_pretrained=False,
                use_encoder=False,
                d_model=model.encoder.output_dim,
                d_label_hidden=model.config.label_hidden,
                predict_tags=True,
                d_tag_hidden=model.config.tag_hidden,
                tag_loss_scale=5.0,
                force_root_constituent=True,
            ),
        )
        self.f_label.load_state_dict(model.span_head.state_dict())
        self.f_tag.load_state_dict(model.tag_head.state_dict())
        self.table = TypeTable(model.vocabulary)
        self.pretrained_model, self.project_pretrained = _Pretrained(model), nn.Identity()
        self.retokenizer = SimpleNamespace(tokenizer=lambda token, **_: {"input_ids": token})

    def encode(self, example: Any) -> dict[str, Any]:
        """The words, and as many positions as benepar counts."""
        return {"words": example.words, "input_ids": range(len(example.words) + 2)}

    def pad_encoded(self, encoded_batch: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """A padded batch under the names that benepar's ``forward`` reads of a transformer's words."""
        batch = make_batch(self.table, [one["words"] for one in encoded_batch], end_boundary=True)
        positions = torch.arange(batch.types_BT.shape[1])
        mask_BT = positions < batch.lengths_B[:, None]
        return {
            "input_ids": SimpleNamespace(to=lambda device: batch),  # our encoder takes words from the host
            "words_from_tokens": positions.expand(mask_BT.shape),
            "attention_mask": mask_BT,
            "valid_token_mask": mask_BT,
        }


class _Pretrained(nn.Module):
    """Our encoder, called as a transformer is."""

    def __init__(self, model: ConstituencyModel) -> None:
        super().__init__()
        self.encoder = model.encoder

    def forward(self, batch: WordBatch, attention_mask: torch.Tensor) -> SimpleNamespace:
        """States [B, T, D]; the mask is the batch's own."""
        return SimpleNamespace(last_hidden_state=self.encoder(batch))
