"""Similarity sets: published formats, correlations by hand, SemEval-2013, published rows below ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from corpora.pairs.similarity import WordPhrasePairs, find_set, read_semeval2013_5a
from corpora.senteval.files import read_task
from corpora.support.errors import UserError
from senteval_runner import evaluate
from senteval_runner.towers.transformer import load_tower
from senteval_runner.vectors.embed import as_vectors
from studies.burt.data import hold_out_phrases
from studies.finetune.examples import Examples
from studies.finetune.tiny import build_tiny
from studies.kit.data import published
from studies.kit.runner import run_study
from studies.similarity.__main__ import cli
from studies.similarity.config import SimilarityConfig
from studies.similarity.run import (
    STS_TASKS,
    Model,
    correlate,
    phrase_pairs,
    score,
    sentence_similarity,
    with_averages,
)
from studies.similarity.semeval import frozen_accuracy, tuned_accuracy
from tests.conftest import ROOT
from tests.senteval_runner.encoders import RandomBag

FORMATS = {
    "SimLex-999": ("SimLex-999.txt", "word1\tword2\tPOS\tSimLex999\told\nold\tnew\tA\t1.58\t2.72\n"),
    "WS-353-sim": ("wordsim_similarity_goldstandard.txt", "old\tnew\t1.58\n"),
    "MEN": ("MEN_dataset_natural_form_full", "old new 1.58\n"),
    "RW": ("rw.txt", "old\tnew\t1.58\t1\t2\t3\n"),
    "SimVerb-3500": ("SimVerb-3500.txt", "old\tnew\tV\t1.58\tSYNONYMS\n"),
    "SCWS": ("ratings.txt", "1\told\ta\tnew\ta\tthe <b>old</b> man\ta <b>new</b> man\t1.58\t1\t2\n"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_published_formats(name: str, tmp_path: Path) -> None:
    file, text = FORMATS[name]
    (tmp_path / file).write_text(text)
    pairs = find_set(name, tmp_path)
    assert pairs is not None and (pairs.left, pairs.right, pairs.score) == (("old",), ("new",), (1.58,))


def test_bad_rows_name_file_and_row(tmp_path: Path) -> None:
    assert find_set("MEN", tmp_path) is None
    (tmp_path / "rw.txt").write_text("a\tb\t1\nc\td\tmany\n")
    with pytest.raises(UserError, match=r"rw\.txt:2"):
        find_set("RW", tmp_path)
    (tmp_path / "rw.txt").write_text("a\tb\tnan\n")
    with pytest.raises(UserError, match=r"rw\.txt:1"):
        find_set("RW", tmp_path)


def test_only_line_feeds_end_a_row(tmp_path: Path) -> None:
    row = "1\told\ta\tnew\ta\tthe <b>old</b>\x85man\ta\x0c<b>new</b> man\t1.58\t1\n"
    (tmp_path / "ratings.txt").write_bytes(row.encode())
    pairs = find_set("SCWS", tmp_path)
    assert pairs is not None and pairs.score == (1.58,)


class Numbers:
    """Encodes "3" as the direction of angle 0.3."""

    def encode(self, sentences: list[str]) -> np.ndarray:
        angles = np.array([float(s) / 10 for s in sentences])
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)


def test_correlation_follows_the_cosine() -> None:
    vectors, left, right = as_vectors(Numbers()), ["0"] * 4, ["1", "2", "5", "9"]
    perfect = correlate(vectors, left, right, [4.0, 3.0, 2.0, 1.0])
    assert perfect == pytest.approx(100)
    assert correlate(vectors, left, right, [4.0, 2.0, 3.0, 1.0]) == pytest.approx(80)
    assert correlate(vectors, ["1", "2"], ["1", "2"], [1.0, 2.0]) == 0.0


@pytest.mark.data
def test_counts_of_the_real_sets(data_folder: Path) -> None:
    counts = {"SimLex-999": 999, "WS-353-sim": 203, "WS-353-rel": 252, "RW": 2034, "SimVerb-3500": 3499}
    for name, count in counts.items():
        pairs = find_set(name, data_folder / "wordsim")
        assert pairs is not None and abs(len(pairs) - count) <= 1, name


def test_the_command_scores_a_vector_file_and_names_missing_sets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = tmp_path / "words"
    words.mkdir()
    (words / "rw.txt").write_text("old\taged\t9\nold\tnew\t5\nold\tdog\t1\n")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("old 1 0\naged 1 0.1\nnew 1 1\ndog 0 1\n")
    assert cli([str(vectors), "--words", str(words), "--output", str(tmp_path / "out")]) == 0
    assert "| 100.0 |" in (tmp_path / "out" / "report.md").read_text()
    assert "SimLex-999" in capsys.readouterr().out


def write_phrases(
    folder: Path, positive: list[str], negative: list[str], part: str, end: str = "-v2"
) -> None:
    (folder / part).mkdir(parents=True, exist_ok=True)
    for kind, lines in (("positive", positive), ("negative", negative)):
        (folder / part / f"en.{part}Set.{kind}Instances{end}").write_text("".join(f"{x}\n" for x in lines))


class Letters:
    def encode(self, sentences: list[str]) -> np.ndarray:
        return np.array([[s.count(c) for c in "abcdefghijklmnopqrstuvwxyz"] for s in sentences], dtype=float)


def phrase_accuracy(folder: Path) -> float:
    return frozen_accuracy(as_vectors(Letters()), *read_semeval2013_5a(folder), seed=1111)


def test_semeval_2013_is_read_and_tuned_on_its_training_pairs(tmp_path: Path) -> None:
    """Hand-made files in the published format; the phrase repeats the word's letters where it means it."""
    rng = np.random.RandomState(0)

    def word() -> str:
        return "".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 5))

    def pairs(count: int, same: bool) -> list[str]:
        rows = []
        for _ in range(count):
            one = word()
            rows.append(f"{one}\t{one[::-1] + ' ' + one[:3] if same else word() + ' ' + word()}")
        return rows

    for part, count in (("train", 40), ("test", 15)):
        write_phrases(
            tmp_path, pairs(count, True), pairs(count, False), part, "-v2" if part == "train" else ""
        )
    train, test = read_semeval2013_5a(tmp_path)
    assert (len(train), len(test), sum(train.same)) == (80, 30, 40)
    assert train.words[0] == train.phrases[0].split()[0][::-1]
    assert phrase_accuracy(tmp_path) > 80


