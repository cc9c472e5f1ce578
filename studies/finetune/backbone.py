"""Whether an encoder can be loaded."""

from __future__ import annotations

import socket
from pathlib import Path
from urllib.parse import urlsplit

from multiview.folder.names import BUILTIN


def is_here(backbone: str | None) -> bool:
    """Whether a backbone can be loaded: made here, a folder, kept from an earlier download, or online."""
    if backbone is None:
        return False
    if backbone in ("tiny", BUILTIN) or Path(backbone).is_dir():
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
