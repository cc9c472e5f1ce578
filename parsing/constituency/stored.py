"""The constituency parser that a model folder of ours holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from parsing.constituency.model import ConstituencyModel, SpanParser
from parsing.networks.model_folder import ModelFolder

if TYPE_CHECKING:
    from parsing.constituency.subword_model import SubwordSpanParser


def stored_parser(folder: ModelFolder) -> SpanParser | SubwordSpanParser:
    """The parser over words and characters, or over a transformer, as the folder says.

    Raises:
        UserError: the folder does not fit this version.
    """
    if "subwords" in folder.config:
        # transformers take seconds to import: only for a parser that needs them
        from parsing.constituency.subword_model import SubwordConstituencyModel, SubwordSpanParser

        return SubwordSpanParser(SubwordConstituencyModel.from_folder(folder), folder.identity)
    return SpanParser(ConstituencyModel.from_folder(folder), folder.identity)
