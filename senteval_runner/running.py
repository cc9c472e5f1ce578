"""The work behind ``senteval_runner.run``: models x tasks x seeds, each finished cell in its own file."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from corpora.senteval.files import TaskData, read_task
from corpora.senteval.tasks import PROBING_FILES, STS_SUBSETS, TASK_NAMES, canonical_task
from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import read_json, write_json, write_text
from corpora.support.progress import progress
from corpora.support.ranges import check_counts
from senteval_runner.cells import FORMAT, Cells, data_folder, versions
from senteval_runner.evaluation import evaluate_task
from senteval_runner.protocol.config import Protocol, get_protocol
from senteval_runner.protocol.results import TaskResult
from senteval_runner.report import html, tables
from senteval_runner.report import page as report
from senteval_runner.report.published import CONTROLS, NOTE, SENTEVAL
from senteval_runner.vectors.embed import Projection, SentenceVectors
from senteval_runner.vectors.encoders import Source, distinct_names, open_model, resolve_encoder
from senteval_runner.vectors.estimate import encoding_dry_run
from senteval_runner.vectors.trees import EvaluationTrees

if TYPE_CHECKING:
    from senteval_runner.run import RunConfig

GROUPS: Mapping[str, Sequence[str]] = {
    "mv": tuple(dict.fromkeys(task for _, task, _, _ in tables.PAPER_COLUMNS)),
    "sts": (*STS_SUBSETS, "STSBenchmark"),
    "sst": ("SST2", "SST5"),
    "probing": tuple(PROBING_FILES),
    "all": tuple(task for task in TASK_NAMES if task != "SNLI"),
}


COUNTS_TITLE = "Row counts that differ from the published ones"
SKIPPED_TITLE = "Skipped (no average is set when one of the table's tasks is missing)"
PAIRS_NOTE = "The paper's averages per pair of views, as published:"


@dataclass(kw_only=True)
class Model:
    """One row of the report."""

    name: str
    spec: str
    key: str
    """Digest of all that decides its vectors."""
    sources: list[Source]
    vectors: SentenceVectors
    results: dict[int, dict[str, TaskResult]] = field(default_factory=dict)
    """By seed and task."""
    skipped: dict[str, str] = field(default_factory=dict)

    @property
    def reads_parses(self) -> bool:
        """Whether a parser's trees go into its vectors."""
        return any(source.kind in ("multiview", "random") for source in self.sources)

    def scores(self) -> list[dict[str, dict[str, float]]]:
        """Metrics by task, one entry per seed."""
        return [{task: result.metrics for task, result in by.items()} for by in self.results.values()]


def expand_tasks(text: str) -> list[str]:
    """Names and groups separated by commas or blanks as canonical names, each once.

    Raises:
        UserError: an unknown name.
    """
    names: list[str] = []
    for word in text.replace(",", " ").split():
        names += GROUPS.get(word.lower(), [word])
    if not names:
        raise UserError("--tasks is empty")
    return list(dict.fromkeys(canonical_task(name) for name in names))


def _seeds(text: str) -> list[int]:
    try:
        seeds = [int(word) for word in text.replace(",", " ").split()]
    except ValueError:
        raise UserError(f"--seeds {text!r}: expected whole numbers separated by commas") from None
    if not seeds or min(seeds) < 0 or max(seeds) >= 2**32:
        raise UserError(f"--seeds {text!r}: expected numbers from 0 to 2**32 - 1")
    return list(dict.fromkeys(seeds))


def _model(spec: str, config: RunConfig, trees: EvaluationTrees | Path) -> Model:
    opened = open_model(
        spec,
        cache=config.cache,
        seed=config.random_seed,
        normalize_parts=config.normalize_parts,
        device=config.device,
        trees=trees,
        batch_size=config.batch_size,
    )
    decides, vectors = list(opened.identity), opened.vectors
    if config.project is not None:
        decides += ["project", config.project, config.random_seed]
        vectors = Projection(vectors, config.project, config.random_seed)
    key = hashlib.sha256(json.dumps(decides).encode()).hexdigest()[:16]
    return Model(name=opened.name, spec=spec, key=key, sources=opened.sources, vectors=vectors)


def _check(config: RunConfig) -> None:
    """Wrong options, before a model is opened."""
    counts = {
        "--project": config.project,
        "--batch-size": config.batch_size,
        "--threads": config.threads,
        "--parse-workers": config.parse_workers,
    }
    check_counts(counts)
    if not config.models:
        raise UserError("name at least one model")


