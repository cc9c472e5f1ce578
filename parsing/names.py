"""Finds the parser or the tree cache that an option names; imports little, for a fast ``--help``."""

import os
from pathlib import Path

from runtime.errors import UserError
from runtime.files import path_of

BUILTIN_FOLDERS = {kind: Path(__file__).parent / "builtin" / f"{kind}-v3" for kind in ("dep", "const")}
"""The model folders of the builtin parsers."""
MANIFEST = "manifest.json"
"""The file of a tree cache that lists its shards."""


def absolute_name(spec: str) -> str:
    """Return a parser's name that holds in any working folder: an existing path becomes absolute."""
    return str(Path(spec).absolute()) if spec not in ("", "builtin") and os.path.exists(spec) else spec


def find_parser(kind: str, spec: str) -> Path | None:
    """Return the model folder that a parser's ``spec`` names, or None if benepar reads the model.

    :func:`parsing.text_parser.load_parser` describes ``spec``. Raises UserError if the parser does not exist.
    """
    given_path = path_of(spec, f"{kind} parser")
    path = BUILTIN_FOLDERS[kind] if spec == "builtin" else given_path
    if path.is_dir() and not (kind == "const" and (path / "benepar_model.bin").exists()):
        return path
    if kind == "dep":
        command = f"python -m parsing.convert {spec} FOLDER --trust-pickle"
        raise UserError(f"{spec}: no such model folder; a library's model becomes one with {command}")
    if not (path.exists() or spec.startswith("benepar")):
        raise UserError(f"{spec}: no such folder or file, and no benepar model's name such as benepar_en3")
    return None


def find_trees(trees: Path | None) -> Path:
    """Return ``trees``, or if None the cache in ``runs/trees``. Raises UserError unless just one is there."""
    if trees is not None:
        return trees
    root = Path("runs/trees")
    caches = sorted(path.parent for path in root.glob(f"*/{MANIFEST}"))
    if len(caches) != 1:
        folders = " | ".join(map(str, caches)) or "none; make one with python -m parsing.run"
        raise UserError(f"--trees: needed unless {root} has just one tree cache; it has {folders}")
    return caches[0]
