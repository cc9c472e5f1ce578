"""Make a model folder loadable by sentence-transformers.

    python -m multiview.export runs/models/dep-const-laptop
    python -m multiview.export builtin --output my-encoder

Writes ``modules.json`` and its configuration into the folder; see ``multiview/sentence_transformers.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tyro.conf import Positional

from corpora.support.cli import Command, configuration
from corpora.support.errors import UserError
from corpora.support.files import write_json
from multiview.folder.names import BUILTIN


@configuration
class ExportConfig:
    """Options of ``multiview.export``."""

    model: Positional[Path]
    """Model folder, or builtin."""
    output: Path | None = None
    """Export a copy of the model in this folder instead."""


def main(config: ExportConfig) -> None:
    """Export one folder."""
    from multiview.folder.files import model_records
    from multiview.model import MultiViewEncoder
    from multiview.sentence_transformers import __version__

    folder = config.output or config.model
    if config.output is not None:
        MultiViewEncoder.load(config.model, "cpu").save(folder)
    elif str(folder) == BUILTIN:
        raise UserError(f"{BUILTIN}: belongs to the installation; give --output FOLDER for a copy of it")
    model_records(folder)
    module = {"idx": 0, "name": "0", "path": "", "type": "multiview.sentence_transformers.MultiViewModule"}
    write_json(folder / "modules.json", [module])
    write_json(
        folder / "config_sentence_transformers.json",
        {
            "__version__": {"sentence_transformers": __version__},
            "model_type": "SentenceTransformer",
            "similarity_fn_name": "cosine",
        },
    )
    print(f"exported {folder}")


cli = Command(
    ExportConfig,
    main,
    "multiview.export",
    "Make a model folder loadable by sentence-transformers.",
)


if __name__ == "__main__":
    sys.exit(cli())
