"""A shard's text and arrays: split the text into parts, assemble arrays, merge the parts' results.

Shapes: B sentences, N tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from corpora.inputs import encodable
from parsing.cache.format import NODE_FIELDS, TOKEN_FIELDS, Arrays, ShardResult, offsets_of
from parsing.cache.shard_file import decode_strings, encode_strings, narrow
from parsing.trees.parsers import Int, Int64


@dataclass(frozen=True, kw_only=True, slots=True)
class ShardSpec:
    """The text of one shard, or of one part of it."""

    index: int
    sentences: list[tuple[str, ...]]
    """Tokens of each sentence, as the corpus gave them."""
    flags: list[int]
    """Flags that the reader set for each sentence: TOO_LONG (it was cut), REPLACED_BYTES."""
    document_starts: list[int]
    """Sentences of this shard at which a document starts."""
    document_ids: list[str]
    """Identifiers of these documents."""
    part: int = 0
    """Which part of the shard this is."""
    parts: int = 1
    """How many parts the shard has."""

    @property
    def continues(self) -> bool:
        """The first sentence belongs to the previous shard's last document."""
        return bool(self.sentences) and (not self.document_starts or self.document_starts[0] != 0)


def split_shard(spec: ShardSpec, size: int) -> list[ShardSpec]:
    """A shard's text in parts of ``size`` sentences."""
    starts = range(0, len(spec.sentences), size)
    parts = []
    for part, start in enumerate(starts):
        inside = [
            (at - start, name)
            for at, name in zip(spec.document_starts, spec.document_ids, strict=True)
            if start <= at < start + size
        ]
        parts.append(
            ShardSpec(
                index=spec.index,
                sentences=spec.sentences[start : start + size],
                flags=spec.flags[start : start + size],
                document_starts=[at for at, _ in inside],
                document_ids=[name for _, name in inside],
                part=part,
                parts=len(starts),
            )
        )
    return parts


def merge_parts(parts: Sequence[ShardResult]) -> ShardResult:
    """The results of a shard's parts, in order, as the result of the whole shard."""
    if len(parts) == 1:
        return parts[0]
    ids: dict[str, int] = {}
    reasons: Counter[str] = Counter()
    columns: dict[str, list[Int]] = {}
    lengths, names, starts, sentences = [], [], [], 0
    for part in parts:
        arrays = part.arrays
        types = decode_strings(arrays["type_bytes"], arrays["type_offsets"])
        lookup = np.array([ids.setdefault(word, len(ids)) for word in types], np.int32)
        for name, values in arrays.items():
            if name in TOKEN_FIELDS or name in NODE_FIELDS or name == "flags":
                columns.setdefault(name, []).append(lookup[values] if name == "token" else values)
        lengths.append(np.diff(arrays["sentence_offsets"]))
        names += decode_strings(arrays["document_id_bytes"], arrays["document_id_offsets"])
        # The first of a part's offsets is its first sentence, whether a document starts there or not.
        starts.append(arrays["document_offsets"][int(part.continues) : -1] + sentences)
        sentences += len(arrays["flags"])
        reasons.update(part.reasons)
    joined = {name: np.concatenate(values) for name, values in columns.items()}
    flags, token = joined.pop("flags"), joined.pop("token")
    text = _text_arrays(ids, token, np.concatenate(lengths), np.concatenate(starts), names, sentences)
    merged = {name: narrow(values) for name, values in joined.items()} | text | {"flags": flags}
    return ShardResult(
        index=parts[0].index, arrays=merged, continues=parts[0].continues, reasons=dict(reasons)
    )


def assemble(
    spec: ShardSpec,
    sentences: Sequence[Sequence[str]],
    offsets: Int64,
    flags: Int,
    trees: Arrays,
    reasons: dict[str, int],
) -> ShardResult:
    """Text and tree arrays of a shard as they are stored.

    Args:
        spec: the text as the corpus gave it.
        sentences: the tokens to store.
        offsets: int64 [B+1], where the tokens of each sentence start.
        flags: uint8 [B].
        trees: arrays of the parsed views.
        reasons: how many sentences were flagged, by reason.
    """
    ids: dict[str, int] = {}
    token = np.fromiter(
        (ids.setdefault(word, len(ids)) for tokens in sentences for word in tokens), np.int32, offsets[-1]
    )
    names = [encodable(name) for name in spec.document_ids]
    text = _text_arrays(ids, token, np.diff(offsets), np.array(spec.document_starts), names, len(sentences))
    arrays = {name: narrow(values) for name, values in trees.items()}
    arrays |= text | {"flags": np.asarray(flags, np.uint8)}
    return ShardResult(index=spec.index, arrays=arrays, continues=spec.continues, reasons=reasons)


def _text_arrays(
    ids: dict[str, int],
    token: Int,
    lengths: Int,
    document_starts: Int,
    document_ids: list[str],
    sentences: int,
) -> Arrays:
    """Words, sentences and documents of a shard as they are stored."""
    type_bytes, type_offsets = encode_strings(list(ids))
    id_bytes, id_offsets = encode_strings(document_ids)
    continued = not len(document_starts) or document_starts[0] != 0
    return {
        "token": narrow(token),
        "type_bytes": type_bytes,
        "type_offsets": type_offsets.astype(np.int32),
        "sentence_offsets": offsets_of(lengths).astype(np.int32),
        "document_offsets": np.concatenate([np.zeros(int(continued)), document_starts, [sentences]]).astype(
            np.int32
        ),
        "document_id_bytes": id_bytes,
        "document_id_offsets": id_offsets.astype(np.int32),
    }
