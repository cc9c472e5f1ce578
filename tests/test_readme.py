"""What the documentation shows in Python runs as printed, on a tiny model with the shipped parsers."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from multiview import train
from multiview.config import EncoderConfig, LoopConfig, TableConfig, TrainConfig
from parsing import run
from tests.test_commands import ROOT

pytestmark = pytest.mark.repo

DOCUMENTS = (
    "A cat sat on the mat.\nThe dog sleeps.\nIt dreams of cats.\n",
    "Prices fell on Monday.\nInvestors sold their shares.\nThe bank lost money.\n",
)
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``runs/trees/corpus`` and ``runs/models/dep-const-laptop``, as the README has it."""
    folder = tmp_path_factory.mktemp("readme")
    text = folder / "corpus.txt"
    text.write_text("\n".join(DOCUMENTS * 6), encoding="utf-8")
    trees = folder / "runs/trees/corpus"
    assert not run.main(run.ParseConfig(corpus=str(text), output=trees, format="lines", workers=1))
    config = TrainConfig(
        trees=trees,
        output=folder / "runs/models",
        device="cpu",
        table=TableConfig(dim=16),
        encoder=EncoderConfig(dim=16),
        loop=LoopConfig(batch=6, max_steps=2, validation=6),
    )
    assert train.main(config) == 0
    return folder


@pytest.mark.parametrize(
    "page", ["README.md", "docs/tutorial.md", "docs/parsing-alone.md", "docs/explain.md"]
)
def test_python_examples(page: str, workplace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workplace)
    # A closing fence after an example would be read as its output.
    text = (ROOT / page).read_text(encoding="utf-8").replace("```", "\n")
    found = doctest.DocTestParser().get_doctest(text, {}, page, page, 0)
    assert found.examples
    outcome = doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(found)
    assert outcome.failed == 0


def test_figures_are_those_of_the_results() -> None:
    readme, results = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/results.md"))
    table = readme[readme.index("encoder  ") :].split("```")[0]
    rows = [re.split(r"  +", line) for line in table.strip().split("\n")[1:]]
    assert len(rows) <= 6
    assert all(f"| {' | '.join([*row, '–'][:4])} |" in results for row in rows)
    figures = re.findall(r"\d+\.\d+", readme[readme.index("| you want |") :].split("\n\n")[0])
    assert len(figures) > 10 and [figure for figure in figures if figure not in results] == []
