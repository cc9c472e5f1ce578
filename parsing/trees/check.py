"""Checks a shard against its row in the manifest and against docs/cache-format.md."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from annotated_types import Ge, Lt
from numpy.typing import NDArray

from parsing.trees.batch import NODE_FIELDS, Int, Inventories
from runtime.errors import UserError
from runtime.files import sha256_file
from runtime.process import cached_property

if TYPE_CHECKING:
    import h5py

REMEDY = "the command that made the cache makes again what is damaged or missing"
BYTE_DATASETS = ("flags", "type_bytes", "document_id_bytes")
"""Datasets of uint8; the others hold signed integers."""
MAX_COMPRESSION = 1100
"""The largest ratio of a dataset to its file. Deflate reaches about 1,000, so that a dataset with a larger
ratio is forged, and would only fill the memory."""
DATASET_CHUNK = 8192
"""Numbers in a compressed chunk: a training batch of 400 sentences has about as many tokens."""
DEFLATE, SHUFFLE = 1, 2
"""HDF5's numbers for the filters that a shard may use; HDF5 has crashed on damaged data of other filters."""
Number = Annotated[int, Ge(0), Lt(1 << 48)]
"""A count in a manifest."""


@dataclass(frozen=True, kw_only=True)
class ShardRow:
    """The entry of a shard in the manifest."""

    index: Number
    file: str
    sha256: str
    sentences: Number
    tokens: Number
    documents: Number  # that start in this shard
    flagged: Number  # sentences with any flag
    reasons: dict[str, Number]  # how many sentences have a flag, by reason

    @cached_property
    def line(self) -> str:
        """This row as JSON, as it stands in the manifest."""
        return json.dumps(dataclasses.asdict(self), sort_keys=True)


def open_shard(path: Path, row: ShardRow, first: int, names: Inventories, fields: Sequence[str]) -> h5py.File:
    """Open a shard after a check of its file and of all its arrays.

    Args:
        path: the shard's file.
        row: its row in the manifest.
        first: the number of its first sentence in the corpus.
        names: the names of the ids in the trees.
        fields: the arrays of trees that it must hold.

    Raises UserError, which names the first wrong sentence, if there is one.
    """
    import h5py

    try:
        digest = sha256_file(path)
    except UserError as error:
        raise UserError(f"{error}; {REMEDY}") from None
    if digest != row.sha256:
        raise UserError(f"{path}: damaged shard (its SHA-256 is not the one listed); {REMEDY}")
    nodes = row.tokens - row.sentences
    lengths: dict[str, int | None] = {"sentence_offsets": row.sentences + 1, "flags": row.sentences}
    lengths |= {name: nodes if name in NODE_FIELDS else row.tokens for name in fields}
    lengths |= {"document_starts": row.documents, "document_id_offsets": row.documents + 1}
    lengths |= {"type_offsets": None, "type_bytes": None, "document_id_bytes": None}
    with contextlib.ExitStack() as on_error:
        try:
            # Without a lock, because a shard never changes.
            file = on_error.enter_context(h5py.File(path, "r", locking=False))
            # The form of all datasets is checked before the first is read.
            datasets = {name: _dataset(file, name, length) for name, length in lengths.items()}
            arrays = {name: _read_values(name, data) for name, data in datasets.items()}
            _check_content(arrays, row, first, names, fields)
        except (OSError, RuntimeError, ValueError, TypeError, KeyError, zlib.error) as error:
            raise UserError(f"{path}: {error}") from None
        on_error.pop_all()
    return file


def _check_content(
    arrays: dict[str, Int], row: ShardRow, first: int, names: Inventories, fields: Sequence[str]
) -> None:
    """Raise ValueError with the first defect of a shard's arrays."""
    _check_offsets(arrays, "sentence", row.tokens, least=1)
    for name in ("type", "document_id"):  # a word may be empty
        values = arrays[f"{name}_bytes"]
        offsets = _check_offsets(arrays, name, len(values), least=0)
        values.tobytes().decode("utf-8")
        if ((np.append(values, 0)[offsets] & 0xC0) == 0x80).any():
            raise ValueError(f"{name}_offsets: lie inside characters of UTF-8")
    document_starts = np.append(arrays["document_starts"], row.sentences)
    is_rising = (np.diff(document_starts) > 0).all()
    if not is_rising or document_starts[0] < 0 or (first == 0 and document_starts[0] > 0):
        raise ValueError("document starts do not fit the sentences")
    for starts, is_wrong, message in _content_checks(arrays, names, fields):
        if is_wrong.any():
            sentence = int(np.searchsorted(starts, np.argmax(is_wrong), "right")) - 1
            raise ValueError(f"row {sentence} (sentence {first + sentence} of the corpus): {message}")


