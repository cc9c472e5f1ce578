"""Run a study: compute its cells, store the figures of each when it is finished, and write one report.

A cell is one result to compute, such as a method on a data set with a seed. A study has a configuration, with
the option ``output`` and, if it has presets, ``preset``. Its function makes cells from the configuration, and
a page of tables from their figures::

    def evaluate(config: FaqConfig, run: StudyRun) -> Page:
        cells = {(faq, method, seed): Cell(name=..., identity=[...], compute=...) for ...}
        return page(run.compute(cells))

The command in ``__main__`` imports that function only when it runs, so that ``--help`` is fast::

    def main(config: FaqConfig) -> int:
        from studies.faq.evaluate import evaluate

        return run_study(config, evaluate, inputs=[*config.sets, *config.models])

    cli = command(FaqConfig, main, "studies.faq", __doc__)

The output folder gets ``log.txt``, the finished cells (below ``cells/`` or in folders of models) and the
report: ``report.html``, ``report.md``, ``report.tex`` (the tables) and ``results.json``. Without ``--output``
the report is in a folder below the default one, which is named by the study's inputs.

Presets are in ``presets.toml`` in the folder of the configuration, a table per preset::

    [paper]
    base = "other"                                                              # preset to start from
    needs = "SNLI (nlp.stanford.edu/projects/snli), PPDB 2.0 (paraphrase.org)"  # where to get its inputs
    requires = ["nli", "ppdb"]                                                  # options that name inputs
    [paper.options]                                                             # options not at defaults
    backbone = "bert-base-uncased"
"""

from __future__ import annotations

import csv
import inspect
import logging
import shutil
import tomllib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from multiview.names.grammar import parse_names
from runtime import files
from runtime.cli import LOGGER, Command, config_to_json, log_to, with_defaults
from runtime.errors import UserError, collect_refusals
from runtime.progress import progress

if TYPE_CHECKING:
    from senteval_runner.report.page import Column, Page, Table, TableCell

Figures = dict[str, Any]
"""The results of one cell: JSON values by name."""
Key = TypeVar("Key", bound=Hashable)
Resource = TypeVar("Resource")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One result to compute."""

    name: str
    """Name in the log, and in the report if the cell could not be computed."""
    identity: Sequence[object]
    """JSON values of all that the figures depend on, except the versions of the libraries."""
    compute: Callable[[Path], Figures]
    """Computes the figures; its argument is a folder for unfinished work, which stays after a kill."""
    folder: str = ""
    """The folder below the output of the model that ``compute`` writes, ``.`` for the output itself.

    The figures are stored there; empty if ``compute`` writes no model.
    """


@dataclass(frozen=True)
class FinishedCell:
    """The record of a cell on disk."""

    identity: str
    """A digest of the cell's identity and of the versions of the libraries."""
    figures: Figures
    files: dict[str, Any]
    """Size and digest of each file of weights that the cell wrote, by path below its folder."""


