"""Other toolkits' interfaces."""

from __future__ import annotations

import numpy as np
import pytest

from multiview.model import MultiViewEncoder
from senteval_runner.adapters import MtebEncoder
from tests.senteval_runner.encoders import RandomBag

UNKNOWN = (
    *("reference", "date", "domains", "task_subtypes", "license", "annotations_creators", "dialect"),
    *("sample_creation", "bibtex_citation"),
)
"""What mteb wants said of a task's data."""


def test_mteb_s_protocol() -> None:
    model = MtebEncoder(RandomBag(5), "bag")
    vectors = model.encode([{"text": ["a b", "c"]}, {"text": ["a b"]}], task_metadata=None, hf_split="test")
    assert vectors.shape == (3, 5)
    np.testing.assert_allclose(model.similarity(vectors, vectors)[0, 2], 1, rtol=1e-5)
    pairs = model.similarity_pairwise(vectors[:2], vectors[1:])
    np.testing.assert_allclose(pairs, np.diag(model.similarity(vectors[:2], vectors[1:])), rtol=1e-5)


def test_mteb_s_texts_are_tokenised_by_the_model() -> None:
    """Raw text goes the way the model's own ``encode`` goes: a comma is a token, not part of a word."""
    model = MultiViewEncoder.untrained("seq", dim=6, word_dim=4)
    found = MtebEncoder(model, "mine").encode([{"text": ["Well, it rains.", " "]}])
    np.testing.assert_array_equal(found[:1], model.encode(["Well, it rains."], show_progress_bar=False))
    split = model.encode([["Well,", "it", "rains."]], show_progress_bar=False)
    assert np.abs(found[:1] - split).max() > 1e-3
    np.testing.assert_allclose(found[1:], model.encode(["."], show_progress_bar=False), atol=1e-6)


@pytest.mark.filterwarnings("default")
def test_mteb_runs_a_task_of_its_own() -> None:
    """A local STS task, so that nothing is fetched; it runs where the extra ``bench`` is installed."""
    mteb = pytest.importorskip("mteb")
    from datasets import Dataset, DatasetDict
    from mteb.abstasks.sts import AbsTaskSTS
    from mteb.abstasks.task_metadata import TaskMetadata

    rng = np.random.RandomState(0)
    pairs = []
    for _ in range(60):
        a, b, keep = rng.randint(0, 30, 8), rng.randint(0, 30, 8), rng.randint(0, 9)
        b[:keep] = a[:keep]
        pairs.append((" ".join(map(str, a)), " ".join(map(str, b)), keep / 8 * 5))

    class LocalSts(AbsTaskSTS):
        min_score, max_score = 0, 5
        metadata = TaskMetadata(
            name="LocalSts",
            dataset={"path": "local/sts", "revision": "1"},
            description="Shared words.",
            type="STS",
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score="cosine_spearman",
            **dict.fromkeys(UNKNOWN),
        )

        def load_data(self, **_) -> None:
            rows = [dict(zip(("sentence1", "sentence2", "score"), pair, strict=True)) for pair in pairs]
            self.dataset = DatasetDict(test=Dataset.from_list(rows))
            self.data_loaded = True

    result = mteb.evaluate(MtebEncoder(RandomBag(200), "bag"), LocalSts(), cache=None)
    assert result.task_results[0].get_score() > 0.8
