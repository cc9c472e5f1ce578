"""Files whose hashes are right and whose content is not: one line, or what they hold; never a bug."""

import json
import shutil
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args, get_type_hints
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError
from safetensors.numpy import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from multiview.folder.files import TIME, training_seconds
from multiview.names.opened import open_encoder
from multiview.names.store import VectorStore
from multiview.train import cli as train
from multiview.training.data import open_teacher
from runtime.errors import UserError
from runtime.files import read_array, write_json, write_record
from senteval_runner.evaluation_trees import open_model
from senteval_runner.protocol.config import TaskResult, get_protocol
from senteval_runner.report.tables import headline
from senteval_runner.result_store import ResultStore
from studies.runner import Cell, StudyRun
from tests.fixtures.commands import cli_of, commands


def many(examples: int) -> settings:
    return settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )


def outcome(read, *args: object) -> Any:
    """What a reader gives, or None where it refuses in one line."""
    try:
        return read(*args)
    except UserError as error:
        assert str(error) and "\n" not in str(error)
        return None


# Arrays


SHAPES = f"(True, 6);((1, 2), 3);();(6,);[2, 3];(2.0, 3);None;{'(' * 300};(0, 3);(-2, -3);({2**70}, 3)".split(
    ";"
)
DTYPES = [f"'{kind}'" for kind in ("<f2", ">f4", "|O", "<i8", "|b1", "|V0", "x")] + ["5", "[('a', '<f4')]"]


def npy(shape: str = "(2, 3)", dtype: str = "'<f4'", order: str = "False", version: bytes = b"\1\0") -> bytes:
    """A header that says anything, and six numbers."""
    text = f"{{'descr': {dtype}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    length = len(text).to_bytes(2 if version == b"\1\0" else 4, "little")
    return b"\x93NUMPY" + version + length + text + np.full(6, 1.5, "<f4").tobytes()


ARRAY = npy()
ARRAYS = [ARRAY, ARRAY[:20], b"", ARRAY[:-1], ARRAY + b"\0", b"PK\3\4" + ARRAY, *map(npy, SHAPES)]
ARRAYS += [*(npy(dtype=dtype) for dtype in DTYPES), *(npy(order=order) for order in ("True", "3"))]
ARRAYS += [*(npy(version=version) for version in (b"\2\0", b"\3\0", b"\x09\0"))]
ARRAYS += [ARRAY.replace(np.float32(1.5).tobytes(), np.float32(name).tobytes()) for name in ("nan", "inf")]


@pytest.mark.parametrize("content", ARRAYS, ids=lambda content: None)
def test_an_array_is_refused_or_finite(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "00000-a.npy"
    path.write_bytes(content)
    write_record(path.with_suffix(".json"), {"texts": ["a", "b"]}, [path.name])
    cache = type("Two", (list,), {"folder": "trees"})([0, 1])
    arrays = [outcome(read_array, path, 2), outcome(open_teacher, path, cache)]
    assert content != ARRAY or all(array is not None for array in arrays)
    for array in arrays:
        if array is not None:
            assert array.ndim == 2 and array.dtype.kind == "f" and np.isfinite(array).all()
            assert content.endswith(array.tobytes())
    outcome(VectorStore, tmp_path, 2)


@given(
    st.text(max_size=3), st.binary(max_size=40), st.sampled_from(["f4", "f8", "i8", "S2", "U2", "?", "c8"])
)
@many(60)
def test_a_file_of_sentences_and_vectors_is_refused_or_finite(tmp_path, text, noise: bytes, dtype) -> None:
    path = tmp_path / "x.npz"
    values = np.frombuffer(noise.ljust(80, b"\0")[:64], np.uint8).astype(dtype).reshape(2, -1)
    np.savez(path, sentences=np.array([text, "b"]), vectors=values)
    archive = path.read_bytes()
    place = len(noise) * 9
    noisy_archive = archive[:place] + noise + archive[place + len(noise) :]
    for content in (archive, archive[:-place], noisy_archive, noise):
        path.write_bytes(content)
        vectors = outcome(open_encoder(str(path)).encode, ["b"])
        assert vectors is None or np.isfinite(vectors).all()


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
    "integers": ("model.safetensors", NUMBERS_E.astype("i8")),
    "3-d": ("model.safetensors", NUMBERS_E[None]),
    "NaN": ("model.safetensors", np.where(NUMBERS_E == 1, np.nan, NUMBERS_E)),
    "cut": ("model.safetensors", (b'"shape"', b'"shade"')),
    "far": ("tokenizer.json", (b'"cat": 2', b'"cat": 300000000')),
    "no such word": ("tokenizer.json", (b'"unk_token": "[UNK]"', b'"unk_token": "?"')),
    "code": ("modules.json", (b"sentence_transformers.models.StaticEmbedding", b"os.system")),
    "elsewhere": ("modules.json", (b'"."', b'"/etc"')),
}


