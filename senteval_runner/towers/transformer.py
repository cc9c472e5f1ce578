"""Towers turn texts into vectors with gradients. Heads and objectives never look inside.

``load_tower`` takes the name or folder of any Hugging Face encoder, or a sentence-transformers folder.
Shapes: B texts, T word pieces, D width.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from multiview.names.networks import assemble, load_pretrained, pooling_module
from runtime.errors import UserError
from senteval_runner.towers import Pooling

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class Tower(nn.Module):
    """A sentence-transformers model, and the name of its own pooling (None where it does not matter)."""

    def __init__(self, model: SentenceTransformer, pooling: Pooling | None) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        dim = model.get_embedding_dimension()
        assert dim is not None
        self.dim = dim

    def embed(self, texts: Sequence[str], pooling: Pooling | None = None) -> Tensor:
        """Return the pooled last hidden states, [B, D]."""
        if pooling is None or pooling == self.pooling:
            return self._pooled(list(texts), nn.Sequential(*list(self.model)[1:]))
        return self._pooled(list(texts), pooling_module(self.dim, pooling))

    def embed_pairs(self, pairs: Sequence[tuple[str, str]]) -> Tensor:
        """Return the last hidden state of the first position ([CLS] a [SEP] b [SEP]), [B, D]."""
        return self._pooled(list(pairs), pooling_module(self.dim, "cls"))

    def save(self, folder: Path) -> None:
        """Write an ordinary sentence-transformers folder, weights as safetensors."""
        self.model.save(str(folder), create_model_card=False, safe_serialization=True)

    def _pooled(self, inputs: list[Any], pool: nn.Module) -> Tensor:
        from sentence_transformers.util import batch_to_device

        features = batch_to_device(self.model.preprocess(inputs), next(self.parameters()).device)
        vectors: Tensor = pool(self.model[0](features))["sentence_embedding"]
        return vectors


def embed_all(tower: Tower, texts: Sequence[str], batch_size: int = 64) -> np.ndarray:
    """Give float32 [n, D] of all texts in input order, each distinct text once, without gradients."""
    distinct = sorted(set(texts), key=lambda text: (len(text), text))
    rows = {text: row for row, text in enumerate(distinct)}
    with torch.inference_mode():
        blocks = [
            tower.embed(distinct[start : start + batch_size]).float().cpu().numpy()
            for start in range(0, len(distinct), batch_size)
        ]
    table = np.concatenate(blocks) if blocks else np.zeros((0, tower.dim), dtype=np.float32)
    return table[[rows[text] for text in texts]]


def load_tower(
    backbone: str,
    *,
    pooling: Pooling = "mean",
    max_length: int | None = 128,
    dropout: float | None = None,
    device: str | torch.device = "cpu",
) -> Tower:
    """Return a tower from the name or folder of a Hugging Face encoder or of a sentence-transformers model.

    Of the latter its Transformer is taken; pooling and normalisation are replaced by ``pooling``.

    Args:
        backbone: name or folder.
        pooling: how word-piece vectors become one vector.
        max_length: word pieces per text, special ones included; None is as many as the encoder reads.
        dropout: probability in every dropout layer; None keeps what the backbone has.
        device: where the tower is.

    Raises:
        UserError: nothing loadable is found under that name.
    """
    model = load_pretrained(backbone, max_seq_length=max_length)
    # The tokenizer has the wanted length; an encoder with fewer positions would fail on longer texts.
    if most := most_pieces(model.config, model.tokenizer):
        model.max_seq_length = most
    tower = Tower(assemble(model, pooling), pooling)
    if dropout is not None:
        set_dropout(tower, dropout)
    return tower.to(device)


def set_dropout(model: nn.Module, probability: float) -> None:
    """Give every dropout layer the same probability."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = probability


def load_whole(backbone: str, *, max_length: int = 128, device: str | torch.device = "cpu") -> Tower:
    """Return a sentence-transformers model as a tower, with its own pooling and all modules after it.

    Raises:
        UserError: nothing loadable is found under that name, or it does not begin with a transformer.
    """
    model = load_pretrained(backbone, whole=True, device="cpu")
    if type(model[0]).__name__ != "Transformer":
        raise UserError(f"model {backbone!r} begins with {type(model[0]).__name__}, not with a transformer")
    model.max_seq_length = max_length
    return Tower(model, None).to(device)


PADDED_FIRST = ("roberta", "xlm-roberta", "camembert", "mpnet")
"""Families whose positions begin after the padding's."""


def most_pieces(shape: Any, tokenizer: Any) -> int | None:
    """Return the word pieces of the longest text, special ones included; None where nothing limits it.

    Args:
        shape: the configuration of a Hugging Face encoder.
        tokenizer: its tokenizer; one without a limit names a number beyond a million.
    """
    limits = [int(tokenizer.model_max_length)]
    positions = int(getattr(shape, "max_position_embeddings", None) or 0)
    if positions > 0:  # relative positions: XLNet says -1, T5 nothing
        limits.append(positions - (int(shape.pad_token_id) + 1) * (shape.model_type in PADDED_FIRST))
    return min(limits) if min(limits) < 10**6 else None
