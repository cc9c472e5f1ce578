"""Parses text into dependency and constituency trees, stored in HDF5; :func:`load` parses short texts."""

from typing import TYPE_CHECKING, Any

from runtime import __version__ as __version__

if TYPE_CHECKING:
    from parsing.text_parser import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    # Imported only when it is used, because torch and spaCy take seconds to import.
    if name == "load":
        from parsing.text_parser import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
