"""The work behind ``studies.passages``: sets × methods × seeds, a file per finished cell."""

from __future__ import annotations

import itertools
import logging
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from corpora.inputs import input_hash
from corpora.ranking.questions import PassageSet, filtered
from corpora.ranking.sets import parse_spec, read_set
from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import json_digest, read_record, write_json, write_record, write_text
from corpora.support.progress import progress
from senteval_runner.cells import installed, read_cell
from senteval_runner.report.significance import bootstrap
from senteval_runner.report.table import mean_and_deviation
from senteval_runner.towers.choice import open_layers
from senteval_runner.vectors.encoders import StoredModel, open_model
from senteval_runner.vectors.sources import distinct_names
from studies.passages.config import PassagesConfig
from studies.passages.methods import (
    Frozen,
    Method,
    Outcome,
    cross_method,
    lexical,
    scorer_methods,
)
from studies.passages.metrics import METRICS
from studies.passages.paper import BERT, refuse_missing_inputs
from studies.passages.report import page

FORMAT = 2
"""Of the cells: a figure computed under another version is computed again."""
Row = dict[str, Any]
LIBRARIES = ("torch", "numpy", "bm25s", "ir_measures", "scikit-learn")


@dataclass(frozen=True, eq=False)
class LoadedSet:
    """A set ready to run, with what decides its questions and candidates."""

    data: PassageSet
    identity: list[Any]


@dataclass
class Plan:
    """Everything that is to be computed, and what could not be opened."""

    sets: list[LoadedSet] = field(default_factory=list)
    methods: list[Method] = field(default_factory=list)
    models: list[StoredModel] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def cells(self) -> list[tuple[LoadedSet, Method, int]]:
        """(set, method, seed) in the order they run."""
        return [(s, m, seed) for s in self.sets for m in self.methods for seed in range(m.seeds)]


def check(config: PassagesConfig) -> None:
    """Refuse values no run could use.

    Raises:
        UserError: one line that names the option.
    """
    if not config.sets:
        raise UserError("no data set given; name folders, see --help")
    if not (config.models or config.baselines or config.frozen.backbones or config.cross.backbones):
        raise UserError(
            f"nothing to rank with: give --models, --baselines, or {BERT} (the paper's) or the folder of an "
            "encoder as --frozen.backbones and --cross.backbones"
        )
    if not (config.frozen.layers and config.frozen.poolings):
        raise UserError("--frozen.layers and --frozen.poolings: at least one of each")
    if not (config.features and config.scorers):
        raise UserError("--features and --scorers: at least one of each")


def load_sets(config: PassagesConfig, errors: list[str]) -> list[LoadedSet]:
    """The sets that can be read; what cannot goes to ``errors``."""
    loaded, names = [], set()
    for spec in dict.fromkeys(config.sets):
        try:
            data = filtered(read_set(spec), config.keep, config.limit)
            if data.name in names:
                raise UserError(f"{spec}: a set of the name {data.name} is there already; rename the folder")
            names.add(data.name)
            digest = input_hash(parse_spec(spec)[1], data.files)
            loaded.append(LoadedSet(data, [digest, config.keep, config.limit]))
        except UserError as error:
            errors.append(str(error))
    return loaded


def make_plan(config: PassagesConfig, log: logging.Logger | None = None) -> Plan:
    """Read the sets, open the models (without loading them) and list the methods."""
    plan = Plan()
    plan.sets = load_sets(config, plan.errors)
    plan.methods = [lexical(name, config) for name in dict.fromkeys(config.baselines)]
    for spec in dict.fromkeys(config.models):
        try:
            model = open_model(
                spec,
                cache=config.cache,
                seed=config.random_seed,
                normalize_parts=config.normalize_parts,
                device=config.device,
                trees=config.trees,
            )
        except UserError as error:
            plan.errors.append(str(error))
            continue
        plan.models.append(model)
    for backbone, layers, pooling in itertools.product(
        dict.fromkeys(config.frozen.backbones), config.frozen.layers, config.frozen.poolings
    ):
        try:
            model = open_layers(backbone, layers, pooling, config.reading(), cache=config.cache)
        except UserError as error:
            plan.errors.append(str(error))
            continue
        plan.models.append(model)
    names = distinct_names([model.name for model in plan.models], [model.spec for model in plan.models])
    plan.models = [replace(model, name=name) for model, name in zip(plan.models, names, strict=True)]
    for model in plan.models:
        plan.methods += scorer_methods(Frozen(model, config.unit), config)
    for backbone in dict.fromkeys(config.cross.backbones):
        try:
            plan.methods.append(cross_method(backbone, config, log.info if log else print))
        except UserError as error:
            plan.errors.append(str(error))
    return plan


