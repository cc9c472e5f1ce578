"""Files whose hashes are right and whose content is not: one line, or what they hold; never a bug."""

from __future__ import annotations

import importlib
import io
import json
import logging
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, is_dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from multiview.folder.files import TIME, model_records, training_hours
from multiview.names.opened import SingleEncoder
from multiview.names.sources import precomputed
from multiview.names.store import VectorStore
from multiview.train import cli as train
from multiview.training.data import open_teacher
from multiview.words.vectors import load_word_vectors
from parsing.export_trees import cli as export
from parsing.export_trees import documents
from parsing.trees.cache import Manifest, TreeCache
from parsing.verify import cli as verify
from runtime.cli import Command, Commands
from runtime.errors import UserError
from runtime.files import file_record, read_array, sha256_file, write_json, write_record
from senteval_runner.protocol.config import TaskResult
from senteval_runner.report.tables import headline
from senteval_runner.running import _finished
from senteval_runner.vectors.models import open_model
from studies.kit import Cell, Run
from tests.test_commands import ROOT, commands

SHARD = "shard-000001.h5"


def many(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )


def outcome(read: Callable[..., Any], *args: object) -> Any:
    """What a reader gives, or None where it refuses in one line."""
    try:
        return read(*args)
    except UserError as error:
        assert str(error) and "\n" not in str(error)
        return None


# Tree caches


@pytest.fixture(scope="module")
def arrays(toy_trees: Path) -> dict[str, np.ndarray]:
    """Those of the second shard; of int64 but for bytes."""
    with h5py.File(toy_trees / SHARD) as file:
        found = {name: file[name][:] for name in file}
    return {name: v if v.dtype == np.uint8 else v.astype(np.int64) for name, v in found.items()}


