"""Check that Python files are short, and that pages have short lines and short cells of tables.

python -m tools.budgets           # names what is too long; `make check` runs it
python -m tools.budgets --mend    # also wraps paragraphs of pages that have a long line; `make format`
"""

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "runtime", "corpora", "parsing", "multiview", "senteval_runner", "studies", "benchmarks", "tests", "tools"
)  # fmt: skip
MAX_LINES = 460
"""Number of lines of a Python file, at most."""
README_LINES, LINE_LENGTH, CELL_WORDS = 110, 110, 25
"""Lines of the README, characters of a line of a page, words of a cell of a table, at most."""
PROSE = re.compile(r"[A-Za-z`*\[(\"]")
"""Matches the beginning of a line of prose, not of a heading, list, table, picture or code."""


def pages() -> list[Path]:
    """Return the pages of the documentation."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def excesses() -> Iterator[str]:
    """Yield a message for each file, line or cell that is too long."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if (count := path.read_text(encoding="utf-8").count("\n")) > MAX_LINES:
                yield f"{path.relative_to(ROOT)}: {count} lines, {MAX_LINES} at most"
    for path in pages():
        yield from page_excesses(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


def page_excesses(name: str, text: str) -> Iterator[str]:
    """Yield a message for all that is too long in one page."""
    lines = text.splitlines()
    if name == "README.md" and len(lines) > README_LINES:
        yield f"{name}: {len(lines)} lines, {README_LINES} at most"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_LENGTH:
            yield f"{name}, line {number}: {len(line)} characters, {LINE_LENGTH} at most"
        cells = re.split(r"(?<!\\)\|", line) if line.startswith("|") else ()
        if (words := max((len(cell.split()) for cell in cells), default=0)) > CELL_WORDS:
            yield f"{name}, line {number}: a cell of {words} words, {CELL_WORDS} at most"


def mend(text: str) -> str:
    """Return the text of a page; paragraphs with a long line are wrapped anew, code is not changed."""
    parts = re.split(r"(^```.*?^```\n)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _fill(part) for part in parts)


def _fill(text: str) -> str:
    """Return text without code in which paragraphs of prose with a long line are wrapped anew."""
    paragraphs = text.split("\n\n")
    for index, paragraph in enumerate(paragraphs):
        lines = paragraph.strip("\n").split("\n")
        is_prose = all(PROSE.match(line) for line in lines)
        if is_prose and max(map(len, lines)) > LINE_LENGTH:
            filled = textwrap.fill(
                " ".join(lines), LINE_LENGTH, break_long_words=False, break_on_hyphens=False
            )
            paragraphs[index] = paragraph.replace("\n".join(lines), filled)
    return "\n\n".join(paragraphs)


def main(words: list[str]) -> int:
    """Mend pages if ``words`` are ``--mend``; print what is too long, and return 1 if anything is, else 0."""
    if words == ["--mend"]:
        for path in pages():
            text = path.read_text(encoding="utf-8")
            if (mended := mend(text)) != text:
                path.write_text(mended, encoding="utf-8")
    messages = list(excesses())
    for message in messages:
        print(message)
    return bool(messages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
