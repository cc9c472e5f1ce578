"""Run stages one after the other; every finished stage is a model folder that later runs start from.

    python -m studies.multitask --output runs/multitask/bert --backbone bert-base-uncased
    python -m studies.multitask --output runs/multitask/paper --preset paper --quora.train ... --nli.train ...

A stage's folder is named after all stages up to it, so configurations that begin alike share their first
stages and a killed grid repeats at most the epoch it was in. Source: Yao 2023 (SEQ-MT).
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable
from pathlib import Path

from corpora.support.cli import log_to
from corpora.support.config import config_to_json
from corpora.support.errors import UserError
from corpora.support.files import read_json, read_record, write_json, write_record
from senteval_runner.cells import read_cell
from studies.finetune.backbone import chosen, ready
from studies.finetune.examples import Fixed, Sampled, Source, Stream
from studies.finetune.loop import Row, Schedule, Task, fit
from studies.multitask.config import MultitaskConfig
from studies.multitask.net import MultitaskNet, State
from studies.multitask.paper import BACKBONE
from studies.multitask.report import AfterStage, Outcome, best
from studies.multitask.stages import GRID, TASKS, Stages, TaskName, name_of, parse_stages
from studies.multitask.tasks import TaskExamples, read_all_tasks

# Options that do not change any number may differ between runs over one output folder.
FREE_OPTIONS = ("output", "preset", "stages", "grid", "save_every")

Tasks = dict[TaskName, TaskExamples]
Report = Callable[[str], None]


def run(config: MultitaskConfig) -> list[Outcome]:
    """Run the stages or the grid; the three configurations that are best on dev are scored on test.

    Writes ``results.json``.

    Raises:
        UserError: a bad stage, no backbone or one that cannot be loaded, missing data, or a folder of other
            options.
    """
    start, sequences = _checked(config)
    _refuse_other_options(config)
    tasks = read_all_tasks(config)
    log = log_to(config.output).info
    write_json(config.output / "multitask.json", _binding_options(config))
    for name, task in tasks.items():
        log(f"{name}: {task.describe()}")
    backbone = _backbone(config, start, tasks, log)
    outcomes: list[Outcome] = []
    states: dict[str, State] = {}
    for sequence in sequences:
        state = State(backbone, {})
        after = [
            run_stage(config, tasks, sequence[: place + 1], state, log) for place in range(len(sequence))
        ]
        outcomes.append(Outcome(name=name_of(sequence), after=after))
        states[name_of(sequence)] = state
        _write(config, outcomes)
    for outcome in best(outcomes):
        outcome.test = _test_scores(config, tasks, parse_stages(outcome.name), states[outcome.name])
        _write(config, outcomes)
    return outcomes


def _checked(config: MultitaskConfig) -> tuple[str, list[Stages]]:
    """Backbone and configurations, before anything is read."""
    config.tiny.heads()
    return chosen(config.backbone, BACKBONE), sequences_of(config)


def _write(config: MultitaskConfig, outcomes: list[Outcome]) -> None:
    results = [dataclasses.asdict(outcome) for outcome in outcomes]
    write_json(config.output / "results.json", {"options": config_to_json(config), "results": results})


def _backbone(config: MultitaskConfig, start: str, tasks: Tasks, log: Report) -> str:
    """Name or folder of the encoder to start from; a tiny one is made."""

    def texts() -> list[str]:
        return [text for name in TASKS for text in tasks[name].train.texts()]

    return ready(start, config.output / "backbone", texts, config.tiny, seed=config.seed, report=log)


def run_stage(
    config: MultitaskConfig, tasks: Tasks, sequence: Stages, state: State, log: Report
) -> AfterStage:
    """Train ``sequence[-1]`` from where ``sequence[:-1]`` ended, unless it is done; update ``state``."""
    stage = sequence[-1]
    folder = _folder(config, sequence)
    done = folder / "stage.json"
    if read_cell(done) is None:
        log(f"stage {name_of(sequence)}")
        net = MultitaskNet(config, stage, state)
        net.encoder.prepare(text for task in tasks.values() for text in task.texts())
        train_stage(config, net, tasks, folder, log)
        dev = net.scores(tasks, "dev", TASKS)
        net.save(folder)
        write_record(
            done, dataclasses.asdict(AfterStage(stage=str(stage), trained=sorted(net.trained), dev=dev))
        )
        shutil.rmtree(folder / "training")
        log("  ".join(f"{name} {value:.4f}" for name, value in dev.items()))
    state.backbone = str(folder)
    state.heads.pop(stage.task, None)  # the latest stage goes last
    state.heads[stage.task] = folder
    return AfterStage(**read_record(done))


def _folder(config: MultitaskConfig, sequence: Stages) -> Path:
    return config.output / "stages" / "+".join(stage.slug for stage in sequence)


def _test_scores(config: MultitaskConfig, tasks: Tasks, sequence: Stages, state: State) -> dict[str, float]:
    """Test scores of a finished configuration, kept beside its last stage."""
    path = _folder(config, sequence) / "test.json"
    if read_cell(path) is None:
        net = MultitaskNet(config, sequence[-1], state).eval()
        net.encoder.prepare(text for task in tasks.values() for text in task.texts())
        write_record(path, net.scores(tasks, "test", TASKS))
    return read_record(path)


def train_stage(config: MultitaskConfig, net: MultitaskNet, tasks: Tasks, folder: Path, log: Report) -> None:
    """Some epochs on one task; the weights of the epoch with the best overall dev score stay."""
    streams, schedule, evaluate = _stage_schedule(config, net, tasks)
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
    config: MultitaskConfig, net: MultitaskNet, tasks: Tasks
) -> tuple[dict[str, Task], Schedule, Callable[[], Row]]:
    """Batches, length and dev scores of a stage."""
    stage = net.stage
    source: Source = Fixed(tasks[stage.task].train)
    if stage.sampled:
        source = Sampled(tasks[stage.task].train, 0.1, config.seed, str(stage))
    stream = Stream(source, config.batch_size, config.seed, stage.task)
    head = net.head(stage.task)
    # The overall score leaves NLI out, so its dev set is scored after an epoch only where it is trained.
    scored = [task for task in TASKS if task in ("sst", "quora", "sts", stage.task)]

    def evaluate() -> Row:
        return dict(net.scores(tasks, "dev", scored))

    schedule = Schedule(
        cycle=(stage.task,),
        steps=config.epochs * stream.batches_per_pass,
        evaluate_every=stream.batches_per_pass,
        save_every=config.save_every,
        select="overall",
        identity={"stage": str(stage)},
    )
    return {stage.task: Task(stream, lambda examples: head.loss(net.encoder, examples))}, schedule, evaluate


def sequences_of(config: MultitaskConfig) -> list[Stages]:
    """The configurations to run.

    Raises:
        UserError: one cannot be read, or ``--grid`` names no file that has one.
    """
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


def _binding_options(config: MultitaskConfig) -> dict[str, object]:
    """The options that decide the numbers of a stage."""
    return {key: value for key, value in config_to_json(config).items() if key not in FREE_OPTIONS}


def _refuse_other_options(config: MultitaskConfig) -> None:
    """Refuse to continue a folder made with options that change its numbers."""
    path = config.output / "multitask.json"
    if path.exists() and read_json(path) != _binding_options(config):
        raise UserError(f"{path}: this folder was made with other options; use another --output")
