"""Ids of word types by their bytes equal a dictionary's, whatever was met before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.support.errors import UserError
from parsing.cache import type_ids
from parsing.cache.reader import TreeCache
from parsing.cache.shard_file import encode_strings
from parsing.cache.type_ids import TypeIds
from tests.parsing.cache.test_reader import corpus_of, write_cache


class Numbered:
    """A number per word, given as the words come; says which words it was asked for."""

    key = "numbered"

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.asked: list[str] = []

    def lookup(self, types: list[str]) -> np.ndarray:
        self.asked += types
        return np.array([self.ids.setdefault(word, len(self.ids)) for word in types], np.int32)


words = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
shards = st.lists(st.lists(words, unique=True, min_size=1, max_size=30), min_size=1, max_size=8)


def ask(ids: TypeIds, types: list[str], which: list[int]) -> list[int]:
    blob, offsets = encode_strings(types)
    return ids(blob.copy(), offsets.astype(np.int32), np.array(which, np.int32)).tolist()


@given(shards, st.data())
@settings(max_examples=60, deadline=None)
def test_ids_are_the_vocabularys(listed: list[list[str]], data) -> None:
    vocabulary = Numbered()
    ids = TypeIds(vocabulary)
    for types in listed:
        which = data.draw(st.lists(st.sampled_from(range(len(types))), unique=True, max_size=len(types)))
        found = ask(ids, types, which)
        assert found == [vocabulary.ids[types[i]] for i in which]
    assert len(vocabulary.asked) == len(set(vocabulary.asked))


def test_many_types_share_slots_and_outgrow_the_bytes() -> None:
    vocabulary = Numbered()
    ids = TypeIds(vocabulary)
    types = [f"{i:05d}-{'x' * (i % 7)}" for i in range(40_000)]
    for start in (0, 10_000, 5_000, 0):
        part = types[start : start + 30_000]
        assert ask(ids, part, list(range(len(part)))) == [vocabulary.ids[word] for word in part]
    assert len(vocabulary.asked) == 40_000


def test_memory_is_bounded(monkeypatch) -> None:
    monkeypatch.setattr(type_ids, "MAX_TYPES", 64)
    monkeypatch.setattr(type_ids, "SLOTS", 128)
    vocabulary = Numbered()
    ids = TypeIds(vocabulary)
    for turn in range(10):
        types = [f"w{i}" for i in range(turn * 7, turn * 7 + 40 + 10 * turn)]
        assert ask(ids, types, list(range(len(types)))) == [vocabulary.ids[word] for word in types]
        assert ids._size <= 64


def test_damaged_offsets_are_refused_before_they_are_followed(tmp_path) -> None:
    import h5py

    write_cache(tmp_path, corpus_of(10))
    with h5py.File(tmp_path / "shard-000000.h5", "r+") as file:
        file["type_offsets"][1] = 2_000_000_000
    with pytest.raises(UserError, match="damaged at 'type_offsets'"):
        TreeCache.open(tmp_path).read(0, 5, ("token",), Numbered())