def run(config: RunConfig) -> int:
    """Evaluate every model on every task with every seed; write the results; print the tables."""
    import torch

    tasks, seeds, data = expand_tasks(config.tasks), _seeds(config.seeds), data_folder(config.data)
    protocol = get_protocol(config.protocol, nhid=config.nhid)
    _check(config)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if config.examples is not None:
        report.read_examples(config.examples)  # a wrong file is better refused now than after hours
    trees: EvaluationTrees | Path = config.trees
    if not (config.trees / "manifest.json").exists():  # a folder of caches, not one finished cache
        trees = EvaluationTrees(folder=config.trees, data=data, tasks=tasks, workers=config.parse_workers)
    models = [_model(spec, config, trees) for spec in dict.fromkeys(config.models)]
    names = distinct_names([model.name for model in models], [model.spec for model in models])
    for model, name in zip(models, names, strict=True):
        model.name = name
    logger = log_to(config.output)
    write_json(config.output / "config.json", config_to_json(config))
    cells = Cells(config.output / "parts", protocol)
    total = len(models) * len(tasks) * len(seeds)
    with progress(total=total, unit="task", description="evaluate") as bar:
        for name in tasks:
            try:
                task = read_task(name, data)
            except UserError as error:
                logger.warning("skipped %s: %s", name, error)
                for model in models:
                    model.skipped[name] = str(error)
                bar.update(len(models) * len(seeds))
                continue
            for note in task.count_notes():
                logger.warning("%s", note)
            for model in models:
                _score(model, task, seeds, cells, logger)
                bar.update(len(seeds))
    _write(config, protocol, models)
    if any(model.results for model in models):
        write_text(config.output / "report.html", _report(config, protocol, models, data))
        print(f"written: {config.output / 'report.html'}")
    return 0 if any(model.results for model in models) else 2


def dry_run(config: RunConfig) -> str:
    """What encoding the tasks' sentences by every model would take; nothing is written."""
    _check(config)
    names, data = expand_tasks(config.tasks), data_folder(config.data)
    found, facts = [], {}
    for name in names:
        try:
            found.append(read_task(name, data))
        except UserError as error:
            facts[name] = f"skipped: {error}"
    texts = [tokens for task in found for part in task.splits.values() for tokens in part.sentences()]
    return encoding_dry_run(
        config,
        {
            spec: resolve_encoder(
                spec, seed=config.random_seed, device=config.device, batch_size=config.batch_size
            )
            for spec in dict.fromkeys(config.models)
        },
        [list(tokens) for tokens in texts],
        facts={"tasks": ", ".join(task.name for task in found), **facts},
        stored=True,
        not_counted=f"classifiers ({len(found)} tasks x {len(_seeds(config.seeds))} seeds); vectors in "
        f"{config.cache} and trees in {config.trees} are read again and save their part",
    )


def _score(model: Model, task: TaskData, seeds: Sequence[int], cells: Cells, logger: logging.Logger) -> None:
    """All cells of one model and task, one per seed; the finished ones are read."""
    try:
        for seed in seeds:
            result = cells.load(model.key, seed, task)
            if result is None:
                result = evaluate_task(model.vectors, task, cells.protocol, seed)
                cells.save(model.key, seed, result)
            model.results.setdefault(seed, {})[task.name] = result
            figure = tables.headline(task.name, result.metrics)
            logger.info("%s %s seed %d: %.2f", model.name, task.name, seed, figure)
    except UserError as error:
        logger.warning("skipped %s of %s: %s", task.name, model.name, error)
        model.skipped[task.name] = str(error)


def _kernels() -> list[str]:
    """BLAS libraries with kernel family and threads: the last digits of L-BFGS hang on them."""
    from threadpoolctl import threadpool_info

    keys = ("internal_api", "version", "architecture", "num_threads")
    return sorted(" ".join(str(info.get(key, "")) for key in keys) for info in threadpool_info())


def _labelled_by_parser(task: TaskData) -> bool:
    """Whether ``senteval_runner.build_probing`` made the task from a parser's trees, as its record says."""
    if task.name not in PROBING_FILES:
        return False
    record = task.files["train"][0].parent / "probing.json"
    values = read_json(record)["tasks"] if record.exists() else {}
    return any(canonical_task(n) == task.name and v["labels_from"] == "parser" for n, v in values.items())


