"""The encoder a fine-tuning run starts from: named on the command line, never chosen for the user."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from corpora.support.errors import UserError
from corpora.support.presets import Need
from multiview.folder.names import BUILTIN
from studies.finetune.config import TinyConfig
from studies.finetune.tiny import build_tiny

TINY = "tiny"
"""What builds a small BERT from the texts at hand."""


def chosen(backbone: str | None, paper: str) -> str:
    """The backbone that was given.

    Args:
        backbone: value of ``--backbone``.
        paper: what the paper starts from.

    Raises:
        UserError: none was given.
    """
    if backbone is None:
        raise UserError(
            f"no backbone: give --backbone with a Hugging Face name ({paper} is the paper's) or the folder "
            f"of an encoder, or --backbone {TINY} for a small BERT made from the texts at hand"
        )
    return backbone


def is_here(backbone: str | None) -> bool:
    """Whether a backbone can be loaded: made here, a folder, kept from an earlier download, or online."""
    if backbone is None:
        return False
    if backbone in (TINY, BUILTIN) or Path(backbone).is_dir():
        return True
    from huggingface_hub import constants, try_to_load_from_cache

    try:
        kept = isinstance(try_to_load_from_cache(backbone, "config.json"), str)
    except ValueError:  # no name that the hub could have: a path to nothing
        return False
    # The hub's client tries for half a minute before it says that there is no network.
    return kept or _resolves(constants.ENDPOINT)


def needed(backbone: str | None, paper: str) -> Need:
    """The backbone among the inputs of a paper's preset.

    Args:
        backbone: value of ``--backbone``.
        paper: name of the paper's on the hub.
    """
    return Need(
        option=f"--backbone {backbone}",
        what="encoder with safetensors weights",
        where=f"huggingface.co/{paper}",
        here=is_here(backbone),
    )


def _resolves(address: str) -> bool:
    try:
        socket.getaddrinfo(urlsplit(address).hostname, 443)
    except OSError:
        return False
    return True


def ready(
    backbone: str,
    folder: Path,
    texts: Callable[[], Sequence[str]],
    tiny: TinyConfig,
    *,
    seed: int,
    report: Callable[[str], None],
) -> str:
    """Name or folder to load; a tiny BERT is built in ``folder`` first.

    Args:
        backbone: see :func:`chosen`.
        folder: where a tiny BERT goes.
        texts: asked only for a tiny BERT, whose vocabulary and pre-training they are.
        tiny: its sizes.
        seed: of its weights.
        report: takes one line per stage of its making.
    """
    if backbone != TINY:
        return backbone
    return str(build_tiny(folder, texts(), tiny, seed=seed, report=report))