def cell_key(chosen: LoadedSet, method: Method, seed: int) -> str:
    """Digest of all that decides a cell."""
    values = [FORMAT, installed(LIBRARIES), chosen.identity, method.identity, seed]
    return json_digest(values, 20)


def run(config: PassagesConfig) -> int:
    """Rank with every method on every set; write the results; exit code 2 when something was left out."""
    if config.preset is not None:
        refuse_missing_inputs(config)
    check(config)
    log = log_to(config.output)
    write_json(config.output / "config.json", config_to_json(config))
    plan = make_plan(config, log)
    for error in plan.errors:
        log.error("%s", error)
    cells, outcomes = plan.cells(), {}
    if not cells:
        return 2
    paths = {cell: config.output / "parts" / f"{cell_key(*cell)}.json" for cell in cells}
    kept = {cell: read_cell(path) for cell, path in paths.items()}
    finished = sum(outcome is not None for outcome in kept.values())
    with progress(total=len(cells), unit="cell", description="rank", initial=finished) as bar:
        for cell, path in paths.items():
            chosen, method, seed = cell
            folder = config.output / "unfinished" / path.stem
            outcome = kept[cell]
            if outcome is None:
                try:
                    write_record(path, method.run(chosen.data, seed, folder))
                except UserError as error:
                    shown = f"{chosen.data.name}, {method.model} {method.feature}: {error}"
                    plan.errors.append(shown)
                    log.error("%s", shown)
                    continue
                bar.update(1)
            shutil.rmtree(folder, ignore_errors=True)  # once the cell is there: a kill must not lose it
            outcomes[cell] = outcome or read_record(path)
            log.info("%s", _line(chosen, method, seed, outcomes[cell]))
    rows = [
        summarise(chosen.data, method, [outcomes[cell] for cell in group])
        for chosen in plan.sets
        for method in plan.methods
        if (group := [c for c in outcomes if c[0] is chosen and c[1] is method])
    ]
    _write(config, plan, rows)
    return 2 if plan.errors else 0


def _line(chosen: LoadedSet, method: Method, seed: int, found: Outcome) -> str:
    test = {name: sum(values) / len(values) for name, values in found["test"].items()}
    return (
        f"{chosen.data.name}  {method.model} {method.feature} {method.scorer} seed {seed}: "
        f"MRR {test['mrr']:.4f}  MAP {test['map']:.4f}  ({found['seconds']:.1f} s)"
    )


def _write(config: PassagesConfig, plan: Plan, rows: Sequence[Row]) -> None:
    import torch

    write_json(
        config.output / "results.json",
        {
            "format": FORMAT,
            "config": config_to_json(config),
            "versions": installed(LIBRARIES),
            "threads": torch.get_num_threads(),
            "sets": {
                s.data.name: {"counts": s.data.counts(), "notes": s.data.notes, "sha256": s.identity[0]}
                for s in plan.sets
            },
            "rows": rows,
            "left_out": plan.errors,
        },
    )
    sets = [s.data for s in plan.sets]
    report = page(rows, sets, config.margin)
    write_text(config.output / "tables.md", report.markdown())
    write_text(config.output / "report.html", report.html())
    print(report.markdown())
    print(f"{config.output}/report.html, results.json, tables.md")


def summarise(data: PassageSet, method: Method, outcomes: Sequence[Outcome]) -> Row:
    """Means and deviations over seeds, 95 % intervals over questions (of each question's mean over seeds).

    Args:
        data: the set.
        method: the method.
        outcomes: one per seed.
    """
    metrics = {}
    for name in METRICS:
        values_SQ = np.array([found["test"][name] for found in outcomes])
        mean, deviation = mean_and_deviation(values_SQ.mean(axis=1).tolist())
        interval = asdict(bootstrap(values_SQ.mean(axis=0), np.arange(values_SQ.shape[1])))
        metrics[name] = {**interval, "mean": mean, "sd": deviation}
    return {
        "set": data.name,
        "model": method.model,
        "feature": method.feature,
        "scorer": method.scorer,
        "seeds": len(outcomes),
        "metrics": metrics,
        "dev": [found["dev"] for found in outcomes],
        "tied": float(np.mean([found["tied"] for found in outcomes])),
        "seconds": float(np.mean([found["seconds"] for found in outcomes])),
        "info": [found["info"] for found in outcomes],
    }
