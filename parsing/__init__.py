"""Parses documents into dependency and constituency trees, kept in HDF5; :func:`load` parses text at hand."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime import __version__ as __version__
from runtime.errors import UserError
from runtime.files import path_of

if TYPE_CHECKING:
    from parsing.text_parser import load

__all__ = ["check_parser", "load"]


def __getattr__(name: str) -> Any:
    # torch and spaCy take seconds to import: only for those who parse
    if name == "load":
        from parsing.text_parser import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def check_parser(kind: str, spec: str) -> None:
    """Refuse the name of a parser that does not exist, before anything heavy is imported to load it."""
    if path_of(spec, f"{kind} parser").is_dir() or spec == "builtin":
        return
    if kind == "dep":
        command = f"python -m parsing.convert {spec} FOLDER --trust-pickle"
        raise UserError(f"{spec}: no such model folder; a library's model becomes one with {command}")
    if not (Path(spec).exists() or spec.startswith("benepar")):
        raise UserError(f"{spec}: no such folder or file, and no benepar model's name such as benepar_en3")
