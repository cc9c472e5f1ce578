"""Train the sentence encoder that ships: text, trees, a teacher's vectors, views, a compact copy.

    python -m tools.train_encoder --texts books.txt.xz wikipedia.txt.xz --teacher MODEL

A text has a sentence a line and a blank line after each document; ``MODEL`` is a sentence-transformers model.
Every step is an ordinary command, printed before it runs. A stopped run goes on where it was, and finished
steps take seconds. The encoder is the folder ``compact`` of the output folder.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Literal

from corpora.support.cli import Command
from corpora.support.config import Count, configuration
from corpora.support.errors import UserError
from corpora.support.steps import run_step
from tools.train_parsers import sample


@configuration
class TrainEncoderConfig:
    """Options of ``tools.train_encoder``; the defaults made the encoder that ships."""

    texts: tuple[Path, ...]
    """Text to learn from."""
    teacher: str | None = None
    """Sentence encoder that the views learn from; --words own needs none."""
    words: Literal["taught", "own"] = "taught"
    """Vectors of words: fitted to the teacher's sentences, beside skip-grams of the texts; or skip-grams
    beside random vectors of n-grams, for an encoder that has seen nothing but the texts."""
    output: Path = Path("runs/encoder")
    """Folder for text, trees, the teacher's vectors and models."""
    sentences: Count = 200_000
    """Sentences of text, an equal part of each file (or all that it has), in documents spread over it."""
    steps: Count = 2200
    """Steps of training."""
    threads: Count = 2
    """CPU threads of training; another number gives other last bits."""


def main(config: TrainEncoderConfig) -> None:
    """Run the chain."""
    from corpora.support.files import write_text

    out = config.output
    if (config.teacher is None) != (config.words == "own"):
        raise UserError(f"--words {config.words}: {'give no' if config.teacher else 'needs a'} --teacher")
    text, whole, trees, taught = (out / name for name in ("text.txt", "all.txt", "trees", "teacher"))
    for path, sentences in ((text, config.sentences), (whole, EVERYTHING)):
        if not path.exists():
            write_text(path, "".join(sample(config.texts, sentences)))
    run_step("parse", "parsing.run", text, "--tokenize", "spacy", "--output", trees)
    teacher = config.teacher or f"sif:ngrams@1000?corpus={trees}"
    run_step("teach", "senteval_runner.teach", teacher, "--trees", trees, "--output", taught)
    vectors = WORDS[config.words].format(teacher=teacher, text=whole)
    run_step("train", "multiview.train", *RECIPE, "--trees", trees,
             "--vectors", vectors, "--teacher.vectors", taught,
             "--loop.max-steps", config.steps, "--loop.threads", config.threads,
             "--output", out, "--name", "model")  # fmt: skip
    run_step("compact", "multiview.compact", out / "model", *READING, "--scale", *FACTORS[config.words],
             "--output", out / "compact")  # fmt: skip


EVERYTHING = 10**9
"""More sentences than any text has."""
WORDS = {
    "taught": "taught:{teacher}@384+0.35*train:{text}@256",
    "own": "ngrams@384+0.5*train:{text}@256",
}
RECIPE = (
    *("--views", "dep,const,seq", "--words", "fixed", "--vocabulary.size", 40_000),
    *("--vocabulary.buckets", 0),  # added to the trained encoder, see READING
    *("--encoder.dim", 320, "--encoder.pooling", "root+mean"),
    *("--objective.score", "cosine", "--objective.same", 1, "--objective.duplicates", "masked"),
    *("--table.dropout", 0.1, "--table.dropout-views", "each"),
    *("--teacher.similarity", 1000, "--optimiser.learning-rate", 3e-3),
    *("--loop.batch", 200, "--validation.select", "both"),
)
"""Options of training; docs/recipe.md says how they were found."""

READING = (
    *("--bits", 4, "--pooling", "root,mean,max", "--buckets", 2000),
    *("--add", "bag", "hash"),
)
"""How the finished encoder is stored and read."""
FACTORS = {
    "taught": (0.75, 0.75, 0.5, 0.75, 14),
    "own": (0.75, 0.75, 0.5, 0.5, 28),
}
"""What each view is multiplied by: without a teacher, random vectors know most of similarity."""

cli = Command(TrainEncoderConfig, main, "tools.train_encoder", "Train the sentence encoder of the package.")


if __name__ == "__main__":
    sys.exit(cli())
