"""Parsers by specification: ``builtin``, or a folder written by ``parsing.train`` or ``parsing.convert``.

supar's checkpoints are pickles and are never opened here; the error message says how to convert them into
a model folder. benepar's hold weights and plain values and are read by name or file without running code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpora.support.errors import UserError
from parsing.networks.config import Precision

if TYPE_CHECKING:
    import torch

    from parsing.networks.model_folder import ModelFolder
    from parsing.trees.batch import ConstituencyParser, DependencyParser

BUILTIN = Path(__file__).parent / "builtin"
BUILTIN_DEPENDENCY = "dep-v3"
BUILTIN_CONSTITUENCY = "const-v3"


def load_dependency_parser(
    spec: str, precision: Precision = "fp32", device: str | torch.device = "cpu"
) -> DependencyParser:
    """The dependency parser that ``--dep-model`` names: ``builtin``, or a model folder.

    Arithmetic of the encoder and type of the device are part of its identity, unless fp32 and the CPU.

    Raises:
        UserError: no such model, a damaged one, or one that has to be converted first; no such device.
    """
    path = BUILTIN / BUILTIN_DEPENDENCY if spec == "builtin" else Path(spec)
    if not path.is_dir():
        raise UserError(
            f"{spec}: no such model folder; a library's model becomes one with "
            f"python -m parsing.convert dep {spec} FOLDER --trust-pickle"
        )
    parser: DependencyParser = _prepared(_load(path, "dependency"), precision, device)
    return parser


def load_constituency_parser(
    spec: str, precision: Precision = "fp32", device: str | torch.device = "cpu"
) -> ConstituencyParser:
    """The constituency parser that ``--const-model`` names: also a benepar model by name, file or folder.

    Raises:
        UserError: no such model, or a damaged one; no such device.
    """
    path = BUILTIN / BUILTIN_CONSTITUENCY if spec == "builtin" else Path(spec)
    found: Any
    if path.is_dir() and not (path / "benepar_model.bin").exists():
        found = _load(path, "constituency", "benepar")
    else:
        from parsing.libraries.benepar import load_benepar

        found = load_benepar(spec)
    parser: ConstituencyParser = _prepared(found, precision, device)
    return parser


def parser_of(folder: ModelFolder) -> Any:
    """The parser that a model folder holds.

    Raises:
        UserError: the folder does not fit this version.
    """
    if folder.kind == "dependency":
        from parsing.dependency.model import BiaffineParser, DependencyModel

        return BiaffineParser(DependencyModel.from_folder(folder), folder.identity)
    if folder.kind == "constituency":
        from parsing.constituency.model import ConstituencyModel, SpanParser

        return SpanParser(ConstituencyModel.from_folder(folder), folder.identity)
    from parsing.libraries.benepar import from_folder

    return from_folder(folder)


def _load(path: Path, *kinds: str) -> Any:
    from parsing.networks.model_folder import load_model_folder

    return parser_of(load_model_folder(path, *kinds))


def _prepared(parser: Any, precision: Precision, device: str | torch.device) -> Any:
    """The parser with this arithmetic on this device."""
    from parsing.networks.device import pick_device

    if precision == "bf16":
        parser.use_bfloat16()
    chosen = pick_device(device)
    if chosen.type != "cpu":
        parser.to(chosen)
    return parser
