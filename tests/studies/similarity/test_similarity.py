"""Similarity sets: published formats, correlations by hand, fine-tuning, published rows below ours."""

import itertools
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from corpora.pairs import find_set
from corpora.senteval.files import read_task
from multiview.names.opened import as_encoder
from runtime.errors import UserError
from senteval_runner import evaluate
from senteval_runner.evaluation_trees import open_model
from senteval_runner.towers.transformer import load_tower
from studies.finetune.backbone import build_tiny
from studies.finetune.examples import PER_CLASS, Examples, split_phrases
from studies.finetune.training import is_tunable, tunable_tower
from studies.runner import read_published
from studies.similarity import run
from studies.similarity.__main__ import cli
from studies.similarity.run import (
    SEMEVAL,
    STS_TASKS,
    correlate,
    phrase_pairs,
    sentence_similarity,
    tuned_accuracy,
    with_averages,
)
from tests.fixtures.processes import ROOT
from tests.senteval_runner.encoders import Letters, RandomBag

SCWS = "1\told\ta\tnew\ta\tthe <b>old</b>\x85man\ta\x0c<b>new</b> man\t1.58\t1\t2\n"
"""With signs that str.splitlines takes for the end of a line."""
FORMATS = {
    "SimLex-999": ("SimLex-999.txt", "word1\tword2\tPOS\tSimLex999\told\nold\tnew\tA\t1.58\t2.72\n"),
    "WS-353-sim": ("wordsim_similarity_goldstandard.txt", "old\tnew\t1.58\n"),
    "MEN": ("MEN_dataset_natural_form_full", "old new 1.58\n"),
    "RW": ("rw.txt", "old\tnew\t1.58\t1\t2\t3\n"),
    "SimVerb-3500": ("SimVerb-3500.txt", "old\tnew\tV\t1.58\tSYNONYMS\n"),
    "SCWS": ("ratings.txt", SCWS),
}


@pytest.mark.parametrize("name", FORMATS)
def test_published_formats(name: str, tmp_path: Path) -> None:
    assert find_set(name, tmp_path) is None
    file, text = FORMATS[name]
    (tmp_path / file).write_bytes(text.encode())
    pairs = find_set(name, tmp_path)
    assert pairs is not None and (pairs.left, pairs.right, pairs.score) == (("old",), ("new",), (1.58,))


@pytest.mark.data
def test_counts_of_the_real_sets(data_folder: Path) -> None:
    counts = {"SimLex-999": 999, "WS-353-sim": 203, "WS-353-rel": 252, "RW": 2034, "SimVerb-3500": 3499}
    for name, count in counts.items():
        pairs = find_set(name, data_folder / "wordsim")
        assert pairs is not None and abs(len(pairs.score) - count) <= 1, name


def test_correlation_follows_the_cosine() -> None:
    vectors, left, right = as_encoder(Letters()), ["a"] * 4, ["a", "aab", "ab", "abb"]
    assert correlate(vectors, left, right, [4.0, 3.0, 2.0, 1.0]) == pytest.approx(100)
    assert correlate(vectors, left, right, [4.0, 2.0, 3.0, 1.0]) == pytest.approx(80)
    assert correlate(vectors, ["a", "b"], ["a", "b"], [1.0, 2.0]) == 0.0


def test_the_command_scores_a_vector_file_and_names_missing_sets(tmp_path: Path) -> None:
    (tmp_path / "rw.txt").write_text("old\taged\t9\nold\tnew\t5\nold\tdog\t1\n")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("old 1 0\naged 1 0.1\nnew 1 1\ndog 0 1\n")
    options = ("--words", str(tmp_path), "--published", "models", "--output", str(tmp_path / "out"))
    assert cli([str(vectors), *options]) == 0
    assert cli([str(vectors), "--output", str(tmp_path / "out")]) == 2  # nothing to compare
    assert cli([str(vectors), *options, "--fine-tune"]) == 2
    report = (tmp_path / "out" / "report.md").read_text()
    assert "| 100.0 |" in report and "SimLex-999" in report
    assert report.index("vectors.txt |") < report.index("| BURT † |") < report.index("† published (BURT)")


def test_phrases_of_ppdb_are_those_that_training_leaves_out(tmp_path: Path) -> None:
    """Pairs of two single words do not count; kinds, lengths and balance are those of training."""
    file, scores = tmp_path / "ppdb.txt", {}
    kinds = ["Equivalence", "ForwardEntailment", "ReverseEntailment", "Independent", "Exclusion"]
    rows = [(f"{i} x", f"{i % 7}", kinds[i % 5]) for i in range(60)]
    rows += [(b, a, label) for a, b, label in rows]
    rows += [(f"{i}", f"{i % 7}", "Equivalence") for i in range(60)] + [("a b c d e f g", "x", kinds[0])]
    with file.open("w") as lines:
        for place, (a, b, label) in enumerate(rows):
            scores[a, b] = place / 100
            lines.write(f"[NP] ||| {a} ||| {b} ||| Equivalence={place / 100} Abc=1 ||| 0-0 ||| {label}\n")
    for fraction in (0.0, 0.3):
        pairs = {(a, b): gold for a, b, gold in zip(*phrase_pairs(file, fraction), strict=True)}
        assert pairs == {pair: scores[pair] for pair in pairs} and 5 < len(pairs) <= 72
        side = split_phrases(rows, PER_CLASS, fraction)[fraction > 0]
        labels = dict(zip(side.pairs, side.target.tolist(), strict=True))
        counts = np.bincount([labels[pair] for pair in pairs], minlength=3)
        totals = np.bincount(side.target)
        assert counts[1:].tolist() == totals[1:].tolist(), "all that training holds out of the balanced pairs"
        assert counts[0] <= totals[0], "single words are left out afterwards"
    for line in ("a x ||| b ||| Abc=1 ||| 0-0", "a ||| b ||| Equivalence=1 ||| 0-0 ||| Equivalence"):
        file.write_text(f"[NP] ||| {line}\n")
        with pytest.raises(UserError, match="feature Equivalence"):
            phrase_pairs(file)


