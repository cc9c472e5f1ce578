"""Run stages one after the other; every finished stage is a model folder that later runs start from.

    python -m studies.multitask --output runs/multitask/tiny --stages "sst,quora:mean,sts:mean,nli:mean"

A stage's folder is named after all stages up to it. So configurations that begin alike share their first
stages, and a killed grid repeats one epoch at most. Source: Yao 2023 (SEQ-MT).
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import nn

from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.dry_run import Work, dry_run_text
from corpora.support.errors import UserError
from corpora.support.files import atomic_path, read_json, read_record, write_json, write_record
from parsing.networks.device import pick_device
from senteval_runner.cells import read_cell
from senteval_runner.report.page import Page, Section
from senteval_runner.report.table import Column, Table
from senteval_runner.towers.config import Pooling
from senteval_runner.towers.transformer import load_tower
from studies.finetune.examples import Fixed, Sampled, Source, Stream
from studies.finetune.heads import TowerModule
from studies.finetune.loop import Row, Schedule, Task, calibrate, fit
from studies.finetune.tiny import build_tiny
from studies.multitask.config import MultitaskConfig
from studies.multitask.heads import METRIC, TaskHead, overall
from studies.multitask.stages import GRID, TASKS, Stage, parse_stages
from studies.multitask.tasks import TaskExamples, read_all_tasks

NOTE = "Percent: accuracy; STS: Pearson x 100. In brackets: not trained yet."
# Options that do not change any score may differ between runs with the same output folder.
FREE_OPTIONS = ("output", "stages", "grid", "save_every", "dry_run")


@dataclass
class State:
    """What a stage passes on: its model folder and the trained heads."""

    backbone: str
    heads: dict[str, Path]
    """The stage folder with the head of each trained task."""


def run(config: MultitaskConfig) -> dict[str, Any]:
    """Run the stages or the grid; return and write ``results.json``.

    Raises:
        UserError: a bad stage, missing data, an unloadable backbone, or a folder made with other options.
    """
    config.tiny.heads()
    sequences = _sequences(config)
    _refuse_other_options(config)
    tasks = read_all_tasks(config)
    log = log_to(config.output).info
    write_json(config.output / "multitask.json", _binding_options(config))
    for name, task in tasks.items():
        log(f"{name}: {task.describe()}")
    backbone = _backbone(config, tasks, log)
    results = []
    for sequence in sequences:
        state = State(backbone, {})
        rows = []
        for place in range(len(sequence)):
            row = run_stage(config, tasks, sequence[: place + 1], state, log)
            rows.append(row)
        results.append({"stages": ",".join(map(str, sequence)), "after": rows})
        write_json(config.output / "results.json", {"options": config_to_json(config), "results": results})
    return {"options": config_to_json(config), "results": results}


def _backbone(config: MultitaskConfig, tasks: dict[str, TaskExamples], log: Callable[[str], None]) -> str:
    """Name or folder of the encoder to start from; a tiny one is built first."""
    if config.backbone != "tiny":
        return config.backbone
    texts = [text for name in TASKS for text in tasks[name].train.texts()]
    return str(build_tiny(config.output / "backbone", texts, config.tiny, seed=config.seed, report=log))


def dry_run(config: MultitaskConfig) -> str:
    """Estimate all stages from a few steps of each kind of stage; write nothing."""
    config.tiny.heads()
    sequences = _sequences(config)
    stages = {sequence[: place + 1] for sequence in sequences for place in range(len(sequence))}
    tasks = read_all_tasks(config)
    work, parameters = [], {}
    with tempfile.TemporaryDirectory() as name:
        tiny = dataclasses.replace(config.tiny, mlm_steps=0)
        trial = dataclasses.replace(config, output=Path(name), tiny=tiny)
        state = State(_backbone(trial, tasks, lambda line: None), {})
        for stage in sorted({sequence[-1] for sequence in stages}, key=str):
            net = _Net(trial, stage, state)
            net.encoder.prepare(text for task in tasks.values() for text in task.texts())
            streams, schedule, _ = _stage_schedule(trial, net, tasks[stage.task])
            per_s = calibrate(net, streams, schedule, config.loop, seed=config.seed, folder=Path(name))
            times = sum(sequence[-1] == stage for sequence in stages)
            work.append(
                Work(
                    name=str(stage),
                    units=times * schedule.steps,
                    unit=f"steps of {config.batch}",
                    per_s=per_s,
                )
            )
            parameters = {part: sum(p.numel() for p in m.parameters()) for part, m in net.named_children()}
    return dry_run_text(
        config,
        facts={task: examples.describe() for task, examples in tasks.items()},
        parameters=parameters,
        disk_bytes=4.0 * len(stages) * sum(parameters.values()),
        work=work,
        not_counted="scores after each epoch, pre-training of a tiny backbone",
    )


def run_stage(
    config: MultitaskConfig,
    tasks: dict[str, TaskExamples],
    sequence: Sequence[Stage],
    state: State,
    log: Callable[[str], None],
) -> Row:
    """Train ``sequence[-1]`` from the end of ``sequence[:-1]`` unless it is finished; update ``state``."""
    stage = sequence[-1]
    folder = config.output / "stages" / "+".join(part.slug for part in sequence)
    done = folder / "stage.json"
    if read_cell(done) is None:
        log(f"stage {','.join(map(str, sequence))}")
        net = _Net(config, stage, state)
        net.encoder.prepare(text for task in tasks.values() for text in task.texts())
        train_stage(config, net, tasks[stage.task], folder, log)
        scores: dict[str, float] = {
            task: net.head(task).score(net.encoder, tasks[task].test) for task in TASKS
        }
        net.save(folder)
        row: Row = {
            "stage": str(stage),
            "trained": sorted(net.trained),
            "test": {**scores, "overall": overall(scores)},
        }
        write_record(done, row)
        shutil.rmtree(folder / "training")
        log("  ".join(f"{name} {value:.4f}" for name, value in row["test"].items()))
    state.backbone = str(folder)
    state.heads.pop(stage.task, None)  # the latest stage goes last
    state.heads[stage.task] = folder
    finished: Row = read_record(done)
    return finished


class _Net(TowerModule):
    """The tower and the heads of all tasks; heads of other tasks stay as their stage left them."""

    def __init__(self, config: MultitaskConfig, stage: Stage, state: State) -> None:
        device = pick_device(config.device)
        tower = load_tower(
            state.backbone,
            pooling=stage.pooling or _pooling_of(state),
            max_length=config.max_length,
            dropout=config.dropout,
            device=device,
        )
        super().__init__(tower)
        self.stage = stage
        self.heads = nn.ModuleDict()
        for task in TASKS:
            held = state.heads.get(task)
            head_stage = _head_stage(held) if held else Stage(task, None if task == "sst" else "mean")
            if task == stage.task:
                same = held is not None and _style(head_stage) == _style(stage)
                head_stage, held = stage, held if same else None
            head = TaskHead(head_stage, self.encoder, config.seed)
            if held is not None:
                head.load_state_dict(load_file(held / "head.safetensors"))
            self.heads[task] = head
        self.to(device)
        self.trained = {*state.heads, stage.task}

    def head(self, task: str) -> TaskHead:
        """The head of a task."""
        return self.heads[task]  # type: ignore[return-value]

    def save(self, folder: Path) -> None:
        """Write the tower as a model folder, and the stage's head."""
        self.cpu().encoder.save(folder)
        with atomic_path(folder / "head.safetensors") as temporary:
            head = {
                name: tensor.contiguous() for name, tensor in self.head(self.stage.task).state_dict().items()
            }
            save_file(head, temporary)


