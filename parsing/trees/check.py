"""Whether a shard is what its row says and docs/cache-format.md asks for, found out when it is first opened.

The hash is compared before HDF5 opens the file. What the file holds is checked then, all its sentences at
once: a right hash only says that the file is the one that the manifest was written for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from annotated_types import Ge, Lt

from parsing.trees.batch import NODE_FIELDS, Int, Inventories
from runtime.errors import UserError
from runtime.files import sha256_file

if TYPE_CHECKING:
    import h5py

REMEDY = "the command that made the cache makes again what is damaged or missing"
BYTES = ("flags", "type_bytes", "document_id_bytes")
"""Datasets of uint8; the others hold signed integers."""
MOST_PACKED = 1100
"""Deflate makes about a thousand bytes of one at most, so a small file cannot ask for all the memory."""
CHUNK = 8192
"""Numbers that are packed at once: a training batch (400 sentences) is as many tokens, two chunks a field."""
DEFLATE, SHUFFLE = 1, 2
"""HDF5's numbers for the filters that a shard may use; others have crashed over wrong bytes."""
Number = Annotated[int, Ge(0), Lt(1 << 48)]
"""A count in a manifest."""


@dataclass(frozen=True, kw_only=True)
class ShardRow:
    """A shard's line in the manifest."""

    index: Number
    file: str
    sha256: str
    sentences: Number
    tokens: Number
    documents: Number
    """Documents that start in this shard."""
    flagged: Number
    """Sentences with any flag."""
    reasons: dict[str, Number]
    """How many sentences were flagged, by reason."""

    @functools.cached_property
    def line(self) -> str:
        """Return this row in the manifest, as JSON."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


def open_shard(path: Path, row: ShardRow, start: int, names: Inventories, fields: Sequence[str]) -> h5py.File:
    """Open a shard for the first time; ``start`` is its first sentence in the corpus.

    A file that was changed is refused, and so is content that breaks the format, whose row is named.
    """
    import h5py

    try:
        digest = sha256_file(path)
    except UserError as error:
        raise UserError(f"{error}; {REMEDY}") from None
    if digest != row.sha256:
        raise UserError(f"{path}: damaged shard (its SHA-256 is not the one listed); {REMEDY}")
    lengths: dict[str, int | None] = {"sentence_offsets": row.sentences + 1, "flags": row.sentences}
    lengths |= {name: row.tokens - row.sentences * (name in NODE_FIELDS) for name in fields}
    lengths |= {"document_starts": row.documents, "document_id_offsets": row.documents + 1}
    lengths |= dict.fromkeys(("type_offsets", "type_bytes", "document_id_bytes"))
    with contextlib.ExitStack() as on_error:
        try:
            # A shard never changes, so no lock of another program's matters.
            file = on_error.enter_context(h5py.File(path, "r", locking=False))
            # All datasets are checked before the first is read.
            datasets = {name: _dataset(file, name, length) for name, length in lengths.items()}
            arrays = {name: _values(name, data) for name, data in datasets.items()}
            _check_content(arrays, row, start, names, fields)
        except (OSError, RuntimeError, ValueError, TypeError, KeyError, zlib.error) as error:
            raise UserError(f"{path}: {error}") from None
        on_error.pop_all()
    return file


def _check_content(
    arrays: dict[str, Int], row: ShardRow, start: int, names: Inventories, fields: Sequence[str]
) -> None:
    """Raise ValueError with the first defect."""
    for name in ("sentence", "type", "document_id"):
        values = arrays.get(f"{name}_bytes")
        offsets = arrays[f"{name}_offsets"] = arrays[f"{name}_offsets"].astype(np.int64)
        # A sentence has a token; a word may be empty.
        least, end = (1, row.tokens) if values is None else (0, len(values))
        if not len(offsets) or (offsets[0], offsets[-1]) != (0, end) or (np.diff(offsets) < least).any():
            raise ValueError(f"{name}_offsets: do not rise from 0 to {end}")
        if values is not None:
            values.tobytes().decode("utf-8")
            if ((np.append(values, 0)[offsets] & 0xC0) == 0x80).any():
                raise ValueError(f"{name}_offsets: lie inside characters of UTF-8")
    firsts = np.append(arrays["document_starts"], row.sentences)
    if (np.diff(firsts) < 1).any() or firsts[0] < 0 or (start == 0 and firsts[0] > 0):
        raise ValueError("document starts do not fit the sentences")
    for begins, wrong, what in _defects(arrays, names, fields):
        if wrong.any():
            at = int(np.searchsorted(begins, np.argmax(wrong), "right")) - 1
            raise ValueError(f"row {at} (sentence {start + at} of the corpus): {what}")


def _dataset(file: h5py.File, name: str, length: int | None) -> h5py.Dataset:
    """Open a dataset of ``length`` integers, not read yet; None is any number."""
    import h5py

    # Links of other kinds name a file, which may be any.
    data = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(data, h5py.Dataset) or data.external or data.is_virtual:
        raise ValueError(f"{name}: is no dataset")
    shape, kinds = data.shape or (), ("|u1",) if name in BYTES else ("i1", "i2", "i4", "i8")
    is_small = data.nbytes <= MOST_PACKED * file.id.get_filesize()
    fits = len(shape) == 1 and length in (None, *shape) and is_small
    if not fits or data.dtype.newbyteorder("=") not in kinds:
        wanted = f"{'any number of' if length is None else length} {'bytes' if name in BYTES else 'integers'}"
        raise ValueError(f"{name}: is {data.dtype} {list(shape)}; by its row in manifest.json {wanted}")
    width, filters = data.dtype.itemsize, _filters(data)
    ours = list(filters) in ([], [DEFLATE], [SHUFFLE, DEFLATE]) and filters.get(SHUFFLE, (width,)) == (width,)
    if not ours or data.chunks not in (None, (min(CHUNK, *shape),)):
        raise ValueError(f"{name}: is not packed as docs/cache-format.md says")
    return data


def _filters(data: h5py.Dataset) -> dict[int, tuple[int, ...]]:
    """Say what packs a dataset, in order: HDF5's numbers of filters, and what they are given."""
    made = data.id.get_create_plist()
    return dict(made.get_filter(number)[:3:2] for number in range(made.get_nfilters()))


