"""The demo's steps, scores and page on small models; ``make demo`` runs the whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from corpora.support.errors import UserError
from multiview import train
from senteval_runner.demo import __main__ as demo
from tests.fixtures import browser
from tests.fixtures.trees import TINY, changed
from tests.parsing.trees.test_cache import corpus_of, write_cache


def test_the_demo_on_a_small_corpus(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    typed = []

    def step(title: str, module: str, *arguments: str) -> float:
        typed.append((title, module))
        if module == "parsing.run":
            write_cache(Path(arguments[-1]), corpus_of(60))
        else:
            folders = {"trees": tmp_path / "trees/pydocs-train", "output": tmp_path / "models"}
            tiny = changed(TINY, loop={"batch": 8, "max_steps": 4, "validation": 16}, name=demo.ADAPTED)
            assert not train.main(changed(tiny, **folders))
        return 1.0

    monkeypatch.setattr(demo, "run_step", step)
    # The toy trees are by no parser that the installation's own encoder reads.
    monkeypatch.setattr("multiview.folder.names.BUILTIN_FOLDER", tmp_path / "models" / demo.ADAPTED)
    demo.main(demo.DemoConfig(output=tmp_path))
    assert typed == [
        ("1/4 parse the training text", "parsing.run"),
        ("2/4 parse the held-out packages", "parsing.run"),
        ("3/4 adapt the encoder in the package", "multiview.train"),
    ]
    results = json.loads((tmp_path / "results.json").read_text())
    words = [f"SIF of {kind} words" for kind in ("the adapted", "random")]
    assert set(results["retrieval"]) == {"builtin, adapted", "builtin", *words, "TF-IDF"}
    for scores in results["retrieval"].values():
        assert 0 <= scores["recall_at_1"]["mean"] <= scores["mrr"]["mean"] <= 1
    assert set(results["seconds"]) == {*(title[4:] for title, _ in typed), "evaluate"}
    page = (tmp_path / "report.html").read_text()
    for part in ("Neighbour retrieval", "<svg", "<img"):
        assert part in page
    browser.look(page, tmp_path)
    assert "open this in a browser" in capsys.readouterr().out


def test_a_step_that_refuses_its_input_ends_the_demo() -> None:
    with pytest.raises(UserError, match=r"stopped at: python -m parsing\.run none\.txt"):
        demo.run_step("1/1", "parsing.run", "none.txt")
