"""Published rows: transcribed whole, consistent with each other, never taken for ours."""

from __future__ import annotations

from senteval_runner import running
from senteval_runner.report import tables
from senteval_runner.report.tables import AVERAGE, NOTE, PAIR_AVERAGES, PAPER_COLUMNS, published_rows
from tests.senteval_runner.test_run import config


def test_the_papers_averages_follow_from_its_rows() -> None:
    """The table of pairs and the table of results were typed apart: they must agree to the digit printed."""
    rows = {line["model"]: scores for line, scores in published_rows()}
    for row, pair in (("SEQ, CONST", "SEQ, CONST"), ("DEP, SEQ", "SEQ, DEP"), ("DEP, CONST", "DEP, CONST")):
        assert round(rows[row][AVERAGE], 1) == PAIR_AVERAGES[pair]


def test_rows_are_whole() -> None:
    for line, scores in published_rows():
        assert line["quoted from"] and line["dim"] and all(20 < value < 100 for value in scores.values())
        assert (AVERAGE in scores) == (len(scores) > len(PAPER_COLUMNS))
    effort = {line["model"]: (line["dim"], line["hours"]) for line, _ in published_rows()}
    assert len(effort) == 17 and effort["Skip-Thought + LN"] == ("4800", "672")
    assert effort["DEP, CONST"] == ("4800", "39") and effort["BERT-base [CLS]"] == ("768", "96")


def test_reports_set_them_apart(tmp_path, data, words, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert running.run(config(tmp_path, data, str(words), tasks="CR")) == 0
    markdown = (tmp_path / "report/results.md").read_text()
    page = (tmp_path / "report/report.html").read_text()
    assert "| DEP, CONST (Simoulin & Crabbé 2021) † | 4800 | 83.6 |\n" in markdown and f"† {NOTE}" in markdown
    # What was asked for: no hours of what was not trained here, no MR, no averages.
    assert "| model | Dim | CR |\n" in markdown and "CONST, CONST" not in markdown
    assert "Published rows are quoted, not computed here" in page and "Logeswaran &amp; Lee 2018" in page
    assert "quoted" in (tmp_path / "report/results.tex").read_text()
    # without a task of the table there is nothing to compare
    assert running.run(config(tmp_path, data, str(words), tasks="WordContent")) == 0
    assert "DEP, CONST" not in (tmp_path / "report/results.md").read_text()


def test_only_what_was_asked_for_is_quoted() -> None:
    models = {"ours": [{"SICKRelatedness": {"pearson": 0.8, "spearman": 0.7, "mse": 0.3}}]}
    table = tables.score_sections(models, {"ours": (256, 0.5)})[0].blocks[0]
    assert isinstance(table, tables.Table)
    names = ["model", "Dim", "Hrs", "SICK-R r", "SICK-R ρ", "SICK-R MSE"]
    assert [cell.text for cell in table.head()] == names
    quoted = {str(row[0]).split(" (")[0]: row[1:] for row in table.quoted}
    assert quoted["DEP, CONST"] == ["4800", "39", "87.0", "80.3", "24.8"]
    assert "FastSent" not in quoted  # has no SICK-R
    assert quoted["InferSent"] == ["4096", "–", "88.4", None, None]
