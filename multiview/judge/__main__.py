"""Judges a pair of sentences, or a file of pairs.

    python -m multiview.judge "How do I enable 2FA?" "How do I disable 2FA?"
    python -m multiview.judge pairs.tsv
    python -m multiview.judge pairs.tsv --labels
    python -m multiview.judge pairs.tsv --similarity

A row of a file has two sentences with a tab between them, and perhaps a label: 1 if both say the same, else
0. The first line may name the columns, ``sentence1``, ``sentence2`` and ``label``, in any order and among
others. For each row the command prints the probability, both sentences and the reasons. If there are labels,
the last line has the accuracy at the judge's threshold and the area under the ROC curve. ``--labels`` prints
instead, for ten thresholds, the hit rate (the share of the pairs that say the same which are accepted) and
the precision (the share of the accepted pairs that say the same), and draws the whole curve to
``pairs.tsv.png``. ``--similarity`` prints, before the probability, how alike the sentences are, from 0 to 1.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, Self

import numpy as np
from tyro.conf import Positional, arg

from corpora.inputs import Line
from corpora.tables import bad_row, check_header, text_lines
from corpora.training_pairs import unquote
from multiview.judge.judge import Judge, Judgement
from multiview.judge.thresholds import curve, upper_bound
from runtime.cli import Command, configuration
from runtime.errors import UserError, extra, printable
from runtime.files import atomic_path, output_file
from runtime.statistics import area_under_curve

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
    labels: bool = False
    """Print precision against hit rate of a file with labels, and draw it to FILE.png."""
    similarity: bool = False
    """Print how alike the sentences are, from 0 to 1, and the slots of two sentences."""
    similarity_weights: str = "free"
    """The weights that similarity is computed by: free; rated, for research only; or a JSON file."""


class Layout(NamedTuple):
    """Where the rows of a file have their cells."""

    sentences: tuple[int, int]
    """The columns of both sentences."""
    label: int | None
    """The column of the label; None if there are no labels."""
    cells: int
    """The number of cells of a row."""

    @classmethod
    def of_first_row(cls, path: Path, line: Line, cells: Sequence[str]) -> tuple[Self, bool]:
        """Return the layout of a file, and whether its first row names the columns.

        Raises UserError if that row neither names them nor has two sentences and perhaps a label.
        """
        names = [cell.lower() for cell in cells]
        if set(COLUMNS) <= set(names):
            check_header(path, line.number, names)
            label = names.index("label") if "label" in names else None
            first, second = (names.index(name) for name in COLUMNS)
            return cls((first, second), label, len(cells)), True
        if len(cells) not in (2, 3):
            raise bad_row(path, line.number, "two sentences and perhaps a label", line.text)
        return cls((0, 1), 2 if len(cells) == 3 else None, len(cells)), False


def read_file(path: Path) -> tuple[list[tuple[str, str]], list[int]]:
    """Return the pairs of a file, and their labels, [] if it has none.

    Raises UserError if the file has no rows, or if a row has other cells than two sentences and perhaps a
    label.
    """
    pairs: list[tuple[str, str]] = []
    labels: list[int] = []
    layout = None
    for line in text_lines(path):
        cells = [unquote(cell.strip()) for cell in line.text.split("\t")]
        if layout is None:
            layout, is_header = Layout.of_first_row(path, line, cells)
            if is_header:
                continue
        a, b = (cells[column] if column < len(cells) else "" for column in layout.sentences)
        if len(cells) != layout.cells or not (a and b):
            raise bad_row(path, line.number, f"{layout.cells} cells, as before, and two sentences", line.text)
        pairs.append((a, b))
        if layout.label is not None:
            if cells[layout.label] not in ("0", "1"):
                raise bad_row(path, line.number, "a label 0 or 1", cells[layout.label])
            labels.append(int(cells[layout.label]))
    if not pairs:
        raise UserError(f"{path}: holds no rows")
    return pairs, labels


def agreement(judgements: Sequence[Judgement], labels: Sequence[int]) -> str:
    """Return, as text, the accuracy at the judge's threshold and the area under the ROC curve."""
    probability_n = np.array([judgement.probability for judgement in judgements])
    is_same_n, label_n = np.array([judgement.same for judgement in judgements]), np.array(labels) > 0
    accuracy = (is_same_n == label_n).mean()
    text = f"accuracy {100 * accuracy:.1f}"
    if label_n.any() and not label_n.all():
        text += f", area under the ROC curve {100 * area_under_curve(probability_n, label_n):.1f}"
    return f"{text}, of {len(label_n)} pairs"


