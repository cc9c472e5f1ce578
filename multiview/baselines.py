"""Encoders that a trained model is compared with: bags of word vectors, and networks with random weights.

A bag is the mean of the vectors of a sentence's known words. The word vectors are those of a file or of a
model (its tables concatenated), or they are random. SIF (smooth inverse frequency: Arora, Liang & Ma 2017)
weights a word by a / (a + p(w)), a = 1e-3, and subtracts the projection on the first principal direction of
the sentences. The probabilities p and the direction are computed over a tree cache of training text; a word
that this text lacks has the probability of the rarest word in the text.

``random:lstm`` is a bidirectional LSTM with random weights and the maximum over words (Wieting & Kiela 2019).
``start:MODEL`` is a model of ``multiview.train`` before its first step. ``random:VIEWS``, views with random
weights, are the control of the papers (MV, table 3); ``MultiViewEncoder.untrained`` makes them.

Legend of dimension suffixes: n sentences, N words, E word-vector size, D sentence vector.
"""

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from corpora.characters import index_of_words, normalise_text
from multiview.config import ContinueConfig, NewViewsConfig, recorded_config
from multiview.encoders.meaning import sample_ranges
from multiview.folder.files import Model, load_model, model_folder, model_record, model_sha256
from multiview.libraries.arrays import Float
from multiview.model import MultiViewEncoder
from multiview.words.table import WordTable
from multiview.words.vectors import load_word_vectors
from multiview.words.vocabulary import SIF_A
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.errors import UserError, extra

WORD_DIM, LSTM_BATCH = 128, 128
"""The size of the LSTM's random word vectors, and its batch size."""
RANDOM_DIM = 300
"""The size of a bag's random word vectors if a name gives none."""
SAMPLE, BLOCK = 20_000, 100
"""The number of sentences from which the principal direction is computed, and the size of a block of them."""
NGRAM_LENGTHS = (3, 4, 5)
"""The lengths of the character n-grams of a word that is written between < and >; fastText has 6 as well."""
Lookup = Callable[[Sequence[str]], tuple[Float, NDArray[np.bool_]]]
"""Returns the vectors of words, [N, E], and which words are known, [N]."""


def lookup_of(words: str, dim: int | None = None, *, seed: int = 0) -> Lookup:
    """Return the function that looks up the vectors of words.

    ``words`` is ``random`` or ``ngrams``, with size ``dim`` and ``seed``, a file of word vectors, or a model
    folder.
    """
    if words in ("random", "ngrams"):
        vectors_of = random_vectors(dim or RANDOM_DIM, seed, with_ngrams=words == "ngrams")
    elif model_folder(words).is_dir():
        vectors_of = MultiViewEncoder.load(words, "cpu").word_vectors
    else:
        word_vectors = load_word_vectors(model_folder(words))
        row_of = index_of_words(word_vectors.words)

        def look_up(tokens: Sequence[str]) -> tuple[Float, NDArray[np.bool_]]:
            rows = [row_of.get(word, row_of.get(word.lower(), -1)) for word in map(normalise_text, tokens)]
            rows_N = np.array(rows, np.int64)
            return np.asarray(word_vectors.vectors[np.maximum(rows_N, 0)]), rows_N >= 0

        return look_up
    return lambda tokens: (vectors_of(tokens), np.ones(len(tokens), np.bool_))


def random_vectors(dim: int, seed: int, *, with_ngrams: bool) -> Callable[[Sequence[str]], Float]:
    """Return a function that returns the random vectors of words, [N, E]; equal words have equal vectors.

    With n-grams, words of similar spelling have similar vectors: a word's vector is the sum of the random
    vectors of the word and of its n-grams in lower case, divided by the square root of their number.
    """
    table = WordTable.hashed(dim, views=1, seed=seed)

    def vectors_of_names(names: Sequence[str]) -> Float:
        vectors: Float = table.rows(0, table.vocabulary.lookup(list(names))).detach().numpy()
        return vectors

    def vectors_of_spellings(tokens: Sequence[str]) -> Float:
        vector_of: dict[str, Float] = {}
        for token in dict.fromkeys(tokens):
            text = f"<{normalise_text(token).lower()}>"  # of cat: <ca, cat, at>, <cat, ...
            names = [token]
            for length in NGRAM_LENGTHS:
                firsts = range(len(text) - length + 1)
                names += [f"ngram:{text[first : first + length]}" for first in firsts]
            vector_of[token] = vectors_of_names(names).sum(0) / np.sqrt(len(names))
        vectors: Float = np.stack([vector_of[token] for token in tokens])
        return vectors

    return vectors_of_spellings if with_ngrams else vectors_of_names


