"""What SEQ-MT (Yao 2023) states: sizes of its data, scores of its tables, its settings as a preset."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from studies.multitask.stages import TaskName


@dataclass(frozen=True)
class Published:
    """A row of Table 1 or 2: fractions, STS as Pearson's correlation."""

    sst: float
    quora: float
    sts: float
    nli: float | None
    """SNLI accuracy; the paper has it for five rows."""
    overall: float

    def scores(self) -> tuple[float | None, ...]:
        """In the order of the table's columns, the overall score left out."""
        return self.sst, self.quora, self.sts, self.nli


TABLE_1: Mapping[str, Published] = {
    "SA": Published(0.515, 0.570, -0.101, None, 0.512),
    "P": Published(0.201, 0.901, 0.577, None, 0.630),
    "STS": Published(0.142, 0.563, 0.834, None, 0.541),
    "SA-P-STS": Published(0.481, 0.903, 0.836, 0.118, 0.768),
    "SA-P-STS(C)": Published(0.516, 0.891, 0.592, None, 0.734),
    "SA-P-STS(M)": Published(0.519, 0.898, 0.800, 0.321, 0.772),
    "SA-P(C)-STS(C)": Published(0.488, 0.875, 0.641, None, 0.728),
    "SA-P(M)-STS(M)": Published(0.516, 0.868, 0.799, 0.317, 0.761),
    "SA-P(X)-STS(X)": Published(0.510, 0.850, 0.725, None, 0.741),
    "SA-P[sub]-STS(M)": Published(0.509, 0.849, 0.809, None, 0.754),
    "SA-P[sub](M)-STS(M)": Published(0.510, 0.856, 0.801, None, 0.755),
    "SA-P(M)*-STS(M)": Published(0.507, 0.894, 0.813, 0.330, 0.769),
    "SA-P-STS(M)-NLI(M)": Published(0.492, 0.834, 0.754, 0.855, 0.730),
}
"""Dev scores. The last row's overall score is not the mean of its parts (0.734), the others' are."""

TABLE_2: Mapping[str, Published] = {
    "SA-P-STS(M)": Published(0.498, 0.896, 0.804, None, 0.765),
    "SA-P(M)*-STS(M)": Published(0.484, 0.894, 0.836, None, 0.765),
    "SA-P(M)-STS(M)": Published(0.510, 0.865, 0.800, None, 0.758),
}
"""Test scores of the three that are best on dev."""

SIZES: Mapping[TaskName, tuple[int, int, int]] = {
    "sst": (8_544, 1_101, 2_210),
    "quora": (283_010, 40_429, 80_859),
    "sts": (6_040, 863, 1_725),
    "nli": (549_367, 9_842, 9_824),
}
"""Train, dev and test examples (section 5.1)."""

BACKBONE = "bert-base-uncased"
"""BERT-base; that the paper's is uncased is our reading."""

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "paper": {
        "preset": "paper",
        "grid": "paper",
        "backbone": BACKBONE,
        "splits": "paper",
        "dev_rows": 0,
    }
}
"""``paper``: what differs from the defaults, which are the paper's otherwise."""