def put(
    source: Path, target: Path, arrays: dict[str, Any], change: Callable[[h5py.File], object] = bool
) -> None:
    """A copy of a cache with another second shard, listed as if it were right."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    image = io.BytesIO()
    with h5py.File(image, "w") as file:
        for name, values in arrays.items():
            file[name] = values
        change(file)
    (target / SHARD).write_bytes(image.getvalue())
    manifest = Manifest.read(source)
    first, second, *others = manifest.shards
    second = replace(second, sha256=sha256_file(target / SHARD))
    replace(manifest, shards=(first, second, *others)).write(target)


WRONG: dict[str, tuple[str, Callable[[np.ndarray], Any], str]] = {
    "two roots": ("head", lambda v: np.where(v == 1, 0, v), "not exactly one root"),
    "beyond": ("head", lambda v: np.where(v == 0, 99, v), "a head lies outside the sentence"),
    "negative": ("head", lambda v: -v, "a head lies outside the sentence"),
    "wide": ("head", lambda v: v + (1 << 40), "head: a number of more than 32 bits"),
    "2-d": ("head", lambda v: v[:, None], r"head: is int64 \[\d+, 1\]"),
    "floats": ("head", lambda v: v.astype(float), "head: is float64"),
    "no dataset": ("head", lambda v: h5py.SoftLink("/gone"), "head: is no dataset"),
    "elsewhere": ("head", lambda v: h5py.ExternalLink("/dev/zero", "x"), "head: is no dataset"),
    "no space": ("head", lambda v: h5py.Empty("i4"), r"head: is int32 \[\]"),
    "falling": ("sentence_offsets", lambda v: v[::-1], "sentence_offsets: do not rise from 0 to"),
    "repeated": ("sentence_offsets", lambda v: np.append(v[0], v[:-1]), "sentence_offsets: do not rise"),
    "left": ("left", lambda v: v + 50, "a child is not made before its parent"),
    "crossing": ("left", lambda v: v[::-1], "a child|one parent|in order"),
    "height": ("const_height", lambda v: v + 1, "a height is not one more"),
    "depth": ("dep_height", lambda v: v + 1, "a height is not one more"),
    "relation": ("relation", lambda v: v + 100, "relation: an id that is not one of"),
    "token": ("token", lambda v: v - 1, "token: an id that is not one of"),
    "words": ("type_offsets", lambda v: v[::-1], "type_offsets: do not rise"),
    "bytes": ("type_bytes", lambda v: v | 0x80, "can't decode byte"),
    "documents": ("document_starts", lambda v: v - 100, "document starts do not fit"),
    "flags": ("flags", lambda v: v[1:], "flags: is uint8"),
}


@pytest.mark.parametrize("case", [*WRONG, "cyclic"])
def test_train_verify_and_export_refuse_a_shard_alike(
    case: str, toy_trees: Path, arrays, tmp_path: Path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    if case == "cyclic":
        name, message = "head", "the heads have a cycle"
        offsets = arrays["sentence_offsets"]
        start = offsets[np.argmax(np.diff(offsets) > 2)]
        changed = arrays[name].copy()
        changed[start : offsets[np.argmax(np.diff(offsets) > 2) + 1]] = (
            3  # two lead to each other, all else to 3
        )
        changed[start : start + 3] = 2, 1, 0
    else:
        name, change, message = WRONG[case]
        changed = change(arrays[name])
    put(toy_trees, Path("trees"), {**arrays, name: changed})
    told = set()
    for cli, words in (
        (train, ["--device", "cpu", "--vectors", "none", "--trees"]),
        (verify, []),
        (export, ["--ptb", "x", "--conllu", "y"]),
    ):
        assert cli([*words, "trees"]) == 2
        told.add(capsys.readouterr().err.strip().splitlines()[-1].partition(": ")[2])
    (line,) = told
    assert line.startswith(f"trees/{SHARD}: ") and re.search(message, line)
    assert [path.name for path in tmp_path.iterdir()] == ["trees"]


def packed(
    content: Callable[[bytes], bytes] = bytes, mask: int = 0, **how: Any
) -> Callable[[h5py.File], None]:
    """Stores the heads by filters and chunks of its own, the first chunk with wrong content."""

    def change(file: h5py.File) -> None:
        values = file["head"][:].astype("<i4")
        del file["head"]
        data = file.create_dataset("head", data=values, **{"chunks": values.shape, **how})
        if content is not bytes or mask:
            _, right = data.id.read_direct_chunk((0,))
            data.id.write_direct_chunk((0,), content(right), mask)

    return change


def elsewhere(file: h5py.File) -> None:
    length = len(file["head"])
    del file["head"]
    file.create_dataset("head", (length,), "<i4", external=[("/dev/zero", 0, 4 * length)])


def virtual(file: h5py.File) -> None:
    length = len(file["head"])
    del file["head"]
    layout = h5py.VirtualLayout((length,), "<i4")
    layout[:] = h5py.VirtualSource("/dev/zero", "x", (length,))
    file.create_virtual_dataset("head", layout)


PACKED: dict[str, tuple[Callable[[h5py.File], None], str]] = {
    "checksums": (packed(lambda right: b"ab", fletcher32=True), "not packed as"),
    "lzf": (packed(compression="lzf"), "not packed as"),
    "rounded": (packed(scaleoffset=3), "not packed as"),
    "szip's number": (
        packed(compression=307, compression_opts=(1,), allow_unknown_filter=True),
        "not packed as",
    ),
    "small chunks": (packed(chunks=(1,), compression="gzip"), "not packed as"),
    "large chunks": (packed(chunks=(1 << 28,), maxshape=(None,)), "not packed as"),
    "too short": (packed(lambda right: zlib.compress(b"abc"), compression="gzip"), "a chunk is not"),
    "too long": (packed(lambda right: zlib.compress(bytes(10**7)), compression="gzip"), "a chunk is not"),
    "cut": (packed(lambda right: right[:-5], compression="gzip", shuffle=True), "a chunk is not"),
    "no deflate": (packed(lambda right: b"junk", compression="gzip"), "incorrect header"),
    "plain and short": (packed(lambda right: b"abc"), "a head lies outside"),
    "not packed": (packed(lambda right: b"abc", mask=0xFFFFFFFF, compression="gzip"), "a chunk is not"),
    "in another file": (elsewhere, "head: is no dataset"),
    "virtual": (virtual, "head: is no dataset"),
}


@pytest.mark.parametrize("case", PACKED)
def test_a_shard_that_is_packed_otherwise_is_refused_unread(case, toy_trees, arrays, tmp_path) -> None:
    """HDF5 1.14 dies over some of these, and reads memory that is not the file's over others."""
    change, message = PACKED[case]
    put(toy_trees, tmp_path / "trees", arrays, change)
    with pytest.raises(UserError, match=message):
        TreeCache.open(tmp_path / "trees").flags()


