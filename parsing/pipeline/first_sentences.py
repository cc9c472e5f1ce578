"""The first sentences of treebank files as files of their own: what a dry run calibrates on."""

from __future__ import annotations

import contextlib
import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from corpora.inputs import read_lines
from corpora.support.errors import UserError
from corpora.treebanks import bracket_lines, read_brackets
from parsing.pipeline.estimate import dense_bytes

SAMPLE = 1000


@dataclass(frozen=True, kw_only=True)
class FirstSentences:
    """Small files in a temporary folder."""

    folder: Path
    """The folder, for what the calibration writes."""
    conllu: Path | None
    ptb: Path | None
    sentences: int
    """In the small files."""
    total: int
    """About how many the whole files hold, by the small ones' share of their bytes."""


@contextlib.contextmanager
def first_sentences(conllu: Path | None, ptb: Path | None, sample: int = SAMPLE) -> Iterator[FirstSentences]:
    """The first ``sample`` sentences of a CoNLL-U file, a bracket file, or both of the same sentences.

    Raises:
        UserError: a file cannot be read; also errors of the block, the given files named instead of the small
            ones.
    """
    taken = total = 0
    with tempfile.TemporaryDirectory() as scratch:
        files: dict[Path, Path] = {}
        for path, kind in ((ptb, "ptb"), (conllu, "conllu")):  # both: CoNLL-U decides the total
            if path is None:
                continue
            text, taken = _first_trees(path, sample) if kind == "ptb" else _first_blocks(path, sample)
            small = files[path] = Path(scratch) / f"first.{kind}"
            small.write_text(text, encoding="utf-8")
            total = taken
            if taken == sample:
                total = round(taken * dense_bytes(path) / dense_bytes(small))
        try:
            yield FirstSentences(
                folder=Path(scratch),
                conllu=files.get(conllu) if conllu else None,
                ptb=files.get(ptb) if ptb else None,
                sentences=taken,
                total=total,
            )
        except UserError as error:
            message = str(error)
            for path, small in files.items():
                message = message.replace(str(small), str(path))
            raise UserError(message) from None


def _first_trees(path: Path, sample: int) -> tuple[str, int]:
    """The first trees of a bracket file, one per line, and how many those are."""
    trees = list(itertools.islice(read_brackets(path), sample))
    return "".join(bracket_lines(trees)), len(trees)


def _first_blocks(path: Path, sample: int) -> tuple[str, int]:
    """The first lines of a CoNLL-U file, to the end of its sentence number ``sample``; how many those are."""
    lines: list[str] = []
    found, inside = 0, False
    for line in read_lines(path):
        blank = not line.text.strip()
        found += blank and inside
        lines.append(line.text + "\n")
        if found == sample:
            break
        inside = not blank and (inside or not line.text.startswith("#"))
    else:
        found += inside
    return "".join(lines), found
