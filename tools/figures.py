"""Keep ``docs/figures.tsv``, which says for each figure of the pages by which command it was measured.

    python -m tools.figures docs/models.md#side-by-side --looked 3 -- python -m benchmarks.encoding
    python -m tools.figures docs/models.md#side-by-side --looked 3 --made COMMIT -- python -m MODULE

The first line runs the command after ``--``. Each figure of the named sections that the command prints, as
JSON or as text, gets a row. The second line runs nothing; its figures are those of the pages at that commit,
which must come from the command. Rows of these sections that are from the same command are replaced; with
``--made`` they stay. Rows of figures that a section no longer has are removed. In a command $D is the folder
of the real data, and must be quoted: '$D/senteval'.

A figure is every number with decimals or before "%", "per cent" or "×", and in a table every whole number
outside the first column. Numbers in code, headings and targets of links are no figures. Numbers that are no
results are matched by :data:`SETTINGS`, which has the reasons.
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
"""The reason why a number is no result, by a pattern of the number with the words around it."""
SETTING_COLUMNS = ("passes", "seeds", "rate", "numbers", "sentences", "on disk", "licence", "languages")
"""Beginnings of titles of columns and rows whose numbers are settings or sizes of files."""
MAX_DIGITS_LESS = 2
"""Decimals that a page may leave out of a command's number; with fewer, too many numbers would match."""
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
    """A figure that a command printed, which is a line of the file; numbers are text with a plain minus."""

    name: str
    value: str
    low: str = ""
    high: str = ""
    deviation: str = ""
    unit: str = ""
    command: str = ""
    commit: str = ""
    """The commit of the code that was run; with + the code had changes that are not in the commit."""
    date: str = ""
    seeds: str = ""
    looked: str = ""
    """How often these rows of data had been looked at before."""
    places: str = ""
    """The sections with this figure, separated by blanks; a section that has it twice is repeated."""

    def gives(self, figure: "Row") -> bool:
        """Tell whether a figure of a page is this one, rounded as on the page.

        The page may leave out the interval and the deviation.
        """
        if not _equal(figure.value, self.value):
            return False
        for part in ("low", "high", "deviation"):
            printed = getattr(figure, part)
            if printed and not _equal(printed, getattr(self, part)):
                return False
        return True


def _equal(printed: str, measured: str) -> bool:
    """Tell whether a printed number is the measured one, rounded to the digits of the printed one."""
    if not measured:
        return False
    printed_digits, measured_digits = (
        -int(Decimal(number).as_tuple().exponent) for number in (printed, measured)
    )
    if measured_digits - printed_digits > MAX_DIGITS_LESS:
        return False
    rounded = Decimal(measured).quantize(Decimal(printed), ROUND_HALF_UP)
    return printed == str(rounded) or Decimal(printed) == Decimal(measured) == rounded


def _plain(number: str | None) -> str:
    """Return a number with a plain minus and without commas between thousands."""
    return (number or "").replace("−", "-").replace(",", "")


def figures_of(text: str, *, is_cell: bool = False) -> list[Row]:
    """Return the figures of a line of text or, with ``is_cell``, of a cell of a table."""
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
    """Return the anchor of a heading."""
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", title.lower()).strip())


def page_figures(page: str, text: str) -> Iterator[Row]:
    """Yield the figures of a page, named by section, and row and column or the first words of a paragraph."""
    place = f"{page}#"
    header: list[str] = []
    block: list[str] = []

    def named(name: str, figures: Iterable[Row]) -> list[Row]:
        section = place.split("#")[1]
        return [replace(figure, name=f"{section} | {name}", places=place) for figure in figures]

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
            for cell in cells:
                yield from named("header", figures_of(cell))
        elif not set("".join(cells)) <= set("-: "):
            for number, (title, cell) in enumerate(zip(header, cells, strict=True)):
                labels = [label.lower() for label in (title, cells[0]) if label]
                is_setting = any(label.startswith(SETTING_COLUMNS) for label in labels)
                figures = figures_of(cell, is_cell=number > 0 and not is_setting)
                yield from named(f"{cells[0]} | {title}", figures)


def all_figures() -> list[Row]:
    """Return the figures of all pages."""
    figures: list[Row] = []
    for page in PAGES:
        figures += page_figures(page, (ROOT / page).read_text(encoding="utf-8"))
    return figures


def read_rows(path: Path = FILE) -> list[Row]:
    """Return the rows of the file of results; none if there is no file."""
    if not path.exists():
        return []
    with open(path, encoding="utf-8", newline="") as stream:
        return [Row(**row) for row in csv.DictReader(stream, delimiter="\t", quoting=csv.QUOTE_NONE)]


def write_rows(rows: Iterable[Row]) -> None:
    """Write the file of results, in the order of pages."""

    def key(row: Row) -> tuple[int, str, str]:
        first_place = row.places.split(" ")[0]
        page = first_place.split("#")[0]
        return PAGES.index(page), first_place, row.command

    columns = list(Row.__dataclass_fields__)
    lines = ["\t".join(getattr(row, column) for column in columns) for row in sorted(rows, key=key)]
    write_text(FILE, "\n".join(["\t".join(columns), *lines]) + "\n")


