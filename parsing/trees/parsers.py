"""What a parser is to the rest of the pipeline, and what it returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from corpora.support.errors import UserError

Int = NDArray[np.integer]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]


class DeviceLost(UserError):
    """A GPU, or the process that works on it, failed; no sentence is to blame."""


def same_trees(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Whether two identities are those of one parser, perhaps on different devices.

    Devices add up numbers in different orders, which changes about one tree in thousands. A cache must not
    mix such trees, because the same command has to end in the same bytes; a model does not mind.
    """
    return all(one.get(key) == other.get(key) for key in {*one, *other} - {"device"})


@dataclass(frozen=True, slots=True)
class DependencyParse:
    """Dependency tree of ``n`` tokens with exactly one root."""

    heads: Int
    """int32 [n], 1-based head per token, 0 for the root."""
    relations: Int
    """int32 [n], index into the parser's ``relations``."""


@dataclass(frozen=True, slots=True)
class ConstituencyParse:
    """Constituency tree of ``n`` tokens as labelled spans; unary chains are one span ``S::VP``."""

    tags: Int
    """int32 [n], index into the parser's ``tags``."""
    starts: Int
    """int32 [m], first token of each span; spans in preorder (parents first, left to right)."""
    ends: Int
    """int32 [m], one past the last token; a span of one word is the chain above that word."""
    labels: Int
    """int32 [m], index into the parser's ``labels``; the whole sentence is always a span."""


class DependencyParser(Protocol):
    """Parses batches of tokenised sentences into dependency trees."""

    relations: tuple[str, ...]
    identity: dict[str, str]
    """name, version and sha256 of the weights: part of a tree cache's identity."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[DependencyParse]:
        """One parse per sentence, in order. Every sentence has at least one non-blank token."""
        ...


class ConstituencyParser(Protocol):
    """Parses batches of tokenised sentences into constituency trees, tags included."""

    labels: tuple[str, ...]
    tags: tuple[str, ...]
    identity: dict[str, str]

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ConstituencyParse]:
        """One parse per sentence, in order. Every sentence has at least one non-blank token."""
        ...


def check_tokens(sentences: Sequence[Sequence[str]]) -> None:
    """Refuse text where tokens are meant: a string is a sequence of strings, its characters.

    Raises:
        UserError: a sentence (it is named) is a string, or a token is none.
    """
    if isinstance(sentences, str):
        sentences = [sentences]
    for index, tokens in enumerate(sentences):
        if isinstance(tokens, str):
            raise UserError(
                f"parse: sentence {index} is the string {tokens[:60]!r}; give a list of its tokens "
                "(corpora.text.Tokenizer makes them)"
            )
        if odd := [token for token in tokens if not isinstance(token, str)]:
            raise UserError(f"parse: sentence {index}: {odd[0]!r} is no token but a {type(odd[0]).__name__}")