def _check_offsets(arrays: Mapping[str, Int], name: str, end: int, *, least: int) -> Int:
    """Return offsets; raise ValueError unless they rise from 0 to ``end`` by ``least`` or more each time."""
    offsets = arrays[f"{name}_offsets"].astype(np.int64)
    if not len(offsets) or offsets[0] != 0 or offsets[-1] != end or (np.diff(offsets) < least).any():
        raise ValueError(f"{name}_offsets: do not rise from 0 to {end}")
    return offsets


def _dataset(file: h5py.File, name: str, length: int | None) -> h5py.Dataset:
    """Return a dataset of ``length`` integers, or of any number of them if that is None, unread.

    Raises ValueError if it has another form.
    """
    import h5py

    # Only hard links are followed, because links of other kinds may name any file.
    data = file[name] if isinstance(file.get(name, getlink=True), h5py.HardLink) else None
    if not isinstance(data, h5py.Dataset) or data.external or data.is_virtual:
        raise ValueError(f"{name}: is no dataset")
    shape = data.shape or ()
    types, unit = (("|u1",), "bytes") if name in BYTE_DATASETS else (("i1", "i2", "i4", "i8"), "integers")
    is_small = data.nbytes <= MAX_COMPRESSION * file.id.get_filesize()
    has_length = len(shape) == 1 and length in (None, *shape)
    if not (is_small and has_length and data.dtype.newbyteorder("=") in types):
        count = "any number of" if length is None else length
        raise ValueError(f"{name}: is {data.dtype} {list(shape)}; by its row in manifest.json {count} {unit}")
    filters = _filters(data)
    has_our_filters = list(filters) in ([], [DEFLATE], [SHUFFLE, DEFLATE])
    has_width = filters.get(SHUFFLE, (data.dtype.itemsize,)) == (data.dtype.itemsize,)
    if not (has_our_filters and has_width and data.chunks in (None, (min(DATASET_CHUNK, *shape),))):
        raise ValueError(f"{name}: is not packed as docs/cache-format.md says")
    return data


def _filters(data: h5py.Dataset) -> dict[int, tuple[int, ...]]:
    """Return the options of a dataset's filters by HDF5's number of the filter, in their order."""
    properties = data.id.get_create_plist()
    filters = map(properties.get_filter, range(properties.get_nfilters()))
    return {number: options for number, _, options, _ in filters}


def _read_values(name: str, data: h5py.Dataset) -> Int:
    """Return the integers of a dataset; raise ValueError if a chunk is damaged.

    They are decompressed here, because HDF5 fills a chunk that is too short with whatever is in memory.
    """
    if data.chunks is None:
        return np.asarray(data[:])
    size, width = data.chunks[0], data.dtype.itemsize
    filters = _filters(data)
    chunks = []
    for first in range(0, len(data), size):
        # The first value has a bit for each filter that HDF5 left out.
        is_damaged, content = data.id.read_direct_chunk((first,))
        if DEFLATE in filters and not is_damaged:
            decompressor = zlib.decompressobj()
            content = decompressor.decompress(content, size * width + 1)
            is_damaged = not decompressor.eof
        if is_damaged or len(content) != size * width:
            raise ValueError(f"{name}: a chunk is not {size} numbers")
        if SHUFFLE in filters:
            content = np.frombuffer(content, np.uint8).reshape(width, size).T.tobytes()
        chunks.append(np.frombuffer(content, data.dtype))
    return np.concatenate(chunks)[: len(data)]


def _content_checks(
    arrays: Mapping[str, Int], names: Inventories, fields: Sequence[str]
) -> Iterator[tuple[Int, NDArray[np.bool_], str]]:
    """Yield, for each check, where each sentence's values start [B+1], which are wrong, and a message."""
    from parsing.trees.arrays import DEFECTS, constituency_heights, dependency_heights

    offsets = arrays["sentence_offsets"].astype(np.int64, copy=False)
    rows = np.arange(len(offsets))
    columns = {name: arrays[name].astype(np.int32, copy=False) for name in fields}
    bounds = {"token": len(arrays["type_offsets"]) - 1, "relation": len(names.relations)}
    bounds |= {"tag": len(names.tags), "leaf_label": len(names.labels), "label": len(names.labels)}
    for name, values in columns.items():
        starts = offsets - rows if name in NODE_FIELDS else offsets
        if arrays[name].itemsize > values.itemsize:
            yield starts, values != arrays[name], f"{name}: a number of more than 32 bits"
        if name in bounds:
            is_foreign = (values < 0) | (values >= bounds[name])
            yield starts, is_foreign, f"{name}: an id that is not one of {bounds[name]}"
    trees = []
    if "head" in fields:
        heights, defects = dependency_heights(columns["head"], offsets)
        trees.append((offsets, defects, heights != columns["dep_height"]))
    if "left" in fields:
        heights, defects, *_ = constituency_heights(columns["left"], columns["right"], offsets)
        trees.append((offsets - rows, defects, heights != columns["const_height"]))
    for starts, defects, has_wrong_height in trees:
        for defect, message in DEFECTS.items():
            yield rows, defects == defect, message
        yield starts, has_wrong_height, "a height is not one more than its highest child's"