def show_curve(probabilities: Sequence[float], labels: Sequence[int], picture: Path) -> None:
    """Print precision and threshold for hit rates of 10, 20, ... 100 %, and draw the whole curve."""
    with extra("report"):
        from matplotlib.figure import Figure

    is_same_n = np.array(labels) > 0
    threshold_T, accepted_T, false_T = curve(np.array(probabilities), is_same_n)
    hit_rate_T, precision_T = (accepted_T - false_T) / is_same_n.sum(), 1 - false_T / accepted_T
    print("hit rate  precision  95 % bound  threshold")
    for wanted in range(10, 101, 10):
        index = int((hit_rate_T < wanted / 100 - 1e-9).sum())
        bound = 1 - upper_bound(false_T[index], accepted_T[index])
        rates = (hit_rate_T[index], precision_T[index], bound)
        print("{:7.1f}%  {:8.1f}%  {:9.1f}%".format(*(100 * float(r) for r in rates)), end="")
        print(f"  {threshold_T[index]:9.4f}")
    figure = Figure(figsize=(5, 4), layout="constrained")
    axis = figure.subplots()
    axis.plot(100 * hit_rate_T, 100 * precision_T)
    axis.set(xlabel="hit rate, %", ylabel="precision, %", xlim=(0, 100))
    axis.grid(alpha=0.3)
    with atomic_path(picture) as temporary:
        figure.savefig(temporary, format="png", dpi=120)
    print(picture)


def main(config: JudgeConfig) -> None:
    """Print the judgement of two sentences, or those of the pairs of a file."""
    if config.labels and config.b is not None:
        raise UserError("--labels: is for a file of pairs, not for two sentences")
    if config.labels and config.similarity:
        raise UserError("--similarity: is not printed with --labels; leave out one of them")
    if config.b is not None:
        judgement = Judge.load(config.judge, similarity=config.similarity_weights)(config.a, config.b)
        text = str(judgement)
        if config.similarity:
            slots = [f"  {slot} {cosine:.2f}" for slot, cosine in judgement.slots.items()]
            text = "\n".join([f"{judgement.similarity:.2f} alike; {text}", *slots])
        for line in text.split("\n"):
            print(printable(line))
        return
    if not os.path.exists(config.a):  # unlike Path.exists, false for a sentence longer than a name may be
        raise UserError(f"{config.a}: no such file; to judge two sentences, give both, each in quotes")
    pairs, labels = read_file(Path(config.a))
    if config.labels and len(set(labels)) < 2:
        raise UserError(f"{config.a}: --labels needs labels, 0 and 1")
    picture = output_file(Path(f"{config.a}.png")) if config.labels else None
    judgements = Judge.load(config.judge, similarity=config.similarity_weights).pairs(pairs)
    if picture is not None:
        show_curve([judgement.probability for judgement in judgements], labels, picture)
        return
    for (a, b), judgement in zip(pairs, judgements, strict=True):
        cells = (f"{judgement.probability:.4f}", a, b, "; ".join(judgement.shown_reasons))
        shown = (f"{judgement.similarity:.4f}", *cells) if config.similarity else cells
        print(*map(printable, shown), sep="\t")
    if labels:
        print(agreement(judgements, labels))


cli = Command(
    JudgeConfig,
    main,
    "multiview.judge",
    "Do two sentences say the same? A probability, and reasons.",
    kept_work="nothing was written",
)


if __name__ == "__main__":
    sys.exit(cli())
