"""The dependency parser that a model folder holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsing.dependency.model import DependencyModel
from parsing.dependency.parser import BiaffineParser
from parsing.networks.model_folder import ModelFolder

if TYPE_CHECKING:
    from parsing.dependency.subword_model import SubwordParser


def stored_parser(folder: ModelFolder) -> BiaffineParser | SubwordParser:
    """The parser over words and characters, or over a transformer, as the folder says.

    Raises:
        UserError: the folder does not fit this version.
    """
    if "subwords" in folder.config:
        # transformers take seconds to import: only for a parser that needs them
        from parsing.dependency.subword_model import SubwordDependencyModel, SubwordParser

        return SubwordParser(SubwordDependencyModel.from_folder(folder), folder.identity)
    return BiaffineParser(DependencyModel.from_folder(folder), folder.identity)
