"""Tables for other programs: CSV, LaTeX, and the links that download them."""

from __future__ import annotations

import csv
import io
import xml.etree.ElementTree as ET
from urllib.parse import unquote

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from senteval_runner.report.page import Page, Section
from senteval_runner.report.table import Column, Score, Table

TABLE = Table(
    ["model", Column("MR", best="high"), Column("<SD & co>", digits=1)],
    [["dep_const", Score(74.2149, 0.31, (70.0, 80.5), "*"), 3], ["50 %", 60.125, None]],
    title="Accuracy of <all>",
    quoted=[["Logeswaran, 2018", 82.4, '"n/a"']],
    quoted_title="Published",
)


def test_csv_keeps_all_digits_and_splits_scores() -> None:
    assert TABLE.to_csv().splitlines() == [
        "model,MR,MR sd,MR low,MR high,<SD & co>",
        "dep_const,74.2149,0.31,70.0,80.5,3",
        "50 %,60.125,,,,",
        '"Logeswaran, 2018",82.4,,,,"""n/a"""',
    ]
    assert Table(["x"], [[np.float64(0.1)], [float("nan")], [np.int64(3)]]).to_csv() == 'x\n0.1\n""\n3\n'


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=("Cs", "Cc"))), st.floats(-1e9, 1e9))))
def test_csv_reads_back(rows) -> None:
    read = list(csv.reader(io.StringIO(Table(["name", "value"], rows).to_csv())))
    assert [(name, float(value)) for name, value in read[1:]] == [(n, v) for n, v in rows]


def test_latex_escapes_and_marks_the_best() -> None:
    lines = TABLE.to_latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lrr}" and lines[-2:] == [r"\bottomrule", r"\end{tabular}"]
    assert lines[2] == r"model & MR & \textless{}SD \& co\textgreater{} \\"
    assert lines[4] == r"dep\_const & \textbf{74.21 $\pm$ 0.31 [70.00, 80.50]*} & 3 \\"
    assert lines[5] == r"50 \% & 60.12 & -- \\"
    assert lines[7] == r"\multicolumn{3}{l}{Published} \\"
    assert Table(["a\\b{c}^~$#"], []).to_latex().splitlines()[2] == (
        r"a\textbackslash{}b\{c\}\textasciicircum{}\textasciitilde{}\$\# \\"
    )


def test_the_page_links_to_both() -> None:
    page = ET.fromstring(Page("P", [Section("S", [TABLE])]).html().split("\n", 1)[1])
    links = [link for link in page.iter("a") if link.get("download")]
    assert [link.get("download") for link in links] == ["accuracy-of-all.csv", "accuracy-of-all.tex"]
    found = [unquote(str(link.get("href")).split(",", 1)[1]) for link in links]
    assert found == [TABLE.to_csv(), TABLE.to_latex()]
    assert Table(["x"], []).downloads()[0][1] == "table.csv"
