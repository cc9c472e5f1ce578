"""EMP's Tables 1 and 2 as published, to be set beside ours: nothing here was computed by this program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from senteval_runner.report.table import Cell

SOURCE = "Ma et al. 2019, Universal Text Representation from BERT: An Empirical Study"
GROUPS = ("similarity", "classification", "entailment", "surface", "syntactic", "semantic")
"""Of the figures below, in the paper's order."""

TABLE_1: Mapping[str, tuple[float, ...]] = {
    "cls": (34.1, 90.7, 72.4, 45.6, 78.2, 90.3, 68.6),
    "mean": (84.5, 95.4, 89.3, 78.9, 86.0, 93.7, 88.0),
    "max": (80.7, 89.7, 87.1, 47.3, 75.7, 89.5, 78.3),
    "sep": (13.0, 88.9, 66.1, 42.8, 72.2, 86.7, 61.6),
}
"""By pooling: the groups, then the Average Score. Pre-trained BERT, mean over its twelve layers."""

TABLE_2: Mapping[tuple[str, str], tuple[float, ...]] = {
    ("BERT", "-1"): (82.2, 97.1, 88.8, 66.3, 89.5, 97.0, 86.8),
    ("BERT + MNLI", "-1"): (89.8, 97.2, 92.0, 61.2, 85.5, 96.3, 87.0),
    ("BERT + SNLI", "-1"): (97.6, 97.7, 97.5, 61.1, 85.9, 95.9, 89.3),
    ("BERT", "-1,-12"): (90.6, 97.1, 92.7, 87.4, 94.1, 97.4, 93.2),
    ("BERT + MNLI", "-1,-12"): (94.9, 98.0, 95.2, 89.4, 90.6, 96.4, 94.1),
    ("BERT + SNLI", "-1,-12"): (98.5, 98.0, 98.2, 89.4, 92.0, 96.0, 95.4),
    ("GloVe", "whole"): (76.7, 92.8, 88.2, 72.1, 71.0, 84.6, 80.9),
    ("Universal Sentence Encoder", "whole"): (99.1, 97.5, 97.8, 54.1, 71.5, 88.2, 84.7),
    ("InferSent", "whole"): (95.6, 95.3, 99.2, 58.5, 77.6, 90.7, 86.2),
}
"""By model and layers: the groups, then the Average Score. Mean pooling."""

TITLE = f"Published, not computed here: {SOURCE}, Table {{}}"
NOTE = (
    "Published rows are percentages of the best score among that paper's models; ours of the best in this "
    "report. The two scales differ where the models do."
)


def quoted(number: int, columns: Sequence[str]) -> list[list[Cell]]:
    """The rows of a published table.

    Args:
        number: 1 or 2.
        columns: names of the columns after the two labels: groups, or ``average``.
    """
    rows = {("BERT", pooling): values for pooling, values in TABLE_1.items()} if number == 1 else TABLE_2
    names = (*GROUPS, "average")
    return [[*labels, *(values[names.index(name)] for name in columns)] for labels, values in rows.items()]
