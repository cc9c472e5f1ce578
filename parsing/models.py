"""Parsers by specification: ``builtin``, or a folder written by ``parsing.train`` or ``parsing.convert``.

supar's checkpoints are pickles and never opened here: the message says how to convert them once, after
which the folder loads like any other. benepar's hold weights and plain values; they are read by name or
file without running code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from corpora.support.errors import UserError
from corpora.support.files import read_json

if TYPE_CHECKING:
    from parsing.types import ConstituencyParser, DependencyParser

BUILTIN = Path(__file__).parent / "builtin"
BUILTIN_DEPENDENCY = "dep-v1"
BUILTIN_CONSTITUENCY = "const-v1"


def load_dependency_parser(spec: str) -> DependencyParser:
    """The dependency parser that ``--dep-model`` names.

    Args:
        spec: ``builtin``, or a model folder.

    Raises:
        UserError: no such model, a damaged one, or one that has to be converted first.
    """
    from parsing.dep_model import DependencyModel
    from parsing.dep_parser import BiaffineParser
    from parsing.model_folder import load_model_folder

    folder = load_model_folder(_folder(spec, "dep", BUILTIN_DEPENDENCY), kind="dependency")
    if "subwords" in folder.config:
        from parsing.dep_subwords import SubwordDependencyModel, SubwordParser

        return SubwordParser(SubwordDependencyModel.from_folder(folder), folder.identity)
    return BiaffineParser(DependencyModel.from_folder(folder), folder.identity)


def load_constituency_parser(spec: str) -> ConstituencyParser:
    """The constituency parser that ``--const-model`` names.

    Args:
        spec: ``builtin``, a model folder, or a benepar model by name, file or folder.

    Raises:
        UserError: no such model, or a damaged one.
    """
    from parsing.model_folder import CONFIG, load_model_folder

    path = BUILTIN / BUILTIN_CONSTITUENCY if spec == "builtin" else Path(spec)
    if spec != "builtin" and (not path.is_dir() or (path / "benepar_model.bin").exists()):
        from parsing.benepar_adapter import load_benepar

        return load_benepar(spec)
    kind = read_json(path / CONFIG).get("kind") if (path / CONFIG).is_file() else None
    if kind == "benepar":
        from parsing.benepar_adapter import from_folder

        return from_folder(load_model_folder(path, kind="benepar"))
    from parsing.const_model import ConstituencyModel, SpanParser

    folder = load_model_folder(path, kind="constituency")
    return SpanParser(ConstituencyModel.from_folder(folder), folder.identity)


def _folder(spec: str, kind: str, builtin: str) -> Path:
    """Where a specification's model folder is.

    Raises:
        UserError: it is no folder; says what would make one of it.
    """
    if spec == "builtin":
        return BUILTIN / builtin
    path = Path(spec)
    if path.is_dir():
        return path
    if path.is_file() or "/" not in spec:
        raise UserError(
            f"{spec}: not a model folder; a library's model becomes one with "
            f"python -m parsing.convert {kind} {spec} FOLDER --trust-pickle"
        )
    raise UserError(f"{spec}: no such model folder")
