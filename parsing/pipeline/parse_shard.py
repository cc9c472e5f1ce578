"""``parse_shard``: tokenised sentences in, arrays out, no side effects; workers run it in parallel.

A worker process, a Ray actor and a test get the same arrays: micro-batches are formed by length from
the shard's sentences alone, whatever the number of workers. A shard of 8,192 sentences is handed out in
parts, so that all cores are busy to the end even if a corpus has only a few shards; ``merge_parts`` puts
the results together.

Shapes: B sentences, N tokens.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from corpora.inputs import encodable, is_encodable
from corpora.support.cli import LOGGER
from corpora.support.errors import out_of_memory
from parsing.cache.format import (
    CONST_FALLBACK,
    DEP_FALLBACK,
    DUMMY_NAME,
    EMPTY,
    FALLBACK_NAME,
    REPLACED_BYTES,
    TOO_LONG,
    Arrays,
    Batch,
    Inventories,
    ShardResult,
    WordIds,
    offsets_of,
    view_fields,
)
from parsing.cache.shard_file import decode_strings
from parsing.pipeline.split import ShardSpec, assemble
from parsing.trees import binarise
from parsing.trees.arrays import DEFECTS, constituency_heights, dependency_heights
from parsing.trees.parsers import (
    ConstituencyParse,
    ConstituencyParser,
    DependencyParse,
    DependencyParser,
    DeviceLost,
    Int,
    Int64,
    UInt8,
    check_tokens,
)

if TYPE_CHECKING:
    from parsing.joint.parser import JointParser

MAX_TOKENS = 128
# Limits of a micro-batch: enough to keep one core's matrix products busy, few enough for little memory.
BATCH_SENTENCES = 256
BATCH_TOKENS = 4096
# The same for a GPU, which wants many rows in a product.
DEVICE_TOKENS = 2**16
# About a second of work: no worker idles longer than that at the end.
PART_SENTENCES = 1024

Parse = TypeVar("Parse", DependencyParse, ConstituencyParse)
log = logging.getLogger(LOGGER)


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardOptions:
    """Options that decide a shard's content, besides its text and parsers."""

    max_tokens: int = MAX_TOKENS
    batch_sentences: int = BATCH_SENTENCES
    batch_tokens: int = BATCH_TOKENS
    part_sentences: int = PART_SENTENCES

    @classmethod
    def on_device(cls, max_tokens: int) -> ShardOptions:
        """Micro-batches that fill a GPU: each has all sentences of a part."""
        return cls(max_tokens=max_tokens, batch_sentences=PART_SENTENCES, batch_tokens=DEVICE_TOKENS)


def inventories_of(
    dependency: DependencyParser | None, constituency: ConstituencyParser | None
) -> Inventories:
    """The parsers' names of ids, with the reserved last ones."""
    return Inventories(
        relations=(*dependency.relations, FALLBACK_NAME) if dependency else (),
        labels=(*constituency.labels, DUMMY_NAME) if constituency else (),
        tags=(*constituency.tags, FALLBACK_NAME) if constituency else (),
    )


def parse_shard(
    spec: ShardSpec,
    dependency: DependencyParser | None,
    constituency: ConstituencyParser | None,
    options: ShardOptions | None = None,
) -> ShardResult:
    """Parse the sentences of a shard or of a part of one; every sentence gets a row.

    A sentence that a parser cannot take keeps its row with a fallback tree, is flagged and counted.

    Args:
        spec: the text.
        dependency: parser, or None for a cache without dependency trees.
        constituency: parser, or None for a cache without constituency trees.
        options: limits; part of the cache's identity.
    """
    options = options or ShardOptions()
    reasons: Counter[str] = Counter()
    sentences, flags, parsable = prepare(spec, options.max_tokens, reasons)
    offsets = offsets_of([len(tokens) for tokens in sentences])
    arrays: Arrays = {}
    batches = micro_batches(np.diff(offsets), parsable, options)
    arcs, spans = parse_batches(sentences, batches, dependency, constituency, reasons)
    if dependency is not None:
        arrays |= dependency_arrays(sentences, offsets, arcs, dependency.relations, flags, reasons)
    if constituency is not None:
        names = constituency.labels, constituency.tags
        arrays |= constituency_arrays(sentences, offsets, spans, *names, flags, reasons)
    return assemble(spec, sentences, offsets, flags, arrays, dict(reasons))


