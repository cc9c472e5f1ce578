"""The figures of the pages, and the file of results behind them, ``docs/figures.tsv``, which this writes.

    python -m tools.figures docs/models.md#side-by-side --looked 3 -- python -m benchmarks.encoding
    python -m tools.figures docs/models.md#side-by-side --looked 3 --made COMMIT -- python -m MODULE

The first line runs the command and gives a row to each figure of these sections that the command prints, as
JSON or as text. The second runs nothing: it takes the figures that stood in a page of that commit, which the
command gave then. Rows of these sections by the same command are replaced; with ``--made`` they stay. Rows of
figures that a section no longer has are removed. A command with $D, the folder of the real data, is quoted:
'$D/senteval'.

What counts as a figure: outside of code, headings and the targets of links, every number with decimals or
before "%", "per cent" or "×", and in tables every whole number, too, but for the first column. What is no
result is in :data:`SETTINGS`, with the reason.
"""

import csv
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from runtime.cli import Command, configuration
from runtime.errors import UserError
from runtime.files import write_text
from tools.budgets import ROOT

FILE = ROOT / "docs/figures.tsv"
PAGES = (
    "README.md",
    *(f"docs/{name}.md" for name in ("results", "experiments", "models", "structure", "answers", "studies")),
    *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "multiview").glob("builtin/*/README.md")),
)
SETTINGS = {
    r"95 % interval|cover 95 %|are 95 %": "the level of every interval",
    r"(accepts|where|lets) 90 %": "the level at which wrong pairs are counted",
    r"(?:Python|torch|BY|BY-SA) \d+\.\d+(?:\.\d+)?": "a version",
    r"(?:[Ss]hare|structure|and)(?: of)? 0\.\d+(?: to 0\.\d+)?(?! ?\[)": "a share of structure",
    r"from 0\.3 on": "a share of structure",
    r"λ \(0\.15": "a share of structure",
    r"\d+(?:\.\d+)? million|\d[\d,]* sentences\b(?!/s)": "a size of text",
    r"is 15 % of the cosine|85 % spelling and 15 %|70 % of the squared": "a setting of structure",
    r"at (?:4,800|2,560|384) numbers|7,616 numbers|1,000 numbers": "a number of dimensions",
    r"\(2 × 128 numbers\)|2 × 200 units|0\.1 to 0\.15": "a setting",
}
"""Numbers that are no results, by the words around them -> the reason."""
SETTING_COLUMNS = ("passes", "seeds", "rate", "numbers", "sentences", "on disk", "licence", "languages")
"""Titles of columns, and of rows, whose numbers are settings or sizes of files."""
MAX_DIGITS_LESS = 2
"""A page may print so many decimals fewer than a command; with fewer still, anything would do."""
NUMBER = r"[−-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?"
UNIT = r"%|×|ms\b|s\b|MB\b|per cent|points?\b|sentences/s"
FIGURE = re.compile(
    rf"(?<![\w.,/#^*∗⁻-])(?P<value>{NUMBER})(?![\w⁻]|[.,/-]\d|-[a-z])(?: ?(?P<unit>{UNIT}))?"
    rf"(?: ?[\[(](?P<low>{NUMBER})(?:, | to )(?P<high>{NUMBER})[\])])?(?: ± (?P<deviation>{NUMBER}))?"
)
CODE = re.compile(r"^```.*?^```$|<!--.*?-->|(?:(?<=\n\n)|\A)(?: {4}[^\n]*\n+)+", re.MULTILINE | re.DOTALL)
NO_TEXT = re.compile(r"`[^`]*`|!\[[^\]]*\]\([^)]*\)|\]\([^)]*\)|https?://\S+")


@dataclass(frozen=True)
class Row:
    """A figure that a command gave: a line of the file. Numbers are as printed, with a plain minus."""

    name: str
    value: str
    low: str = ""
    high: str = ""
    deviation: str = ""
    unit: str = ""
    command: str = ""
    commit: str = ""
    """The code that was run; with + it had changes that were not landed."""
    date: str = ""
    seeds: str = ""
    looked: str = ""
    """How often these rows of data had been looked at before."""
    places: str = ""
    """Sections of pages in which it stands, once for each time that it does."""

    def gives(self, figure: "Row") -> bool:
        """Tell whether a page's figure is this one, at the page's digits; it may lack the interval."""
        pairs = [(getattr(figure, part), getattr(self, part)) for part in ("low", "high", "deviation")]
        return _equal(figure.value, self.value) and all(_equal(a, b) for a, b in pairs if a)