@pytest.mark.parametrize("case", STATIC)
def test_wrong_static_vectors_are_one_line(case, static, toy_trees, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(static, "static")
    name, change = STATIC[case]
    if isinstance(change, tuple):
        before = Path("static", name).read_bytes()
        Path("static", name).write_bytes(before.replace(*change))
        assert before != Path("static", name).read_bytes()
    else:
        save_file({"embeddings": np.ascontiguousarray(change)}, Path("static", name))
    assert (
        open_model(str(static), device="cpu").encode([["cat"], ["zzz"]]).tolist()
        == NUMBERS_E[[2, 0]].tolist()
    )
    with pytest.raises(UserError, match=r"static[^\n]*$"):
        open_model("static", device="cpu").encode([["cat"], ["zzz"]])
    options = ["--table.dim", "1", "--device", "cpu", "--words", "fixed", "--vectors", "distil:static"]
    options += ["--start", "none"]
    assert train([*options, "--trees", str(toy_trees)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "static" in line and not Path("runs/models").exists()


# Records of JSON


NAMES = ["m0", "m1", "", ".", "..", "../m0", "m0/", "/etc", "a\0b", "m" * 300, "\u202e"]
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | FLOATS | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES | st.sampled_from(NAMES),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=5), values, max_size=3),
    max_leaves=6,
)


@given(VALUES | st.builds(lambda value: {"seconds": value}, VALUES | st.floats(0, 1e6)))
@many(80)
def test_a_time_is_refused_or_seconds(tmp_path: Path, value: object) -> None:
    write_json(tmp_path / TIME, value)
    seconds = outcome(training_seconds, tmp_path)
    assert seconds is None or 0 <= seconds < 1e9


RESULT = asdict(TaskResult(task="MR", metrics={"acc": 50.0}, dim=3, rows={"all": 2}))


@given(st.sampled_from([*RESULT, "other"]), VALUES)
@many(80)
def test_a_finished_task_is_computed_again_or_whole(tmp_path: Path, key: str, value: object) -> None:
    store, task = ResultStore(tmp_path, get_protocol("fast")), SimpleNamespace(name="MR", files={})
    write_record(store.path("model", 1, "MR"), {**RESULT, key: value})
    with patch("senteval_runner.result_store.evaluate_task", lambda *of: TaskResult(**RESULT)):
        result = store.result(SimpleNamespace(key=lambda: "model"), task, 1)
    assert isinstance(headline("MR", result.metrics), float)


@given(st.sampled_from(["identity", "figures", "files", "other"]), VALUES)
@many(40)
def test_a_finished_cell_is_computed_again_or_whole(tmp_path: Path, key: str, value: object) -> None:
    cell = Cell(name="c", identity=[1], compute=lambda work: {"acc": 0.5})
    StudyRun(tmp_path).compute({"c": cell})
    (record,) = (tmp_path / "cells").glob("*.json")
    values = json.loads(record.read_text())
    del values["seal"]
    write_record(record, {**values, key: value})
    assert StudyRun(tmp_path).compute({"c": cell}) in ({}, {"c": {"acc": 0.5}}, {"c": value})
    record.unlink()


def numbers(config: type[Any], group: str = ""):
    """Name, type, and a number far out, of every option that takes numbers."""
    hints = get_type_hints(config, include_extras=True)
    for name, hint in [(field.name, hints[field.name]) for field in fields(config)]:
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
    for name, hint, far in numbers(cli_of(module).config):
        with pytest.raises(ValidationError):
            print(name, TypeAdapter(hint).validate_python(far))