def test_the_usual_packings_are_read(toy_trees: Path, arrays, tmp_path: Path) -> None:
    for how in ({}, {"compression": "gzip"}, {"compression": "gzip", "shuffle": True}):
        put(toy_trees, tmp_path / "trees", arrays, packed(**how))
        cache = TreeCache.open(tmp_path / "trees")
        assert (
            cache.read(0, len(cache)).head.tolist()
            == TreeCache.open(toy_trees).read(0, len(cache)).head.tolist()
        )


def is_tree(heads: list[int], heights: list[int]) -> bool:
    """Whether every word leads to the one root, and heights are those of the longest ways down."""
    longest, roots = [0] * len(heads), 0
    for word in range(len(heads)):
        steps, at = 0, word
        while heads[at] and steps <= len(heads):
            steps, at = steps + 1, heads[at] - 1
            longest[at] = max(longest[at], steps)
        roots += at == word
        if steps > len(heads):
            return False
    return roots == 1 and longest == heights


@st.composite
def damages(draw: st.DrawFn) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    """The name of a dataset, and what happens to its values."""
    name = draw(
        st.sampled_from(
            [
                *("token", "head", "relation", "dep_height", "tag", "leaf_label", "left", "right", "label"),
                *("const_height", "sentence_offsets", "document_starts", "document_id_offsets"),
                *("type_offsets", "type_bytes", "document_id_bytes", "flags"),
            ]
        )
    )
    at, other = draw(st.integers(0, 10_000)), draw(st.integers(0, 10_000))
    value = draw(st.integers(-3, 12) | st.sampled_from([255, 1 << 31, 1 << 40, -(1 << 63), (1 << 63) - 1]))
    dtype = draw(st.sampled_from(["i1", "i2", ">i4", "u1", "u8", "f2", "f8", "S3", "?"]))

    def one(v: np.ndarray) -> np.ndarray:
        v = v.astype(np.int64)
        v[at % len(v)] = value
        return v.astype(np.uint8) if "bytes" in name or name == "flags" else v

    def swapped(v: np.ndarray) -> np.ndarray:
        v = v.copy()
        v[[at % len(v), other % len(v)]] = v[[other % len(v), at % len(v)]]
        return v

    shapes = [lambda v: v[: at % len(v)], lambda v: np.roll(v, at), lambda v: v.reshape(1, -1)]
    with np.errstate(all="ignore"):
        return name, draw(st.sampled_from([one, one, swapped, swapped, lambda v: v.astype(dtype), *shapes]))


@given(st.lists(damages(), min_size=1, max_size=2))
@many(150)
def test_a_shard_is_refused_or_sound(toy_trees: Path, arrays, tmp_path: Path, damage) -> None:
    changed = dict(arrays)
    for name, change in damage:
        if changed[name].size:
            changed[name] = change(changed[name])
    put(toy_trees, tmp_path / "trees", changed)

    def read() -> list[Any]:
        cache = TreeCache.open(tmp_path / "trees")
        trees = list(documents(cache))
        batch = cache.read(0, len(cache))
        for a, b in zip(batch.sentence_offsets[:-1], batch.sentence_offsets[1:], strict=True):
            assert is_tree(batch.head[a:b].tolist(), batch.dep_height[a:b].tolist())
        return trees

    outcome(read)