def test_sentence_pairs_with_and_without_a_head(data: Path) -> None:
    task, bag = read_task("SICK-R", data), as_encoder(RandomBag(20))
    figures = sentence_similarity(bag, data, task=task, seed=1111)
    result = evaluate(RandomBag(20), ["SICK-R"], data)["SICKRelatedness"]
    assert figures["SICKRelatedness (trained head)"] == pytest.approx(100 * result["spearman"])
    part = task.splits["test"]
    left, right = ([" ".join(tokens) for tokens in side or []] for side in (part.a, part.b))
    assert figures["SICKRelatedness (untrained)"] == pytest.approx(correlate(bag, left, right, part.y))


COLOURS = ["red", "blue", "green", "white"]
THINGS = ["car", "house", "tree", "dog", "boat", "hat"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS] * 2
    return build_tiny(tmp_path_factory.mktemp("tiny") / "bert", texts, layers=1, width=32, vocabulary=200)


@pytest.mark.usefixtures("fake_device")
def test_encoder_and_classifier_are_trained_together(
    bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A colour means a phrase that begins with it."""
    product = itertools.product(COLOURS, COLOURS, THINGS)
    rows = [(first, f"{second} {thing}", int(first == second)) for first, second, thing in product]
    pairs = Examples.of_pairs(row for place, row in enumerate(rows) if row[2] or place % 3 == 0)
    monkeypatch.setattr(run, "EPOCHS", 30)
    monkeypatch.setattr(run, "tunable_tower", partial(tunable_tower, dropout=0.0))
    options = {"train": pairs, "test": pairs, "seed": 1, "learning_rate": 3e-3}
    assert tuned_accuracy(open_model(f"mean:{bert}"), tmp_path, **options)[SEMEVAL] > 90


@pytest.mark.usefixtures("both_devices")
def test_poolings_are_rows_of_their_own(bert: Path, words: Path) -> None:
    assert not is_tunable(open_model(str(words))), "word vectors stay fixed, as in BURT"
    tower = load_tower(str(bert)).eval()
    for pooling in ("cls", "max", "mean"):
        model = open_model(f"{pooling}:{bert}")
        with torch.inference_mode():
            vector = tower.embed(["red car"], pooling).numpy()  # type: ignore[arg-type]
            tunable_vector = tunable_tower(model).eval().embed(["red car"])  # type: ignore[operator]
        np.testing.assert_allclose(model.encode([["red", "car"]]), vector, atol=1e-6)
        np.testing.assert_allclose(tunable_vector.cpu().numpy(), vector, atol=1e-6)
        assert is_tunable(model)


MODELS, ABLATION = (
    read_published(ROOT / f"studies/similarity/published-{name}.csv") for name in ("models", "ablation")
)
# fmt: off
AVERAGES = {  # averages over sentences and over words, Tables 2 and 3
    "Avg. GloVe": (58.8, 65.8), "Avg. FastText": (65.7, 72.2), "SkipThought": (52.6, 51.0),
    "InferSent-2": (70.5, 62.0), "GenSen LAST": (68.6, 51.7), "BERT CLS": (60.6, 14.4),
    "BERT MAX": (57.1, 24.6), "BERT MEAN": (40.9, 15.9), "ALBURT": (75.1, 65.6), "BURT": (76.8, 63.7),
}
ABLATION_AVERAGES = [30.8, 63.6, 46.2, 63.7, 54.9, 57.2, 63.7, 14.3, 45.5, 55.6, 63.7, 59.6, 57.5, 56.4,
                     56.2, 63.7, 58.2, 61.3]
# fmt: on


def test_the_cells_give_the_printed_averages() -> None:
    """But for BERT CLS and BERT MEAN, each in the other's row, and the first row of Table 4."""
    frozen_models = [name for name, row in MODELS.items() if SEMEVAL not in row]
    assert frozen_models == list(AVERAGES)[:5]
    assert all(f"{SEMEVAL}, frozen" in MODELS[name] for name in frozen_models)
    swaps = {"BERT CLS": "BERT MEAN", "BERT MEAN": "BERT CLS"}
    for name, row in MODELS.items():
        scores = with_averages(row)
        averages = AVERAGES[swaps.get(name, name)]
        assert (scores["sentences"], scores["words"]) == pytest.approx(averages, abs=0.11), name
    rows = [with_averages(row)["words"] for row in ABLATION.values()]
    errors = [abs(ours - value) for ours, value in zip(rows, ABLATION_AVERAGES, strict=True)]
    assert errors[0] == pytest.approx(12.3) and max(errors[1:]) < 0.11
    assert "STS12-16" not in with_averages(dict.fromkeys(STS_TASKS[1:], 3.0))
