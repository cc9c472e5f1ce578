"""The demo's three commands and its page, on the first sentences of each book."""

import lzma
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corpora import books
from corpora.senteval import structure
from parsing import run as parsing_run
from runtime.errors import UserError
from senteval_runner.demo import __main__ as demo
from senteval_runner.demo.page import ROWS, _conclusion, _hits
from senteval_runner.protocol.config import TaskResult
from senteval_runner.report.page import Score
from tests.fixtures.pages import make_light

SENTENCES = 10
"""Of each book."""


@pytest.fixture
def short_books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The corpus in the package, but only the first sentences of each book, and a twelfth of Binding."""
    folder = tmp_path / "books"
    folder.mkdir()
    texts = ["\n".join(book.sentences[:SENTENCES]) for book in books.books()]
    (folder / "books.txt.xz").write_bytes(lzma.compress("\n\n".join(texts).encode()))
    (folder / "books.tsv").write_bytes((books.FOLDER / "books.tsv").read_bytes())
    some_frames = [triplet for triplet in structure.triplets("test") if triplet.frame % 12 == 0]
    monkeypatch.setattr("corpora.senteval.files.triplets", lambda split: some_frames)
    monkeypatch.setattr(books, "FOLDER", folder)
    monkeypatch.setattr(books, "TEXT", folder / "books.txt.xz")


TITLES = (
    "means the same",
    "The judge of pairs",
    "Two of the parsed sentences",
    "An experiment",
    "Authors: which of ten",
    "Authors, per cent right",
    "Binding, per cent right",
    "Per cent right [95 % interval]",
    "Validation loss",
    "Nearest sentences",
)
"""What stands on the page, in this order."""


@pytest.mark.process
@pytest.mark.timeout(900)  # it goes on from builtin, which takes longer than a model of few numbers
@pytest.mark.usefixtures("short_books")
def test_the_demo_on_short_books(tmp_path: Path, monkeypatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    make_light(monkeypatch)
    demo.main(demo.DemoConfig(output=Path("demo")))
    output = capfd.readouterr().out
    assert output.index("praised/VBD  (root") < output.index("$ python -m parsing.run books")
    page = Path("demo/report.html").read_text(encoding="utf-8")
    _, body = page.split("</h2>", 1)  # below the contents, which name the sections, too
    places = [body.index(title) for title in TITLES]
    assert places == sorted(places), "what works stands first, definitions above their tables"
    assert "opposite: enable | disable" in page
    for title in ("Per cent right [95 % interval]", "How far the trained model is ahead, item by item"):
        table = re.findall(f"{re.escape(title)}.*?</table>", page, re.DOTALL)[0]
        rows = re.findall(r"<tr>\n?<td[^>]*>([^<]*)</td>", table)
        assert rows == list(ROWS if "right" in title else ROWS[1:])
    assert " its start" in page or ("no gain" in page and "also in the model&#39;s card" in page)
    drawings = re.findall(r"<svg[^>]*max-width:100%", page)
    assert len(drawings) == 4, "both trees of two sentences, as wide as the page at most"
    demo.main(demo.DemoConfig(output=Path("demo")))  # finds everything done
    page_again = Path("demo/report.html").read_text(encoding="utf-8")
    # The longest time of a step counts, and on a busy machine that of a finished one may be longer.
    times = re.compile("Where the time went.*?</table>", re.DOTALL)
    assert times.search(page) and times.sub("", page_again) == times.sub("", page)


def test_a_step_that_refuses_ends_the_demo_in_one_line(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match=r"stopped at: python -m parsing\.run none\.txt"):
        demo.run_step("1/4", "parsing.run", "none.txt")
    assert "$ python -m parsing.run none.txt" in capfd.readouterr().out


def test_ctrl_c_in_a_step_ends_the_demo_in_the_step_s_one_line(tmp_path: Path, monkeypatch, capfd) -> None:
    def stopped(config: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "commands", lambda *folders: {"parse": ["parsing.run", "books"]})
    monkeypatch.setattr(parsing_run, "cli", replace(parsing_run.cli, main=stopped))
    (tmp_path / demo.SECONDS_FILE).write_text('{"parse": 1.0}')
    assert demo.cli(["--output", str(tmp_path)]) == 130
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_only_what_is_beyond_an_interval_is_said() -> None:
    ahead, behind, unclear = (Score(0.0, interval=ends) for ends in ((0.1, 2.0), (-2.0, -0.1), (-1.0, 1.0)))
    won = _conclusion({"A": ahead, "B": behind, "C": unclear, "D": ahead})
    assert won == "Training is ahead of builtin, its start, beyond the intervals, in A, D."
    helps = _conclusion({"A": behind, "B": unclear})
    assert helps.startswith("So on so little text training does not pay beyond its start.")


def test_items_that_depend_on_each_other_are_one_group() -> None:
    def result(task: str, **gold: list[float]) -> TaskResult:
        wrong = {
            split: [value + (n == 0) for n, value in enumerate(values)] for split, values in gold.items()
        }
        return TaskResult(task=task, metrics={}, dim=1, rows={}, predictions=wrong, gold=gold)

    hits, groups = _hits(result("Neighbours", one=[1.0] * 3, two=[1.0] * 2))
    assert hits.tolist() == [0, 100, 100, 0, 100] and groups.tolist() == [0, 0, 0, 1, 1]
    _, groups = _hits(result("Binding", passive=[1.0] * 40))
    assert np.bincount(groups).tolist() == [20, 20]
    assert len(set(_hits(result("Authors", test=[1.0] * 4))[1])) == 4
