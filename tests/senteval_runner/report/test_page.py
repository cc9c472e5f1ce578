"""Tables, plots and pages: one source for Markdown and HTML, well-formed, escaped, nothing fetched."""

from __future__ import annotations

import base64
import sys
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senteval_runner.report import plots
from senteval_runner.report.page import Column, Figure, Page, Score, Section, Table, shown

printable = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Cn")), max_size=12)
numbers = st.floats(-1e6, 1e6, allow_nan=False)


def parsed(*blocks: Table | Figure) -> ET.Element:
    return ET.fromstring(Page("P", [Section("S", blocks)]).html().split("\n", 1)[1])


@settings(deadline=None)
@given(st.lists(st.tuples(printable, numbers | st.none()), min_size=1, max_size=4))
def test_tables_hold_the_same_cells_in_both_outputs(rows) -> None:  # type: ignore[no-untyped-def]
    table = Table(["<a>", Column("b & c", best="high")], rows)
    found = [
        [cell.text or "" for cell in row.iterfind("td")] for row in parsed(table).iterfind(".//tbody/tr")
    ]
    assert found == [[name, shown(value)] for name, value in rows]
    lines = table.markdown().splitlines()
    assert len(lines) == 2 + len(rows) and lines[0] == "| \\<a> | b & c |"
    assert all(shown(value) in line for (_, value), line in zip(rows, lines[2:], strict=True))


def test_best_values_are_marked_ties_too_quoted_rows_never() -> None:
    rows = [["a", 1.0, 3.0, None], ["b", 2.0, Score(1.0, 0.1), 5.0], ["c", 2.001, None, None]]
    columns = ["m", Column("one", best="high"), Column("other", best="low"), Column("alone", best="high")]
    table = Table(columns, rows, quoted=[["d", "9.9", None, None]], quoted_title="Theirs")
    best = [cell.text for cell in parsed(table).iterfind(".//td") if "best" in cell.get("class", "")]
    assert best == ["2.00", "1.00 ± 0.10", "2.00"]
    assert table.markdown().count("**") == 2 * len(best)
    assert table.markdown().splitlines()[5:] == ["| d † | 9.9 | – | – |", "", "† Theirs."]


def test_cells_as_text() -> None:
    assert shown(None) == shown(float("nan")) == "–"
    assert shown(Score(74.206, 0.31, (73.5, 74.9)), 1) == "74.2 ± 0.3 [73.5, 74.9]"
    assert Score.over_seeds([]) is None and Score.over_seeds([2.0]) == Score(2.0)
    assert shown(Score.over_seeds([1.0, 3.0])) == "2.00 ± 1.41"
    table = Table(["name", "text"], [["a|b", "<i>\nc"]], notes=["x < y"])
    assert table.markdown().splitlines()[2] == "| a\\|b | \\<i> c |"  # no cell ends its row


def test_what_the_reader_sorts_and_what_stands_right() -> None:
    """Typed numbers are numbers; rows that belong together stay together."""
    rows = [["a", "1,200", "(71.3)", "+1.20* (p 0.034)", "5 words"], ["b", "≤ 500", "12.5 %", "–", "none"]]
    lefts = [cell.left for cell in Table(["m", "n", "o", "p", "q"], rows).head()]
    assert lefts == [True, False, False, False, True]
    tables = [Table(["m", "n"], [["a", 1], *more]) for more in ([["b", 2]], [["", 2]], [])]
    assert [table.sortable for table in tables] == [True, False, False]


@pytest.mark.filterwarnings("ignore:Glyph")
def test_figures_are_images_whatever_the_names() -> None:
    pytest.importorskip("matplotlib")
    name = "<a>\x1b[2J"  # a control character would end the report
    scores = {(name, "MR"): Score(50.0, 2.0), (name, "CR"): Score(float("nan"))}
    points = np.random.RandomState(0).randn(6, 3)
    grid = {"mean": np.array([[1.0, np.nan]])}
    drawings = [
        [
            plots.bars([name], ["MR", "CR"], scores, caption='"<&>'),
            *(
                plots.scatter(points, [0, 1] * 3, ["x", "$y$"], by=by, links=[(0, 1)])
                for by in ("pca", "tsne")
            ),
            plots.curves({"$x_1$": [(0, 1), (1, float("nan")), (2, 3)]}, y_label="<loss>"),
            plots.heat_map(grid, ["a"], ["p", "q"], diverging=True),
        ]
        for _ in range(2)
    ]
    assert drawings[0] == drawings[1]  # equal input, equal bytes
    images = list(parsed(*drawings[0]).iter("img"))
    assert images[0].get("alt") == '"<&>'
    for image in images:
        kind, encoded = str(image.get("src")).split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        assert ET.fromstring(base64.b64decode(encoded)).tag.endswith("svg")


def test_figures_without_values_or_matplotlib_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    assert plots.curves({"a": [(0, float("nan"))]}).note == plots.NOTHING
    assert "too few" in plots.scatter(np.ones((9, 2)), [0] * 9, ["a"], by="pca").note
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    html = Page("P", [Section("S", [plots.curves({"a": [(0, 1)]}, caption="loss")])]).html()
    assert "Figure left out: matplotlib" in html and "multiview-embeddings[report]" in html


def test_a_page_is_one_file() -> None:
    figure = Figure("<svg></svg>", "c & d")
    page = Page("T <1>", [Section("S", ["a < b", figure], note="n & m"), Section("Drawn", [figure])], "i > j")
    html = page.html()
    assert "<title>T &lt;1&gt;</title>" in html and "<p>a &lt; b</p>" in html and "<svg></svg>" in html
    assert "http" not in html and "src=" not in html
    assert page.markdown() == "# T \\<1>\n\ni > j\n\n## S\n\nn & m\n\na \\< b\n"
