"""What parsers return, and many sentences' trees as arrays: the same in memory and in a tree cache.

Shapes: B sentences, N tokens; a sentence of n tokens has n leaves and n - 1 internal nodes.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.errors import UserError

Int = NDArray[np.integer]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]

# Flags of a sentence, bits of one byte. Training skips sentences with a fallback tree.
DEP_FALLBACK = 1  # the dependency tree is the fallback chain
CONST_FALLBACK = 2  # the constituency tree is the left-branching fallback
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

# One value per token, or one per internal node; "dep" and "const" are the views they belong to.
TOKEN_FIELDS = ("token", "head", "relation", "dep_height", "tag", "leaf_label")
NODE_FIELDS = ("left", "right", "label", "const_height")
VIEW_FIELDS = {
    "dep": ("head", "relation", "dep_height"),
    "const": ("tag", "leaf_label", "left", "right", "label", "const_height"),
}
# Reserved last names of the inventories, for fallback trees and the nodes that binarisation adds.
FALLBACK_NAME = "_"
DUMMY_NAME = "<dummy>"


def flag_reasons(flags: UInt8) -> dict[str, int]:
    """Say how many sentences are flagged, by reason; a fallback that nothing else explains is a fault."""
    dep, const = (flags & DEP_FALLBACK) > 0, (flags & CONST_FALLBACK) > 0
    empty, blank, long = ((flags & bit) > 0 for bit in (EMPTY, BLANK_TOKEN, TOO_LONG))
    explained = empty | blank | long
    reasons = {
        "empty": empty,
        "blank token": blank,
        "too long": long & (dep | const),
        "cut by the reader": long & ~(dep | const),
        "replaced bytes": (flags & REPLACED_BYTES) > 0,
        "dependency fault": dep & ~explained,
        "constituency fault": const & ~explained,
    }
    return {name: int(np.count_nonzero(where)) for name, where in reasons.items() if where.any()}


def offsets_of(lengths: Sequence[int] | Int) -> Int64:
    """Return int64 [n+1], where each of n consecutive items of these ``lengths`` [n] starts, and the end."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def places_of_ranges(starts: Int, lengths: Int) -> Int64:
    """Return the places of successive ranges, one after the other: int64 [sum of lengths]."""
    ends = np.cumsum(lengths)
    places: Int64 = np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)
    return places


def narrow(values: Int) -> Int:
    """Cast ``values`` [n] to the narrowest signed type that holds all of them, the quickest to decode."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    dtype = np.promote_types(np.min_scalar_type(min(low, -1)), np.min_scalar_type(min(-high - 1, -1)))
    return values.astype(dtype, copy=False)


def absent() -> Int32:
    """Return the empty array of a field that was not requested."""
    return np.zeros(0, np.int32)


class WordIds(Protocol):
    """Maps word types to the ids of an embedding table."""

    key: str
    """Unique per mapping: lookups of a shard's types are memoised under it."""

    def lookup(self, types: list[str]) -> Int32:
        """Return int32 [len(types)], the id of each type (the unknown word's id where it has none)."""


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
        """Return the label of nodes that binarisation adds (0 is the null label, see ``binarise``)."""
        return len(self.labels) - 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Trees of B successive sentences as concatenated arrays.

    Arrays of fields that were not requested are empty; ``fields`` names those present. Those of words are
    [N], those of internal nodes, ``left`` to ``const_height``, [N-B]. Node ids are local to their sentence:
    leaves ``0..n-1``, internal nodes ``n..2n-2``, root last. The internal nodes of sentence i start at
    ``sentence_offsets[i] - i``. Heights of leaves and of words without dependents are 0.
    """

    sentence_offsets: Int64
    """int64 [B+1], where each sentence's tokens start, from 0."""
    flags: UInt8
    """uint8 [B], bits DEP_FALLBACK ... BLANK_TOKEN."""
    fields: tuple[str, ...]
    token: Int32 = field(default_factory=absent)
    """Ids into ``types``."""
    row: Int32 = field(default_factory=absent)
    """Ids of the vocabulary that the cache was read with; absent without."""
    relations: tuple[str, ...] = ()
    """Names of the ids in ``relation``."""
    types: list[str] | None = None
    """Word types (possibly some that the batch does not use); None without tokens."""
    head: Int32 = field(default_factory=absent)
    """1-based head within the sentence, 0 for the root."""
    relation: Int32 = field(default_factory=absent)
    dep_height: Int32 = field(default_factory=absent)
    tag: Int32 = field(default_factory=absent)
    leaf_label: Int32 = field(default_factory=absent)
    """Unary chain above the word."""
    left: Int32 = field(default_factory=absent)
    right: Int32 = field(default_factory=absent)
    label: Int32 = field(default_factory=absent)
    const_height: Int32 = field(default_factory=absent)

    def __len__(self) -> int:
        return len(self.flags)

    @property
    def node_offsets(self) -> Int64:
        """Say where each sentence's internal nodes start in ``left``, ``right``, ``label``: int64 [B+1]."""
        return self.sentence_offsets - np.arange(len(self.sentence_offsets))

    def distinct_words(self) -> tuple[list[str], Int64]:
        """Return the words that occur, each once [U], and which of them each token is: int64 [N]."""
        assert self.types is not None, "the batch has no tokens"
        used, word_N = np.unique(self.token, return_inverse=True)
        return [self.types[place] for place in used], word_N.astype(np.int64)

    def words(self) -> Iterator[list[str]]:
        """Yield the sentences as token lists."""
        assert self.types is not None, "the batch has no tokens"
        for start, stop in zip(self.sentence_offsets[:-1], self.sentence_offsets[1:], strict=True):
            yield [self.types[t] for t in self.token[start:stop]]


def join(batches: Sequence[Batch]) -> Batch:
    """Make one batch of successive ones with the same fields; each word type is listed once."""
    first = batches[0]
    if len(batches) == 1:
        return first
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(batch, name) for batch in batches]) for name in first.fields
    }
    if first.types is not None:
        ids: dict[str, int] = {}
        tokens = []
        for batch in batches:
            ours = np.array([ids.setdefault(word, len(ids)) for word in batch.types or ()], np.int32)
            tokens.append(ours[batch.token])
        arrays["token"], arrays["types"] = np.concatenate(tokens), list(ids)
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


def same_trees(one: Mapping[str, object], other: Mapping[str, object]) -> bool:
    """Tell whether two identities are those of one parser, perhaps on different devices.

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
        """Return one parse per sentence, in order. Every sentence has at least one non-blank token."""


class ConstituencyParser(Protocol):
    """Parses batches of tokenised sentences into constituency trees, tags included."""

    labels: tuple[str, ...]
    tags: tuple[str, ...]
    identity: dict[str, str]

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ConstituencyParse]:
        """Return one parse per sentence, in order. Every sentence has at least one non-blank token."""
