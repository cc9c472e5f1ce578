"""Finished cells of a run: the result of one model, task and seed, each in its own file."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path

from corpora.senteval.files import TaskData
from runtime.cli import LOGGER, config_from_json
from runtime.errors import UserError
from runtime.files import json_digest, read_record, write_record
from senteval_runner.evaluation import data_hashes, versions
from senteval_runner.protocol.config import Protocol, TaskResult
from senteval_runner.report.tables import headline

FORMAT = 1
"""Version of the files; scores of another version are computed again."""


@dataclass(frozen=True)
class Cells:
    """The cells of one protocol below a folder, which reports share."""

    folder: Path
    protocol: Protocol

    def path(self, model: str, seed: int, task: str) -> Path:
        """Name the file of a task, by the model's key; the version of the classifiers' library counts too."""
        library = {"torch": "torch", "sklearn": "scikit-learn"}[self.protocol.backend]
        digest = json_digest([FORMAT, dataclasses.asdict(self.protocol), versions()[library]], 8)
        return self.folder / f"{model}-{self.protocol.name}-{digest}" / str(seed) / f"{task}.json"

    def read(self, path: Path, task: TaskData) -> TaskResult | None:
        """Return a finished result; None if there is none, it is damaged, or the data changed."""
        if not path.exists():
            return None
        try:
            result = config_from_json(TaskResult, read_record(path), where=path)
            headline(task.name, result.metrics)
        except (UserError, KeyError) as error:
            logging.getLogger(LOGGER).warning("%s; computed again", error)
            return None
        return result if result.data_sha256 == data_hashes(task) else None

    def write(self, path: Path, result: TaskResult) -> None:
        """Keep a result."""
        write_record(path, dataclasses.asdict(result))
