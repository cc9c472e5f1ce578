"""Reports in a real browser: everything is drawn, legible and in its place, whatever the window."""

from __future__ import annotations

from pathlib import Path

import pytest

from senteval_runner.report.page import Page, Section
from senteval_runner.report.table import Table
from tests.fixtures.browser import look, needs_browser, printed_pages
from tests.senteval_runner.report.pages import scores_of_twelve_models

pytestmark = needs_browser


def test_twelve_models_in_every_window_and_on_paper(tmp_path: Path) -> None:
    page = scores_of_twelve_models().html()
    for window, seen in look(page, tmp_path).items():
        assert seen["sortable"] == 6, window
        assert seen["paper"] == ("rgb(22, 25, 29)" if window.endswith("dark") else "rgb(255, 255, 255)")
        # A table leaves room around it, its first column room for numbers.
        width = int(window.split()[0])
        assert 0 < seen["tallest"] < 900 and 0 < seen["firstColumn"] <= 0.45 * width
    assert printed_pages(page, tmp_path) <= 14


def test_a_look_notices_what_is_wrong(tmp_path: Path) -> None:
    """The measurements themselves: each fault is put into a good page and has to be found."""
    rows = [[f"row {place}", float(place)] for place in range(80)]
    good = Page("A page", [Section("A section", [Table(["name", "score"], rows), "Some prose."])]).html()
    look(good, tmp_path)
    faults = {
        "pale": ("--ink:#222", "--ink:#bbb"),
        "sideways": ("<p>Some prose.", "<p style='width:2000px;max-width:none'>Some prose."),
        "runsAway": ("position:sticky;top:0", "top:0"),
        "unsorted": ("head.onclick =", "head.ignored ="),
        "leftNumbers": ("text-align:right", "text-align:left"),
        "ragged": ("</tr>\n</tbody>", "<td>1</td></tr>\n</tbody>"),
    }
    for fault, (right, broken) in faults.items():
        assert right in good
        with pytest.raises(AssertionError, match=fault):
            look(good.replace(right, broken), tmp_path)
