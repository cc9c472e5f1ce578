"""Parses of single sentences, and batches of trees as the arrays that a tree cache stores.

Legend of dimension suffixes: B sentences, N tokens; a sentence of n tokens has n leaves and n - 1 internal
nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from runtime.errors import UserError

Int = NDArray[np.integer]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]
MAX_TOKENS = 128
"""The number of words above which a sentence is not parsed, by default."""

# Flags of a sentence, bits of one byte. Training skips sentences with a fallback tree.
DEP_FALLBACK = 1  # the dependency tree is the fallback chain
CONST_FALLBACK = 2  # the constituency tree is one flat phrase, which branches to the left in binary form
TOO_LONG = 4  # over the token limit of the parsers, or cut at the reader's length limit
REPLACED_BYTES = 8  # undecodable bytes or NULs were replaced in the text
EMPTY = 16  # no token but blanks: stored as one token ""
BLANK_TOKEN = 32  # a blank token among others, which parsers cannot take
FLAG_NAMES = {
    DEP_FALLBACK: "dependency fallback",
    CONST_FALLBACK: "constituency fallback",
    TOO_LONG: "too long",
    REPLACED_BYTES: "replaced bytes",
    EMPTY: "empty",
    BLANK_TOKEN: "blank token",
}
# The arrays with one value per token, and those with one per internal node.
TOKEN_FIELDS = ("token", "head", "relation", "dep_height", "tag", "leaf_label")
NODE_FIELDS = ("left", "right", "label", "const_height")


class Annotation(NamedTuple):
    """A kind of trees that sentences may have, which a view may require."""

    parser: str
    """The kind of the parser that makes it; a tree cache has the parser's identity under this name."""
    view_fields: tuple[str, ...]
    """Those of its arrays that the encoders of views read."""
    other_fields: tuple[str, ...] = ()
    """Its other arrays."""


ANNOTATIONS = {
    "dep": Annotation("dependency", ("head", "relation", "dep_height")),
    "const": Annotation("constituency", ("left", "right", "const_height"), ("tag", "leaf_label", "label")),
}
# The last names of the inventories are reserved for fallback trees and for nodes that binarisation adds.
FALLBACK_NAME = "_"
DUMMY_NAME = "<dummy>"


def flag_reasons(flags: UInt8) -> dict[str, int]:
    """Count the flagged sentences by reason; a fallback tree that no flag explains is a parser's fault."""
    is_too_long = (flags & TOO_LONG) > 0
    has_fallback = (flags & (DEP_FALLBACK | CONST_FALLBACK)) > 0
    is_fault = (flags & (EMPTY | BLANK_TOKEN | TOO_LONG)) == 0
    reasons = {
        "empty": flags & EMPTY,
        "blank token": flags & BLANK_TOKEN,
        "too long": is_too_long & has_fallback,
        "cut by the reader": is_too_long & ~has_fallback,
        "replaced bytes": flags & REPLACED_BYTES,
        "dependency fault": ((flags & DEP_FALLBACK) > 0) & is_fault,
        "constituency fault": ((flags & CONST_FALLBACK) > 0) & is_fault,
    }
    return {name: int(np.count_nonzero(where)) for name, where in reasons.items() if where.any()}


def offsets_of(lengths: Sequence[int] | Int) -> Int64:
    """Return where each of n consecutive items starts, then where the last ends, int64 [n+1]."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ids_of(names: Sequence[str]) -> dict[str, int]:
    """Return the id of each name, its index."""
    return {name: index for index, name in enumerate(names)}


def concatenated_ranges(starts: Int, lengths: Int) -> Int64:
    """Return, for each i, the ``lengths[i]`` integers from ``starts[i]`` on: int64 [sum of lengths]."""
    ends = np.cumsum(lengths)
    numbers: Int64 = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
    return numbers


def narrow(values: Int) -> Int:
    """Cast ``values`` [n] to the narrowest signed type that holds them, which is the fastest to decode."""
    # A signed type that holds h also holds -h - 1, and for a negative number numpy returns a signed type.
    lowest = min(int(values.min()), -int(values.max()) - 1, -1) if values.size else -1
    return values.astype(np.min_scalar_type(lowest), copy=False)


def _no_values() -> Int32:
    return np.zeros(0, np.int32)


class WordIds(Protocol):
    """Maps word types to the ids of an embedding table."""

    key: str
    """A name that no other mapping has; a shard keeps the ids of its types under it."""

    def lookup(self, types: list[str]) -> Int32:
        """Return the id of each type, or of the unknown word if it has none: int32 [len(types)]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Inventories:
    """Names of the ids in trees; the same in every shard of a cache."""

    relations: tuple[str, ...] = ()
    """Dependency relations; the last is ``_``, carried by fallback trees."""
    labels: tuple[str, ...] = ()
    """Constituent labels, unary chains joined by ``::``; first the null label, last ``<dummy>``."""
    tags: tuple[str, ...] = ()
    """Part-of-speech tags; the last is ``_``, carried by fallback trees."""

    @property
    def dummy_label(self) -> int:
        """The label of nodes that binarisation adds."""
        return len(self.labels) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Trees of B successive sentences as concatenated arrays.

    ``fields`` names the arrays that are present; the others are empty. Arrays of words are [N], those of
    internal nodes (``left``, ``right``, ``label``, ``const_height``) [N-B]. Node ids are local to their
    sentence: leaves ``0..n-1``, internal nodes ``n..2n-2``, the root last. The internal nodes of sentence i
    start at ``sentence_offsets[i] - i``. Leaves and words without dependents have height 0.
    """

    sentence_offsets: Int64
    """int64 [B+1], where each sentence's tokens start, from 0."""
    flags: UInt8
    """uint8 [B], bits DEP_FALLBACK ... BLANK_TOKEN."""
    fields: tuple[str, ...]
    token: Int32 = field(default_factory=_no_values)
    """Ids into ``types``."""
    row: Int32 = field(default_factory=_no_values)
    """Ids in the vocabulary that the cache was read with; empty if it was read without one."""
    relations: tuple[str, ...] = ()
    """Names of the ids in ``relation``."""
    types: list[str] | None = None
    """Word types, of which the batch may not use all; None without ``token``."""
    head: Int32 = field(default_factory=_no_values)
    """1-based head within the sentence, 0 for the root."""
    relation: Int32 = field(default_factory=_no_values)
    dep_height: Int32 = field(default_factory=_no_values)
    tag: Int32 = field(default_factory=_no_values)
    leaf_label: Int32 = field(default_factory=_no_values)
    """Ids of the unary chains above the words."""
    left: Int32 = field(default_factory=_no_values)
    right: Int32 = field(default_factory=_no_values)
    label: Int32 = field(default_factory=_no_values)
    const_height: Int32 = field(default_factory=_no_values)

    def __len__(self) -> int:
        return len(self.flags)

    @property
    def internal_node_offsets(self) -> Int64:
        """Where each sentence's internal nodes start in ``left``, ``right``, ``label``: int64 [B+1]."""
        return self.sentence_offsets - np.arange(len(self.sentence_offsets))

    def distinct_words(self) -> tuple[list[str], Int64]:
        """Return the words that occur, each once [U], and which of them each token is: int64 [N]."""
        assert self.types is not None, "the batch has no tokens"
        if np.bincount(self.token, minlength=len(self.types)).all():  # as in every batch that a parser made
            return list(self.types), self.token.astype(np.int64)
        type_ids, word_N = np.unique(self.token, return_inverse=True)
        return [self.types[type_id] for type_id in type_ids], word_N.astype(np.int64)

    def words(self) -> Iterator[list[str]]:
        """Yield the sentences as token lists."""
        assert self.types is not None, "the batch has no tokens"
        for first, stop in zip(self.sentence_offsets[:-1], self.sentence_offsets[1:], strict=True):
            yield [self.types[t] for t in self.token[first:stop]]