def train_stage(
    config: MultitaskConfig, net: _Net, task: TaskExamples, folder: Path, log: Callable[[str], None]
) -> None:
    """Train on one task and keep the weights of the epoch that is best on dev."""
    streams, schedule, evaluate = _stage_schedule(config, net, task)
    fit(
        net,
        streams,
        schedule,
        config.loop,
        evaluate=evaluate,
        seed=config.seed,
        folder=folder / "training",
        report=log,
    )


def _stage_schedule(
    config: MultitaskConfig, net: _Net, task: TaskExamples
) -> tuple[dict[str, Task], Schedule, Callable[[], Row]]:
    """Batches, training schedule and dev score of a stage."""
    stage = net.stage
    source: Source = Fixed(task.train)
    if stage.sampled:
        source = Sampled(task.train, 0.1, config.seed, str(stage))
    stream = Stream(source, config.batch, config.seed, stage.task)
    head = net.head(stage.task)
    metric = METRIC[stage.task]

    def evaluate() -> Row:
        return {metric: head.score(net.encoder, task.dev)}

    schedule = Schedule(
        cycle=(stage.task,),
        steps=config.epochs * stream.batches_per_pass,
        evaluate_every=stream.batches_per_pass,
        save_every=config.save_every,
        select=metric,
        identity={"stage": str(stage)},
    )
    return {stage.task: Task(stream, lambda examples: head.loss(net.encoder, examples))}, schedule, evaluate


