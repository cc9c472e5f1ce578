"""The demo's steps and page on small models (``make demo`` runs the whole); retrieval against a loop."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corpora.support.errors import UserError
from multiview import train
from senteval_runner.demo import __main__ as demo
from senteval_runner.demo.retrieval import neighbour_retrieval, reciprocal_ranks
from tests.fixtures.trees import TINY, changed
from tests.parsing.trees.test_cache import corpus_of, write_cache


def test_the_demo_on_a_small_corpus(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UserError, match=r"stopped at: python -m parsing\.run none\.txt"):
        demo.run_step("1/1", "parsing.run", "none.txt")

    def step(title: str, module: str, *arguments: str) -> float:
        if module == "parsing.run":
            write_cache(Path(arguments[-1]), corpus_of(60))
        else:
            assert module == "multiview.readout"
            folders = {"trees": tmp_path / "trees/books-train", "output": tmp_path / "models"}
            size = {"batch": 8, "max_steps": 4, "validation": 16}
            assert not train.main(changed(TINY, loop=size, name=demo.ADAPTED, **folders))
        return 1.0

    monkeypatch.setattr(demo, "run_step", step)
    # The toy trees are by no parser that the installation's own encoder reads.
    monkeypatch.setattr("multiview.folder.files.BUILTIN_FOLDER", tmp_path / "models" / demo.ADAPTED)
    demo.main(demo.DemoConfig(output=tmp_path))
    results = json.loads((tmp_path / "results.json").read_text())
    words = {"SIF of its words", "SIF of random words"}
    assert set(results["retrieval"]) == {"builtin, adapted", "builtin", *words, "TF-IDF"}
    for scores in results["retrieval"].values():
        assert 0 <= scores["recall_at_1"]["value"] <= scores["mrr"]["value"] <= 1
    assert len(results["seconds"]) == 4
    assert "Neighbour retrieval" in (tmp_path / "report.html").read_text()


def by_loop(embeddings: np.ndarray, documents: list[int], block: int) -> list[float]:
    ranks = []
    for anchor in range(len(embeddings)):
        first = anchor // block * block
        inside = set(range(first, min(first + block, len(embeddings)))) - {anchor}
        cosine = {other: float(embeddings[anchor] @ embeddings[other]) for other in inside}
        near = {o for o in (anchor - 1, anchor + 1) if o in inside and documents[o] == documents[anchor]}
        if near:
            best = max(cosine[one] for one in near)
            ranks.append(1 / (1 + sum(cosine[other] >= best for other in inside - near)))
    return ranks


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12), st.integers(2, 9), st.integers(0, 2**31))
@settings(deadline=None, max_examples=40)
def test_ranks_equal_the_loop(lengths: list[int], block: int, seed: int) -> None:
    documents = [d for d, length in enumerate(lengths) for _ in range(length)]
    # One-hot rows: cosines are exactly 0 or 1 whatever the summation order, and ties abound.
    embeddings = np.eye(4, dtype=np.float32)[np.random.default_rng(seed).integers(0, 4, len(documents))]
    expected = by_loop(embeddings, documents, block)
    if expected:
        actual, owners = reciprocal_ranks(embeddings, np.array(documents), block)
        assert actual.tolist() == expected
        assert len(owners) == len(expected)


def test_a_difference_is_taken_anchor_by_anchor() -> None:
    rng = np.random.default_rng(0)
    documents = np.repeat(np.arange(60), 6)
    one = rng.normal(size=(360, 8)) + 2 * rng.normal(size=(60, 8))[documents]
    other = one + 0.1 * rng.normal(size=one.shape)
    found = neighbour_retrieval({"one": one, "other": other}, documents, block=120)
    hits = [(reciprocal_ranks(rows, documents, 120)[0] == 1).astype(float) for rows in (one, other)]
    behind, recall = found["other"].behind, found["other"].recall_at_1
    assert behind is not None and behind.value == pytest.approx((hits[0] - hits[1]).mean())
    assert behind.interval is not None and recall.interval is not None
    assert np.ptp(behind.interval) < np.ptp(recall.interval) / 2