def _values(name: str, data: h5py.Dataset) -> Int:
    """Unpack the integers of a dataset here: HDF5 fills a chunk that is too short from foreign memory."""
    if data.chunks is None:
        whole: Int = data[:]
        return whole
    size, width, filters = data.chunks[0], data.dtype.itemsize, _filters(data)
    chunks = []
    for start in range(0, len(data), size):
        skipped, content = data.id.read_direct_chunk((start,))
        if DEFLATE in filters and not skipped:
            unpack = zlib.decompressobj()
            content = unpack.decompress(content, size * width + 1)
            skipped = not unpack.eof
        if skipped or len(content) != size * width:
            raise ValueError(f"{name}: a chunk is not {size} numbers")
        if SHUFFLE in filters:
            content = np.frombuffer(content, np.uint8).reshape(width, size).T.tobytes()
        chunks.append(np.frombuffer(content, data.dtype))
    return np.concatenate(chunks)[: len(data)]


def _defects(
    arrays: Mapping[str, Int], names: Inventories, fields: Sequence[str]
) -> Iterator[tuple[Any, Any, str]]:
    """Yield the checks: where the values of a sentence start [B+1], which values fail, and what is wrong."""
    from parsing.trees.arrays import DEFECTS, constituency_heights, dependency_heights

    offsets = arrays["sentence_offsets"].astype(np.int64, copy=False)
    rows = np.arange(len(offsets))
    labels, columns = len(names.labels), {name: arrays[name].astype(np.int32, copy=False) for name in fields}
    bounds = {"token": len(arrays["type_offsets"]) - 1, "relation": len(names.relations)}
    bounds |= {"tag": len(names.tags), "leaf_label": labels, "label": labels}
    for name, values in columns.items():
        begins = offsets - rows if name in NODE_FIELDS else offsets
        if arrays[name].itemsize > values.itemsize:
            yield begins, values != arrays[name], f"{name}: a number of more than 32 bits"
        if name in bounds:
            wrong = (values < 0) | (values >= bounds[name])
            yield begins, wrong, f"{name}: an id that is not one of {bounds[name]}"
    trees = []
    if "head" in fields:
        trees.append((*dependency_heights(columns["head"], offsets), columns["dep_height"], offsets))
    if "left" in fields:
        heights, defects, *_ = constituency_heights(columns["left"], columns["right"], offsets)
        trees.append((heights, defects, columns["const_height"], offsets - rows))
    for heights, defects, stored, begins in trees:
        for number, defect in enumerate(DEFECTS[1:], 1):
            yield rows, defects == number, defect
        yield begins, heights != stored, "a height is not one more than its highest child's"
