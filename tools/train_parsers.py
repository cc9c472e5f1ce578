"""Train the two parsers that ship: teachers over a small transformer, text parsed by them, students on both.

    python -m tools.train_parsers --treebanks DIR --transformer FOLDER --texts books.txt.xz wikipedia.txt.xz

``DIR`` holds ``gum/{train,dev}.{conllu,ptb}`` and ``ewt/train.conllu``; a text has a sentence a line and a
blank line after each document. Every step is an ordinary command, printed before it runs. A stopped run goes
on where it was, and finished steps take seconds. The students are ``both/dep`` and ``both/const`` in the
output folder, over one sentence encoder.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.support.cli import Command
from corpora.support.config import Count, Fraction, configuration
from corpora.support.steps import run_step

EXCLUDED = "GUM_conversation_"
"""GUM's genre of unclear licence."""


@dataclass(frozen=True)
class Stage:
    """One training of the students, which goes on from the one before."""

    folder: str
    version: int
    dropout: float
    embedding_dropout: float
    learning_rate: float


STAGES = (
    Stage("first", 2, 0.25, 0.25, 2e-3),
    # The students are too small to learn the trees by heart: with a quarter of dropout they fit even GUM's
    # training trees badly (LAS 89). One more pass with less raised LAS on dev by 1.0 and F1 by 0.8.
    Stage("second", 3, 0.08, 0.12, 2e-3),
    Stage("both", 3, 0.04, 0.08, 1e-3),
)


@configuration
class TrainParsersConfig:
    """Options of ``tools.train_parsers``; the defaults made the parsers that ship."""

    treebanks: Path
    """Folder with gum/ and ewt/."""
    transformer: Path
    """Folder of the pretrained transformer that the teachers start from."""
    texts: tuple[Path, ...]
    """Text for the teachers to parse."""
    output: Path = Path("runs/parsers")
    """Folder for teachers, text, trees and students."""
    sentences: Count = 160_000
    """Sentences of text, an equal part of each file, in documents spread over it."""
    consistent: Fraction = 0.85
    """Parsed sentences are learned from if their two trees agree at least so far (parsing.export_trees)."""
    start_epochs: Count = 30
    """Passes over GUM and EWT of the dependency parser whose weights the students start from."""
    teacher_dep_epochs: Count = 4
    """Passes over GUM and EWT."""
    teacher_const_epochs: Count = 6
    """Passes over GUM."""
    gold_copies: Count = 3
    """How often the students meet the treebanks for each time that they meet the parsed text."""
    student_epochs: tuple[Count, Count, Count] = (4, 4, 1)
    """Passes of the students over parsed text and copies of the treebanks, each time with less dropout."""


def main(config: TrainParsersConfig) -> None:
    """Run the chain."""
    from corpora.support.files import write_text

    out, gum, ewt = config.output, config.treebanks / "gum", config.treebanks / "ewt"
    gold = {"dep": [ewt / "train.conllu", gum / "train.conllu"], "const": [gum / "train.ptb"]}
    dev = {"dep": gum / "dev.conllu", "const": gum / "dev.ptb"}
    pretrained = ("--transformer", config.transformer, "--loop.learning-rate", 2e-3,
                  "--loop.pretrained-rate", 0.1, "--loop.beta2", 0.98, "--loop.warmup", 0.05,
                  "--loop.checkpoint-s", 300)  # fmt: skip
    teacher_epochs = {"dep": config.teacher_dep_epochs, "const": config.teacher_const_epochs}
    for kind in ("dep", "const"):
        run_step(
            f"teacher {kind}", "parsing.train", kind, "--train", *gold[kind], "--dev", dev[kind],
            "--exclude-documents", EXCLUDED, "--output", out / f"teacher-{kind}", *pretrained,
            "--loop.epochs", teacher_epochs[kind], *(("--loop.average", 0.998) if kind == "dep" else ()),
        )  # fmt: skip
    text = out / "silver.txt"
    if not text.exists():
        write_text(text, "".join(sample(config.texts, config.sentences)))
    run_step("parse text", "parsing.run", text, "--dep-model", out / "teacher-dep",
             "--const-model", out / "teacher-const", "--output", out / "silver")  # fmt: skip
    silver = {"dep": out / "silver.conllu", "const": out / "silver.ptb"}
    run_step("choose sentences", "parsing.export_trees", out / "silver", "--conllu", silver["dep"],
             "--ptb", silver["const"], "--consistent", config.consistent, "--skip-flagged")  # fmt: skip
    run_step("start", "parsing.train", "dep", "--train", *gold["dep"], "--dev", dev["dep"],
             "--exclude-documents", EXCLUDED, "--output", out / "start",
             "--loop.epochs", config.start_epochs)  # fmt: skip
    students = (
        *("--train-dep", *gold["dep"] * config.gold_copies, silver["dep"], "--dev-dep", dev["dep"]),
        *("--train-const", *gold["const"] * config.gold_copies, silver["const"], "--dev-const", dev["const"]),
        *("--exclude-documents", EXCLUDED, "--name", "builtin", "--model.min-count", 8),
        *("--loop.batch-tokens", 1200, "--loop.parallel", 2),
    )
    start = out / "start"
    for stage, epochs in zip(STAGES, config.student_epochs, strict=True):
        run_step(f"students, {stage.folder}", "parsing.train", "both", *students, "--loop.epochs", epochs,
                 "--loop.learning-rate", stage.learning_rate, "--model.encoder.dropout", stage.dropout,
                 "--model.encoder.embedding-dropout", stage.embedding_dropout,
                 "--model.scorer.dropout", stage.dropout, "--version", stage.version,
                 "--start-from", start, "--output", out / stage.folder)  # fmt: skip
        start = out / stage.folder


def sample(texts: Sequence[Path], sentences: int) -> Iterator[str]:
    """Lines of whole documents, spread evenly over each text, with a blank line after each.

    Args:
        texts: files with a sentence a line and blank lines between documents.
        sentences: about how many in all, the same number of each file (or all that it has).
    """
    from corpora.inputs import read_lines

    for path in texts:
        total = sum(1 for line in read_lines(path) if line.text.strip())
        share = sentences / len(texts) / max(total, 1)
        taken, met = 0, 0
        document: list[str] = []
        for text in (*(line.text for line in read_lines(path)), ""):
            if text.strip():
                document.append(text)
            elif document:
                met += len(document)
                if taken < share * met:
                    taken += len(document)
                    yield from (f"{sentence}\n" for sentence in document)
                    yield "\n"
                document = []


cli = Command(TrainParsersConfig, main, "tools.train_parsers", "Train the parsers of the package.")


if __name__ == "__main__":
    sys.exit(cli())
