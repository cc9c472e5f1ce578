"""Keep finished results, each in a file of its own: the result of a model on a task with a seed is a cell."""

import errno
import logging
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from corpora.senteval.files import TaskData
from multiview.names.opened import OpenedEncoder
from runtime.cli import LOGGER, config_from_json, config_to_json
from runtime.errors import UserError
from runtime.files import json_digest, read_record, write_record
from senteval_runner.evaluation import data_hashes, evaluate_task, versions
from senteval_runner.protocol.config import Protocol, TaskResult
from senteval_runner.report.tables import headline

log = logging.getLogger(LOGGER)
FORMAT = 1
"""Version of cells and of ``results.json``; scores of another version are computed again."""
Record = TypeVar("Record")


@dataclass(frozen=True)
class ResultStore:
    """The cells of one protocol, kept below a folder."""

    folder: Path
    protocol: Protocol

    def path(self, model: str, seed: int, task: str) -> Path:
        """Return the file of a cell, for a model's key and the version of the classifiers' library."""
        library = {"torch": "torch", "sklearn": "scikit-learn"}[self.protocol.backend]
        digest = json_digest([FORMAT, asdict(self.protocol), versions()[library]], 8)
        return self.folder / f"{model}-{self.protocol.name}-{digest}" / str(seed) / f"{task}.json"

    def result(self, encoder: OpenedEncoder, task: TaskData, seed: int) -> TaskResult:
        """Read a finished result, or score; a result of other data or without its main metric is not used."""
        file = self.path(encoder.key, seed, task.name)

        def check(result: TaskResult) -> None:
            headline(task.name, result.metrics)
            if result.data_sha256 != data_hashes(task):
                raise UserError(f"{file}: the data of {task.name} have changed")

        def compute() -> TaskResult:
            return evaluate_task(encoder, task, self.protocol, seed)

        return read_or_compute(file, TaskResult, compute, check)


def read_or_compute(
    file: Path,
    kind: type[Record],
    compute: Callable[[], Record],
    check: Callable[[Record], object] = lambda record: None,
) -> Record:
    """Return a finished cell, a dataclass; if it is missing, damaged or refused by ``check``, compute it."""

    def read() -> Record:
        record = config_from_json(kind, read_record(file), where=file)
        check(record)
        return record

    if os.path.lexists(file) and not file.is_file():  # of the whole run, which could not keep the result
        raise FileExistsError(errno.EEXIST, "a folder or a pipe in the place of a finished result", str(file))
    if file.exists():
        try:
            return read()
        except (UserError, KeyError) as error:
            log.warning("%s: %s; computed again", file.name, error)
    write_record(file, config_to_json(compute()))
    return read()


def stored_results(report: Path, model: str = "") -> dict[str, TaskResult]:
    """Read the finished tasks, by name, of a report's only model and seed, or of the model with that key."""
    paths = sorted(report.glob(f"parts/{model}*/*/*.json"))
    return {path.stem: config_from_json(TaskResult, read_record(path), where=path) for path in paths}