def _equal(printed: str, measured: str) -> bool:
    """Tell whether a number as printed is another one, rounded to as many digits."""
    if not measured:
        return False
    digits = [-int(Decimal(number).as_tuple().exponent) for number in (printed, measured)]
    if digits[1] - digits[0] > MAX_DIGITS_LESS:
        return False
    rounded = Decimal(measured).quantize(Decimal(printed), ROUND_HALF_UP)
    return printed == str(rounded) or Decimal(printed) == Decimal(measured) == rounded


def _plain(number: str | None) -> str:
    return (number or "").replace("−", "-").replace(",", "")


def figures_of(text: str, *, is_cell: bool = False) -> list[Row]:
    """The figures of a line of text, or of a cell of a table."""
    text = re.sub(r"\*\*", "", NO_TEXT.sub("]", text))
    for pattern in SETTINGS:
        text = re.sub(pattern, "", text)
    found = []
    for match in FIGURE.finditer(text):
        parts = {name: _plain(part) for name, part in match.groupdict().items() if name != "unit"}
        unit = match["unit"] or ""
        if is_cell or "." in match[0] or unit in ("%", "×", "per cent"):
            found.append(Row("", **parts, unit=unit))
    return found


def slug(title: str) -> str:
    """The anchor of a heading."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def page_figures(page: str, text: str) -> Iterator[Row]:
    """The figures of a page, each with its section as place and where in it it stands as name."""
    place, header, block = f"{page}#", [], []

    def named(name: str, figures: Iterable[Row]) -> Iterator[Row]:
        return (replace(one, name=f"{place.split('#')[1]} | {name}", places=place) for one in figures)

    for line in [*CODE.sub("\n\n", text).splitlines(), ""]:
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] if line.startswith("|") else []
        if line and not cells and not line.startswith("#"):
            block.append(line.strip())
            continue
        if block:  # a paragraph or a list
            words = re.findall(r"[A-Za-z]{3,}", " ".join(block))[:4]
            yield from named(f"{' '.join(words)} …", figures_of(" ".join(block)))
            block = []
        if line.startswith("#"):
            place = f"{page}#{slug(line.lstrip('# '))}"
        elif not cells or not header:
            header = cells
            yield from named("header", (figure for cell in cells for figure in figures_of(cell)))
        elif not set("".join(cells)) <= set("-: "):
            for number, (title, cell) in enumerate(zip(header, cells, strict=True)):
                labels = [label.lower() for label in (title, cells[0]) if label]
                is_setting = any(label.startswith(SETTING_COLUMNS) for label in labels)
                figures = figures_of(cell, is_cell=number > 0 and not is_setting)
                yield from named(f"{cells[0]} | {title}", figures)


def all_figures() -> list[Row]:
    """The figures of all pages."""
    texts = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    return [figure for page, text in texts.items() for figure in page_figures(page, text)]


def read_rows(path: Path = FILE) -> list[Row]:
    """Read the file of results."""
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as stream:
        return [Row(**row) for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)]


def write_rows(rows: Iterable[Row]) -> None:
    """Write the file of results, by pages in order."""
    order = {page: number for number, page in enumerate(PAGES)}

    def key(row: Row) -> tuple[int, str, str]:
        first = row.places.split(" ")[0]
        return order[first.split("#")[0]], first, row.command

    columns = list(Row.__dataclass_fields__)
    lines = ["\t".join(getattr(row, column) for column in columns) for row in sorted(rows, key=key)]
    write_text(FILE, "\n".join(["\t".join(columns), *lines]) + "\n")


def unmatched(figures: Iterable[Row], rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return figures of pages without a row, and rows of sections that have no such figure."""
    left: dict[str, list[Row]] = {}
    for row in rows:
        for place in row.places.split(" "):
            left.setdefault(place, []).append(row)
    without = []
    # Those with an interval first: one without may take any row; then those of most digits.
    for figure in sorted(figures, key=lambda one: (not one.low + one.deviation, -len(one.value))):
        here = left.get(figure.places, [])
        row = next((row for row in here if row.gives(figure)), None)
        without += [figure] if row is None else []
        if row is not None:
            here.remove(row)
    return without, [replace(row, places=place) for place, rows in left.items() for row in rows]


def _leaves(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Yield names and texts of the leaves of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if isinstance(value, str | int | float):
        yield name, format(Decimal(str(value)), "f") if isinstance(value, float) else str(value)
    for key, part in items:
        yield from _leaves(part, f"{name} | {key}".removeprefix(" | "))


def printed_figures(output: str) -> Iterator[Row]:
    """The figures that a command printed: of lines of JSON those of every leaf, else those of the text."""
    header: list[str] = []
    for line in output.splitlines():
        leaves = [(FIGURE.split(line)[0].strip(), line)]
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("| ").split("|")]
            header = header or cells
            leaves = [(f"{cells[0]} | {title}", cell) for title, cell in zip(header, cells, strict=False)]
        elif line.startswith("{"):
            leaves = list(_leaves(json.loads(line), ""))
        header = header if line.startswith("|") else []
        for name, text in leaves:
            yield from (replace(figure, name=name) for figure in figures_of(text, is_cell=True))