def prepare(
    spec: ShardSpec, max_tokens: int, reasons: Counter[str]
) -> tuple[list[tuple[str, ...]], UInt8, Int64]:
    """Tokens as they are stored, flags known before parsing, and the sentences to be parsed.

    Returns:
        The sentences, each of at least one token; uint8 [B] flags; int64 ids of the sentences to parse.
    """
    sentences: list[tuple[str, ...]] = []
    flags = np.array(spec.flags, np.uint8)
    parsable: list[int] = []
    for i, given in enumerate(spec.sentences):
        tokens = tuple(given)
        if not all(is_encodable(word) for word in tokens):
            tokens = tuple(encodable(word) for word in tokens)
            flags[i] |= REPLACED_BYTES
        blank = [not word or word.isspace() for word in tokens]
        if all(blank):
            flags[i] |= EMPTY
            tokens = tokens if len(tokens) == 1 and tokens[0] == "" else ("",)
            reasons["empty"] += 1
        elif len(tokens) > max_tokens:
            flags[i] |= TOO_LONG
            reasons["too long"] += 1
        elif any(blank):
            reasons["blank token"] += 1
        else:
            parsable.append(i)
            reasons["cut by the reader"] += int(flags[i] & TOO_LONG > 0)
        reasons["replaced bytes"] += int(flags[i] & REPLACED_BYTES > 0)
        sentences.append(tokens)
    return sentences, flags, np.array(parsable, np.int64)