def _report(config: RunConfig, protocol: Protocol, models: Sequence[Model], data: Path) -> str:
    """The HTML report; sentences are drawn of the single-sentence task with most classes (8 at most)."""
    scored = [model for model in models if model.results]
    done = [t for t in expand_tasks(config.tasks) if all(t not in m.skipped for m in scored)]
    tasks = [read_task(name, data) for name in done]
    parts = [html.paragraph(_heading(config, protocol))]
    parts += report.score_sections(
        {model.name: list(model.results.values()) for model in scored},
        [model.name for model in scored if model.reads_parses],
        [task.name for task in tasks if _labelled_by_parser(task)],
        published=config.published,
    )
    parts += _remarks(models)
    vectors = {model.name: model.vectors for model in scored}
    single = [task for task in tasks if task.kind == "single" and 2 <= len(task.classes) <= 8]
    if single:
        parts.append(report.projection_section(vectors, max(single, key=lambda task: len(task.classes))))
    if config.examples is not None:
        examples = report.read_examples(config.examples)
        sentences = (tokens for task in tasks for part in task.splits.values() for tokens in part.sentences())
        corpus = [list(tokens) for tokens in dict.fromkeys(map(tuple, sentences))]
        parts.append(report.neighbour_section(vectors, examples, corpus))
    return html.page("SentEval", parts)


def _write(config: RunConfig, protocol: Protocol, models: Sequence[Model]) -> None:
    import torch

    figures = [
        {
            "model": model.name,
            "seed": seed,
            **{k: v for k, v in dataclasses.asdict(result).items() if k not in ("predictions", "gold")},
        }
        for model in models
        for seed, by_task in model.results.items()
        for result in by_task.values()
    ]
    write_json(
        config.output / "results.json",
        {
            "format": FORMAT,
            "config": config_to_json(config),
            "protocol": dataclasses.asdict(protocol),
            "versions": versions(),
            "kernels": _kernels(),
            "torch_threads": torch.get_num_threads(),
            "models": {
                m.name: {"spec": m.spec, "key": m.key, "parts": [dataclasses.asdict(s) for s in m.sources]}
                for m in models
            },
            "paper_table": {m.name: [tables.paper_row(scores) for scores in m.scores()] for m in models},
            "results": figures,
            "skipped": {model.name: model.skipped for model in models if model.skipped},
        },
    )
    write_text(config.output / "results.md", summary(config, protocol, models, published=config.published))
    print(summary(config, protocol, models), end="")
    print(f"written: {config.output / 'results.json'}, results.md")


def _heading(config: RunConfig, protocol: Protocol) -> str:
    projected = f", projected to {config.project} dimensions" if config.project else ""
    return f"SentEval, protocol {protocol.name}, nhid {protocol.nhid}, seeds {config.seeds}{projected}."


def summary(
    config: RunConfig, protocol: Protocol, models: Sequence[Model], *, published: bool = False
) -> str:
    """The Markdown tables with what a reader must know about them; ``published`` adds the paper's rows."""
    scores = {model.name: model.scores() for model in models}
    in_paper = any(task in GROUPS["mv"] for seeds in scores.values() for one in seeds for task in one)
    quoted = (*SENTEVAL, *CONTROLS) if published and in_paper else ()
    parts = [_heading(config, protocol) + "\n\n"]
    if in_paper:
        parts.append(tables.paper_table(scores, quoted))
    if quoted:
        parts += [f"\n{NOTE} Averages of published rows follow from their figures. ", PAIRS_NOTE]
        parts += ["\n\n", tables.pair_table()]
    if other := tables.other_table(scores):
        parts += ["\n" if in_paper else "", other]
    if notes := _count_notes(models):
        parts.append(f"\n{COUNTS_TITLE}:\n")
        parts += [f"- {note}\n" for note in notes]
    if reasons := _skipped(models):
        parts.append(f"\n{SKIPPED_TITLE}:\n")
        parts += [f"- {task} ({who}): {why}\n" for task, who, why in reasons]
    return "".join(parts)


def _count_notes(models: Sequence[Model]) -> list[str]:
    """One line per task whose row counts are not the published ones."""
    by_task = {
        result.task: result.notes for m in models for by in m.results.values() for result in by.values()
    }
    return [
        "; ".join([notes[0], *(note.removeprefix(f"{task} ") for note in notes[1:])])
        for task, notes in by_task.items()
        if notes
    ]


def _skipped(models: Sequence[Model]) -> list[tuple[str, str, str]]:
    """Task, models, reason of whatever was not scored."""
    who: dict[tuple[str, str], list[str]] = {}
    for model in models:
        for task, why in model.skipped.items():
            who.setdefault((task, why), []).append(model.name)
    everybody = len(models)
    return [
        (task, "every model" if len(names) == everybody else ", ".join(names), why)
        for (task, why), names in who.items()
    ]


def _remarks(models: Sequence[Model]) -> list[html.Html]:
    """What a reader of the page must know about the data."""
    parts = []
    if notes := _count_notes(models):
        parts.append(html.section(COUNTS_TITLE, html.table(["task"], [[note] for note in notes])))
    if reasons := _skipped(models):
        parts.append(html.section(SKIPPED_TITLE, html.table(["task", "models", "reason"], reasons)))
    return parts
