"""Keep each finished result in a file, so that a run that is repeated or resumed does not compute it again.

The result of one model on one task with one seed is called a cell.
"""

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
"""Version of the format of cells and of ``results.json``; cells of another version are computed again."""
Record = TypeVar("Record")


@dataclass(frozen=True)
class ResultStore:
    """The cells of one protocol, kept below ``folder``."""

    folder: Path
    protocol: Protocol

    def path(self, model: str, seed: int, task: str) -> Path:
        """Return the file of a cell; ``model`` is the model's key.

        The path depends on the version of the library that trains the classifiers, because scores do.
        """
        library = {"torch": "torch", "sklearn": "scikit-learn"}[self.protocol.backend]
        digest = json_digest([FORMAT, asdict(self.protocol), versions()[library]], 8)
        return self.folder / f"{model}-{self.protocol.name}-{digest}" / str(seed) / f"{task}.json"

    def result(self, encoder: OpenedEncoder, task: TaskData, seed: int) -> TaskResult:
        """Return the finished result of a task, or score the encoder on it and keep the result.

        A finished result is not used if it comes from other data files or lacks the task's main metric.
        """
        file = self.path(encoder.key(), seed, task.name)

        def check(result: TaskResult) -> None:
            headline(task.name, result.metrics)
            if result.data_sha256 != data_hashes(task):
                raise UserError(f"{file}: the data of {task.name} have changed")

        def compute() -> TaskResult:
            return evaluate_task(encoder, task, self.protocol, seed)

        return read_or_compute(file, TaskResult, compute, check)


def read_or_compute(
    file: Path,
    record_type: type[Record],
    compute: Callable[[], Record],
    check: Callable[[Record], object] = lambda record: None,
) -> Record:
    """Return the record in ``file``, or compute it and write it there.

    Args:
        file: the file of a cell. It is written again if it is damaged.
        record_type: the dataclass of the record.
        compute: returns the record; it is called if the file is missing, damaged or refused.
        check: raises UserError or KeyError to refuse the record that was read.

    Raises FileExistsError if a folder, a pipe or a broken link has the name of the file.
    """

    def read() -> Record:
        record = config_from_json(record_type, read_record(file), where=file)
        check(record)
        return record

    # Not a UserError, which would skip one task alone: no result could be kept here, so the run must stop.
    if os.path.lexists(file) and not file.is_file():
        raise FileExistsError(errno.EEXIST, "a folder or a pipe in the place of a finished result", str(file))
    if file.exists():
        try:
            return read()
        except (UserError, KeyError) as error:
            log.warning("%s: %s; computed again", file.name, error)
    write_record(file, config_to_json(compute()))
    return read()


def stored_results(report: Path, model: str = "") -> dict[str, TaskResult]:
    """Return finished results of a report by task, of the model whose key begins with ``model``."""
    paths = sorted(report.glob(f"parts/{model}*/*/*.json"))
    return {path.stem: config_from_json(TaskResult, read_record(path), where=path) for path in paths}
