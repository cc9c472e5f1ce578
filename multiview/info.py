"""Show the views, words, parsers, metrics and progress of a model or training run.

python -m multiview.info runs/models/dep-const-laptop
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import tyro

from corpora.support.cli import Command
from corpora.support.config import configuration
from corpora.support.errors import UserError
from corpora.support.files import read_json


@configuration
class InfoConfig:
    """Options of ``python -m multiview.info``."""

    run: Annotated[Path, tyro.conf.Positional]
    """Model folder, finished or in training."""
    plot: bool = False
    """Draw curves.png again from the log."""


def main(config: InfoConfig) -> int:
    """Print a summary of a model or run."""
    from multiview.training.log import plot_curves, read_log

    folder = config.run
    if not any((folder / name).exists() for name in ("config.json", "train.json", "trained")):
        raise UserError(f"{folder}: neither a model nor a training run")
    if (folder / "config.json").exists():
        _print_model(folder, read_json(folder / "config.json"))
    log = read_log(folder / "log.jsonl")
    train = [line for line in log if line["kind"] == "train"]
    if train:
        last = train[-1]
        print(f"progress   step {last['step']}, epoch {last['epoch'] + 1}, loss {last['loss']:.3f}")
        print(f"speed      {last['sentences_per_s']:.0f} sentences/s in the last step")
    for line in (line for line in log if line["kind"] == "validation"):
        print(f"validated  step {line['step']:>6}  loss {line['loss']:.4f}  recall@1 {line['recall@1']:.4f}")
    checkpoints = sorted(path.name for path in (folder / "checkpoints").glob("step-*"))
    if checkpoints:
        print(f"resumable  {', '.join(checkpoints)}")
    if config.plot:
        print(f"curves     {plot_curves(folder)}")
    return 0


def _print_model(folder: Path, config: dict[str, Any]) -> None:
    if "members" in config:
        print(f"model      {folder}: {' + '.join(config['members'])}, concatenated")
        for name in config["members"]:
            _print_model(folder / name, read_json(folder / name / "config.json"))
        return
    for key in ("views", "encoder", "words", "parsers", "training"):
        if key not in config:
            raise UserError(f"{folder / 'config.json'}: not a model's configuration (no {key!r})")
    views, words = config["views"], config["words"]
    print(
        f"model      {folder}: views {', '.join(views)}, {len(views) * config['encoder']['dim']} dimensions"
    )
    print(
        f"words      {words['mode']}, size {words['dim']}, {words['buckets']} hash buckets, "
        f"case {words['case']}"
    )
    for need, identity in sorted(config["parsers"].items()):
        print(f"{need:<10} {identity.get('name', '?')} {identity.get('version', '')}")
    best = config["training"].get("best", {})  # a fine-tuned model has none
    if best.get("anchors"):
        before = config["training"]["untrained"]["recall@1"]
        print(f"best       step {best['step']}: recall@1 {best['recall@1']:.4f} ({before:.4f} untrained)")


cli = Command(
    InfoConfig,
    main,
    "multiview.info",
    "Views, metrics and progress of a model or training run.",
    kept="nothing was changed",
)


if __name__ == "__main__":
    sys.exit(cli())
