"""Tree caches on disk: the format of a shard, the manifest, and :class:`TreeCache`, which reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache

__all__ = ["TreeCache"]


def __getattr__(name: str) -> Any:
    """Import the reader when it is first asked for: ``--help`` must not wait for HDF5 and numba."""
    if name == "TreeCache":
        from parsing.cache.reader import TreeCache

        return TreeCache
    raise AttributeError(name)