def run_command(command: str, folder: Path) -> str:
    """Run a command in a folder and return what it printed; $D is the folder of the real data."""
    words = shlex.split(command.replace("$D", os.environ.get("MULTIVIEW_DATA", "$D")))
    words = [sys.executable if word == "python" else word for word in words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        raise UserError(f"{command}: exit code {process.returncode}")
    return process.stdout


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


@configuration
class FiguresConfig:
    """Options of ``python -m tools.figures``; after ``--`` stands the command."""

    places: Annotated[Positional[tuple[str, ...]], arg(metavar="PAGE#SECTION...")]
    """Sections of pages whose figures get a row."""
    looked: str
    """How often these rows of data had been looked at before."""
    seeds: str = ""
    """Seeds of the run."""
    only: str = ""
    """Only figures whose name, which is where they stand, contains this."""
    made: str = ""
    """Take the figures from the pages of this commit, and run nothing."""
    command: str = ""
    """The command; given after --."""


def main(config: FiguresConfig) -> None:
    """Write the rows, and say which figures of the sections have none."""
    figures = [figure for figure in all_figures() if figure.places in config.places]
    if wrong := set(config.places) - {figure.places for figure in figures}:
        raise UserError(f"{min(wrong)}: no section with figures; write PAGE#SECTION, as links do")
    old_rows = read_rows()
    if config.made:
        commit = _git("rev-parse", "--short=8", config.made)
        date = _git("log", "-1", "--format=%cs", commit)
        lines = _git("grep", "-h", "", commit, "--", "*.md").splitlines()
        printed = [figure for line in lines for figure in figures_of(line, is_cell=True)]
    else:
        base = _git("merge-base", "HEAD", "main")
        is_changed = bool(_git("status", "--porcelain", "-uno")) or base != _git("rev-parse", "HEAD")
        commit, date = base[:8] + "+" * is_changed, datetime.now(UTC).date().isoformat()
        printed = list(printed_figures(run_command(config.command, ROOT)))
        old_rows = without_places(old_rows, config)
    facts = {"command": config.command, "commit": commit, "date": date}
    facts |= {"seeds": config.seeds, "looked": config.looked}
    new: dict[tuple[str, ...], Row] = {}
    for figure in unmatched(figures, old_rows)[0]:
        source = next((one for one in printed if one.gives(figure)), None)
        if source is not None and config.only in figure.name:
            name = figure.name if config.made else source.name
            row = replace(source, name=name, unit=figure.unit or source.unit, **facts)
            known = new.get(key := (name.partition(" | ")[2], row.value, row.low), row)
            new[key] = replace(known, places=f"{known.places} {figure.places}".strip())
    rows = [*old_rows, *new.values()]
    write_rows(without_unused(rows, figures, config.places))
    print(f"{len(new)} rows written to {FILE.relative_to(ROOT)}")
    for figure in unmatched(figures, read_rows())[0]:
        print(f"no row yet: {figure.places}: {figure.name}: {figure.value}")


def without_unused(rows: Iterable[Row], figures: Iterable[Row], places: Sequence[str]) -> list[Row]:
    """Return rows without these sections where they no longer have such a figure."""
    unused = [
        (one.name, one.value, one.places) for one in unmatched(figures, rows)[1] if one.places in places
    ]
    kept = []
    for row in rows:
        own = row.places.split(" ")
        for place in [place for place in own if (row.name, row.value, place) in unused]:
            unused.remove((row.name, row.value, place))
            own.remove(place)
        kept += [replace(row, places=" ".join(own))] if own else []
    return kept


def without_places(rows: Iterable[Row], config: FiguresConfig) -> list[Row]:
    """Return rows without those that the command gave in these sections, which are made anew."""
    kept = []
    for row in rows:
        is_same = row.command == config.command and config.only in row.name
        places = [place for place in row.places.split(" ") if not (is_same and place in config.places)]
        kept += [replace(row, places=" ".join(places))] if places else []
    return kept


cli = Command(
    FiguresConfig, main, "tools.figures", "Give figures of pages their rows in the file of results."
)

if __name__ == "__main__":
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    command = " ".join(word if word.startswith("$D") else shlex.quote(word) for word in words[cut + 1 :])
    sys.exit(cli([*words[:cut], "--command", command]))
