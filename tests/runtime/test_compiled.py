"""Compiled functions on disk: found again, compiled anew after a change, and never a program's end."""

import copy
import errno
import json
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from numba.core import config
from numba.core.caching import IndexDataCacheFile

from multiview.model import MultiViewEncoder
from parsing.networks import cky
from parsing.trees import arrays, roles
from runtime import compiled as ours
from tests.fixtures.processes import run_python

FILES = {
    "numbers": "STEP = 3",
    "parts": """
from runtime.compiled import compiled_part
@compiled_part
def twice(x):
    return 2 * x
""",
    "rules": """
from runtime.compiled import compiled
from numbers_of_test import STEP
from parts_of_test import twice
@compiled
def moved(x):
    return twice(x) + STEP
""",
}


class Sources:
    """Three files; one is compiled with what it takes from the others."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.monkeypatch, self.text = folder, monkeypatch, dict(FILES)

    def load(self) -> Any:
        """``moved``, as a process that begins now would have it."""
        ours._file_digest.cache_clear()
        for name, text in self.text.items():
            module, path = ModuleType(f"{name}_of_test"), self.folder / f"{name}_of_test.py"
            path.write_text(text)
            self.monkeypatch.setitem(sys.modules, module.__name__, module)
            exec(compile(text, path, "exec"), vars(module))  # an import would take an older file's bytecode
        return vars(module)["moved"]


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", config.CACHE_DIR)
    for function in (ours.warn_once, ours._temporary_folder):
        function.cache_clear()
    return Sources(tmp_path, monkeypatch)


def cache_hits(function: Any) -> int:
    """How often its code was read from disk."""
    return sum(function.stats.cache_hits.values())


def code_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.nbc"))


def test_code_is_found_again_and_types_do_not_meet(sources, tmp_path, caplog) -> None:
    first, second = sources.load(), sources.load()
    assert (first(2), second(2.5), first(2.5), second(2)) == (7, 8.0, 8.0, 7)
    assert (cache_hits(first), cache_hits(second)) == (1, 1)
    assert len(code_files(tmp_path)) == 2
    third = sources.load()
    assert (third(2), third(2.5), cache_hits(third)) == (7, 8.0, 2)
    assert caplog.messages == [ours.COMPILING]


@pytest.mark.parametrize(
    ("file", "old", "new", "value"),
    [("numbers", "3", "4", 8), ("parts", "2 * x", "3 * x", 9), ("rules", "+ STEP", "- STEP", 1)],
)
def test_a_change_of_any_file_that_was_compiled_in_is_seen(sources, file, old, new, value) -> None:
    assert sources.load()(2) == 7
    sources.text[file] = sources.text[file].replace(old, new)
    function = sources.load()
    assert (function(2), cache_hits(function)) == (value, 0)


@pytest.mark.parametrize("damage", [b"", b"no code", slice(0, 50), slice(0, -1), slice(1, None)], ids=str)
def test_a_damaged_file_is_as_none(sources, tmp_path, damage) -> None:
    assert sources.load()(2) == 7
    (file,) = code_files(tmp_path)
    file.write_bytes(damage if isinstance(damage, bytes) else file.read_bytes()[damage])
    for hits in (0, 1):  # compiled, and kept
        function = sources.load()
        assert (function(2), cache_hits(function)) == (7, hits)


def test_where_nothing_can_be_kept_one_line_says_so(sources, tmp_path, monkeypatch, caplog) -> None:
    (tmp_path / "kept").write_text("in the way")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    assert (sources.load()(2), sources.load()(2.5)) == (7, 8.0)
    assert caplog.messages == [ours.COMPILING, ours.NOT_STORABLE]
    assert "NUMBA_CACHE_DIR" in ours.NOT_STORABLE
    assert len(code_files(temporary)) == 2
    assert Path(os.environ["NUMBA_CACHE_DIR"]).parent == temporary  # of processes that this one starts, too


def test_a_full_disk_everywhere_stops_nothing(sources, monkeypatch) -> None:
    no_room = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(IndexDataCacheFile, "_save_data", no_room)
    monkeypatch.setattr(tempfile, "mkdtemp", no_room)
    monkeypatch.setattr(sys, "stderr", None)  # nor does a closed stream
    assert (sources.load()(2), sources.load()(2.5)) == (7, 8.0)


def test_a_folder_that_cannot_be_written_is_read(sources, monkeypatch) -> None:
    assert sources.load()(2) == 7
    monkeypatch.setattr(Path, "mkdir", lambda *_, **__: pytest.fail("written"))
    function = sources.load()
    assert (function(2), cache_hits(function)) == (7, 1)


def test_a_user_without_home_has_no_cache_in_the_working_folder(sources, monkeypatch) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", "")
    monkeypatch.setattr(ours, "user_cache_dir", lambda *_, **__: "~/.cache/numba")
    assert ours._code_folders(sources.load().py_func) == [sources.folder / "__pycache__"]


def test_without_the_compiler_python_computes(packaged_encoder: MultiViewEncoder) -> None:
    """With NUMBA_DISABLE_JIT=1, as where coverage of a program's own functions is measured."""
    texts = ["The lawyer praised the doctor.", "It rained."]
    encode = f"m.MultiViewEncoder.load('builtin', 'cpu').encode({texts}).tolist()"
    script = f"import multiview.model as m; print({encode})"
    done = run_python("-W", "error", "-c", script, NUMBA_DISABLE_JIT="1")
    assert done.returncode == 0 and not done.stderr, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), packaged_encoder.encode(texts), atol=1e-5)


