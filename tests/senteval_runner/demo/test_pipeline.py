"""The demo's steps, scores and page on small models; ``make demo`` runs the whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from corpora.support.errors import UserError
from corpora.support.steps import run_step
from multiview import train
from multiview.model import MultiViewEncoder
from parsing.cache.reader import TreeCache
from senteval_runner.demo import pipeline as demo
from senteval_runner.demo.report import curve_name
from tests.fixtures import browser
from tests.fixtures.trees import TINY, changed
from tests.parsing.cache.test_reader import corpus_of, write_cache


def test_word_averages_and_documents_equal_loops(tmp_path: Path) -> None:
    write_cache(tmp_path / "trees", corpus_of(30))
    cache = TreeCache.open(tmp_path / "trees")
    sentences, model = demo.tokens_of(cache), MultiViewEncoder.untrained("dep,const", dim=6, word_dim=4)
    averages = demo.word_average(model, sentences)
    assert averages.shape == (30, 8)
    for words, found in zip(sentences, averages, strict=True):
        np.testing.assert_allclose(found, model.word_vectors(words).mean(axis=0), atol=1e-6)
    offsets = list(cache.documents())
    expected = [d for d in range(len(offsets) - 1) for _ in range(offsets[d], offsets[d + 1])]
    assert demo.sentence_documents(cache).tolist() == expected


def test_the_demo_on_a_small_corpus(tmp_path: Path, monkeypatch, capsys) -> None:  # type: ignore[no-untyped-def]
    typed = []

    def step(title: str, module: str, *arguments: object) -> float:
        typed.append((module, arguments))
        if module == "parsing.run":
            write_cache(Path(str(arguments[-1])), corpus_of(60))
        elif module == "multiview.train":
            name = arguments[arguments.index("--name") + 1]
            tiny = changed(TINY, loop={"batch": 8, "max_steps": 4}, validation={"sentences": 16}, name=name)
            folders = {"trees": tmp_path / "trees/pydocs-train", "output": tmp_path / "models"}
            assert not train.main(changed(tiny, **folders))
        return 1.0

    monkeypatch.setattr(demo, "run_step", step)
    # The toy trees are by no parser that the installation's own encoder reads.
    monkeypatch.setattr("multiview.folder.names.BUILTIN_FOLDER", tmp_path / "models" / demo.SCRATCH)
    demo.main(demo.DemoConfig(output=tmp_path))
    assert [module for module, _ in typed] == [
        *("parsing.run", "parsing.run", "multiview.train", "multiview.train")
    ]
    results = json.loads((tmp_path / "results.json").read_text())
    assert set(results["retrieval"]) == {
        *("builtin, adapted", "builtin, adapted, before its first step", "builtin"),
        *("DEP+CONST of this text alone", "DEP+CONST, before its first step"),
        *("average of the adapted words", "SIF of the adapted words"),
        *("average of random words", "SIF of random words", "TF-IDF"),
    }
    for scores in results["retrieval"].values():
        assert 0 <= scores["recall_at_1"]["mean"] <= scores["mrr"]["mean"] <= 1
    assert set(results["seconds"]) == {
        *("parse training text", "parse held-out text", "adapt", "train", "evaluate"),
    }
    page = (tmp_path / "report.html").read_text()
    for words in ("Neighbour retrieval", "sentences kept out of training", "by cosine", "<svg"):
        assert words in page
    browser.look(page, tmp_path)
    assert "accuracy@1" not in page  # curves have names that a reader understands
    assert "open this in a browser" in capsys.readouterr().out


def test_curves_are_named_in_words() -> None:
    assert curve_name("recall@1") == "all views side by side, by cosine"
    named = curve_name("accuracy@1/0-dep,1-const")
    assert named == "DEP against CONST, by the score that training uses"


def test_a_step_that_refuses_its_input_ends_the_demo() -> None:
    with pytest.raises(UserError, match=r"stopped at: python -m parsing\.run none\.txt"):
        run_step("1/1", "parsing.run", "none.txt")
