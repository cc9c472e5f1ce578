"""The log of a run: JSON lines, TensorBoard events if it is installed, and a picture of the curves.

A GPU runs behind the program that feeds it. Reading a number waits until the device has caught up, and then
the device waits for the program. So the metrics of a step stay on the device (:class:`Unread`), and those of
many steps are read at once. What must not wait, the refusal of a gradient that is not finite, is decided on
the device.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import atomic_path

NEEDED = {"train": {"loss", "epoch", "sentences_per_s"}, "validation": {"loss", "recall@1"}}
"""The numbers that every line of a kind has."""


class Unread:
    """The metrics of the steps since the last reading.

    Args:
        names: of a step's metrics; the first is the loss. The gradient's norm is added to them.
        device: where the metrics are.
    """

    def __init__(self, names: Sequence[str], device: torch.device) -> None:
        self.names = [*names, "gradient_norm"]
        self.stopped = torch.zeros((), device=device)
        """float32 scalar: 1 from the first step on whose loss or gradient is not finite."""
        self._steps: list[int] = []
        self._values: list[Tensor] = []

    def __len__(self) -> int:
        return len(self._steps)

    def add(self, step: int, metrics: Tensor, norm: Tensor) -> None:
        """Keep a step's metrics, and see whether it may still change the weights (:attr:`stopped`).

        Args:
            step: its number, from 1.
            metrics: float64 [M].
            norm: of the gradient, scalar.
        """
        finite = torch.isfinite(metrics[0]) & torch.isfinite(norm)
        self.stopped = torch.maximum(self.stopped, (~finite).float())
        self._steps.append(step)
        self._values.append(torch.cat([metrics, norm.double()[None]]))

    def read(self) -> list[dict[str, float]]:
        """Wait for the device and return the metrics of each step.

        Raises:
            UserError: a loss or gradient was not finite; no weight was changed from that step on.
        """
        if not self._steps:
            return []
        rows = torch.stack(self._values).tolist()
        steps, self._steps, self._values = self._steps, [], []
        for step, row in zip(steps, rows, strict=True):
            loss, norm = row[0], row[-1]
            if not (math.isfinite(loss) and math.isfinite(norm)):
                raise UserError(
                    f"step {step}: loss {loss}, gradient norm {norm}; stopped before the update. Lower "
                    "--loop.learning-rate and give another --name"
                )
        return [dict(zip(self.names, row, strict=True)) for row in rows]


class TrainingLog:
    """``log.jsonl`` and TensorBoard events of one run.

    Args:
        folder: the model folder.
        step: the step to resume from, 0 to start; later lines are dropped because they are written again.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self.path = folder / "log.jsonl"
        # A run killed before its first checkpoint starts over and validates at step 0 once more.
        kept = [line for line in read_log(self.path) if line["step"] <= step] if step else []
        with atomic_path(self.path) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")
        self._stream = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 (closed in close)
        self._events = _event_writer(folder / "tensorboard", step)

    def write(self, kind: str, step: int, values: dict[str, Any]) -> None:
        """Append one line; its numbers also go to TensorBoard as ``kind/name``."""
        self._stream.write(json.dumps({"kind": kind, "step": step, **values}) + "\n")
        self._stream.flush()
        if self._events is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._events.add_scalar(f"{kind}/{name}", value, step)

    def close(self) -> None:
        """Close the log and the events."""
        self._stream.close()
        if self._events is not None:
            self._events.close()


def _event_writer(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:  # the extra "report" brings it
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)


def read_log(path: Path) -> list[dict[str, Any]]:
    """Lines of a log, without a last line that was cut off when the run was killed.

    Raises:
        UserError: a line (it is named) is not one of a training log.
    """
    if not path.exists():
        return []
    texts = path.read_bytes().split(b"\n")
    lines = []
    for number, text in enumerate(texts[:-1], start=1):  # after the last line break nothing, or a cut line
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):
            line = None
        if not _is_entry(line):
            shown = text[:40].decode("utf-8", "replace")
            raise UserError(f"{path}, line {number}: {shown!r} is not of a training log; remove the line")
        lines.append(line)
    return lines


def _is_entry(line: object) -> bool:
    """Whether a line has a kind and step, and numbers under the names that readers of the log need."""
    if not isinstance(line, dict) or type(line.get("step")) is not int or str(line.get("kind")) not in NEEDED:
        return False
    numbers = {name: value for name, value in line.items() if name != "kind"}
    return numbers.keys() >= NEEDED[str(line["kind"])] and all(
        type(v) in (int, float) for v in numbers.values()
    )


def plot_curves(folder: Path) -> Path:
    """Draw ``curves.png`` from ``log.jsonl``: the loss, and retrieval per pair of views and of the model.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("matplotlib", "report") from None
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    lines = read_log(folder / "log.jsonl")
    train = [line for line in lines if line["kind"] == "train"]
    validation = [line for line in lines if line["kind"] == "validation"]
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for label, kept, style in (("train", train, "-"), ("validation", validation, "o-")):
        width = 0.6 if kept is train else None
        steps, losses = [line["step"] for line in kept], [line["loss"] for line in kept]
        left.plot(steps, losses, style, linewidth=width, label=label)
    left.set(xlabel="step", ylabel="loss per anchor", title=folder.name)
    names = [name for name in (validation or train or [{}])[-1] if "@1" in name]
    for name in names:
        points = [(line["step"], line[name]) for line in validation or train if name in line]
        right.plot(*zip(*points, strict=True), "o-", label=name)
    right.set(xlabel="step", ylabel="fraction of sentences", title="nearest is a neighbour (validation)")
    for axis in (left, right):
        axis.grid(alpha=0.3)
        if axis.get_legend_handles_labels()[0]:
            axis.legend()
    with atomic_path(folder / "curves.png") as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    return folder / "curves.png"
