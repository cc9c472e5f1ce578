"""Make a model folder loadable by sentence-transformers.

    python -m multiview.export runs/models/dep-const-laptop

Writes ``modules.json`` and what goes with it into the folder; see ``multiview/st_adapter.py``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from corpora.support.cli import run_command


@dataclass(frozen=True, kw_only=True)
class ExportConfig:
    """Options of ``multiview.export``."""

    model: Positional[Path]
    """Model folder."""


def main(config: ExportConfig) -> None:
    """Export one folder."""
    from multiview.st_adapter import export

    export(config.model)
    print(f"loads with SentenceTransformer({str(config.model)!r}, trust_remote_code=True)")


def cli(args: list[str] | None = None) -> int:
    """Entry point."""
    return run_command(
        ExportConfig,
        main,
        prog="python -m multiview.export",
        description="Make a model folder loadable by sentence-transformers.",
        args=args,
    )


if __name__ == "__main__":
    sys.exit(cli())
