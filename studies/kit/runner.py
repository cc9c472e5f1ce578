"""The runner of every study: cells of figures that are stored as they are finished, then one report.

A study is a configuration (with ``output``, and ``preset`` if it has some) and a function that makes cells
from it, each a method on a data set with a seed, and a page of tables of their figures::

    def study(config: FaqConfig, run: Run) -> Page:
        cells = {(faq, method, seed): Cell(name=..., identity=[...], compute=...) for ...}
        return page(run.figures(cells))

    cli = command(FaqConfig, "studies.faq.evaluate:study", "studies.faq", "Retrieve answers.")

Output: ``report.html``, ``report.md``, ``results.json``, ``log.txt``; finished cells below
``cells/`` or in their own folders. The same command again computes only what is not there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from corpora.support.cli import Command, config_to_json, log_to, preset_defaults
from corpora.support.errors import UserError
from corpora.support.files import (
    check_file,
    file_record,
    json_digest,
    read_record,
    write_json,
    write_record,
    write_text,
)
from corpora.support.progress import progress
from studies.kit.data import read_presets, refuse_missing

if TYPE_CHECKING:
    from senteval_runner.report.page import Page

Figures = dict[str, Any]
"""Of one cell: JSON values."""
Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One thing to compute."""

    name: str
    """Shown in the log and where it could not be computed."""
    identity: Sequence[object]
    """JSON values of everything that decides its figures, but the versions of the libraries."""
    compute: Callable[[Path], Figures]
    """From a folder for unfinished work, which stays after a kill, to the figures."""
    folder: str = ""
    """Below the output (``.`` is the output), where it writes a model, whose hashes are kept, and its figures
    are stored."""


class Run:
    """Computes the cells of one study below its output folder."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.log = log_to(output).info
        self.left_out: dict[str, list[str]] = {}
        """What could not be computed: names by reason."""
        self.rows: list[Figures] = []
        """Figures of every cell so far, with its name."""

    def leave_out(self, name: str, reason: object) -> None:
        """Note that something could not be computed; the rest goes on."""
        self.log(f"left out: {name}: {reason}")
        self.left_out.setdefault(str(reason), []).append(name)

    def figures(self, cells: Mapping[Key, Cell]) -> dict[Key, Figures]:
        """Figures of every cell; one that raises a UserError is left out, and named in the report."""
        found: dict[Key, Figures] = {}
        with progress(total=len(cells), unit="cell", description="cells") as bar:
            for key, cell in cells.items():
                try:
                    found[key] = self._figures(cell)
                except UserError as error:
                    self.leave_out(cell.name, error)
                else:
                    self.rows.append({"cell": cell.name, **found[key]})
                bar.update(1)
        return found

    def _figures(self, cell: Cell) -> Figures:
        from senteval_runner.evaluation import versions

        identity = json_digest([versions("transformers", "sentence-transformers"), *cell.identity], 20)
        folder = self.output / (cell.folder or "cells")
        record = folder / ("cell.json" if cell.folder else f"{identity}.json")
        work = self.output / "unfinished" / identity
        held = None
        if record.exists():
            try:
                held = read_record(record)
            except UserError as error:
                self.log(f"{error}; computed again")
        if held is None:
            work.mkdir(parents=True, exist_ok=True)
            figures = cell.compute(work)
            weights = sorted(folder.rglob("*.safetensors")) if cell.folder else []
            written = {
                str(path.relative_to(folder)): file_record(path)
                for path in weights
                if not path.is_relative_to(work)
            }
            write_record(record, {"identity": identity, "figures": figures, "files": written})
            held = read_record(record)
            shown = (f"{k} {v:.4f}" for k, v in held["figures"].items() if isinstance(v, float))
            self.log("  ".join([cell.name, *shown]))
        elif held["identity"] != identity:
            raise UserError(f"{folder}: made with other options or libraries; use another --output")
        for name, file in held["files"].items():
            check_file(folder / name, **file)
        shutil.rmtree(work, ignore_errors=True)  # after the record, so that a kill loses nothing
        return dict(held["figures"])


def run_study(config: Any, study: Callable[[Any, Run], Page]) -> int:
    """Compute a study and write its report; return the exit code, 2 if something was left out.

    Raises:
        UserError: the preset's inputs are not given, or nothing could be computed.
    """
    from senteval_runner.report.page import Section

    refuse_missing(config)
    output, run = config.output, Run(config.output)
    page = study(config, run)
    reasons = [f"{', '.join(names)}: {reason}" for reason, names in run.left_out.items()]
    if not run.rows:
        raise UserError("; ".join(reasons) or "nothing to compute: see --help")
    if reasons:
        page = replace(page, sections=[*page.sections, Section("Left out", reasons)])
    results = {"config": config_to_json(config), "cells": run.rows, "left_out": reasons}
    write_json(output / "results.json", results)
    write_text(output / "report.html", page.html())
    write_text(output / "report.md", page.markdown())
    print(page.markdown())
    print(f"written: {output}/report.html, report.md, results.json")
    return 2 if reasons else 0


def command(
    config: type[Any], study: str, module: str, description: str, *, plugins: bool = False
) -> Command:
    """The command ``python -m MODULE`` of a study; ``presets.toml`` beside its options holds the presets.

    The study is named as ``module:function`` and imported when it runs, so that --help is fast.
    """

    def main(chosen: Any) -> int:
        where, _, name = study.partition(":")
        return run_study(chosen, getattr(import_module(where), name))

    return Command(
        config,
        main,
        module,
        description,
        defaults=lambda words: preset_defaults(config, read_presets(config))(words),
        owns=lambda chosen: chosen.output,
        kept="finished cells and the last saved states are kept; the same command resumes",
        plugins=plugins,
    )
