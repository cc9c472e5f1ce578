"""Metrics of recent steps that are still on the device.

A GPU runs behind the program that feeds it. Reading a number waits until the device has caught up, and then
the device waits for the program. So the metrics of a step stay on the device, and those of many steps are
read at once. What must not wait, the refusal of a gradient that is not finite, is decided on the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from corpora.support.errors import UserError


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
                    "--optimiser.learning-rate or --optimiser.clip and start with --fresh"
                )
        return [dict(zip(self.names, row, strict=True)) for row in rows]
