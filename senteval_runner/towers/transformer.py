"""Load transformers as towers, which turn texts into vectors with gradients, for fine-tuning.

``load_tower`` takes the name or folder of any Hugging Face encoder, or a sentence-transformers folder.
Shapes: B texts, T word pieces, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from multiview.libraries.pretrained import assemble, load_pretrained
from runtime.errors import UserError
from senteval_runner.towers import Pooling

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BATCH = 64
"""Number of texts embedded at a time without gradients."""


class Tower(nn.Module):
    """A sentence-transformers model, with the name of its own pooling (None if that is not known)."""

    def __init__(self, model: SentenceTransformer, pooling: Pooling | None) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        dim = model.get_embedding_dimension()
        assert dim is not None
        self.dim = dim

    def embed(self, texts: Sequence[str | tuple[str, str]], pooling: Pooling | None = None) -> Tensor:
        """Return the pooled last hidden states, [B, D]; a pair is one text: [CLS] a [SEP] b [SEP]."""
        from sentence_transformers.sentence_transformer import modules
        from sentence_transformers.util import batch_to_device

        features = batch_to_device(self.model.preprocess(list(texts)), next(self.parameters()).device)
        pool: nn.Module = nn.Sequential(*list(self.model)[1:])
        if pooling not in (None, self.pooling):
            pool = modules.Pooling(self.dim, pooling)
        vectors: Tensor = pool(self.model[0](features))["sentence_embedding"]
        return vectors

    def save(self, folder: Path) -> None:
        """Write an ordinary sentence-transformers folder, weights as safetensors."""
        self.model.save(str(folder), create_model_card=False, safe_serialization=True)


def load_tower(
    backbone: str,
    *,
    pooling: Pooling | None = "mean",
    max_length: int | None = 128,
    dropout: float | None = None,
    device: str | torch.device = "cpu",
) -> Tower:
    """Return a tower from the name or folder of a Hugging Face encoder or of a sentence-transformers model.

    ``pooling`` replaces all modules after the transformer; None keeps them. A text has at most ``max_length``
    word pieces, special ones included; None is as many as the encoder reads. ``dropout`` is the probability
    in every dropout layer; None keeps the backbone's own. Raises UserError: nothing that can be loaded has
    that name, or the model does not begin with a transformer.
    """
    if pooling is None:
        model = load_pretrained(backbone, all_modules=True, device="cpu")
        if type(model[0]).__name__ != "Transformer":
            kind = type(model[0]).__name__
            raise UserError(f"model {backbone!r} begins with {kind}, not with a transformer")
    else:
        model = assemble(load_pretrained(backbone), pooling)
    model.max_seq_length = max_length or model.max_seq_length
    # The tokenizer's limit is now this length; an encoder with fewer positions would fail on longer texts.
    if limit := max_pieces(model[0].config, model.tokenizer):
        model.max_seq_length = limit
    tower = Tower(model, pooling)
    for module in tower.modules():
        if dropout is not None and isinstance(module, nn.Dropout):
            module.p = dropout
    return tower.to(device)


FAMILIES_WITH_OFFSET = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Families of encoders whose positions begin after that of the padding."""


def max_pieces(config: Any, tokenizer: Any) -> int | None:
    """Return the number of word pieces of the longest text, special ones included; None if there is no limit.

    ``config`` is the configuration of a Hugging Face encoder.
    """
    limit = int(tokenizer.model_max_length)
    positions = int(getattr(config, "max_position_embeddings", None) or 0)
    if positions > 0:  # with relative positions XLNet says -1, T5 nothing
        if config.model_type in FAMILIES_WITH_OFFSET:
            positions -= int(config.pad_token_id) + 1
        limit = min(limit, positions)
    return limit if limit < 10**6 else None  # a tokenizer without a limit names a huge number
