"""Make a model folder loadable by sentence-transformers.

    python -m multiview.export runs/models/dep-const-laptop

Writes ``modules.json`` and what goes with it into the folder; see
``multiview/folder/sentence_transformers.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import configuration


@configuration
class ExportConfig:
    """Options of ``multiview.export``."""

    model: Positional[Path]
    """Model folder."""
    dry_run: bool = False
    """Print the configuration, the model's parameters and an estimate of the time; write nothing."""


def main(config: ExportConfig) -> None:
    """Export one folder."""
    if config.dry_run:
        print(dry_run(config))
        return
    from multiview.folder.sentence_transformers import export

    export(config.model)
    print(f"loads with SentenceTransformer({str(config.model)!r}, trust_remote_code=True)")


def dry_run(config: ExportConfig) -> str:
    """What the export would take: its libraries and the model are loaded, its files made in memory."""
    import json
    import time

    from corpora.support.dry_run import Work, dry_run_text, rate

    began = time.perf_counter()
    from multiview.folder.files import load_members
    from multiview.folder.sentence_transformers import export_files
    from multiview.training.network import parameter_counts

    load = Work(name="libraries", units=1, unit="time", per_s=1 / (time.perf_counter() - began))
    files = export_files()
    per_s = rate(lambda value: bool(json.dumps(value)), files.values())
    members = load_members(config.model)
    return dry_run_text(
        config,
        facts={"files": ", ".join(files)},
        parameters={
            f"{part} {number}" if len(members) > 1 else part: count
            for number, member in enumerate(members)
            for part, count in parameter_counts(member.network).items()
        },
        disk_bytes=sum(len(json.dumps(value)) for value in files.values()),
        work=[load, Work(name="write", units=len(files), unit="files", per_s=per_s)],
    )


cli = Command(
    ExportConfig, main, "multiview.export", "Make a model folder loadable by sentence-transformers."
)


if __name__ == "__main__":
    sys.exit(cli())