def join_batches(batches: Sequence[Batch]) -> Batch:
    """Join successive batches that have the same fields; each word type is listed once."""
    first = batches[0]
    if len(batches) == 1:
        return first
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(batch, name) for batch in batches]) for name in first.fields
    }
    if first.types is not None:
        id_of_type: dict[str, int] = {}
        tokens = []
        for batch in batches:
            ids = [id_of_type.setdefault(word, len(id_of_type)) for word in batch.types or ()]
            tokens.append(np.array(ids, np.int32)[batch.token])
        arrays["token"] = np.concatenate(tokens)
        arrays["types"] = list(id_of_type)
        arrays["row"] = np.concatenate([batch.row for batch in batches])
    return Batch(
        sentence_offsets=offsets_of(np.concatenate([np.diff(batch.sentence_offsets) for batch in batches])),
        flags=np.concatenate([batch.flags for batch in batches]),
        fields=first.fields,
        relations=first.relations,
        **arrays,
    )


class DeviceLost(UserError):
    """A GPU, or the process that works on it, failed; no sentence is to blame."""


def is_same_parser(identity: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Tell whether two identities are of the same parser, whatever the device and the kind of products.

    Devices and kinds of products (float32, int8) round differently, which changes about one tree in hundreds.
    A cache must not mix such trees, because the same command has to write the same bytes. A model may be used
    with trees of either.
    """
    keys = {*identity, *other} - {"device", "products"}
    return all(identity.get(key) == other.get(key) for key in keys)


@dataclass(frozen=True, slots=True)
class DependencyParse:
    """A dependency tree of n tokens with exactly one root."""

    heads: Int
    """The 1-based head of each token, 0 for the root: int32 [n]."""
    relations: Int
    """Indices into the parser's ``relations``: int32 [n]."""


@dataclass(frozen=True, slots=True)
class ConstituencyParse:
    """A constituency tree of n tokens as m labelled spans in preorder (parents first, left to right)."""

    tags: Int
    """Indices into the parser's ``tags``: int32 [n]."""
    starts: Int
    """The first token of each span: int32 [m]."""
    ends: Int
    """One past the last token of each span; the label of a span of one word is the chain above that word."""
    labels: Int
    """Indices into the parser's ``labels``, where a unary chain is one label. The first span is the
    whole sentence."""


class DependencyParser(Protocol):
    """Parses batches of tokenised sentences into dependency trees."""

    relations: tuple[str, ...]
    identity: dict[str, str]
    """name, version and sha256 of the weights: part of a tree cache's identity."""

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[DependencyParse]:
        """Return one parse per sentence, in order. Every sentence has at least one non-blank token."""


class ConstituencyParser(Protocol):
    """Parses batches of tokenised sentences into constituency trees, tags included."""

    labels: tuple[str, ...]
    tags: tuple[str, ...]
    identity: dict[str, str]

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ConstituencyParse]:
        """Return one parse per sentence, in order. Every sentence has at least one non-blank token."""


@runtime_checkable
class JointParser(Protocol):
    """A parser whose encoder another parser may share, so that each sentence is encoded once for both.

    The parsers of this package implement this; a parser of your own need not.
    """

    def knows(self, word: str) -> bool:
        """Tell whether a word is in the vocabulary."""

    def shares_encoder(self, partner: object) -> bool:
        """Tell whether another parser has an equal encoder on the same device."""

    def parse_with(self, partner: Any, sentences: Sequence[Sequence[str]]) -> list[tuple[Any, Any]]:
        """Return, for each sentence, the parse of this parser and that of one that shares its encoder."""
