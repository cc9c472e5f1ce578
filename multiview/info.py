"""Show the views, words, parsers, metrics and progress of a model or training run.

python -m multiview.info runs/models/dep-const-laptop
"""

from __future__ import annotations

import sys
from pathlib import Path

from tyro.conf import Positional

from corpora.support.cli import Command, configuration
from corpora.support.errors import UserError


@configuration
class InfoConfig:
    """Options of ``python -m multiview.info``."""

    run: Positional[Path]
    """Model folder, finished or in training, or builtin."""


def main(config: InfoConfig) -> int:
    """Print a summary of a model or run."""
    from multiview.folder.files import model_folder
    from multiview.model import MultiViewEncoder
    from parsing.training.loop import read_log

    folder = model_folder(config.run)
    if not any((folder / name).exists() for name in ("config.json", "train.json", "trained")):
        raise UserError(f"{folder}: neither a model nor a training run")
    if (folder / "config.json").exists():
        print(MultiViewEncoder.load(config.run, "cpu"))
    log = read_log(folder / "log.jsonl")
    train = [line for line in log if line["kind"] == "train"]
    if train:
        last = train[-1]
        print(f"progress   step {last['step']}, loss {last['loss']:.3f}")
        print(f"speed      {last['sentences_per_s']:.0f} sentences/s in the last step")
    for line in (line for line in log if "recall@1" in line):
        print(f"validated  step {line['step']:>6}  loss {line['loss']:.4f}  recall@1 {line['recall@1']:.4f}")
    checkpoints = sorted(path.name for path in (folder / "checkpoints").glob("step-*"))
    if checkpoints:
        print(f"resumable  {', '.join(checkpoints)}")
    return 0


cli = Command(
    InfoConfig,
    main,
    "multiview.info",
    "Views, metrics and progress of a model or training run.",
    kept="nothing was changed",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
