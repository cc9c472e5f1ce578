"""Judges a pair of sentences, or a file of pairs.

    python -m multiview.judge "How do I enable 2FA?" "How do I disable 2FA?"
    python -m multiview.judge pairs.tsv

A file has two sentences a row, with a tab between them, and perhaps a label, 1 where both say the same, else
0. A first line may name the columns, ``sentence1``, ``sentence2`` and ``label``, perhaps among others. For
each row the command prints the probability, both sentences and the reasons; with labels the last line
says how often they are met.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
from tyro.conf import Positional, arg

from corpora.inputs import bad_row, text_lines
from corpora.training_pairs import unquote
from multiview.judge.judge import Judge
from multiview.judge.weights import area_under_curve
from runtime.cli import Command, configuration
from runtime.errors import UserError, printable

COLUMNS = ("sentence1", "sentence2")


@configuration
class JudgeConfig:
    """Options of ``python -m multiview.judge``."""

    a: Annotated[Positional[str], arg(metavar="SENTENCE|FILE")]
    """A sentence; or, alone, a file with two sentences a row and a tab between them, and perhaps a label."""
    b: Annotated[Positional[str | None], arg(metavar="SENTENCE")] = None
    """Another sentence."""
    judge: str = "pairs"
    """pairs; pairs-with-mrpc, for research only; or the JSON file of a judge of your own."""


def read_file(path: Path) -> tuple[list[tuple[str, str]], list[int]]:
    """Return the pairs of a file, and their labels if it has any; a row that is none is a UserError."""
    pairs: list[tuple[str, str]] = []
    labels: list[int] = []
    places, label_place = [0, 1], 2
    count = 0
    for line in text_lines(path):
        cells = [unquote(cell.strip()) for cell in line.text.split("\t")]
        names = [cell.lower() for cell in cells]
        if not count and set(COLUMNS) <= set(names):
            places = [names.index(name) for name in COLUMNS]
            label_place = names.index("label") if "label" in names else len(names)
            count = len(cells)
            continue
        if not count and len(cells) not in (2, 3):
            raise bad_row(path, line.number, "two sentences and perhaps a label", line.text)
        count = count or len(cells)
        if len(cells) != count or not all(cells[place] for place in places):
            raise bad_row(path, line.number, f"{count} cells, as before, and two sentences", line.text)
        pairs.append((cells[places[0]], cells[places[1]]))
        if label_place < count:
            if cells[label_place] not in ("0", "1"):
                raise bad_row(path, line.number, "a label 0 or 1", cells[label_place])
            labels.append(int(cells[label_place]))
    if not pairs:
        raise UserError(f"{path}: holds no rows")
    return pairs, labels


def agreement(probabilities: Sequence[float], labels: Sequence[int]) -> str:
    """Say how often the probability is on the label's side of 0.5, and the area under the ROC curve."""
    chance_n, label_n = np.array(probabilities), np.array(labels) > 0
    accuracy = ((chance_n > 0.5) == label_n).mean()
    text = f"accuracy {100 * accuracy:.1f}"
    if label_n.any() and not label_n.all():
        text += f", area under the ROC curve {100 * area_under_curve(chance_n, label_n):.1f}"
    return f"{text}, of {len(label_n)} pairs"


def main(config: JudgeConfig) -> None:
    """Print judgements."""
    if config.b is not None:
        for line in str(Judge.load(config.judge)(config.a, config.b)).split("\n"):
            print(printable(line))
        return
    if not os.path.exists(config.a):  # unlike Path.exists, false for a sentence longer than a name may be
        raise UserError(f"{config.a}: no such file; to judge two sentences, give both, each in quotes")
    pairs, labels = read_file(Path(config.a))
    judgements = Judge.load(config.judge).pairs(pairs)
    for (a, b), judgement in zip(pairs, judgements, strict=True):
        cells = (f"{judgement.probability:.4f}", a, b, "; ".join(judgement.shown_reasons))
        print(*map(printable, cells), sep="\t")
    if labels:
        print(agreement([judgement.probability for judgement in judgements], labels))


cli = Command(
    JudgeConfig,
    main,
    "multiview.judge",
    "Do two sentences say the same? A probability, and reasons.",
    kept_work="nothing was written",
)


if __name__ == "__main__":
    sys.exit(cli())