def _sequences(config: MultitaskConfig) -> list[tuple[Stage, ...]]:
    """The configurations to run."""
    if config.grid is None:
        return [parse_stages(config.stages)]
    if config.grid == "paper":
        return [parse_stages(text) for text in GRID]
    try:
        lines = Path(config.grid).read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise UserError(
            f"--grid {config.grid}: neither paper nor a readable file ({error.strerror})"
        ) from None
    found = [parse_stages(line) for line in lines if line.strip()]
    if not found:
        raise UserError(f"--grid {config.grid}: holds no line with stages")
    return found


def _binding_options(config: MultitaskConfig) -> dict[str, Any]:
    """The options that decide the scores of a stage."""
    return {key: value for key, value in config_to_json(config).items() if key not in FREE_OPTIONS}


def _refuse_other_options(config: MultitaskConfig) -> None:
    """Refuse to resume a folder made with options that change its scores."""
    path = config.output / "multitask.json"
    if path.exists() and read_json(path) != _binding_options(config):
        raise UserError(f"{path}: this folder was made with other options; use another --output")


def _head_stage(folder: Path) -> Stage:
    """The stage that trained the head in a stage folder."""
    return parse_stages(read_record(folder / "stage.json")["stage"])[0]


def _style(stage: Stage) -> tuple[str | None, bool]:
    return stage.pooling, stage.product


def _pooling_of(state: State) -> Pooling:
    """Pooling of the latest Siamese stage, so that the folder embeds as it was trained; mean without one."""
    for folder in reversed(state.heads.values()):
        stage = _head_stage(folder)
        if stage.pooling:
            return stage.pooling
    return "mean"


def report(results: dict[str, Any]) -> Page:
    """The final scores of every configuration, and those after every stage, which show forgetting."""
    final = {entry["stages"]: entry["after"][-1] for entry in results["results"]}
    # Stages that several configurations share appear once.
    stages = {
        " → ".join(entry["stages"].split(",")[: place + 1]): row
        for entry in results["results"]
        for place, row in enumerate(entry["after"])
    }
    sections = [
        Section("Configurations", [_table("configuration", final)]),
        Section("Stages", [_table("after stage", stages)]),
    ]
    return Page("Sequential multi-task fine-tuning", sections, NOTE)


def _table(name: str, rows: dict[str, Row]) -> Table:
    columns = [Column(task, align="right") for task in ("SST", "Quora", "STS", "NLI")]
    return Table(
        [name, *columns, Column("overall", digits=3)],
        [[title, *_cells(row), row["test"]["overall"]] for title, row in rows.items()],
    )


def _cells(row: Row) -> list[str]:
    """Percent accuracies, Pearson x 100."""
    values = {task: f"{100 * row['test'][task]:.1f}" for task in TASKS}
    return [value if task in row["trained"] else f"({value})" for task, value in values.items()]
