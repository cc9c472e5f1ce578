"""Other toolkits' interfaces."""

import pickle

import numpy as np
import pytest

from multiview.model import MultiViewEncoder
from runtime.errors import UserError
from senteval_runner.mteb import MtebEncoder
from tests.senteval_runner.encoders import RandomBag


def test_mteb_s_texts_are_tokenised_by_the_model() -> None:
    """Raw text goes the way the model's own ``encode`` goes: a comma is a token, not part of a word."""
    model = MultiViewEncoder.untrained("seq", dim=6, word_dim=4)
    vectors = MtebEncoder(model, "mine").encode([{"text": ["Well, it rains.", " "]}])
    np.testing.assert_array_equal(vectors[:1], model.encode(["Well, it rains."], show_progress_bar=False))
    split = model.encode([["Well,", "it", "rains."]], show_progress_bar=False)
    assert np.abs(vectors[:1] - split).max() > 1e-3
    np.testing.assert_allclose(vectors[1:], model.encode(["."], show_progress_bar=False), atol=1e-6)


@pytest.mark.parametrize(
    "wrong", [["a cat"], [{"texts": ["a cat"]}], {"text": ["a cat"]}, None, [1], "a cat"]
)
def test_what_is_no_batch_of_mteb_s_is_one_line(wrong) -> None:
    model = MultiViewEncoder.untrained("seq", dim=6, word_dim=4)
    with pytest.raises(UserError, match="is no batch of MTEB's"):
        MtebEncoder(model, "mine").encode(wrong)


def test_it_can_be_pickled() -> None:
    model = MtebEncoder(MultiViewEncoder.untrained("seq", dim=6, word_dim=4), "mine")
    batches = [{"text": ["It"]}]
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).encode(batches), model.encode(batches))


@pytest.mark.filterwarnings("default")
def test_mteb_runs_a_task_of_its_own() -> None:
    """One of its tasks with sentences of ours, so that nothing is fetched; needs the extra ``bench``."""
    mteb = pytest.importorskip("mteb")
    from datasets import Dataset, DatasetDict

    rng = np.random.RandomState(0)
    rows = []
    for _ in range(60):
        a, b, keep = rng.randint(0, 30, 8), rng.randint(0, 30, 8), rng.randint(0, 9)
        b[:keep] = a[:keep]
        first, second = (" ".join(map(str, side)) for side in (a, b))
        rows.append({"sentence1": first, "sentence2": second, "score": keep / 8 * 5})
    task = mteb.get_task("STS12")
    task.dataset, task.data_loaded = DatasetDict(test=Dataset.from_list(rows)), True
    result = mteb.evaluate(MtebEncoder(RandomBag(200), "bag"), task, cache=None)
    assert result.task_results[0].get_score() > 0.8