class StudyRun:
    """Computes the cells of one study below its output folder."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.log = logging.getLogger(LOGGER).info
        self.left_out: dict[str, list[str]] = {}
        """Names of inputs and cells that were left out, by reason."""
        self.rows: list[Figures] = []
        """The name and the figures of every cell that was computed."""

    def attempt(self, name: str, function: Callable[[], Resource]) -> Resource | None:
        """Return what ``function`` returns; after a UserError note that ``name`` is left out, return None."""
        try:
            return function()
        except UserError as error:
            self.log(f"left out: {name}: {error}")
            self.left_out.setdefault(str(error), []).append(name)
            return None

    def open_all(self, openers: Mapping[Key, Callable[[], Resource]]) -> dict[Key, Resource]:
        """Return what every opener returns, by key, without those that raise a UserError."""
        resources = {key: self.attempt(str(key), opener) for key, opener in openers.items()}
        return {key: resource for key, resource in resources.items() if resource is not None}

    def compute(self, cells: Mapping[Key, Cell], *, stop_on_error: bool = False) -> dict[Key, Figures]:
        """Return the figures of every cell, by key.

        A cell that raises a UserError is left out and named in the report; with ``stop_on_error`` the error
        ends the study.
        """
        figures_of_cells: dict[Key, Figures] = {}
        with progress(total=len(cells), unit="cell", description="cells") as bar:
            for key, cell in cells.items():
                compute = partial(self._figures, cell)
                figures = compute() if stop_on_error else self.attempt(cell.name, compute)
                if figures is not None:
                    figures_of_cells[key] = figures
                    self.rows.append({"cell": cell.name, **figures})
                bar.update(1)
        return figures_of_cells

    def _figures(self, cell: Cell) -> Figures:
        """Return the figures of a cell: read them if it is finished, else compute and store them.

        Raises UserError if the folder of the cell's model has a model of other options or libraries.
        """
        from senteval_runner.evaluation import versions
        from senteval_runner.result_store import read_or_compute

        identity = files.json_digest([versions("transformers", "sentence-transformers"), *cell.identity], 20)
        folder = self.output / (cell.folder or "cells")
        file = folder / ("cell.json" if cell.folder else f"{identity}.json")
        work = self.output / "unfinished" / identity

        def compute() -> FinishedCell:
            work.mkdir(parents=True, exist_ok=True)
            figures = cell.compute(work)
            numbers = [f"{name} {value:.4f}" for name, value in figures.items() if isinstance(value, float)]
            self.log("  ".join([cell.name, *numbers]))
            weights = sorted(folder.rglob("*.safetensors")) if cell.folder else []
            finished_files = [path for path in weights if work not in path.parents]
            hashes = {str(path.relative_to(folder)): files.file_record(path) for path in finished_files}
            return FinishedCell(identity, figures, hashes)

        finished = read_or_compute(file, FinishedCell, compute)
        if finished.identity != identity:
            raise UserError(f"{folder}: made with other options or libraries; use another --output")
        files.check_files(file, finished.files, finished.files)
        shutil.rmtree(work, ignore_errors=True)  # only now, when the record of the cell is written
        return finished.figures


def run_study(config: Any, study: Callable[[Any, StudyRun], Page], inputs: Sequence[object] = ()) -> int:
    """Compute a study and write its report; return 0, or 2 if something was left out.

    ``inputs`` are the data sets and models of the study. In the default output folder, which also holds
    reports of other models, the folder of this report is named by them. Raises UserError if nothing could be
    computed.
    """
    from senteval_runner.report.page import Section
    from senteval_runner.run import report_name

    output = config.output
    run = StudyRun(output)
    with log_to(output):
        page = study(config, run)
    reasons = [f"{', '.join(names)}: {reason}" for reason, names in run.left_out.items()]
    if not run.rows:
        raise UserError("; ".join(reasons) or "nothing to compute: see --help")
    if reasons:
        page = replace(page, sections=[*page.sections, Section("Left out", reasons)])
    if output == getattr(type(config), "output", None):
        output /= report_name(config_to_json(config), map(str, inputs))
    results = {"config": config_to_json(config), "cells": run.rows, "left_out": reasons}
    files.write_json(output / "results.json", results)
    files.write_text(output / "report.html", page.html())
    files.write_text(output / "report.md", page.markdown())
    files.write_text(output / "report.tex", page.latex())
    print(page.text())
    print(f"written: {output}/report.html, report.md, report.tex, results.json")
    return 2 if reasons else 0


def check_inputs(config: Any) -> None:
    """Check the inputs of a study before torch is imported.

    Raises UserError if an option that the preset requires is missing, or if none of the models, or none
    of the files of an option, exists.
    """
    if preset := getattr(config, "preset", None):
        table = _preset_tables(type(config)).get(preset, {})  # presets of multiview.train have no table here
        missing = [name for name in table.get("requires", ()) if not getattr(config, name)]
        if missing:
            options = ", ".join("--" + name.replace("_", "-") for name in missing)
            raise UserError(f"--preset {preset} needs {options}: {table['needs']}")
    models = getattr(config, "models", ())
    errors = collect_refusals(*(partial(parse_names, model) for model in models))
    if models and len(errors) == len(models):
        raise UserError("; ".join(errors))
    for field in fields(config):
        value = getattr(config, field.name)
        values = value if isinstance(value, tuple) else [value]
        paths = [path for path in values if isinstance(path, Path)]
        if field.name not in ("output", "cache") and paths and not any(path.exists() for path in paths):
            raise UserError(f"--{field.name.replace('_', '-')} {paths[0]}: no such file or folder")


def command(config: type[Any], study: Callable[[Any], int], module: str, docstring: str | None) -> Command:
    """Make the command ``python -m MODULE`` of a study, which has presets and an output folder.

    ``--help`` shows the first line of ``docstring``.
    """

    def main(options: Any) -> int:
        check_inputs(options)
        return study(options)

    return Command(
        config,
        main,
        module,
        (docstring or "").split("\n")[0],
        defaults=lambda name: with_defaults(config, read_presets(config).get(name, {})),
        folder_of=lambda options: options.output,
        kept_work="finished cells and the last saved states are kept; the same command resumes",
        plugins=True,
    )


def read_presets(config: type[Any]) -> dict[str, dict[str, Any]]:
    """Return the options of each preset, in the types of the fields of ``config``.

    The option ``preset`` is among them.
    """
    from pydantic import TypeAdapter

    types = get_type_hints(config, include_extras=True)
    tables = _preset_tables(config)
    presets = {}
    for name, table in tables.items():
        base = tables.get(table.get("base", ""), {})
        options = {**base.get("options", {}), **table.get("options", {})}
        values = {key: TypeAdapter(types[key]).validate_python(value) for key, value in options.items()}
        presets[name] = {"preset": name, **values}
    return presets


def _preset_tables(config: type[Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of ``presets.toml``, by preset."""
    file = Path(inspect.getfile(config)).with_name("presets.toml")
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def read_published(file: Path) -> dict[str, dict[str, float]]:
    """Return the figures of a paper by row and column, from a CSV file with the names of rows first."""
    rows = {}
    with file.open(encoding="utf-8", newline="") as stream:
        lines = csv.reader(stream)
        _, *columns = next(lines)
        for name, *cells in lines:
            cells_by_column = zip(columns, cells, strict=True)
            rows[name] = {column: float(cell) for column, cell in cells_by_column if cell}
    return rows


def score_table(
    labels: Sequence[str],
    columns: Sequence[Column],
    rows: Mapping[Any, Mapping[str, TableCell]],
    paper_rows: Mapping[Any, Mapping[str, TableCell]],
    **options: Any,
) -> Table:
    """Return a table of scores, with the paper's rows quoted below ours.

    Args:
        labels: titles of the columns on the left that name a row.
        columns: the other columns.
        rows: cells by row and column. A row's key is its name, or a tuple with a name for each label. A cell
            that is missing stays empty.
        paper_rows: the same for the paper's rows.
        options: further fields of the table.
    """
    from senteval_runner.report.page import Table

    def lines(rows_by_name: Mapping[Any, Mapping[str, TableCell]]) -> list[list[TableCell]]:
        lines_of_table = []
        for name, row in rows_by_name.items():
            names = name if isinstance(name, tuple) else (name,)
            lines_of_table.append([*names, *(row.get(column.name) for column in columns)])
        return lines_of_table

    return Table([*labels, *columns], lines(rows), quoted_rows=lines(paper_rows), **options)
