"""Tables, plots and pages: one source for Markdown and HTML, well-formed, escaped, nothing fetched."""

import base64
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from senteval_runner.report import plots
from senteval_runner.report.page import Column, Figure, Page, Score, Section, Table, format_cell

printable = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Cn")), max_size=12)
numbers = st.floats(-1e6, 1e6, allow_nan=False)


def page_tree(*blocks: Table | Figure) -> ET.Element:
    return ET.fromstring(Page("P", [Section("S", blocks)]).html().split("\n", 1)[1])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(printable, numbers | st.none()), min_size=1, max_size=4))
def test_tables_hold_the_same_cells_in_both_outputs(rows) -> None:  # type: ignore[no-untyped-def]
    table = Table(["<a>", Column("b & c", best="high")], rows)
    html_rows = page_tree(table).iterfind(".//tbody/tr")
    texts = [[cell.text or "" for cell in row.iterfind("td")] for row in html_rows]
    assert texts == [[name, format_cell(value)] for name, value in rows]
    lines = table.markdown().splitlines()
    assert len(lines) == 2 + len(rows) and lines[0] == "| \\<a> | b & c |"
    assert all(format_cell(value) in line for (_, value), line in zip(rows, lines[2:], strict=True))


def test_best_values_are_marked_ties_too_quoted_rows_never() -> None:
    rows = [["a", 1.0, 3.0, None], ["b", 2.0, Score(1.0, 0.1), 5.0], ["c", 2.001, None, None]]
    columns = ["m", Column("one", best="high"), Column("other", best="low"), Column("alone", best="high")]
    table = Table(columns, rows, quoted_rows=[["d", "9.9", None, None]], quoted_source="Theirs")
    best = [cell.text for cell in page_tree(table).iterfind(".//td") if "best" in cell.get("class", "")]
    assert best == ["2.00", "1.00 ± 0.10", "2.00"]
    assert table.markdown().count("**") == 2 * len(best)
    assert table.markdown().splitlines()[5:] == ["| d † | 9.9 | – | – |", "", "† Theirs."]
    latex = table.latex()
    assert (
        r"b & \textbf{2.00} & \textbf{1.00 $\pm$ 0.10} & 5.00 \\" in latex
        and r"\begin{tabular}{lrrr}" in latex
    )
    assert latex.endswith("\\dag{} Theirs.\n")
    latex = Table(["a_b & 5%"], [["λ ≤ −0.1 {x} \\ ~^#$"]]).latex()
    assert r"a\_b \& 5\%" in latex
    assert r"$\lambda$ $\le$ $-$0.1 \{x\} \textbackslash{} \textasciitilde{}\textasciicircum{}\#\$" in latex


def test_cells_as_text() -> None:
    assert format_cell(None) == format_cell(float("nan")) == "–"
    assert format_cell(Score(74.206, 0.31, (73.5, 74.9)), 1) == "74.2 ± 0.3 [73.5, 74.9]"
    assert Score.over_seeds([2.0]) == Score(2.0)
    assert format_cell(Score.over_seeds([1.0, 3.0])) == "2.00 ± 1.41"
    table = Table(["name", "text"], [["a|b", "<i>\nc"]], notes=["x < y"])
    assert table.markdown().splitlines()[2] == "| a\\|b | \\<i> c |"  # no cell ends its row


@pytest.mark.usefixtures("drawings")
@pytest.mark.filterwarnings("ignore:Glyph")
def test_figures_are_images_whatever_the_names() -> None:
    pytest.importorskip("matplotlib")
    name = "<a>\x1b[2J"  # a control character would end the report
    scores = {(name, "MR"): Score(50.0, 2.0), (name, "CR"): Score(float("nan"))}
    points = np.random.RandomState(0).randn(6, 3)
    drawings = [
        [
            plots.bars([name], ["MR", "CR"], scores, caption='"<&>'),
            plots.scatter(points, [0, 1] * 3, ["x", "$y$"], by="pca", links=[(0, 1)]),
            plots.curves({"$x_1$": [(0, 1), (1, float("nan")), (2, 3)]}, y_label="<loss>"),
        ]
        for _ in range(2)
    ]
    assert drawings[0] == drawings[1]  # equal input, equal bytes
    images = list(page_tree(*drawings[0]).iter("img"))
    assert images[0].get("alt") == '"<&>'
    for image in images:
        kind, content = str(image.get("src")).split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        assert ET.fromstring(base64.b64decode(content)).tag.endswith("svg")
