"""Pre-trained transformers by name or folder, as sentence-transformers models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from multiview.pretrained import one_line, quiet
from parsing.networks.device import pick_device

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def pooled_model(name: str, pooling: str, device: str | None) -> SentenceTransformer:
    """A transformer whose sentence vector is its last layer's states, pooled; nothing else of it is used.

    Args:
        name: of any Hugging Face encoder, or the folder of one or of a sentence-transformers model.
        pooling: ``mean``, ``cls`` or ``max``.
        device: where to compute; None is a GPU if there is one.

    Raises:
        UserError: nothing loadable is found under that name.
    """
    return assemble(load_pretrained(name), pooling).to(pick_device(device))


def assemble(transformer: nn.Module, pooling: str) -> SentenceTransformer:
    """Transformer + Pooling as a sentence-transformers model on the CPU."""
    from sentence_transformers import SentenceTransformer

    width: int = transformer.get_embedding_dimension()  # type: ignore[operator]
    return SentenceTransformer(modules=[transformer, pooling_module(width, pooling)], device="cpu")


def load_pretrained(backbone: str, *, whole: bool = False, **options: Any) -> Any:
    """The transformer under a name or in a folder, or with ``whole`` all of a sentence-transformers model.

    Safetensors only: the older .bin weights are pickle. No code of the folder is run.

    Raises:
        UserError: nothing loadable is found under that name.
    """
    quiet()
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Transformer

    advice = "give a folder with safetensors weights, a name when the machine is online, or tiny"
    # Weights that the folder lacks (BERT's pooler, unused here) are drawn at random: two loads would differ
    # in them, and so would the saved files.
    with one_line(f"backbone {backbone!r} cannot be loaded", advice), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        ours = {"trust_remote_code": False}  # the default None asks, and runs the folder's code after "y"
        return (SentenceTransformer if whole else Transformer)(
            backbone,
            model_kwargs={"use_safetensors": True, **ours},
            config_kwargs=ours,
            processor_kwargs=ours,
            **options,
        )


def pooling_module(width: int, mode: str) -> nn.Module:
    """Word pieces [B, T, D] to sentences [B, D].

    Args:
        width: D.
        mode: ``mean``, ``cls`` or ``max``.
    """
    from sentence_transformers.sentence_transformer.modules import Pooling

    result: nn.Module = Pooling(width, mode)
    return result