class Bag:
    """The mean of word vectors, weighted by SIF if ``corpus`` is a tree cache of training text.

    The vector of a sentence without a known word is zero.
    """

    def __init__(self, lookup: Lookup, corpus: Path | None = None) -> None:
        self.lookup = lookup
        self.probability: dict[str, float] = {}
        self.direction_1E: Float | None = None
        if corpus is not None:
            with extra("sklearn", "scikit-learn"):
                from sklearn.decomposition import TruncatedSVD

            trees = TreeCache.open(corpus)
            counts: Counter[str] = Counter()
            for word, count in trees.type_counts().items():
                counts[normalise_text(word).lower()] += count
            total = counts.total()
            self.probability = {word: count / total for word, count in counts.items()}
            self.rarest = min(self.probability.values())
            sentences = [*trees.words(sample_ranges([(0, len(trees))], SAMPLE, BLOCK))]
            # The first right singular vector of the sentences' vectors, which are not centred.
            svd = TruncatedSVD(n_components=1, n_iter=7, random_state=0).fit(self._means(sentences))
            self.direction_1E = svd.components_.astype(np.float32)

    def _means(self, sentences: Sequence[Sequence[str]]) -> Float:
        """Return the weighted means, [n, E], before the principal direction is subtracted."""
        tokens = [token for sentence in sentences for token in sentence]
        vectors_NE, is_known_N = self.lookup(tokens)
        weights_N = is_known_N.astype(np.float32)
        if self.probability:
            p_N = [self.probability.get(normalise_text(token).lower(), self.rarest) for token in tokens]
            weights_N *= SIF_A / (SIF_A + np.array(p_N))
        ends = np.cumsum([0, *map(len, sentences)])
        weights_nN = csr_array((weights_N, np.arange(len(tokens)), ends), shape=(len(sentences), len(tokens)))
        known_counts_n1 = np.diff(np.cumsum([0, *is_known_N])[ends])[:, None]
        means: Float = ((weights_nN @ vectors_NE) / np.maximum(known_counts_n1, 1)).astype(np.float32)
        return means

    def encode(self, sentences: Sequence[Sequence[str]]) -> Float:
        """Return the vectors [n, E] of token lists."""
        vectors = self._means(sentences)
        if self.direction_1E is not None:
            vectors -= (vectors @ self.direction_1E.T) @ self.direction_1E
        return vectors


class RandomLSTM:
    """A bidirectional LSTM of h = ``dim`` / 2 units in each direction; torch draws weights from ±1/√h."""

    def __init__(self, dim: int, words: WordTable | None, seed: int, device: str | None) -> None:
        table = words or WordTable.hashed(WORD_DIM, views=1, seed=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            lstm = nn.LSTM(table.dim, dim // 2, bidirectional=True)
        self.words = table.to(pick_device(device))
        self.lstm = lstm.to(pick_device(device))

    @torch.inference_mode()
    def encode(self, sentences: Sequence[Sequence[str]]) -> Float:
        """Return the vectors [n, D] of token lists."""
        longest_first = sorted(range(len(sentences)), key=lambda row: -len(sentences[row]))
        vectors = np.zeros((len(sentences), 2 * self.lstm.hidden_size), dtype=np.float32)
        for first in range(0, len(sentences), LSTM_BATCH):
            rows = longest_first[first : first + LSTM_BATCH]
            batch = [sentences[row] or ["."] for row in rows]
            types = [token for words in batch for token in words]
            words_NE = self.words.rows(0, self.words.vocabulary.lookup(types))
            inputs = pack_sequence(list(words_NE.split([len(words) for words in batch])))
            states, _ = pad_packed_sequence(self.lstm(inputs)[0], padding_value=float("-inf"))
            vectors[rows] = states.max(dim=0).values.cpu().numpy()
        return vectors


def load_start(model: Path | str, corpus: Path, device: str | torch.device | None = None) -> MultiViewEncoder:
    """Return a model as it was before its first training step.

    If training went on from another model, that model is returned. Otherwise the weights are drawn again as
    ``multiview.train`` drew them, by the configuration in the folder and by the word counts of ``corpus``,
    which decide the vocabulary and the initial weighting. Raises UserError if ``corpus`` is not the tree
    cache that the model was trained on, or if the model that training went on from has changed.
    """
    from multiview.training.gradient import DistributedContext
    from multiview.training.new_views import new_views_program

    folder = model_folder(model)
    trees = TreeCache.open(corpus)
    record = model_record(folder)
    values = record.training.get("config")
    if values is None:
        raise UserError(f"{folder}: has no record of multiview.train, so its start cannot be made again")
    if record.training.get("trees") != trees.identity.get("content_sha256"):
        raise UserError(f"{trees.folder}: is not the tree cache that {folder} was trained on")
    config = recorded_config(values, where=folder / "config.json")
    if isinstance(config, ContinueConfig):
        earlier = model_folder(config.start)
        if model_sha256(earlier) != record.training["start"]["sha256"]:
            raise UserError(f"{earlier}: is not as it was when {folder} went on from it")
        first_model = load_model(earlier)
    else:
        assert isinstance(config, NewViewsConfig)
        # The weights of the teacher's term are drawn last, so all others are the same without a teacher.
        objective = dataclasses.replace(config.objective, teacher=None)
        config = dataclasses.replace(config, trees=corpus, device="cpu", objective=objective)
        with_words = len(record.views) > len(config.view_list)
        config = dataclasses.replace(config, beside="words" if with_words else "nothing")
        with torch.random.fork_rng(devices=[]):
            program = new_views_program(config, DistributedContext())
            network = program.network_to_keep({})
        first_model = Model(network, dict(record.parsers), record.corpus)
    return MultiViewEncoder(
        first_model,
        device=pick_device(device),
        name=f"start:{Path(model).name}",
        structure=record.structure,
        structure_size=record.structure_size,
    )


def training_trees(folder: Path) -> Path | None:
    """Return the tree cache of a model's training: the recorded path, or one in ``runs/trees``, or None."""
    training = model_record(folder).training
    recorded_paths: list[Path] = []
    with contextlib.suppress(UserError):  # the model was not made by multiview.train
        config = recorded_config(training.get("config"), where=folder)
        recorded_paths = [config.trees] if config.trees is not None else []
    for path in [*recorded_paths, *sorted(Path("runs/trees").glob("*"))]:
        with contextlib.suppress(UserError):  # it is no tree cache, or an unfinished one
            if TreeCache.open(path).identity.get("content_sha256") == training.get("trees"):
                return path
    return None
