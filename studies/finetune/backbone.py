"""The encoder a fine-tuning run starts from: named on the command line, never chosen for the user."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from corpora.support.errors import UserError
from multiview.folder.names import BUILTIN
from senteval_runner.vectors.sources import find_source
from studies.finetune.config import TinyConfig
from studies.finetune.tiny import build_tiny

TINY = "tiny"
"""What builds a small BERT from the texts at hand."""


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


def _resolves(address: str) -> bool:
    try:
        socket.getaddrinfo(urlsplit(address).hostname, 443)
    except OSError:
        return False
    return True


def ready(
    backbone: str | None,
    output: Path,
    texts: Callable[[], Sequence[str]],
    tiny: TinyConfig,
    *,
    seed: int,
    report: Callable[[str], None],
) -> str:
    """Name or folder to load; a tiny BERT is built in ``output/backbone`` first.

    Args:
        backbone: value of ``--backbone``.
        output: of the study.
        texts: asked only for a tiny BERT, whose vocabulary and pre-training they are.
        tiny: its sizes.
        seed: of its weights.
        report: takes one line per stage of its making.

    Raises:
        UserError: none was given.
    """
    if backbone is None:
        raise UserError(
            "no backbone: give --backbone with a Hugging Face name (bert-base-uncased is the paper's) or the "
            f"folder of an encoder, or --backbone {TINY} for a small BERT made from the texts at hand"
        )
    if backbone != TINY:
        return backbone
    return str(build_tiny(output / "backbone", texts(), tiny, seed=seed, report=report))


def identity_of(backbone: str) -> str:
    """Digest of what a backbone's name stands for: the content of a folder, or the name itself."""
    return find_source(backbone).key
