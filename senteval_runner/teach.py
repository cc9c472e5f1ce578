"""Encode the sentences of a tree cache with any sentence encoder, as a teacher for ``multiview.train``.

    python -m senteval_runner.teach MODEL --trees runs/trees/mine --output runs/teachers/mine
    python -m multiview.train --trees runs/trees/mine --teacher.vectors runs/teachers/mine

MODEL is any name that ``senteval_runner.run`` knows. A stopped run goes on where it was; parts that are there
are not encoded again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import Count, configuration
from corpora.support.errors import UserError
from corpora.support.files import LOCK, read_record, sweep, write_record
from corpora.support.progress import progress

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache

RUN = "run.json"


@configuration
class TeachConfig:
    """Options of ``python -m senteval_runner.teach``."""

    model: Positional[str]
    """The teacher: a name as for senteval_runner.run."""
    output: Path
    """Folder of its vectors."""
    trees: Path | None = None
    """Tree cache whose sentences are encoded; by default the only one in runs/trees."""
    batch_size: Count = 64
    """Sentences encoded at a time."""
    device: str | None = None
    """cpu, cuda, ...; None is a GPU if there is one."""


def main(config: TeachConfig) -> int:
    """Encode what is missing."""
    from multiview.teacher import PART, RECORD, has_part, store_part
    from multiview.training.data import open_trees
    from senteval_runner.vectors.embed import StoredEncoder, text_of
    from senteval_runner.vectors.encoders import loader
    from senteval_runner.vectors.sources import find_source

    cache = open_trees(config.trees)
    source = find_source(config.model)
    record = {"encoder": source.name, "key": source.key, "text": cache.sentences_sha256()}
    _claim(config.output, record)
    sweep(config.output)
    encoder = StoredEncoder(loader(source, {"device": config.device, "batch_size": config.batch_size}))
    with progress(total=len(cache), description=f"encode {source.name}") as bar:
        for start in range(0, len(cache), PART):
            stop = min(start + PART, len(cache))
            if not has_part(config.output, start):
                texts = [text_of(words) for words in _sentences(cache, start, stop)]
                store_part(config.output, start, encoder.encode(texts))
            bar.update(stop - start)
    dim = _dim(config.output)
    write_record(config.output / RECORD, {**record, "sentences": len(cache), "dim": dim})
    print(f"teacher  {config.output}: {len(cache)} x {dim}, by {source.name}")
    return 0


def _sentences(cache: TreeCache, start: int, stop: int) -> list[list[str]]:
    return [list(words) for words in cache.read(start, stop, ("token",)).words()]


def _dim(folder: Path) -> int:
    import numpy as np

    from multiview.teacher import part_path

    return int(np.load(part_path(folder, 0), mmap_mode="r").shape[1])


def _claim(folder: Path, record: dict[str, str]) -> None:
    """Begin a folder, or check that it holds this run.

    Raises:
        UserError: it holds the vectors of another teacher or cache, or something else.
    """
    if (folder / RUN).is_file():
        stored = read_record(folder / RUN)
        for name, value in record.items():
            if stored.get(name) != value:
                raise UserError(
                    f"--output {folder}: holds vectors of another run ({name} {stored.get(name)!r:.40}, not "
                    f"{value!r:.40}); choose another folder or delete it"
                )
        return
    if folder.is_dir() and any(path for path in folder.iterdir() if path.name != LOCK):
        raise UserError(f"--output {folder}: holds something else; choose another folder")
    write_record(folder / RUN, record)


cli = Command(
    TeachConfig,
    main,
    "senteval_runner.teach",
    "Encode the sentences of a tree cache with any sentence encoder, as a teacher.",
    owns=lambda config: config.output,
    kept="finished parts are kept; the same command resumes",
    plugins=True,
)


if __name__ == "__main__":
    sys.exit(cli())
