"""Rows that are written in pieces are those of one call, also when the process was stopped in between."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from runtime import large_arrays
from runtime.errors import UserError
from runtime.files import write_array

ROWS = np.random.default_rng(0).normal(size=(10, 4)).astype(np.float32)


class Writer:
    """Writes :data:`ROWS` to a file, three at a time, and dies before a row."""

    def __init__(self, path: Path) -> None:
        self.path, self.asked = path, list[int]()

    def __call__(self, source: str = "a", dies_at: int = 99) -> int:
        def rows_of(first: int, stop: int) -> np.ndarray:
            if first >= dies_at:
                raise KeyboardInterrupt
            self.asked.append(first)
            return ROWS[first:stop]

        self.asked = []
        return large_arrays.write_rows(self.path, {"text": source}, len(ROWS), rows_of)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    monkeypatch.setattr(large_arrays, "PIECE", 3)
    return Writer(tmp_path / "v.npy")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("dies_at", [0, 3, 6, 9])
def test_a_stopped_run_goes_on_to_the_same_bytes(write: Writer, tmp_path: Path, dies_at: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        write(dies_at=dies_at)
    assert not write.path.exists()
    assert write() == 10 - dies_at and write.asked == [*range(dies_at, 10, 3)]
    write_array(tmp_path / "once.npy", ROWS)
    assert write.path.read_bytes() == (tmp_path / "once.npy").read_bytes()
    assert names(tmp_path) == ["once.npy", "v.npy"]


def test_what_is_half_written_or_of_another_source_does_not_count(write: Writer, tmp_path: Path) -> None:
    part, record = tmp_path / "v.npy.part", tmp_path / "v.npy.part.json"
    changes = {
        "a piece without its record": lambda: part.write_bytes(part.read_bytes() + b"x" * 20),
        "rows that are gone": lambda: part.write_bytes(part.read_bytes()[:-1]),
        "a record that was changed": lambda: record.write_text(record.read_text().replace('"a"', '"b"')),
    }
    first_rows = {"a piece without its record": 6}
    for name, change in changes.items():
        with pytest.raises(KeyboardInterrupt):
            write(dies_at=6)
        change()
        write()
        assert write.asked[0] == first_rows.get(name, 0), name
        np.testing.assert_array_equal(np.load(write.path), ROWS)
    with pytest.raises(KeyboardInterrupt):
        write(dies_at=6)
    assert write("another text") == 10


@pytest.mark.parametrize("piece", [3, 99])
def test_rows_are_float32_however_many_there_are(write: Writer, monkeypatch, piece: int) -> None:
    monkeypatch.setattr(large_arrays, "PIECE", piece)
    large_arrays.write_rows(write.path, {}, 10, lambda first, stop: ROWS[first:stop].astype(np.float64))
    written = np.load(write.path)
    assert written.dtype == np.float32
    np.testing.assert_array_equal(written, ROWS)


def test_two_runs_do_not_write_one_array(write: Writer, tmp_path: Path) -> None:
    with (
        large_arrays._opened(tmp_path / "v.npy.part"),
        pytest.raises(UserError, match="another run is writing it"),
    ):
        write()


def test_a_disk_without_room_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=10**9))
    large_arrays.check_room(tmp_path / "v.npy", 10**9)
    with pytest.raises(UserError, match=r"needs 2\.0 GB of disk, and 1\.0 are free"):
        large_arrays.check_room(tmp_path / "v.npy", 2 * 10**9)
