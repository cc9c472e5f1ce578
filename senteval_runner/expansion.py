"""``--expand``: models with a larger vocabulary, and how many more words of the tasks they know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.senteval.files import TaskData
from corpora.support.errors import UserError
from multiview.folder.expanded import KnownWords, expanded_folder, has_trained_words, known_words
from senteval_runner.report.page import Section
from senteval_runner.report.table import Cell, Column, Table
from senteval_runner.vectors.sources import is_multiview, split_parts, split_views


@dataclass(frozen=True, kw_only=True)
class Expansion:
    """The models of a run, some of them expanded."""

    specs: list[str]
    """Of all models, the folders of expanded ones in the place of their originals."""
    folders: list[Path]
    """Of the expanded models."""


def expand_models(specs: Iterable[str], vectors: str, words: int) -> Expansion:
    """Expand every model, or part of ``A+B``, that has trained words.

    Args:
        specs: models by name.
        vectors: see :func:`multiview.words.vectors.given_source`.
        words: of the vectors to read at most, from the top.

    Raises:
        UserError: no model has trained words, or one cannot be expanded.
    """
    new: list[str] = []
    folders: dict[str, Path] = {}
    for spec in specs:
        parts = split_parts(spec)
        for place, part in enumerate(parts):
            model, _ = split_views(part)
            if not (Path(model).is_dir() and is_multiview(Path(model)) and has_trained_words(Path(model))):
                continue
            if model not in folders:
                folders[model] = expanded_folder(Path(model), vectors, words=words)
            parts[place] = str(folders[model]) + part.removeprefix(model)
        new.append("+".join(parts))
    if not folders:
        raise UserError(f"--expand {vectors}: no model here is a multi-view model with trained words")
    return Expansion(specs=new, folders=list(folders.values()))


def words_of(tasks: Iterable[TaskData]) -> Counter[str]:
    """Occurrences of every word in the tasks' sentences."""
    return Counter(
        word
        for task in tasks
        for part in task.splits.values()
        for tokens in part.sentences()
        for word in tokens
    )


def known_words_section(folders: Sequence[Path], counts: Counter[str]) -> tuple[Section, dict[str, object]]:
    """What expanded models know of the tasks' words, without and with the expansion, for page and JSON.

    Args:
        folders: of the expanded models.
        counts: of the tasks' words.
    """
    types, tokens = len(counts), counts.total()
    rows: list[list[Cell]] = []
    values: dict[str, object] = {"types": types, "tokens": tokens}

    def row(name: str, known: KnownWords) -> list[Cell]:
        return [name, f"{known.words:,}", 100 * known.types / types, 100 * known.tokens / tokens]

    for folder in folders:
        before, after = known_words(folder, counts)
        rows += [row(f"{folder.name}, trained words", before), row(f"{folder.name}, expanded", after)]
        values[folder.name] = {"trained": vars(before), "expanded": vars(after)}
    columns: list[Column | str] = [
        "model",
        Column("words", align="right"),
        Column("known types, %"),
        Column("known tokens, %"),
    ]
    note = f"Of {types:,} distinct words and {tokens:,} words in the tasks' sentences."
    return Section("Known words", [Table(columns, rows, notes=[note])]), values
