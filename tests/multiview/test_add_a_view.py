"""docs/add-a-view.md by its own words: the view trains, encodes and is evaluated."""

import contextlib
import io
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from multiview.encoders import registry
from runtime.errors import UserError
from tests.fixtures.commands import cli_of, run_fresh
from tests.fixtures.pages import make_light, run_here
from tests.fixtures.processes import ROOT
from tests.parsing.pipeline.toy_parsers import write_cache

PAGE = (ROOT / "docs/add-a-view.md").read_text(encoding="utf-8")
SMALL = {
    "multiview.train": (
        *("--device", "cpu", "--encoder.dim", "128", "--loop.batch", "6", "--loop.max-steps", "2"),
        *("--loop.validation", "6", "--views", "bow,seq"),
    ),
    "senteval_runner.run": ("--protocol", "fast"),
}
"""For a corpus of a few sentences; beside seq no parser has to be loaded."""


@pytest.fixture
def workplace(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the page's ``bow.py``, a tree cache, a text, and SentEval's data."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "bow.py").write_text("\n\n".join(blocks), encoding="utf-8")
    (tmp_path / "sentences.txt").write_text("A cat sat .\nIt slept .\n", encoding="utf-8")
    texts = [("a", "cat", word, "the", "mat") for word in ("saw", "on", "by", "at") * 10]
    write_cache(tmp_path / "runs/trees/corpus", texts, documents=[0, 10, 20, 30], shard=64)
    data.rename(tmp_path / "senteval")
    monkeypatch.setenv("MULTIVIEW_DATA", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    make_light(monkeypatch)
    monkeypatch.setattr("studies.views.run.subprocess", SimpleNamespace(run=run_here))
    return tmp_path


@contextlib.contextmanager
def as_if_fresh() -> Iterator[None]:
    """As in a process of its own, where nothing has imported the view yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [*sys.path])
        yield
    sys.modules.pop("bow", None)
    for name in [name for name, view in registry._class_of_view.items() if view.__module__ == "bow"]:
        del registry._class_of_view[name]


def run(module: str, *words: str) -> None:
    with as_if_fresh():
        assert cli_of(module)([*words]) == 0


def test_a_view_joins_builtin(workplace: Path) -> None:
    page = PAGE.replace("\\\n", " ")
    parse, going_on = (
        shlex.split(line) for line in re.findall(r"^    python -m (.*books-5k.*)$", page, re.MULTILINE)
    )
    run(*parse, "--limit", "40", "--workers", "1")
    few = ("--device", "cpu", "--loop.batch", "6", "--loop.max-steps", "1", "--loop.validation", "6")
    run(*going_on, *few)
    views = json.loads((workplace / "runs/models/with-bow/config.json").read_text())["views"]
    assert views[:4] == ["dep", "const", "seq", "bow"]


def test_the_page_works_as_it_is_printed(workplace: Path, capsys) -> None:
    page = PAGE.replace("\\\n", " ")
    lines = [shlex.split(line) for line in re.findall(r"^    python -m (.*)$", page, re.MULTILINE)]
    *lines, _, _, study = lines
    assert [line[0] for line in lines] == ["multiview.train", "multiview.encode", "senteval_runner.run"]
    for module, *words in lines:
        words = [word.replace("bow-dep-", "bow-seq-") for word in words]
        run(module, *words, *SMALL.get(module, ()))
    model = workplace / "runs/models/bow-seq-laptop"
    assert json.loads((model / "config.json").read_text())["views"] == ["bow", "seq"]
    card = (model / "README.md").read_text()
    assert "    import bow\n" in card and "python -m multiview.train --plugin bow " in card
    vectors = np.load(workplace / "sentences.txt.npy")
    assert vectors.shape == (2, 256)
    (report,) = (workplace / "runs/reports/senteval").glob("bow-seq-laptop-CR-*/results.json")
    results = json.loads(report.read_text())["results"]
    assert {(result["model"], result["task"]) for result in results} == {
        (model, "CR") for model in ("bow-seq-laptop", "bag:random", "start:bow-seq-laptop")
    }

    *before, last = re.findall(r"^    >>> (.*)$", PAGE.replace("bow-dep-", "bow-seq-"), re.MULTILINE)
    program = "\n".join([*before, f"print({last})"])
    with as_if_fresh(), contextlib.redirect_stdout(io.StringIO()) as printed:
        sys.path.insert(0, str(workplace))
        exec(program, {})
    assert printed.getvalue().strip() in PAGE

    capsys.readouterr()
    module, *words = study
    run(module, *words)
    plan = capsys.readouterr().out
    assert "trainings    6, 0 of them begun" in plan
    assert "bow-dep-fixed-words-corpus-rate-0.001-seed0" in plan and not Path("runs/views").exists()

    program = program.replace("import bow\n", "")
    with as_if_fresh(), pytest.raises(UserError, match=r"view 'bow': choose one of bag, .* needs --plugin"):
        exec(program, {})
    # An installed package names its views.
    (workplace / "bow-1.dist-info").mkdir()
    (workplace / "bow-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: bow\nVersion: 1\n")
    group, entry = re.findall(r"^    (\[project.entry.*|bow = .*)$", PAGE, re.MULTILINE)
    named = re.sub(r'\[project\.entry-points\."(.*)"\]', r"[\1]", group)
    entry = entry.replace('"', "")
    (workplace / "bow-1.dist-info/entry_points.txt").write_text(f"{named}\n{entry}\n")
    assert run_fresh(program, (), workplace).returncode == 0
