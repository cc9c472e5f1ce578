"""Growth is noticed; a cache of linked shards reads like a real one."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from corpora.support.errors import UserError
from parsing.cache.manifest import Manifest
from parsing.cache.reader import TreeCache
from parsing.verify import verify_shards
from tests.parsing.cache.test_reader import corpus_of, write_cache
from tools.scale import link_shards
from tools.soak import Sample, growth, held, write


def samples(memory: float = 0.0, descriptors: float = 0.0, count: int = 40) -> list[Sample]:
    return [
        Sample(float(i), 500 + memory * i, round(20 + descriptors * i), 3, 10.0, 10.0, 10.0)
        for i in range(count)
    ]


def test_growth_is_noticed() -> None:
    assert growth(samples()) == []
    assert growth(samples(memory=0.2)) == []
    assert "memory grew" in growth(samples(memory=5.0))[0]
    assert "descriptors grew" in growth(samples(descriptors=0.1))[0]
    assert growth(samples(memory=5.0, count=6)) == [], "too few rounds to tell"


def test_curves_are_pictures_of_their_own(tmp_path: Path) -> None:
    write(tmp_path, samples(), "level")
    assert len(json.loads((tmp_path / "samples.json").read_text())) == 40
    for name in ("memory", "held", "speed"):
        root = ElementTree.parse(tmp_path / f"{name}.svg").getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_this_process_holds_something() -> None:
    memory, descriptors, threads = held()
    assert memory > 10 and descriptors >= 3 and threads >= 1


def test_linked_shards_read_like_real_ones(tmp_path: Path) -> None:
    write_cache(tmp_path / "real", corpus_of(40), documents=(0, 5, 20))  # shards of 16: two full ones
    folder = tmp_path / "linked"
    assert link_shards(tmp_path / "real", folder, 100) == 112
    real, linked = TreeCache.open(tmp_path / "real"), TreeCache.open(folder)
    assert len(linked) == 112
    assert sum(row.sentences for row in verify_shards(folder, Manifest.read(folder), quick=True)) == 112
    assert list(linked.read(32, 48).words()) == list(real.read(0, 16).words())
    assert len(linked.documents()) > len(real.documents())
    write_cache(tmp_path / "small", corpus_of(10))
    with pytest.raises(UserError, match="no full shard"):
        link_shards(tmp_path / "small", folder, 100)
