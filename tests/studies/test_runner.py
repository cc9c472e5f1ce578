"""The runner: stored cells, kill and resume, what is left out."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.cli import configuration
from runtime.errors import UserError
from senteval_runner.report.page import Page, Section
from studies.runner import Cell, Figures, StudyRun, check_inputs, run_study


@configuration
class ToyConfig:
    output: Path = Path("runs/toy")
    models: tuple[str, ...] = ()
    rate: float = 1.0
    texts: tuple[Path, ...] = ()
    gold: Path | None = None


def cell(name: str, compute: Callable[[Path], Figures] | float) -> Cell:
    """A cell that gives a value, beside a file in the folder for unfinished work; or computes."""

    def write(work: Path) -> Figures:
        (work / "state").write_text("begun")
        return {"value": compute}

    return Cell(name=name, identity=[name], compute=compute if callable(compute) else write)


def refuse(work: Path) -> Figures:
    raise UserError("no such data")


def test_finished_cells_are_kept_and_a_damaged_one_is_computed_again(tmp_path: Path) -> None:
    figures = StudyRun(tmp_path).compute({1: cell("a", 0.5), 2: cell("b", 1)})
    assert figures == {1: {"value": 0.5}, 2: {"value": 1}}
    assert not list((tmp_path / "unfinished").iterdir())
    finished_cells = {1: cell("a", refuse), 2: cell("b", refuse)}
    assert StudyRun(tmp_path).compute(finished_cells) == figures
    for record in (tmp_path / "cells").iterdir():
        record.write_text(record.read_text().replace("0.5", "0.6"))
    run = StudyRun(tmp_path)
    assert run.compute(finished_cells) == {2: {"value": 1}} and run.left_out == {"no such data": ["a"]}


def test_a_cell_with_a_folder_vouches_for_its_files(tmp_path: Path) -> None:
    weights = tmp_path / "model/weights.safetensors"

    def train(work: Path) -> Figures:
        weights.parent.mkdir(exist_ok=True)
        weights.write_text("1 2 3")
        return {}

    def trained(rate: float) -> tuple[dict[int, Figures], str]:
        run = StudyRun(tmp_path)
        figures = run.compute({0: Cell(name="a", identity=[rate], compute=train, folder="model")})
        return figures, str(run.left_out)

    assert trained(1) == trained(1) == ({0: {}}, "{}")
    assert trained(2)[0] == {} and "other options" in trained(2)[1]
    weights.write_text("1 2 4")
    assert trained(1)[0] == {} and "weights.safetensors: damaged" in trained(1)[1]


def toy(config: ToyConfig, run: StudyRun) -> Page:
    cells = {n: cell(f"cell {n}", n * config.rate) for n in range(3)} if config.rate else {}
    figures = run.compute(cells | {9: cell("9", refuse)}).values()
    return Page("Toy", [Section("Values", [str(sum(row["value"] for row in figures))])])


def test_the_report_has_the_page_and_what_was_left_out(tmp_path: Path) -> None:
    assert run_study(ToyConfig(output=tmp_path), toy) == 2
    report = (tmp_path / "report.md").read_text()
    assert "3.0" in report and "9: no such data" in report
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["cells"][2] == {"cell": "cell 2", "value": 2.0} and results["config"]["rate"] == 1.0
    with pytest.raises(UserError, match="9: no such data"):
        run_study(ToyConfig(output=tmp_path / "none", rate=0), toy)


def test_commands_of_other_models_have_other_reports_and_share_their_cells(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for models in (("runs/mine",), ("runs/mine", "other"), ("runs/mine",)):
        assert run_study(ToyConfig(models=models), toy, inputs=models) == 2
    first, second = sorted(path.parent.name for path in Path("runs/toy").glob("*/results.json"))
    assert first.startswith("mine-") and second.startswith("mine-other-")
    assert len(list(Path("runs/toy/cells").iterdir())) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"models": ("start:mine",)}, "expected start:MODEL"),
        ({"models": ("folder", "gone.vec")}, "folder: no model here .*; .*gone.vec"),
        ({"gold": Path("gone")}, "--gold gone: no such file or folder"),
        ({"texts": (Path("gone"), Path("gone too"))}, "--texts gone: no such"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_is_imported(
    options: dict[str, Any], message: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    with pytest.raises(UserError, match=message):
        check_inputs(ToyConfig(**options))


def test_one_of_several_that_can_be_read_is_enough(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    texts = (Path("gone"), tmp_path)
    check_inputs(ToyConfig(models=("gone.vec", "bag:random"), texts=texts, output=Path("new")))
    check_inputs(ToyConfig())