def test_semeval_2013_bad_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        read_semeval2013_5a(tmp_path / "none")
    with pytest.raises(UserError, match=r"no file en\.trainSet\.positiveInstances-v2 below it"):
        read_semeval2013_5a(tmp_path)
    for part in ("train", "test"):
        write_phrases(tmp_path, ["a\tb c"], ["a\tb c\td"], part)
    with pytest.raises(UserError, match=r"negativeInstances-v2:1: expected 2 cells"):
        read_semeval2013_5a(tmp_path)
    write_phrases(tmp_path, ["a\tb c"], [], "train")
    with pytest.raises(UserError, match="holds no pairs"):
        read_semeval2013_5a(tmp_path)
    for part in ("train", "test"):
        write_phrases(tmp_path, ["a\tb c"], ["a\td e"], part)
    with pytest.raises(UserError, match="folds need 10"):
        phrase_accuracy(tmp_path)


def test_phrases_of_ppdb_are_those_that_training_leaves_out(tmp_path: Path) -> None:
    """Pairs of two single words do not count; both directions of a pair are held out together."""
    rows = [(f"{i} x", f"{i % 7}") for i in range(60)] + [(f"{i % 7}", f"{i} x") for i in range(60)]
    words = [(f"{i}", f"{i % 7}") for i in range(60)]
    file = tmp_path / "ppdb.txt"
    file.write_text(
        "".join(
            f"[NP] ||| {a} ||| {b} ||| Equivalence=0.{len(a) % 7} Abc=1 ||| 0-0 ||| Equivalence\n"
            for a, b in rows + words
        )
    )
    every, _, gold = phrase_pairs(file)
    held, _, _ = phrase_pairs(file, 0.3)
    given = Examples([a for a, _ in rows], [b for _, b in rows], np.zeros(120))
    trained, left_out = hold_out_phrases(given, 0.3)
    assert every == [a for a, _ in rows] and gold[:2] == [0.3, 0.3]
    assert held == left_out.first and 0 < len(held) < 120 == len(trained) + len(left_out)
    with pytest.raises(UserError, match="held-out"):
        phrase_pairs(file, 1e-9)
    for line in ("a x ||| b ||| Abc=1 ||| 0-0", "a ||| b ||| Equivalence=1 ||| 0-0 ||| Equivalence"):
        file.write_text(f"[NP] ||| {line}\n")
        with pytest.raises(UserError, match="feature Equivalence"):
            phrase_pairs(file)


