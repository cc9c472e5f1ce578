"""Encodes by what training has to beat: bags of word vectors, and networks whose weights stay random.

A bag is the mean of the vectors of a sentence's known words. The vectors are those of a file, random ones,
sums of a word's and its n-grams' random vectors, or a model's, trained tables side by side. SIF (smooth
inverse frequency: Arora, Liang & Ma 2017) weights a word by a / (a + p(w)), a = 1e-3, and takes off the first
principal direction of sentences, both by a tree cache of training text; a word that it lacks counts as its
rarest.

``random:VIEWS`` are views with plain random weights, the control of the papers (MV, table 3); ``random:lstm``
a bidirectional LSTM, the maximum over its words (Wieting & Kiela 2019). ``start:MODEL`` is a model of
``multiview.train`` before its first step.

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
from multiview.words.table import SIF_A, WordTable
from multiview.words.vectors import load_word_vectors
from parsing.trees.cache import TreeCache
from runtime.device import pick_device
from runtime.errors import UserError, extra

WORD_DIM, BATCH = 128, 128
"""Size of the LSTM's random words, and sentences that it encodes at a time."""
RANDOM_DIM = 300
"""Size of a bag's random words where a name gives none."""
SAMPLE, BLOCK = 20_000, 100
"""Corpus sentences from which the direction is computed, and how many are read together."""
NGRAM_LENGTHS = (3, 4, 5)
"""Lengths of character n-grams, which include a mark at both ends of a word: those of fastText but 6."""
Lookup = Callable[[Sequence[str]], tuple[Float, NDArray[np.bool_]]]
"""Returns vectors [N, E] of words and which of them are known, [N]."""


def lookup_of(words: str, dim: int | None = None, *, seed: int = 0) -> Lookup:
    """Open word vectors: ``random`` or ``ngrams`` (of ``dim`` and ``seed``), a file, or a model folder."""
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
    """Return a function that gives the fixed random vectors [N, E] of N words.

    With n-grams, words share what their spellings share: a word's vector is the sum of those of its own name
    and of its n-grams in lower case, over the root of their number.
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
    """A mean of word vectors as an encoder, of SIF where ``corpus`` is a tree cache of training text.

    A sentence without a known word is the zero vector.
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
            # The first right singular vector of sentences, which are not centred.
            svd = TruncatedSVD(n_components=1, n_iter=7, random_state=0).fit(self._means(sentences))
            self.direction_1E = svd.components_.astype(np.float32)

    def _means(self, sentences: Sequence[Sequence[str]]) -> Float:
        """Return the weighted means [n, E], the direction still in them."""
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
    """A bidirectional LSTM, h = ``dim`` / 2 units each way; weights uniform in ±1/√h, as torch draws them."""

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
        for first in range(0, len(sentences), BATCH):
            rows = longest_first[first : first + BATCH]
            batch = [sentences[row] or ["."] for row in rows]
            types = [token for words in batch for token in words]
            words_NE = self.words.rows(0, self.words.vocabulary.lookup(types))
            inputs = pack_sequence(list(words_NE.split([len(words) for words in batch])))
            states, _ = pad_packed_sequence(self.lstm(inputs)[0], padding_value=float("-inf"))
            vectors[rows] = states.max(dim=0).values.cpu().numpy()
        return vectors


def load_start(model: Path | str, corpus: Path, device: str | torch.device | None = None) -> MultiViewEncoder:
    """Return a model as it was before its first step, from the tree cache that it was trained on.

    A model that went on from another was that one. Others' weights are made again as ``multiview.train`` made
    them, from the configuration in the folder and the tree cache, whose word counts decide vocabulary and
    initial weighting.
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
        # A teacher's part draws its weights after all others, so that the start is the same without it.
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
    """Return the tree cache of a model's training: where it was then, or in ``runs/trees``; None if gone."""
    training = model_record(folder).training
    recorded_paths: list[Path] = []
    with contextlib.suppress(UserError):  # not of multiview.train
        config = recorded_config(training.get("config"), where=folder)
        recorded_paths = [config.trees] if config.trees is not None else []
    for path in [*recorded_paths, *sorted(Path("runs/trees").glob("*"))]:
        with contextlib.suppress(UserError):  # no cache, or an unfinished one
            if TreeCache.open(path).identity.get("content_sha256") == training.get("trees"):
                return path
    return None
