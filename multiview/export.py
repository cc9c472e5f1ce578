"""Make a model folder loadable by sentence-transformers.

    python -m multiview.export runs/models/dep-const-laptop

Writes ``modules.json`` and its configuration into the folder; see ``multiview/sentence_transformers.py``.
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


def main(config: ExportConfig) -> None:
    """Export one folder."""
    from multiview.sentence_transformers import export

    export(config.model)
    print(f"exported {config.model}")


cli = Command(
    ExportConfig,
    main,
    "multiview.export",
    "Make a model folder loadable by sentence-transformers.",
    then=lambda config: f"in Python, SentenceTransformer({str(config.model)!r}, trust_remote_code=True)",
)


if __name__ == "__main__":
    sys.exit(cli())
