"""What all runs over tasks share: finished cells, package versions and the data folder."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from corpora.senteval.files import TaskData
from corpora.support.cli import LOGGER
from corpora.support.errors import UserError
from corpora.support.files import json_digest, read_record, write_record
from senteval_runner.evaluation import data_hashes
from senteval_runner.protocol.config import Protocol, TaskResult

FORMAT = 1
"""Version of the part files; scores of another version are computed again."""


def data_folder(given: Path | None) -> Path:
    """SentEval's data: the folder given, else ``$MULTIVIEW_DATA/senteval``, else ``data/senteval``.

    Raises:
        UserError: no such folder.
    """
    outside = os.environ.get("MULTIVIEW_DATA")
    folder = given or (Path(outside) / "senteval" if outside else Path("data/senteval"))
    if not folder.is_dir():
        raise UserError(
            f"{folder}: no such folder; --data wants SentEval's data folder (downstream/, probing/), as the "
            "download script at github.com/facebookresearch/SentEval writes it"
        )
    return folder


class Cells:
    """Finished (model, protocol, seed, task) cells on disk, under ``folder``."""

    def __init__(self, folder: Path, protocol: Protocol) -> None:
        self.folder, self.protocol = folder, protocol
        library = {"torch": "torch", "sklearn": "scikit-learn"}[protocol.backend]
        self.digest = json_digest([FORMAT, dataclasses.asdict(protocol), versions()[library]], 8)

    def _path(self, key: str, seed: int, task: str) -> Path:
        return self.folder / f"{key}-{self.protocol.name}-{self.digest}" / str(seed) / f"{task}.json"

    def load(self, key: str, seed: int, task: TaskData) -> TaskResult | None:
        """The finished cell of the model ``key``; None if there is none, it is damaged, or data changed."""
        path = self._path(key, seed, task.name)
        if not path.exists():
            return None
        try:
            found = read_record(path)
        except UserError as error:
            logging.getLogger(LOGGER).warning("%s; computed again", error)
            return None
        return TaskResult(**found) if found["data_sha256"] == data_hashes(task) else None

    def save(self, key: str, seed: int, result: TaskResult) -> None:
        """Write a finished cell, atomically."""
        write_record(self._path(key, seed, result.task), dataclasses.asdict(result))


def installed(names: Iterable[str]) -> dict[str, str]:
    """Versions of those packages that are installed."""
    found = {}
    for name in names:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def versions(*more: str) -> dict[str, str]:
    """Versions of Python and of the packages that scores depend on, including ``more``."""
    # Our own package has no version when it runs from a checkout that is not installed.
    ours = {"python": platform.python_version(), "multiview-embeddings": "checkout"}
    return ours | installed(("multiview-embeddings", "torch", "numpy", "scipy", "scikit-learn", *more))
