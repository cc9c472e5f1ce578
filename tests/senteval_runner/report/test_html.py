"""HTML helpers: well-formed, escaped, nothing fetched."""

from __future__ import annotations

import xml.etree.ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from senteval_runner.report import html

printable = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Cn")), max_size=12)
numbers = st.floats(-1e6, 1e6, allow_nan=False)


def well_formed(markup: str) -> ET.Element:
    return ET.fromstring(f"<div>{markup}</div>")


@given(st.lists(st.tuples(printable, numbers | st.none()), min_size=1, max_size=4))
def test_tables_are_well_formed_whatever_the_text(rows) -> None:
    root = well_formed(html.table(["<a>", "b & c"], rows, best=[1]))
    assert [cell.text or "" for cell in root.iterfind(".//tbody/tr/td[1]")] == [row[0] for row in rows]


@given(st.dictionaries(printable, st.lists(st.tuples(numbers, numbers), max_size=5), max_size=3))
def test_curves_are_well_formed(series) -> None:
    well_formed(html.curve(series, y_label="<loss>"))


def test_best_values_are_marked_ties_too() -> None:
    rows = [["a", 1.0, 3.0], ["b", 2.0, 1.0], ["c", 2.001, None]]
    root = well_formed(html.table(["m", "one", "other"], rows, best=[1, 2]))
    assert [cell.text for cell in root.iterfind(".//td[@class='best']")] == ["3.00", "2.00", "2.00"]


def test_figures_hold_their_values() -> None:
    bars = well_formed(html.bars(["a"], ["MR", "CR"], {("a", "MR"): 50.0}, spread={("a", "MR"): 2.0}))
    assert len(bars.findall(".//rect")) == 1 and "50.00" in (bars.findtext(".//title") or "")
    dots = well_formed(html.scatter([(0, 0), (1, 2)], [0, 1], ["x", "y"], titles=["<s>", "t"]))
    assert len(dots.findall(".//circle")) == 2
    heat = well_formed(html.heat_map(["a"], ["p", "q"], {("a", "p"): 80.0}, low=0, high=100))
    assert [cell.text for cell in heat.iterfind(".//td")] == ["a", "80.0", "–"]


def test_a_page_is_one_file() -> None:
    page = html.page("T <1>", [html.section("S", html.paragraph("a < b"), note="n & m")])
    assert "<title>T &lt;1&gt;</title>" in page and "a &lt; b" in page
    assert "http" not in page and "src=" not in page