def micro_batches(lengths: Int64, parsable: Int64, options: ShardOptions) -> list[Int64]:
    """Cut the parsable sentences, longest first, into batches of similar length.

    Batches depend on the shard alone. Each has at most ``batch_sentences`` sentences and ``batch_tokens``
    padded tokens, but at least one sentence.

    Args:
        lengths: int64 [B], tokens of each sentence.
        parsable: ids of the sentences to parse.
        options: the limits.

    Returns:
        The sentence ids of each batch.
    """
    order = parsable[np.argsort(-lengths[parsable], kind="stable")]
    batches, start = [], 0
    while start < len(order):
        longest = int(lengths[order[start]])
        size = max(1, min(options.batch_sentences, options.batch_tokens // longest))
        batches.append(order[start : start + size])
        start += size
    return batches


def parse_batches(
    sentences: list[tuple[str, ...]],
    batches: list[Int64],
    dependency: DependencyParser | None,
    constituency: ConstituencyParser | None,
    reasons: Counter[str],
) -> tuple[list[tuple[int, DependencyParse]], list[tuple[int, ConstituencyParse]]]:
    """Parses by sentence id, of both views; a parser that is None gives none.

    Parsers that share an encoder run together, batch by batch; a batch that fails goes to each by itself.

    Args:
        sentences: [B], tokens.
        batches: ids of the sentences to parse.
        dependency: the one parser.
        constituency: the other.
        reasons: faults are counted here.
    """
    arcs: list[tuple[int, DependencyParse]] = []
    spans: list[tuple[int, ConstituencyParse]] = []
    joint = _joined(dependency, constituency)
    alone: list[Int64] = []
    for batch in batches:
        try:
            both = [] if joint is None else joint.parse([sentences[i] for i in batch])
        except Exception as error:
            if out_of_memory(error) or isinstance(error, DeviceLost):
                raise
            both = []
        if len(both) == len(batch):
            arcs += zip(batch.tolist(), (parse for parse, _ in both), strict=True)
            spans += zip(batch.tolist(), (parse for _, parse in both), strict=True)
        else:
            alone.append(batch)
    if dependency is not None:
        arcs += _parses(dependency.parse, sentences, alone, "dependency", reasons)
    if constituency is not None:
        spans += _parses(constituency.parse, sentences, alone, "constituency", reasons)
    return arcs, spans


def _joined(
    dependency: DependencyParser | None, constituency: ConstituencyParser | None
) -> JointParser | None:
    """Both parsers as one if they share an encoder; torch is not imported for others."""
    if not (hasattr(dependency, "encoder_identity") and hasattr(constituency, "encoder_identity")):
        return None
    from parsing.joint.parser import join

    return join(dependency, constituency)


def dependency_arrays(
    sentences: list[tuple[str, ...]],
    offsets: Int64,
    parses: Iterable[tuple[int, DependencyParse]],
    relations: Sequence[str],
    flags: UInt8,
    reasons: Counter[str],
) -> Arrays:
    """``head``, ``relation`` and ``dep_height`` of all tokens, from parses by sentence id.

    Sentences without a parse and those whose parse is not a tree get the fallback. ``offsets`` is int64
    [B+1]; ``flags``, uint8 [B], and ``reasons`` are updated.
    """
    lengths = np.diff(offsets)
    # The fallback first, for all: a chain, each word's head the one before it.
    head = (np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)).astype(np.int32)
    relation = np.full(offsets[-1], len(relations), np.int32)
    parsed = np.zeros(len(sentences), bool)
    for i, parse in parses:
        defect = _dependency_defect(parse, int(lengths[i]), len(relations))
        if defect:
            reasons["dependency fault"] += 1
            log.warning("dependency parser: %s; %s", defect, _excerpt(sentences[i]))
            continue
        head[offsets[i] : offsets[i + 1]] = parse.heads
        relation[offsets[i] : offsets[i + 1]] = parse.relations
        parsed[i] = True
    flags[~parsed] |= DEP_FALLBACK
    height, defects = dependency_heights(head, offsets)
    assert not defects.any()
    return {"head": head, "relation": relation, "dep_height": height}


def _dependency_defect(parse: DependencyParse, n: int, relations: int) -> str:
    """What is wrong with the parse of ``n`` words; empty if nothing is."""
    if len(parse.heads) != n or not _fits(parse.relations, n, relations):
        return "ids outside the parser's inventories, or not one per word"
    _, defects = dependency_heights(parse.heads, np.array([0, n], np.int64))
    return DEFECTS[defects[0]]


def constituency_arrays(
    sentences: list[tuple[str, ...]],
    offsets: Int64,
    parses: Iterable[tuple[int, ConstituencyParse]],
    labels: Sequence[str],
    tags: Sequence[str],
    flags: UInt8,
    reasons: Counter[str],
) -> Arrays:
    """The fields of the ``const`` view, from parses by sentence id, as for ``dep``."""
    dummy, no_tag = len(labels), len(tags)
    n_tokens = int(offsets[-1])
    arrays: Arrays = {name: np.zeros(n_tokens, np.int32) for name in ("tag", "leaf_label")}
    arrays |= {name: np.zeros(n_tokens - len(sentences), np.int32) for name in ("left", "right", "label")}
    arrays["tag"][:] = no_tag
    parsed = np.zeros(len(sentences), bool)
    for i, parse in parses:
        try:
            n = int(offsets[i + 1] - offsets[i])
            if not (_fits(parse.tags, n, no_tag) and _fits(parse.labels, len(parse.labels), dummy)):
                raise ValueError("ids outside the parser's inventories")
            tree = binarise.binarise(parse, dummy)
        except ValueError as error:
            reasons["constituency fault"] += 1
            log.warning("constituency parser: %s; %s", error, _excerpt(sentences[i]))
            continue
        _put_tree(arrays, offsets, i, tree)
        arrays["tag"][offsets[i] : offsets[i + 1]] = parse.tags
        parsed[i] = True
    for i in np.flatnonzero(~parsed).tolist():
        _put_tree(arrays, offsets, i, binarise.left_branching(int(offsets[i + 1] - offsets[i]), dummy))
    flags[~parsed] |= CONST_FALLBACK
    arrays["const_height"], defects = constituency_heights(arrays["left"], arrays["right"], offsets)
    assert not defects.any()
    return arrays


def _put_tree(arrays: Arrays, offsets: Int64, i: int, tree: binarise.BinaryTree) -> None:
    start, stop = int(offsets[i]), int(offsets[i + 1])
    arrays["leaf_label"][start:stop] = tree.leaf_label
    for name in ("left", "right", "label"):
        arrays[name][start - i : stop - i - 1] = getattr(tree, name)


def _parses(
    parse: Callable[[Sequence[Sequence[str]]], list[Parse]],
    sentences: list[tuple[str, ...]],
    batches: list[Int64],
    name: str,
    reasons: Counter[str],
) -> list[tuple[int, Parse]]:
    """Parse by micro-batches; a batch that raises is parsed again one sentence at a time."""
    done: list[tuple[int, Parse]] = []
    for batch in batches:
        try:
            parses = parse([sentences[i] for i in batch])
            if len(parses) != len(batch):
                raise ValueError(f"{len(parses)} parses of {len(batch)} sentences")
        except Exception as error:
            if out_of_memory(error) or isinstance(error, DeviceLost):  # the trees must not depend on it
                raise
            # One odd sentence must not cost the others, whatever a parser library raises.
            log.warning("%s parser: batch of %d, one by one after: %s", name, len(batch), error)
        else:
            done += [(int(i), one) for i, one in zip(batch, parses, strict=True)]
            continue
        for i in batch:
            try:
                (one,) = parse([sentences[i]])
                done.append((int(i), one))
            except Exception as error:
                if out_of_memory(error) or isinstance(error, DeviceLost):
                    raise
                reasons[f"{name} fault"] += 1
                log.warning("%s parser: %s; %s", name, error, _excerpt(sentences[i]))
    return done


def _fits(values: Int, length: int, bound: int) -> bool:
    """Whether ``values`` has ``length`` entries, all in ``0..bound-1``."""
    return len(values) == length and bool(length == 0 or (values.min() >= 0 and values.max() < bound))


def _excerpt(tokens: Sequence[str]) -> str:
    return repr(" ".join(tokens)[:80])


def to_batch(
    result: ShardResult, views: Sequence[str] = ("dep", "const"), vocabulary: WordIds | None = None
) -> Batch:
    """A whole shard as a batch, without a file in between (for text parsed on the fly)."""
    arrays = result.arrays
    fields = view_fields(views)
    chosen: dict[str, Any] = {field: arrays[field].astype(np.int32) for field in fields}
    types: list[str] | None = decode_strings(arrays["type_bytes"], arrays["type_offsets"])
    if vocabulary is not None and types is not None:
        chosen["token"], types = vocabulary.lookup(types)[chosen["token"]], None
    return Batch(
        sentence_offsets=arrays["sentence_offsets"].astype(np.int64),
        flags=arrays["flags"].astype(np.uint8, copy=False),
        fields=fields,
        types=types,
        **chosen,
    )


def parse_sentences(
    sentences: Sequence[Sequence[str]],
    dependency: DependencyParser | None,
    constituency: ConstituencyParser | None,
    *,
    max_tokens: int = MAX_TOKENS,
    vocabulary: WordIds | None = None,
) -> Batch:
    """Parse tokenised sentences into the batch that a cache of them would return."""
    check_tokens(sentences)
    spec = ShardSpec(
        index=0,
        sentences=[tuple(tokens) for tokens in sentences],
        flags=[0] * len(sentences),
        document_starts=[0],
        document_ids=[""],
    )
    result = parse_shard(spec, dependency, constituency, ShardOptions(max_tokens=max_tokens))
    views = [view for view, parser in (("dep", dependency), ("const", constituency)) if parser is not None]
    return to_batch(result, views, vocabulary)
