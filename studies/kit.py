"""Run every study: compute cells of figures, store each as it is finished, then write one report.

A study is a configuration (with ``output``, and ``preset`` if it has some) and a function that makes cells
from it, each a method on a data set with a seed, and a page of tables of their figures::

    def study(config: FaqConfig, run: Run) -> Page:
        cells = {(faq, method, seed): Cell(name=..., identity=[...], compute=...) for ...}
        return page(run.figures(cells))

    cli = command(FaqConfig, "studies.faq.evaluate:study", "studies.faq", __doc__)

Output: ``report.html``, ``report.md``, ``results.json`` (without ``--output`` in a folder of the command's
own), ``log.txt``; finished cells below ``cells/`` or in their own folders.

Presets are ``presets.toml`` beside the configuration, a table per preset::

    [paper]
    base = "other"                                                              # a preset it starts from
    needs = "SNLI (nlp.stanford.edu/projects/snli), PPDB 2.0 (paraphrase.org)"  # where its inputs are from
    requires = ["nli", "ppdb"]                                                  # options that give them
    [paper.options]                                                             # what differs from defaults
    backbone = "bert-base-uncased"

Published rows are CSV: a header, then a name and its figures; an empty cell is not published.
"""

from __future__ import annotations

import csv
import inspect
import shutil
import tomllib
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

from multiview.names.grammar import check_names
from runtime import files
from runtime.cli import Command, config_to_json, log_to, with_defaults
from runtime.errors import UserError, collect_refusals
from runtime.progress import progress

if TYPE_CHECKING:
    from senteval_runner.report.page import Page

