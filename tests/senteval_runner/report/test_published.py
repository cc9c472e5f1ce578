"""Published rows: transcribed whole, consistent with each other, never taken for ours."""

from __future__ import annotations

import pytest

from senteval_runner import running
from senteval_runner.report import tables
from senteval_runner.report.published import CONTROLS, NOTE, PAIR_AVERAGES, SENTEVAL
from tests.senteval_runner.test_run import config


def test_the_papers_averages_follow_from_its_rows() -> None:
    """The table of pairs and the table of results were typed apart: they must agree to the digit printed."""
    rows = {row.model: row for row in SENTEVAL}
    for row, pair in (("SEQ, CONST", "SEQ, CONST"), ("DEP, SEQ", "SEQ, DEP"), ("DEP, CONST", "DEP, CONST")):
        average = tables.paper_average(tables.published_scores(rows[row]))
        assert round(average, 1) == PAIR_AVERAGES[pair]
        assert tables.published_cells(rows[row], [tables.AVERAGE]) == [f"{PAIR_AVERAGES[pair]:.1f}"]


def test_dimensions_and_hours_are_the_papers() -> None:
    effort = {row.model: (row.dim, row.hours) for row in SENTEVAL}
    assert effort["Skip-Thought"] == ("4800", "336") and effort["Skip-Thought + LN"] == ("4800", "672")
    assert effort["QuickThought"] == ("4800", "11") and effort["BERT-base [CLS]"] == ("768", "96")
    ours = {"SEQ, CONST": "41", "DEP, SEQ": "27", "DEP, CONST": "39"}
    assert {name: effort[name] for name in ours} == {name: ("4800", hours) for name, hours in ours.items()}


@pytest.mark.parametrize("row", [*SENTEVAL, *CONTROLS], ids=lambda row: row.model)
def test_rows_are_whole(row) -> None:
    assert len(row.scores) == len(tables.PAPER_COLUMNS) and row.quoted_from and row.dim
    assert all(value is None or 20 < value < 100 for value in row.scores)
    assert (tables.published_cells(row, [tables.AVERAGE]) == [None]) == (None in row.scores)


def test_reports_set_them_apart(tmp_path, data, words, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert running.run(config(tmp_path, data, str(words), tasks="CR")) == 0
    markdown = (tmp_path / "report/results.md").read_text()
    page = (tmp_path / "report/report.html").read_text()
    assert "| *DEP, CONST (Simoulin & Crabbé 2021)* | *4800* | *83.6* |\n" in markdown and NOTE in markdown
    # What was asked for: no hours of what was not trained here, no MR, no averages.
    assert "| model | Dim | CR |\n" in markdown and "CONST, CONST" not in markdown
    assert "Published, not computed here" in page and "Logeswaran &amp; Lee 2018" in page
    row = next(line for line in page.split("<tr") if "DEP, CONST (" in line)
    assert row.startswith(' class="apart"') and "best" not in row
    assert running.run(config(tmp_path, data, str(words), tasks="CR", published=False)) == 0
    assert "Published, not computed" not in (tmp_path / "report/results.md").read_text()
    # without a task of the table there is nothing to compare
    assert running.run(config(tmp_path, data, str(words), tasks="WordContent")) == 0
    assert "*DEP, CONST" not in (tmp_path / "report/results.md").read_text()


def test_only_what_was_asked_for_is_quoted() -> None:
    models = {"ours": [{"SICKRelatedness": {"pearson": 0.8, "spearman": 0.7, "mse": 0.3}}]}
    table = tables.paper_table(models, (*SENTEVAL, *CONTROLS), efforts={"ours": tables.Effort(256, 0.5)})
    names = ["model", "Dim", "Hrs", "SICK-R r", "SICK-R ρ", "SICK-R MSE"]
    assert [cell.text for cell in table.head()] == names
    quoted = {str(row[0]).split(" (")[0]: row[1:] for row in table.quoted}
    assert quoted["DEP, CONST"] == ["4800", "39", "87.0", "80.3", "24.8"]
    assert "FastSent" not in quoted  # has no SICK-R
    assert quoted["InferSent"] == ["4096", "–", "88.4", None, None]
