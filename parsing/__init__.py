"""Parses documents into dependency and constituency trees, kept in HDF5; :func:`load` parses text at hand."""

from typing import TYPE_CHECKING, Any

from runtime import __version__ as __version__

if TYPE_CHECKING:
    from parsing.text_parser import load

__all__ = ["load"]


def __getattr__(name: str) -> Any:
    # torch and spaCy take seconds to import: only for those who parse
    if name == "load":
        from parsing.text_parser import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
