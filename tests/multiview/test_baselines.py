"""Baselines against loops that follow the papers: bags, pooled transformers, random encoders, starts."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from multiview.baselines import load_start
from multiview.model import MultiViewEncoder
from multiview.train import main
from multiview.training import text as text_module
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from senteval_runner.evaluation_trees import open_model
from tests.fixtures.training import validated
from tests.fixtures.transformers import build
from tests.fixtures.trees import changed, write_vectors
from tests.parsing.pipeline.toy_parsers import odd_sentences, write_cache

TEXT = [
    "the cat sat on the mat", "a dog saw the cat", "The Dog sat", "on a mat , a cat",
    "the the the the the the the",
    "cats see dogs", "a unknowable thing", "zebra",
]  # fmt: skip
SENTENCES = [line.split() for line in TEXT]
TESTED = [["the", "cat"], ["A", "dog", "unheard"], ["unheard"], ["mat", ",", "mat"], []]
WORDS = ["the", "cat", "sat", "on", "mat", "a", "dog", "saw", ",", "cats"]


@pytest.fixture
def glove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # converted vectors go to runs/vectors
    vectors = np.random.default_rng(0).normal(size=(len(WORDS), 7)).round(3)
    return write_vectors(tmp_path / "glove.txt", dict(zip(WORDS, vectors, strict=True)))


@pytest.fixture
def corpus(glove: Path) -> Path:
    write_cache(glove.parent / "trees", [tuple(words) for words in SENTENCES], documents=(0, 3))
    return glove.parent / "trees"


def vectors_of(glove: Path) -> dict[str, np.ndarray]:
    rows = (line.split() for line in glove.read_text().splitlines())
    return {word: np.array(values, np.float64) for word, *values in rows}


def slow(glove: Path) -> list[np.ndarray]:
    """SIF by loops in float64, the direction by an eigen-decomposition."""
    table = vectors_of(glove)
    counts = Counter(word.lower() for words in SENTENCES for word in words)
    total = sum(counts.values())
    p = {word: count / total for word, count in counts.items()}

    def mean(words: list[str]) -> np.ndarray:
        known = [word if word in table else word.lower() for word in words if {word, word.lower()} & {*table}]
        weighted = [1e-3 / (1e-3 + p.get(word, min(p.values()))) * table[word] for word in known]
        return np.mean(weighted, axis=0) if known else np.zeros(7)

    training = np.array([mean(words) for words in SENTENCES])
    direction = np.linalg.eigh(training.T @ training)[1][:, -1]
    means = [mean(words) for words in TESTED]
    return [vector - (vector @ direction) * direction for vector in means]


def test_weights_and_direction_are_those_of_the_paper(glove, corpus) -> None:
    encoder = open_model(f"sif:{glove}?corpus={corpus}")
    np.testing.assert_allclose(encoder.encode(TESTED), slow(glove), rtol=1e-4, atol=1e-5)
    alone = np.concatenate([encoder.encode([words]) for words in TESTED])  # whatever else is scored
    np.testing.assert_allclose(encoder.encode(TESTED), alone, rtol=1e-5, atol=1e-6)


def test_words_share_the_ngrams_of_their_spelling() -> None:
    encoder, words = open_model("bag:ngrams?dim=512"), open_model("bag:random?dim=512")
    names = ["parsing", "Parsing", "parsings", "zebra"]
    vectors = encoder.encode([[name] for name in names])
    grams = ["<zeb", "zebra", "bra>", "<ze", "zeb", "ebr", "bra", "ra>", "zebr", "ebra", "<zebr", "ebra>"]
    gram_vectors = words.encode([[name] for name in ["zebra", *(f"ngram:{gram}" for gram in grams)]])
    np.testing.assert_allclose(
        words.encode([["cat", "dog"]]), words.encode([["cat"], ["dog"]]).mean(0)[None], rtol=1e-5
    )
    zebra = gram_vectors.sum(0) / np.sqrt(len(gram_vectors))
    np.testing.assert_allclose(vectors[3], zebra, rtol=1e-4, atol=1e-5)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    assert unit[0] @ unit[1] > 0.8 and unit[0] @ unit[2] > 0.6 and abs(unit[0] @ unit[3]) < 0.2
    np.testing.assert_allclose(encoder.encode([names[:2]])[0], vectors[:2].mean(0), rtol=1e-5)
    assert encoder.encode([["a"], []]).shape == (2, 512)


SPOKEN = [["the", "cat", "sat"], ["a", "cat"], ["the"], ["unheard", "of"]]
POOLS = {"cls": lambda h: h[0], "mean": lambda h: h.mean(axis=0), "max": lambda h: h.max(axis=0)}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_transformers_last_layer_is_pooled_as_the_name_says(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from transformers import AutoModel, AutoTokenizer

    bert = build(tmp_path / "bert", "bert")
    tokenizer, model = AutoTokenizer.from_pretrained(bert), AutoModel.from_pretrained(bert).eval()
    with torch.no_grad():
        states = [
            model(**tokenizer(" ".join(tokens), return_tensors="pt")).last_hidden_state[0].numpy()
            for tokens in SPOKEN
        ]
    opened = {name: open_model(f"{name}:{bert}", device="cpu") for name in POOLS}
    for name, pool in POOLS.items():
        np.testing.assert_allclose(opened[name].encode(SPOKEN), [pool(h) for h in states], atol=1e-5)
    assert opened["cls"].name == "cls:bert" and opened["cls"].key() != opened["max"].key()
    # the control of table 3
    projected = open_model(f"cls:{bert}", project=4096, device="cpu")
    size = states[0].shape[1], 4096
    glorot = np.random.RandomState(0).uniform(-1, 1, size) * (6 / sum(size)) ** 0.5
    np.testing.assert_allclose(projected.encode(SPOKEN), opened["cls"].encode(SPOKEN) @ glorot, atol=1e-5)
    assert projected.key() != opened["cls"].key()


@pytest.mark.usefixtures("both_devices")
def test_the_lstm_is_the_maximum_over_its_words(glove: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiview.baselines.LSTM_BATCH", 2)
    encoder = open_model(f"random:lstm?dim=6?vectors={glove}", seed=3)
    table = {word: values.astype(np.float32) for word, values in vectors_of(glove).items()}
    unknown = np.mean(list(table.values()), axis=0)
    torch.manual_seed(3)
    lstm = nn.LSTM(7, 3, bidirectional=True)
    for tokens, vector in zip(SPOKEN, encoder.encode(SPOKEN), strict=True):
        inputs = torch.from_numpy(np.stack([table.get(token, unknown) for token in tokens]))
        np.testing.assert_allclose(vector, lstm(inputs)[0].detach().numpy().max(axis=0), atol=1e-6)


@pytest.mark.parametrize("init", ["xavier", "bag"])
def test_a_start_is_what_no_training_leaves(tiny, toy_trees, init: str, tmp_path: Path, monkeypatch) -> None:
    np.save(tmp_path / "teacher.npy", np.eye(265, 5, dtype=np.float32) + 1)
    config = changed(tiny, seed=3, encoder={"init": init}, objective={"teacher": tmp_path / "teacher.npy"})
    assert main(changed(config, name="trained", loop={"validation": 0})) == 0
    # Validations are best before the first step, so a run keeps the weights it began with.
    monkeypatch.setattr(text_module.TextSteps, "scores", validated([0.1, 0.5]))
    assert main(changed(config, name="kept")) == 0
    (tmp_path / "teacher.npy").unlink()  # it has no say in the start
    models = [MultiViewEncoder.load(config.output / name, "cpu") for name in ("kept", "trained")]
    models.append(load_start(config.output / "trained", toy_trees, "cpu"))
    cache = TreeCache.open(toy_trees)
    kept_vectors, trained_vectors, start_vectors = (model.encode(None, trees=cache) for model in models)
    np.testing.assert_array_equal(start_vectors, kept_vectors)
    assert np.abs(start_vectors - trained_vectors).max() > 1e-3


def test_a_start_of_other_trees_is_refused(tiny, tmp_path: Path) -> None:
    main(changed(tiny, loop={"epochs": 1}))
    write_cache(tmp_path / "other", odd_sentences(60))
    with pytest.raises(UserError, match=r"other: is not the tree cache that .*tiny was trained on"):
        load_start(tiny.folder, tmp_path / "other")
