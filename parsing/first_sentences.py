"""The first sentences of treebank files as files of their own: what a dry run calibrates on."""

from __future__ import annotations

import itertools
from pathlib import Path

from corpora.inputs import read_lines
from corpora.treebanks import bracket_lines, read_brackets
from parsing.estimate import dense_bytes

SAMPLE = 1000


def first_sentences(
    folder: Path, conllu: Path | None, ptb: Path | None, sample: int = SAMPLE
) -> tuple[dict[str, Path], int, int]:
    """Write the first sentences of each file into ``folder``.

    Args:
        folder: a temporary one.
        conllu: CoNLL-U file.
        ptb: bracket file, of the same sentences if both are given.
        sample: sentences to take.

    Returns:
        The small files under ``conllu`` and ``ptb``, their number of sentences, and about how many the whole
        files hold, by the sample's share of their bytes.

    Raises:
        UserError: a file that cannot be read.
    """
    files: dict[str, Path] = {}
    taken = total = 0
    for kind, path in (("ptb", ptb), ("conllu", conllu)):  # brackets may end early, CoNLL-U decides
        if path is None:
            continue
        if kind == "conllu":
            text, taken = _first_blocks(path, sample)
        else:
            trees = list(itertools.islice(read_brackets(path), sample))
            text, taken = "".join(bracket_lines(trees)).encode(), len(trees)
        files[kind] = folder / f"first.{kind}"
        files[kind].write_bytes(text)
        whole = dense_bytes(path) / max(dense_bytes(files[kind]), 1)
        total = round(taken * whole) if taken == sample else taken
    return files, taken, total


def _first_blocks(path: Path, sample: int) -> tuple[bytes, int]:
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
    return "".join(lines).encode(), found
