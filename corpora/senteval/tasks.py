"""The records of the SentEval tasks, and functions that find tasks by name.

``tasks.tsv`` has a row for each split of a task; the first row of a task also has the values of its
:class:`Task`. Names are those of the original toolkit (Conneau & Kiela 2018); aliases are names that papers
use. Files are relative to the data folder. The numbers of rows are those of the papers and the task pages, so
that a wrong copy is noticed: one well-known mirror had a SUBJ on which models score above 99 %. The splits of
STS12-16 are their subsets; SMT, the fourth of STS13, is not free and not in SentEval.
"""

import csv
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runtime.errors import UserError, did_you_mean


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task: everything that its reading, scoring and reporting depend on."""

    name: str
    """The toolkit's name, e.g. ``"SICKRelatedness"``."""
    aliases: tuple[str, ...] = ()
    """The names that papers use, the most usual one first."""
    kind: str
    """Kind of scores: ``classes`` by classifiers of features; ``graded`` pairs by a regression of features
    and by the cosines of the test pairs; ``cosine``, pairs by their cosines alone; ``order``, the sentences
    of running texts by the cosines of neighbours; ``ranking``, a collection by its cosines with queries."""
    reader: str
    """The format of its files, a name in :data:`corpora.senteval.files.READERS`."""
    scorer: str
    """How a task of its kind is scored, a name in :mod:`senteval_runner.evaluation` or, for cosines, in
    :data:`senteval_runner.protocol.cosine_tasks.SCORERS`."""
    headline: str
    """Its main metric."""
    groups: tuple[str, ...] = ()
    """The groups of tasks that it belongs to; ``mv`` has the tasks of the multi-view paper."""
    classes: tuple[str, ...] = ()
    """The names of the class ids, if they are not in the files; empty for scores."""
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Its files by split."""
    published_rows: Mapping[str, int] = field(default_factory=dict)
    """The published number of rows, by split."""

    @property
    def short_name(self) -> str:
        """Its name in the headers of tables: the most usual alias, if there is one."""
        return self.aliases[0] if self.aliases else self.name

    def paths(self, data: Path) -> dict[str, list[Path]]:
        """Return the paths of its files by split, in the data folder or in ``senteval/`` there."""
        paths: dict[str, list[Path]] = {}
        for split, files in self.files.items():
            for path in map(Path, files):
                has_folder = [(root / path.parts[0]).is_dir() for root in (data, data / "senteval")]
                root = data / "senteval" if has_folder == [False, True] else data
                paths.setdefault(split, []).append(root / path)
        return paths


def read_tasks_table(lines: Iterable[str]) -> dict[str, Task]:
    """Return the tasks of a table in the format of ``tasks.tsv``, by name."""
    rows_by_task: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(lines, delimiter="\t"):
        rows_by_task.setdefault(row["task"], []).append(row)
    return {
        name: Task(
            name=name,
            aliases=tuple(rows[0]["aliases"].split()),
            kind=rows[0]["kind"],
            reader=rows[0]["reader"],
            scorer=rows[0]["scorer"],
            headline=rows[0]["headline"],
            groups=tuple(rows[0]["groups"].split()),
            classes=tuple(rows[0]["classes"].split()),
            files={row["split"]: tuple(row["files"].split()) for row in rows if row["files"]},
            published_rows={row["split"]: int(row["rows"]) for row in rows if row["rows"]},
        )
        for name, rows in rows_by_task.items()
    }


with open(Path(__file__).with_name("tasks.tsv"), encoding="utf-8", newline="") as _lines:
    TASKS = read_tasks_table(_lines)
"""All tasks by name, in the order of reports."""


def groups() -> dict[str, list[str]]:
    """Return the names of the tasks of each group."""
    names: dict[str, list[str]] = {}
    for task in TASKS.values():
        for group in task.groups:
            names.setdefault(group, []).append(task.name)
    return names


def tasks_in(group: str) -> list[str]:
    """Return the names of the tasks of a group."""
    return groups().get(group, [])


def _fold(name: str) -> str:
    """Return a name in lower case without hyphens, underscores and spaces."""
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def canonical_task(name: str, groups: Collection[str] = ()) -> str:
    """Return the toolkit's name of a task, such as ``"SICKRelatedness"`` for ``"sick-r"``.

    Case, hyphens, underscores and spaces do not matter. Raises UserError if the name is unknown, with the
    most similar name, all names, and ``groups``.
    """
    if not isinstance(name, str):
        raise UserError(f"{name!r:.40} is no name of a task")
    names = {_fold(alias): task.name for task in TASKS.values() for alias in (task.name, *task.aliases)}
    if _fold(name) not in names:
        aliases = [alias for task in TASKS.values() for alias in task.aliases]
        suggestion = did_you_mean(name, [*TASKS, *aliases, *groups])
        choices = [f"known: {', '.join(TASKS)}", f"also called {', '.join(aliases)}"]
        if groups:
            choices.append(f"groups: {', '.join(groups)}")
        raise UserError(f"unknown task {name!r}: {suggestion}({'; '.join(choices)})")
    return names[_fold(name)]


def expand_tasks(text: str) -> list[str]:
    """Return the distinct canonical names of tasks and groups that are separated by commas or blanks."""
    known_groups = groups()
    names: list[str] = []
    for word in text.replace(",", " ").split():
        names += known_groups.get(word.lower(), [word])
    if not names:
        raise UserError("--tasks is empty")
    return list(dict.fromkeys(canonical_task(name, known_groups) for name in names))


def data_folder(data: Path | None, tasks: Iterable[str] = TASKS) -> Path:
    """Return the folder of SentEval's data: the given one, else ``$MULTIVIEW_DATA``, else ``data``.

    Raises UserError if the folder does not exist and one of the ``tasks`` needs a file.
    """
    folder = data or Path(os.environ.get("MULTIVIEW_DATA") or "data")
    if not folder.is_dir() and any(TASKS[name].files for name in tasks):
        raise UserError(
            f"{folder}: no such folder; --data wants SentEval's data folder (downstream/, probing/), as the "
            "download script at github.com/facebookresearch/SentEval writes it"
        )
    return folder
