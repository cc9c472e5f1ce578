"""Show the views, words, parsers, metrics and progress of a model or training run.

python -m multiview.info runs/models/dep-const-laptop
"""

from __future__ import annotations

import sys
from pathlib import Path

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import configuration
from corpora.support.errors import UserError


@configuration
class InfoConfig:
    """Options of ``python -m multiview.info``."""

    run: Positional[Path]
    """Model folder, finished or in training, or builtin."""


def main(config: InfoConfig) -> int:
    """Print a summary of a model or run."""
    from multiview.folder.files import member_names
    from multiview.folder.names import model_folder, near_model
    from multiview.training.log import read_log

    folder = model_folder(config.run)
    if not any((folder / name).exists() for name in ("config.json", "train.json", "trained")):
        near = near_model(folder).rstrip()
        raise UserError(f"{folder}: neither a model nor a training run{near and f'; {near}'}")
    if (folder / "config.json").exists():
        names = member_names(folder)
        if names != [""]:
            print(f"model      {folder}: {' + '.join(names)}, concatenated")
        for name in names:
            _print_model(folder / name)
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
    return 0


def _print_model(folder: Path) -> None:
    from multiview.encoders.registry import view_class
    from multiview.folder.files import member_record

    record = member_record(folder)
    views, words = record.views, record.words
    dim, pooling = record.encoder.dim, record.encoder.pooling
    sizes = [view_class(view).width_for(words.dim, dim, pooling) for view in views]
    print(f"model      {folder}: views {', '.join(views)}, {sum(sizes)} dimensions")
    print(f"words      {words.mode}, size {words.dim}, {words.buckets} hash buckets, case {words.case}")
    if record.storage == "compact":
        print(f"storage    compact, {sum(file.bytes for file in record.files.values()) / 1e6:.1f} MB")
    for need, identity in sorted(record.parsers.items()):
        print(f"{need:<10} {identity.get('name', '?')} {identity.get('version', '')}")
    best = record.training.get("best", {})  # a fine-tuned model has none
    if best.get("anchors"):
        before = record.training["untrained"]["recall@1"]
        name = f"step {best['step']}" if best["step"] else "the start"
        print(f"best       {name}: recall@1 {best['recall@1']:.4f} ({before:.4f} untrained)")


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