def test_short_input_is_not_compiled(sources, tmp_path) -> None:
    sources.text["rules"] = """
from runtime.compiled import compiled_if_long
@compiled_if_long
def moved(x):
    x[0] += 1
"""
    function, short, long = sources.load(), np.zeros(500, np.int64), np.zeros(9, np.int64)
    for array, files in ((short, 0), (short, 0), (long, 1), (short, 1)):  # 1,009 rows
        function(array)
        assert len(code_files(tmp_path)) == files
    assert (short[0], long[0]) == (3, 1)


def _calls(rng: np.random.Generator):
    """Functions that Python runs on short input, with arguments that are not always trees."""
    length = rng.integers(1, 9, rng.integers(1, 4))
    offsets, n, many = np.append(0, np.cumsum(length)), length.max(), length.sum() - len(length)
    head = np.concatenate([rng.integers(0, size + 1, size) for size in length])
    yield arrays.dependency_heights, ((head - rng.integers(0, 2, len(head))).astype(np.int32), offsets)
    yield arrays.constituency_heights, (*rng.integers(-1, 2 * n, (2, many)).astype(np.int32), offsets)
    starts, ends, labels = np.sort(rng.integers(0, n, (3, 5)).astype(np.int32), axis=1)
    ends = np.minimum(starts + ends + 1, n, dtype=np.int32)
    yield arrays._tree_arrays, (starts, ends, labels, 9, int(n))
    kinds, sets = 1 << rng.integers(0, 29, (2, len(head))), 1 << rng.integers(0, 21, len(head))
    tree = roles.token_records(roles.parents(head, offsets), kinds[0] | kinds[1], sets)
    yield roles._fill_arcs, (tree, bool(rng.integers(2)), np.zeros((12 * len(head) + 17, 3), np.int64))
    spans = int((length * (length + 1) // 2).sum())
    score, best = rng.integers(-2, 3, (spans, 3)).astype(np.float32), np.zeros(spans, np.float32)
    gold, label = rng.integers(0, 4, (2, spans)).astype(np.int32)
    yield cky.best_labels, (score, gold, 1.0, rng.random(spans) < 0.1, best, label)
    yield cky.best_trees, (score[:, 0].copy(), length, cky.span_offsets(length))


@pytest.mark.parametrize("seed", range(20))
def test_python_and_compiled_code_agree(seed: int) -> None:
    for function, args in _calls(np.random.default_rng(seed)):
        copies = copy.deepcopy(args)
        results = function.__wrapped__(*args), function.compiled(*copies)
        np.testing.assert_equal(results[0], results[1], function.__name__)
        np.testing.assert_equal(list(args), list(copies), function.__name__)


def test_the_rules_hold_the_bits_of_the_table() -> None:
    ingredients = list(ours._ingredients(roles._fill_arcs.compiled.py_func))
    assert ("KIND", roles.KIND) in ingredients
    assert ("DEPENDENT_TABLE", roles.DEPENDENT_TABLE.tobytes()) in ingredients