def test_sentence_pairs_with_and_without_a_head(data: Path) -> None:
    task, bag = read_task("SICK-R", data), RandomBag(20)
    found = sentence_similarity(as_vectors(bag), task, 1111)
    trained = evaluate(RandomBag(20), ["SICK-R"], data)["SICKRelatedness"]
    assert found["SICKRelatedness (trained head)"] == pytest.approx(100 * trained["spearman"])
    part = task.splits["test"]
    assert part.b is not None
    left, right = ([" ".join(tokens) for tokens in side] for side in (part.a, part.b))
    assert found["SICKRelatedness (untrained)"] == pytest.approx(
        correlate(as_vectors(bag), left, right, part.y)
    )


def test_what_one_model_lacks_is_said(tmp_path: Path, data: Path, words: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "few.npz", sentences=np.array(["a"]), vectors=np.ones((1, 3)))
    config = SimilarityConfig(models=(str(words), "few.npz"), data=data, output=tmp_path / "out")
    assert run_study(config, score) == 2
    left_out = "\n".join(json.loads((tmp_path / "out/results.json").read_text())["left_out"])
    assert "few.npz, SICKRelatedness: " in left_out and "no vector for" in left_out
    assert "sts-train.csv" in left_out


def test_nothing_found_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("old 1 0\n")
    for options, message in (
        ((), "nothing to compare"),
        (("--words", "empty"), "holds none of the word sets"),
        (("--words", "vectors.txt"), "no such folder"),
        (("--data", "empty"), "SICKRelatedness: "),
        (("--semeval2013", "empty"), "en.trainSet.positiveInstances"),
        (("--phrases", "vectors.txt", "--held-out", "2"), "--held-out 2"),
        (("--words", "empty", "--fine-tune"), "--fine-tune needs --semeval2013"),
    ):
        assert cli(["vectors.txt", *options]) == 2
        assert message in capsys.readouterr().err.splitlines()[-1]


COLOURS = ["red", "blue", "green", "white"]
THINGS = ["car", "house", "tree", "dog", "boat", "hat"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS] * 2
    return build_tiny(tmp_path_factory.mktemp("tiny") / "bert", texts, layers=1, hidden=32, vocabulary=200)


def pairs() -> WordPhrasePairs:
    """A colour means a phrase that begins with it."""
    rows = [
        (one, f"{other} {thing}", int(one == other))
        for one in COLOURS
        for other in COLOURS
        for thing in THINGS
    ]
    kept = [row for row in rows if row[2]] + [row for row in rows if not row[2]][::3]
    words, phrases, same = (list(column) for column in zip(*kept, strict=True))
    return WordPhrasePairs(words=words, phrases=phrases, same=same)


def test_encoder_and_classifier_are_trained_together(bert: Path, tmp_path: Path) -> None:
    tower = load_tower(str(bert), dropout=0.0)
    before = {name: weight.detach().clone() for name, weight in tower.named_parameters()}
    options: dict[str, Any] = {"seed": 1, "learning_rate": 3e-3, "epochs": 30}
    assert tuned_accuracy(tower, pairs(), pairs(), folder=tmp_path, **options) > 90
    moved = [name for name, weight in tower.named_parameters() if not torch.equal(weight, before[name])]
    assert any("layer.0.attention" in name for name in moved)
    one = WordPhrasePairs(words=["a"], phrases=["b"], same=[1])
    with pytest.raises(UserError, match="of one class"):
        tuned_accuracy(tower, one, one, folder=tmp_path, **options)


