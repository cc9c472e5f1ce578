"""The tower and the heads of all four tasks; what one stage hands to the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import nn

from corpora.support.files import atomic_path, read_json
from parsing.networks.device import pick_device
from senteval_runner.towers.config import Pooling
from senteval_runner.towers.transformer import Tower, load_tower
from studies.finetune.heads import TowerModule
from studies.multitask.config import MultitaskConfig
from studies.multitask.heads import TaskHead, overall
from studies.multitask.stages import TASKS, Stage, TaskName, parse_stages
from studies.multitask.tasks import TaskExamples


@dataclass
class State:
    """What a stage hands to the next: the folder of its model and the trained heads by task."""

    backbone: str
    heads: dict[TaskName, Path]
    """Per trained task, the stage folder that holds its head; the latest stage is last."""

    def trained(self) -> list[Stage]:
        """The stages whose heads these are, in order."""
        return [parse_stages(read_json(folder / "stage.json")["stage"])[0] for folder in self.heads.values()]


class MultitaskNet(TowerModule):
    """Tower and heads; those of other tasks stay as their stage left them.

    A task that has had no stage has a new head, in the style of the latest stage on pairs: an encoder
    trained on pooled sentences is asked about pooled sentences.
    """

    def __init__(self, config: MultitaskConfig, stage: Stage, state: State) -> None:
        trained = state.trained()
        device = pick_device(config.device)
        tower = load_tower(
            state.backbone,
            pooling=_pooling([*trained, stage]),
            max_length=config.max_length,
            dropout=config.dropout,
            device=device,
        )
        super().__init__(tower)
        self.stage = stage
        styles = {one.task: one for one in trained}
        self.heads = nn.ModuleDict()
        for task in TASKS:
            style = (
                stage
                if task == stage.task
                else styles.get(task) or _untrained(task, [*trained, stage], self.encoder)
            )
            head = TaskHead(style, self.encoder, config.seed)
            if task in styles and _form(styles[task]) == _form(style):
                head.load_state_dict(load_file(state.heads[task] / "head.safetensors"))
            self.heads[task] = head
        self.to(device)
        self.trained: set[str] = {*state.heads, stage.task}

    def head(self, task: str) -> TaskHead:
        """The head of a task."""
        return self.heads[task]  # type: ignore[return-value]

    def scores(
        self, examples: dict[TaskName, TaskExamples], part: str, tasks: Iterable[TaskName]
    ) -> dict[str, float]:
        """Metrics by task on one part (``dev`` or ``test``), with ``overall``.

        Args:
            examples: of all tasks.
            part: field of :class:`studies.multitask.tasks.TaskExamples`.
            tasks: which ones; sst, quora and sts must be among them.
        """
        found: dict[str, float] = {
            task: self.head(task).score(self.encoder, getattr(examples[task], part)) for task in tasks
        }
        return {**found, "overall": overall(found)}

    def save(self, folder: Path) -> None:
        """The tower as a model folder, the stage's head beside it."""
        self.cpu().encoder.save(folder)
        head = self.head(self.stage.task).state_dict()
        with atomic_path(folder / "head.safetensors") as temporary:
            save_file({name: tensor.contiguous() for name, tensor in head.items()}, temporary)


def _pooling(stages: list[Stage]) -> Pooling:
    """Pooling of the latest Siamese stage, so that the folder embeds as it was trained; else mean."""
    return next((stage.pooling for stage in reversed(stages) if stage.pooling), "mean")


def _untrained(task: TaskName, stages: list[Stage], tower: Tower) -> Stage:
    """Style of a head whose task has had no stage."""
    if task == "sst":
        return Stage(task)
    pairs = [stage for stage in stages if stage.task != "sst"]
    joint = pairs[-1].pooling is None if pairs else True
    return Stage(task, None if joint and tower.joint else _pooling(stages))


def _form(stage: Stage) -> tuple[Pooling | None, bool]:
    """What decides the shape and meaning of a head's weights."""
    return stage.pooling, stage.product
