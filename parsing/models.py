"""Parsers by specification: ``builtin``, or a folder written by ``parsing.train`` or ``parsing.convert``.

supar's checkpoints are pickles and are never opened here; the error message says how to convert them into
a model folder. benepar's hold weights and plain values and are read by name or file without running code.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from corpora.support.errors import UserError
from parsing.networks.config import Precision

if TYPE_CHECKING:
    import torch

    from parsing.networks.device import DeviceParser
    from parsing.trees.parsers import ConstituencyParser, DependencyParser

BUILTIN = Path(__file__).parent / "builtin"
BUILTIN_DEPENDENCY = "dep-v3"
BUILTIN_CONSTITUENCY = "const-v3"
Parser = TypeVar("Parser", bound="DeviceParser")


def load_dependency_parser(
    spec: str, precision: Precision = "fp32", device: str | torch.device = "cpu"
) -> DependencyParser:
    """The dependency parser that ``--dep-model`` names.

    Args:
        spec: ``builtin``, or a model folder.
        precision: arithmetic of the encoder; part of the identity unless it is fp32.
        device: where to encode and score; its type is part of the identity unless it is the CPU.

    Raises:
        UserError: no such model, a damaged one, or one that has to be converted first.
    """
    from parsing.dependency.model import BiaffineParser, DependencyModel
    from parsing.networks.model_folder import load_model_folder

    folder = load_model_folder(_folder(spec, "dep", BUILTIN_DEPENDENCY), "dependency")
    return _set(BiaffineParser(DependencyModel.from_folder(folder), folder.identity), precision, device)


def load_constituency_parser(
    spec: str, precision: Precision = "fp32", device: str | torch.device = "cpu"
) -> ConstituencyParser:
    """The constituency parser that ``--const-model`` names.

    Args:
        spec: ``builtin``, a model folder, or a benepar model by name, file or folder.
        precision: arithmetic of the encoder; part of the identity unless it is fp32.
        device: where to encode and score; its type is part of the identity unless it is the CPU.

    Raises:
        UserError: no such model, or a damaged one.
    """
    from parsing.constituency.model import ConstituencyModel, SpanParser
    from parsing.networks.model_folder import load_model_folder

    path = BUILTIN / BUILTIN_CONSTITUENCY if spec == "builtin" else Path(spec)
    if spec != "builtin" and (not path.is_dir() or (path / "benepar_model.bin").exists()):
        from parsing.libraries.benepar import load_benepar

        return _set(load_benepar(spec), precision, device)
    folder = load_model_folder(path, "constituency", "benepar")
    if folder.kind == "benepar":
        from parsing.libraries.benepar import from_folder

        return _set(from_folder(folder), precision, device)
    return _set(SpanParser(ConstituencyModel.from_folder(folder), folder.identity), precision, device)


def _set(parser: Parser, precision: Precision, device: str | torch.device) -> Parser:
    """The parser with this arithmetic on this device.

    Raises:
        UserError: there is no such device here.
    """
    from parsing.networks.device import pick_device

    if precision == "bf16":
        parser.use_bfloat16()
    chosen = pick_device(device)
    if chosen.type != "cpu":
        parser.to(chosen)
    return parser


def _folder(spec: str, kind: str, builtin: str) -> Path:
    """Where a specification's model folder is.

    Raises:
        UserError: it is not a folder; the message says how to make one.
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