Figures = dict[str, Any]
"""What one cell gives: JSON values by name."""
Key = TypeVar("Key", bound=Hashable)
Opened = TypeVar("Opened")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One thing to compute."""

    name: str
    """Shown in the log and where it could not be computed."""
    identity: Sequence[object]
    """JSON values of everything that decides its figures, but the versions of the libraries."""
    compute: Callable[[Path], Figures]
    """Computes the figures, in a folder for unfinished work, which stays after a kill."""
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

    def opened(self, openers: Mapping[Key, Callable[[], Opened]]) -> dict[Key, Opened]:
        """Call every opener; one that raises a UserError is left out."""
        results: dict[Key, Opened] = {}
        for key, opener in openers.items():
            try:
                results[key] = opener()
            except UserError as error:
                self.leave_out(str(key), error)
        return results

    def figures(self, cells: Mapping[Key, Cell]) -> dict[Key, Figures]:
        """Compute every cell; one that raises a UserError is left out, and named in the report."""
        results: dict[Key, Figures] = {}
        with progress(total=len(cells), unit="cell", description="cells") as bar:
            for key, cell in cells.items():
                try:
                    results[key] = self._figures(cell)
                except UserError as error:
                    self.leave_out(cell.name, error)
                else:
                    self.rows.append({"cell": cell.name, **results[key]})
                bar.update(1)
        return results

    def _figures(self, cell: Cell) -> Figures:
        """Read the figures of a finished cell, or compute and store them, with the hashes of its weights."""
        from senteval_runner.evaluation import versions
        from senteval_runner.scoring import read_or_compute

        identity = files.json_digest([versions("transformers", "sentence-transformers"), *cell.identity], 20)
        folder = self.output / (cell.folder or "cells")
        file = folder / ("cell.json" if cell.folder else f"{identity}.json")
        work = self.output / "unfinished" / identity

        def compute() -> dict[str, Any]:
            work.mkdir(parents=True, exist_ok=True)
            figures = cell.compute(work)
            shown = (f"{name} {value:.4f}" for name, value in figures.items() if isinstance(value, float))
            self.log("  ".join([cell.name, *shown]))
            weights = sorted(folder.rglob("*.safetensors")) if cell.folder else []
            own = [path for path in weights if work not in path.parents]
            hashes = {str(path.relative_to(folder)): files.file_record(path) for path in own}
            return {"identity": identity, "figures": figures, "files": hashes}

        def read(record: dict[str, Any]) -> tuple[str, Figures, dict[str, tuple[int, str]]]:
            written = {name: (about["bytes"], about["sha256"]) for name, about in record["files"].items()}
            return record["identity"], {**record["figures"]}, written

        made_as, figures, written = read_or_compute(file, read, compute)
        if made_as != identity:
            raise UserError(f"{folder}: made with other options or libraries; use another --output")
        for name, (size, sha256) in written.items():
            files.check_file(folder / name, size, sha256)
        shutil.rmtree(work, ignore_errors=True)  # after the record, so that a kill loses nothing
        return figures


def run_study(config: Any, study: Callable[[Any, Run], Page]) -> int:
    """Compute a study and write its report, unless all was left out; return 2 if something was, else 0."""
    from senteval_runner.report.page import Section
    from senteval_runner.run import report_name

    output, run = config.output, Run(config.output)
    page = study(config, run)
    reasons = [f"{', '.join(names)}: {reason}" for reason, names in run.left_out.items()]
    if not run.rows:
        raise UserError("; ".join(reasons) or "nothing to compute: see --help")
    if reasons:
        page = replace(page, sections=[*page.sections, Section("Left out", reasons)])
    if output == getattr(type(config), "output", None):  # by default, where reports of other models are
        inputs = ("sets", "models", "backbones", "encoders", "cross", "trees")
        words = [str(word) for option in inputs for word in getattr(config, option, ())]
        output /= report_name(config_to_json(config), words)
    results = {"config": config_to_json(config), "cells": run.rows, "left_out": reasons}
    files.write_json(output / "results.json", results)
    files.write_text(output / "report.html", page.html())
    files.write_text(output / "report.md", page.markdown())
    print(page.text())
    print(f"written: {output}/report.html, report.md, results.json")
    return 2 if reasons else 0


def check_inputs(config: Any) -> None:
    """Refuse a study of which no model or no set can be read, before anything heavy is imported.

    Raises UserError: the preset needs options that are not given, or none of the models, or of the files of
    an option, can be what it is named as; or what the configuration's own ``check_words`` raises.
    """
    if preset := getattr(config, "preset", None):
        table = _preset_tables(type(config)).get(preset, {})  # or a preset of multiview.train
        missing = [name for name in table.get("requires", ()) if not attrgetter(name)(config)]
        if missing:
            options = ", ".join("--" + name.replace("_", "-") for name in missing)
            raise UserError(f"--preset {preset} needs {options}: {table['needs']}")
    if hasattr(config, "check_words"):
        config.check_words()
    names = getattr(config, "models", ())
    refused = collect_refusals(*(partial(check_names, [name]) for name in names))
    if names and len(refused) == len(names):
        raise UserError("; ".join(refused))
    for field in fields(config):
        value = getattr(config, field.name)
        values = value if isinstance(value, tuple) else [value]
        paths = [path for path in values if isinstance(path, Path)]
        if field.name not in ("output", "cache") and paths and not any(path.exists() for path in paths):
            raise UserError(f"--{field.name.replace('_', '-')} {paths[0]}: no such file or folder")


def command(config: type[Any], study: str, module: str, about: str | None) -> Command:
    """Make the command ``python -m MODULE`` of a study, which has presets and owns its output.

    ``study`` is the function's ``MODULE:NAME``, imported late so that ``--help``, which shows the first line
    of ``about``, is fast.
    """

    def main(chosen: Any) -> int:
        check_inputs(chosen)
        file, _, name = study.partition(":")
        return run_study(chosen, getattr(import_module(file), name))

    return Command(
        config,
        main,
        module,
        (about or "").split("\n")[0],
        defaults=lambda name: with_defaults(config, read_presets(config).get(name, {})),
        owns=lambda chosen: chosen.output,
        kept_work="finished cells and the last saved states are kept; the same command resumes",
        plugins=True,
    )


def read_presets(config: type[Any]) -> dict[str, dict[str, Any]]:
    """Read the options of each preset by field of ``config``, in its types, ``preset`` itself among them."""
    from pydantic import TypeAdapter

    types, tables = get_type_hints(config, include_extras=True), _preset_tables(config)
    presets = {}
    for name, table in tables.items():
        options = {**tables.get(table.get("base", ""), {}).get("options", {}), **table.get("options", {})}
        typed = {key: TypeAdapter(types[key]).validate_python(value) for key, value in options.items()}
        presets[name] = {"preset": name, **typed}
    return presets


def _preset_tables(config: type[Any]) -> dict[str, dict[str, Any]]:
    file = Path(inspect.getfile(config)).with_name("presets.toml")
    return tomllib.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def published(file: Path) -> dict[str, dict[str, float]]:
    """Read the figures of a CSV file by column, by the name of the row in its first column."""
    with file.open(encoding="utf-8", newline="") as lines:
        rows = {row.pop(next(iter(row))): row for row in csv.DictReader(lines)}
    return {name: {key: float(cell) for key, cell in row.items() if cell} for name, row in rows.items()}
