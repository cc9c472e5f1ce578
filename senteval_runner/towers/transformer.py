"""Load transformers as towers for fine-tuning: modules that turn texts into embeddings with gradients.

Legend of dimension suffixes: B texts, D embedding size.
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


class Tower(nn.Module):
    """A sentence-transformers model; ``pooling`` is the name of its own pooling, None if it is not known."""

    def __init__(self, model: SentenceTransformer, pooling: Pooling | None) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        dim = model.get_embedding_dimension()
        assert dim is not None
        self.dim = dim

    def embed(self, texts: Sequence[str | tuple[str, str]], pooling: Pooling | None = None) -> Tensor:
        """Return the embeddings of texts, [B, D]; a pair of texts is encoded as [CLS] a [SEP] b [SEP].

        ``pooling`` pools the last hidden states; None is the model's own pooling.
        """
        from sentence_transformers.sentence_transformer import modules
        from sentence_transformers.util import batch_to_device

        features = batch_to_device(self.model.preprocess(list(texts)), next(self.parameters()).device)
        pool: nn.Module = nn.Sequential(*list(self.model)[1:])
        if pooling not in (None, self.pooling):
            pool = modules.Pooling(self.dim, pooling)
        vectors: Tensor = pool(self.model[0](features))["sentence_embedding"]
        return vectors

    def save(self, folder: Path) -> None:
        """Write the model as a sentence-transformers folder, with weights as safetensors."""
        self.model.save(str(folder), create_model_card=False, safe_serialization=True)


def load_tower(
    backbone: str,
    *,
    pooling: Pooling | None = "mean",
    max_length: int | None = 128,
    dropout: float | None = None,
    device: str | torch.device = "cpu",
) -> Tower:
    """Load a tower.

    Args:
        backbone: name or folder of a Hugging Face encoder or of a sentence-transformers model.
        pooling: replaces all modules after the transformer; None keeps them.
        max_length: word pieces to which a text is cut, special ones included; None is the encoder's limit.
        dropout: probability in every dropout layer; None keeps that of the backbone.
        device: where the weights are.

    Raises UserError if nothing that can be loaded has that name, or the model does not begin with a
    transformer.
    """
    if pooling is None:
        model = load_pretrained(backbone, all_modules=True, device="cpu")
        kind = type(model[0]).__name__
        if kind != "Transformer":
            raise UserError(f"model {backbone!r} begins with {kind}, not with a transformer")
    else:
        model = assemble(load_pretrained(backbone), pooling)
    model.max_seq_length = max_length or model.max_seq_length
    # Setting the length has set the tokenizer's limit; an encoder with fewer positions would fail, though.
    if limit := max_pieces(model[0].config, model.tokenizer):
        model.max_seq_length = limit
    tower = Tower(model, pooling)
    for module in tower.modules():
        if dropout is not None and isinstance(module, nn.Dropout):
            module.p = dropout
    return tower.to(device)


FAMILIES_WITH_OFFSET = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Families of encoders in which the position of the first piece is one after that of padding, not 0."""


def max_pieces(config: Any, tokenizer: Any) -> int | None:
    """Return how many word pieces an encoder reads at most, special ones included; None without a limit.

    ``config`` is the configuration of a Hugging Face encoder.
    """
    limit = int(tokenizer.model_max_length)
    positions = int(getattr(config, "max_position_embeddings", None) or 0)
    if positions > 0:  # encoders with relative positions have -1 (XLNet) or no such number (T5)
        if config.model_type in FAMILIES_WITH_OFFSET:
            positions -= int(config.pad_token_id) + 1
        limit = min(limit, positions)
    return limit if limit < 10**6 else None  # a tokenizer without a limit has a huge number