# Arrays


SHAPES = f"(2, 3);(True, 6);((1, 2), 3);();(6,);[2, 3];(2.0, 3);None;{'(' * 300};(0, 3)".split(";")
DTYPES = [f"'{kind}'" for kind in ("<f4", "<f2", "<f8", ">f4", "|O", "<i8", "|b1", "<c8", "|V0", "x")]
DTYPES += ["5", "[('a', '<f4')]"]


@st.composite
def npy_files(draw: st.DrawFn) -> bytes:
    """A header that says anything, and some numbers."""
    shapes = st.lists(st.integers(-3, 7) | st.integers(-(2**70), 2**70), max_size=4).map(tuple).map(repr)
    shape = draw(st.sampled_from(SHAPES[:1] * 8 + SHAPES) | shapes)
    dtype, order = (
        draw(st.sampled_from(DTYPES[:3] * 4 + DTYPES)),
        draw(st.sampled_from(["False", "True", "3"])),
    )
    text = f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    version = draw(st.sampled_from([b"\1\0"] * 6 + [b"\2\0", b"\3\0", b"\x09\0"]))
    length = len(text).to_bytes(2 if version == b"\1\0" else 4, "little")
    numbers = draw(st.lists(st.sampled_from([1.5, 1.5, 1.5, np.nan, np.inf]), min_size=5, max_size=7))
    kind = dtype.strip("'") if dtype in DTYPES[:3] else "<f4"
    whole = b"\x93NUMPY" + version + length + text + np.array(numbers, kind).tobytes()
    return draw(st.sampled_from([whole] * 8 + [whole[:20], b"", whole + b"\0", b"PK\3\4" + whole]))