def test_poolings_are_rows_of_their_own(bert: Path, tmp_path: Path) -> None:
    words = tmp_path / "vectors.txt"
    words.write_text("red 1 0\nblue 0 1\ngreen 1 1\n")
    models = [Model(spec, 0) for spec in (f"cls:{bert}", f"max:{bert}", f"mean:{bert}", str(words))]
    assert [model.tunable for model in models] == [True, True, True, False], (
        "word vectors stay fixed, as in BURT"
    )
    tower = load_tower(str(bert)).eval()
    with torch.inference_mode():
        for pooling, model in zip(("cls", "max", "mean"), models, strict=False):
            expected = tower.embed(["red car"], pooling).numpy()  # type: ignore[operator]
            np.testing.assert_allclose(model.vectors([["red", "car"]]), expected, atol=1e-6)
            trained = model.tower().eval().embed(["red car"])  # type: ignore[operator]
            np.testing.assert_allclose(trained.cpu().numpy(), expected, atol=1e-6)


MODELS, ABLATION = (
    published(ROOT / f"studies/similarity/published-{name}.csv") for name in ("models", "ablation")
)
# fmt: off
PRINTED = {  # averages over sentences and over words, Tables 2 and 3
    "Avg. GloVe": (58.8, 65.8), "Avg. FastText": (65.7, 72.2), "SkipThought": (52.6, 51.0),
    "InferSent-2": (70.5, 62.0), "GenSen LAST": (68.6, 51.7), "BERT CLS": (60.6, 14.4),
    "BERT MAX": (57.1, 24.6), "BERT MEAN": (40.9, 15.9), "ALBURT": (75.1, 65.6), "BURT": (76.8, 63.7),
}
PRINTED_ABLATION = [30.8, 63.6, 46.2, 63.7, 54.9, 57.2, 63.7, 14.3, 45.5, 55.6, 63.7, 59.6, 57.5, 56.4,
                    56.2, 63.7, 58.2, 61.3]
# fmt: on


def test_the_cells_give_the_printed_averages() -> None:
    """But for BERT CLS and BERT MEAN, each in the other's row, and the first row of Table 4."""
    swapped = {"BERT CLS": "BERT MEAN", "BERT MEAN": "BERT CLS"}
    models = {name: with_averages(row) for name, row in MODELS.items()}
    for name, row in models.items():
        printed = PRINTED[swapped.get(name, name)]
        assert (row["sentences"], row["words"]) == pytest.approx(printed, abs=0.11), name
    rows = [with_averages(row) for row in ABLATION.values()]
    off = [abs(row["words"] - value) for row, value in zip(rows, PRINTED_ABLATION, strict=True)]
    assert off[0] == pytest.approx(12.3) and max(off[1:]) < 0.11
    assert models["BURT"]["STS12-16"] == pytest.approx(ABLATION["MEAN"]["STS12-16"], abs=0.1)
    assert "STS12-16" not in with_averages(dict.fromkeys(STS_TASKS[1:], 3.0))


def test_published_rows_stand_below_ours_and_are_marked(tmp_path: Path) -> None:
    (tmp_path / "EN-SIMLEX-999.txt").write_text("a b 1\na c 2\nb c 3\n")
    words = np.array(["a", "b", "c"])
    np.savez(tmp_path / "m.npz", sentences=words, vectors=np.random.default_rng(0).normal(size=(3, 4)))
    models = (str(tmp_path / "m.npz"),)
    run_study(
        SimilarityConfig(models=models, words=tmp_path, published="models", output=tmp_path / "out"), score
    )
    text = (tmp_path / "out/report.md").read_text()
    assert text.index("m.npz |") < text.index("| BURT † | 60.8 |") < text.index("† published (BURT)")