def unmatched(figures: Iterable[Row], rows: Iterable[Row]) -> tuple[list[Row], list[Row]]:
    """Return the figures that have no row, and the rows that have no figure, one for each place."""
    rows_of_place: dict[str, list[Row]] = {}
    for row in rows:
        for place in row.places.split(" "):
            rows_of_place.setdefault(place, []).append(row)

    def order(figure: Row) -> tuple[bool, int]:
        """Put figures with an interval first, then those with most digits, because fewer rows match them."""
        has_interval = bool(figure.low or figure.deviation)
        return not has_interval, -len(figure.value)

    unmatched_figures = []
    for figure in sorted(figures, key=order):
        candidates = rows_of_place.get(figure.places, [])
        match = next((row for row in candidates if row.gives(figure)), None)
        if match is None:
            unmatched_figures.append(figure)
        else:
            candidates.remove(match)
    unmatched_rows = []
    for place, rows_left in rows_of_place.items():
        unmatched_rows += [replace(row, places=place) for row in rows_left]
    return unmatched_figures, unmatched_rows


def _leaves(value: object, name: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each string or number in a JSON value; a name joins the keys on the way."""
    if isinstance(value, float):
        yield name, format(Decimal(str(value)), "f")
    elif isinstance(value, str | int):
        yield name, str(value)
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, part in items:
            yield from _leaves(part, f"{name} | {key}".removeprefix(" | "))


def printed_figures(output: str) -> Iterator[Row]:
    """Yield the figures that a command printed, in lines of JSON, tables and other text."""
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
    """Run a command in a folder, and return what it printed; $D is the folder of the real data.

    Raises UserError if the command failed.
    """
    words = shlex.split(command.replace("$D", os.environ.get("MULTIVIEW_DATA", "$D")))
    words = [sys.executable if word == "python" else word for word in words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(words, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    if process.returncode:
        raise UserError(f"{command}: exit code {process.returncode}")
    return process.stdout


def _git(*words: str) -> str:
    """Return what a command of git prints."""
    process = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return process.stdout.strip()


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
    """Write the rows, and print which figures of the sections have none."""
    figures = [figure for figure in all_figures() if figure.places in config.places]
    if unknown := set(config.places) - {figure.places for figure in figures}:
        raise UserError(f"{min(unknown)}: no section with figures; write PAGE#SECTION, as links do")
    old_rows = read_rows()
    if config.made:
        commit = _git("rev-parse", "--short=8", config.made)
        date = _git("log", "-1", "--format=%cs", commit)
        lines = _git("grep", "-h", "", commit, "--", "*.md").splitlines()
        printed = [figure for line in lines for figure in figures_of(line, is_cell=True)]
    else:
        base = _git("merge-base", "HEAD", "main")
        is_changed = bool(_git("status", "--porcelain", "-uno")) or base != _git("rev-parse", "HEAD")
        commit = base[:8] + ("+" if is_changed else "")
        date = datetime.now(UTC).date().isoformat()
        printed = list(printed_figures(run_command(config.command, ROOT)))
        old_rows = without_places(old_rows, config)
    run = {"command": config.command, "commit": commit, "date": date}
    run |= {"seeds": config.seeds, "looked": config.looked}
    new_rows: dict[tuple[str, ...], Row] = {}
    figures_without_row, _ = unmatched(figures, old_rows)
    for figure in figures_without_row:
        source = next((row for row in printed if row.gives(figure)), None)
        if source is not None and config.only in figure.name:
            name = figure.name if config.made else source.name
            row = replace(source, name=name, unit=figure.unit or source.unit, **run)
            # Equal figures in several places have one row.
            key = (name.partition(" | ")[2], row.value, row.low)
            row = new_rows.get(key, row)
            new_rows[key] = replace(row, places=f"{row.places} {figure.places}".strip())
    rows = [*old_rows, *new_rows.values()]
    write_rows(without_unused(rows, figures, config.places))
    print(f"{len(new_rows)} rows written to {FILE.relative_to(ROOT)}")
    figures_without_row, _ = unmatched(figures, read_rows())
    for figure in figures_without_row:
        print(f"no row yet: {figure.places}: {figure.name}: {figure.value}")


def without_unused(rows: Iterable[Row], figures: Iterable[Row], places: Sequence[str]) -> list[Row]:
    """Return the rows without those of ``places`` in which their figure no longer is."""
    _, unmatched_rows = unmatched(figures, rows)
    unused = [(row.name, row.value, row.places) for row in unmatched_rows if row.places in places]
    kept = []
    for row in rows:
        places_of_row = []
        for place in row.places.split(" "):
            key = row.name, row.value, place
            if key in unused:
                unused.remove(key)
            else:
                places_of_row.append(place)
        if places_of_row:
            kept.append(replace(row, places=" ".join(places_of_row)))
    return kept


def without_places(rows: Iterable[Row], config: FiguresConfig) -> list[Row]:
    """Return the rows without those of the named sections that are from the command, which is run again."""
    kept = []
    for row in rows:
        places = row.places.split(" ")
        if row.command == config.command and config.only in row.name:
            places = [place for place in places if place not in config.places]
        if places:
            kept.append(replace(row, places=" ".join(places)))
    return kept


cli = Command(
    FiguresConfig, main, "tools.figures", "Give figures of pages their rows in the file of results."
)

if __name__ == "__main__":
    words = sys.argv[1:]
    cut = words.index("--") if "--" in words else len(words)
    command = " ".join(word if word.startswith("$D") else shlex.quote(word) for word in words[cut + 1 :])
    sys.exit(cli([*words[:cut], "--command", command]))