@given(npy_files())
@many(200)
def test_an_array_is_refused_or_finite(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "00000-a.npy"
    path.write_bytes(content)
    write_record(path.with_suffix(".json"), {"texts": ["a", "b"], "file": file_record(path)})
    cache = type("Two", (list,), {"folder": "trees"})([0, 1])
    for found in (outcome(read_array, path, 2), outcome(open_teacher, path, cache)):
        if found is not None:
            assert found.ndim == 2 and found.dtype.kind == "f" and np.isfinite(found).all()
            assert content.endswith(found.tobytes())
    outcome(VectorStore, tmp_path, 2)


@given(
    st.text(max_size=3), st.binary(max_size=40), st.sampled_from(["f4", "f8", "i8", "S2", "U2", "?", "c8"])
)
@many(60)
def test_a_file_of_sentences_and_vectors_is_refused_or_finite(
    tmp_path, text: str, noise: bytes, dtype
) -> None:
    path = tmp_path / "x.npz"
    values = np.frombuffer(noise.ljust(80, b"\0")[:64], np.uint8).astype(dtype).reshape(2, -1)
    np.savez(path, sentences=np.array([text, "b"]), vectors=values)
    whole = path.read_bytes()
    cut = len(noise) * 9
    for content in (whole, whole[:-cut], whole[:cut] + noise + whole[cut + len(noise) :], noise):
        path.write_bytes(content)
        encode = outcome(precomputed, path)
        if encode is not None:
            vectors = outcome(SingleEncoder(lambda e=encode: e, tokens=False).encode, ["b"])
            assert vectors is None or np.isfinite(vectors).all()


NUMBERS = [*b"1;2.5;-1e-400;1_0;nan;inf;1e400;0x1;;\0;\xff".split(b";"), "１".encode()]


@given(
    st.lists(st.lists(st.sampled_from(NUMBERS[:2] * 9 + NUMBERS), min_size=3, max_size=3), max_size=3),
    st.sampled_from([b"", b"", b"3 3", b"1_0 3", b"-1 3", b"9" * 30 + b" 3", b"3 " + b"9" * 30]),
)
@many(150)
def test_a_file_of_vectors_is_refused_or_finite(tmp_path: Path, rows: list[list[bytes]], header) -> None:
    path = tmp_path / "v.txt"
    lines = [b"w%d " % place + b" ".join(numbers) for place, numbers in enumerate(rows)]
    path.write_bytes(b"\n".join([header, *lines] if header else lines))
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    found = outcome(load_word_vectors, path, tmp_path / "cache")
    if found is not None:
        assert np.isfinite(found.vectors).all() and len(found.words) == len(found.vectors)
        assert not any(b"1_0" in numbers[-found.dim :] for numbers in rows)


# Static vectors as model2vec saves them


NUMBERS_E = np.arange(16.0, dtype="f4").reshape(4, 4)


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("sentence_transformers")
    folder = tmp_path_factory.mktemp("static")
    words = Tokenizer(WordLevel({"[UNK]": 0, "the": 1, "cat": 2, "sat": 3}, unk_token="[UNK]"))
    words.save(str(folder / "tokenizer.json"))
    save_file({"embeddings": NUMBERS_E}, folder / "model.safetensors")
    kind = "sentence_transformers.models.StaticEmbedding"
    write_json(folder / "modules.json", [{"idx": 0, "name": "0", "path": ".", "type": kind}])
    return folder


STATIC: dict[str, tuple[str, Any]] = {
    "rows": ("model.safetensors", NUMBERS_E[:2]),
    "no columns": ("model.safetensors", NUMBERS_E[:, :0]),
    "integers": ("model.safetensors", NUMBERS_E.astype("i8")),
    "3-d": ("model.safetensors", NUMBERS_E[None]),
    "NaN": ("model.safetensors", np.where(NUMBERS_E == 1, np.nan, NUMBERS_E)),
    "infinity": ("model.safetensors", np.where(NUMBERS_E == 1, np.inf, NUMBERS_E)),
    "cut": ("model.safetensors", (b'"shape"', b'"shade"')),
    "far": ("tokenizer.json", (b'"cat": 2', b'"cat": 300000000')),
    "negative": ("tokenizer.json", (b'"cat": 2', b'"cat": -3')),
    "no such word": ("tokenizer.json", (b'"unk_token": "[UNK]"', b'"unk_token": "?"')),
    "code": ("modules.json", (b"sentence_transformers.models.StaticEmbedding", b"os.system")),
    "elsewhere": ("modules.json", (b'"."', b'"/etc"')),
    "no list": ("modules.json", (b"[", b"{")),
}


@pytest.mark.parametrize("case", STATIC)
def test_static_vectors_are_refused_in_one_line(
    case, static, toy_trees, tmp_path, capsys, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(static, "static")
    name, change = STATIC[case]
    if isinstance(change, tuple):
        before = Path("static", name).read_bytes()
        Path("static", name).write_bytes(before.replace(*change))
        assert before != Path("static", name).read_bytes()
    else:
        save_file({"embeddings": np.ascontiguousarray(change)}, Path("static", name))
    assert open_model(str(static), device="cpu")([["cat"], ["zzz"]]).tolist() == NUMBERS_E[[2, 0]].tolist()
    with pytest.raises(UserError, match=r"static[^\n]*$"):
        open_model("static", device="cpu")([["cat"], ["zzz"]])
    options = ["--table.dim", "1", "--device", "cpu", "--words", "fixed", "--vectors", "distil:static"]
    assert train([*options, "--trees", str(toy_trees)]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "static" in told and not Path("runs/models").exists()


# Records of JSON


NAMES = ["m0", "m1", "", ".", "..", "../m0", "m0/", "/etc", "a\0b", "m" * 300, "\u202e"]
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | FLOATS | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES | st.sampled_from(NAMES),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def two_models(joined_seq: Path, tmp_path: Path) -> Path:
    return shutil.copytree(joined_seq, tmp_path / "two")


@given(VALUES | st.builds(lambda value: {"seconds": value}, VALUES | st.floats(0, 1e6)))
@many(80)
def test_a_time_is_refused_or_hours(two_models: Path, value: object) -> None:
    write_json(two_models / "m0" / TIME, value)
    hours = outcome(training_hours, two_models)
    assert hours is None or 0 <= hours < 1e9


@given(st.lists(st.sampled_from(NAMES[:2] * 3 + NAMES), max_size=4) | VALUES | st.just(["m0"] * 3000))
@many(80)
def test_members_are_refused_or_each_is_read_once(two_models: Path, value: object) -> None:
    write_record(two_models / "config.json", {"format": 3, "members": value})
    records = outcome(model_records, two_models)
    assert records is None or (set(records) <= {"m0", "m1"} and list(records) == value != [])


RESULT = asdict(TaskResult(task="MR", metrics={"acc": 50.0}, dim=3, rows={"all": 2}))


@given(st.sampled_from([*RESULT, "other"]), VALUES)
@many(80)
def test_a_finished_task_is_computed_again_or_whole(tmp_path: Path, key: str, value: object) -> None:
    path, task = tmp_path / "MR.json", SimpleNamespace(name="MR", files={})
    write_record(path, {**RESULT, key: value})
    found = outcome(_finished, path, task, logging.getLogger("quiet"))
    assert found is None or isinstance(headline("MR", found.metrics), float)


@given(st.sampled_from(["identity", "figures", "files", "other"]), VALUES)
@many(40)
def test_a_finished_cell_is_computed_again_or_whole(tmp_path: Path, key: str, value: object) -> None:
    cell = Cell(name="c", identity=[1], compute=lambda work: {"acc": 0.5})
    Run(tmp_path).figures({"c": cell})
    (record,) = (tmp_path / "cells").glob("*.json")
    values = json.loads(record.read_text())
    del values["seal"]
    write_record(record, {**values, key: value})
    found = Run(tmp_path).figures({"c": cell})
    assert found in ({}, {"c": {"acc": 0.5}}, {"c": value})
    record.unlink()


def numbers(config: type[Any], group: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Name, type, and a number far out, of every option that takes numbers."""
    for name, hint in get_type_hints(config, include_extras=True).items():
        if is_dataclass(hint):
            yield from numbers(hint, f"{group}{name}.")  # type: ignore[arg-type]
            continue
        parts, todo = set(), [hint]
        while todo:
            part = todo.pop()
            parts.add(str(part))
            todo += get_args(part)
        for kind, far in ((int, 10**25), (float, 1e300)):
            if str(kind) in parts:
                yield group + name, hint, (far,) if "tuple[" in str(hint) else far


@pytest.mark.parametrize("module", commands())
def test_every_number_has_a_bound(module: str) -> None:
    is_folder = (ROOT / module.replace(".", "/")).is_dir()
    cli: Command | Commands = importlib.import_module(f"{module}.__main__" if is_folder else module).cli
    for command in cli.variants.values() if isinstance(cli, Commands) else [cli]:
        for name, hint, far in numbers(command.config):
            with pytest.raises(ValidationError):
                print(name, TypeAdapter(hint).validate_python(far))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--views", ",".join(["dep"] * 400), "needs two to 32"),
        ("--device", "cuda:99", "cannot be used"),
        ("--loop.segments", str(2**31 - 1), "do not fill one step"),
        ("--name", "x" * 300, "cannot be written"),
        ("--encoder.dim", str(2**31 - 1), "out of memory|even"),
        ("--loop.epochs", str(10**9), "must be at most"),
    ],
)
def test_a_refused_training_leaves_nothing(
    toy_trees, tmp_path, capsys, monkeypatch, option, value, message
) -> None:
    monkeypatch.chdir(tmp_path)
    assert train(["--trees", str(toy_trees), "--device", "cpu", "--vectors", "none", option, value]) == 2
    assert re.search(message, capsys.readouterr().err)
    assert list(tmp_path.iterdir()) == []
