"""What ``--dep-model`` and ``--const-model`` may name, checked before anything heavy is imported."""

from __future__ import annotations

from pathlib import Path

from runtime.errors import UserError
from runtime.files import path_of


def check_parser(kind: str, spec: str) -> None:
    """Refuse a parser, as :func:`parsing.text_parser.load_parser` takes it, that is not there."""
    if path_of(spec, f"{kind} parser").is_dir() or spec == "builtin":
        return
    if kind == "dep":
        convert = f"python -m parsing.convert {spec} FOLDER --trust-pickle"
        raise UserError(f"{spec}: no such model folder; a library's model becomes one with {convert}")
    if not (Path(spec).exists() or spec.startswith("benepar")):
        raise UserError(f"{spec}: no such folder or file, and no benepar model's name such as benepar_en3")
