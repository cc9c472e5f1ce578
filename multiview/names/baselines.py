"""What training has to beat: bags of word vectors, and networks whose weights stay as they were drawn.

A bag is the mean of the known words of a file, of random words, of words that are the sum of their own and
their n-grams' random vectors, or of a model's, trained tables side by side. SIF (smooth inverse frequency:
Arora, Liang & Ma 2017) weights a word by a / (a + p(w)), a = 1e-3, and takes off the first principal
direction of sentences, both by a tree cache of training text; a word that it lacks counts as its rarest.

``random:VIEWS`` are views with plain random weights, the control of the papers (MV, table 3); ``random:lstm``
a bidirectional LSTM, the maximum over its words (Wieting & Kiela 2019). ``start:MODEL`` is a model of
``multiview.train`` before its first step.

Legend of dimension suffixes: n sentences, N words, E word-vector size, D sentence vector.
"""

import contextlib
import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import nn
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence

from corpora.characters import places_of, plain
from multiview.config import TrainConfig
from multiview.encoders.meaning import sample_spans
from multiview.folder.files import Member, model_folder, model_records
from multiview.model import MultiViewEncoder
from multiview.pretrained import Float
from multiview.words.table import SIF_A, WordTable
from multiview.words.vectors import load_word_vectors
from parsing.trees.cache import TreeCache
from runtime.cli import config_from_json
from runtime.device import pick_device
from runtime.errors import UserError

WORD_DIM, BATCH = 128, 128
"""Size of random words of the LSTM, and sentences that it encodes at a time."""
RANDOM_DIM = 300
SAMPLE, BLOCK = 20_000, 100
"""Corpus sentences from which the direction is computed, and how many are read together."""
LENGTHS = (3, 4, 5)
"""Of character n-grams, the marks at both ends of a word included: those of fastText but 6."""
Lookup = Callable[[Sequence[str]], tuple[Float, NDArray[np.bool_]]]
"""Vectors [N, E] of words and which of them are known, [N]."""


def lookup_of(words: str, dim: int | None = None, *, seed: int = 0) -> Lookup:
    """Open word vectors: ``random`` or ``ngrams`` (of ``dim`` and ``seed``), a file, or a model folder."""
    if words in ("random", "ngrams"):
        vectors = random_vectors(dim or RANDOM_DIM, seed, spelling=words == "ngrams")
    elif model_folder(words).is_dir():
        vectors = MultiViewEncoder.load(words, "cpu").word_vectors
    else:
        loaded = load_word_vectors(model_folder(words))
        rows = places_of(loaded.words)

        def look_up(tokens: Sequence[str]) -> tuple[Float, NDArray[np.bool_]]:
            places = [rows.get(token, rows.get(token.lower(), -1)) for token in map(plain, tokens)]
            rows_N = np.array(places, np.int64)
            return np.asarray(loaded.vectors[np.maximum(rows_N, 0)]), rows_N >= 0

        return look_up
    return lambda tokens: (vectors(tokens), np.ones(len(tokens), np.bool_))


def random_vectors(dim: int, seed: int, *, spelling: bool) -> Callable[[Sequence[str]], Float]:
    """Return the fixed random vectors of words, [N, E] of N words.

    With ``spelling`` words share what their spellings share: a word's vector is the sum of those of its own
    name and of its n-grams in lower case, over the root of their number.
    """
    table = WordTable.hashed(dim, views=1, seed=seed)

    def drawn(names: Sequence[str]) -> Float:
        vectors: Float = table.rows(0, table.vocabulary.lookup(list(names))).detach().numpy()
        return vectors

    def spelt(tokens: Sequence[str]) -> Float:
        sums: dict[str, Float] = {}
        for token in dict.fromkeys(tokens):
            marked = f"<{plain(token).lower()}>"  # <ca, cat, at>, <cat … of cat
            starts = ((n, start) for n in LENGTHS for start in range(len(marked) - n + 1))
            names = [token, *(f"ngram:{marked[start : start + n]}" for n, start in starts)]
            sums[token] = drawn(names).sum(0) / np.sqrt(len(names))
        vectors: Float = np.stack([sums[token] for token in tokens])
        return vectors

    return spelt if spelling else drawn


class Bag:
    """A mean of word vectors as an encoder, of SIF where ``corpus`` is a tree cache of training text.

    A sentence without a known word is the zero vector.
    """

    def __init__(self, lookup: Lookup, corpus: Path | None = None) -> None:
        self.lookup = lookup
        self.probability: dict[str, float] = {}
        self.direction_1E: Float | None = None
        if corpus is not None:
            from sklearn.decomposition import TruncatedSVD

            trees = TreeCache.open(corpus)
            folded: Counter[str] = Counter()
            for word, count in trees.type_counts().items():
                folded[plain(word).lower()] += count
            total = folded.total()
            self.probability = {word: count / total for word, count in folded.items()}
            self.rarest = min(self.probability.values())
            text = [*trees.words(sample_spans([(0, len(trees))], SAMPLE, BLOCK))]
            # The first right singular vector of sentences, which are not centred.
            svd = TruncatedSVD(n_components=1, n_iter=7, random_state=0).fit(self._means(text))
            self.direction_1E = svd.components_.astype(np.float32)

    def _means(self, sentences: Sequence[Sequence[str]]) -> Float:
        """Return the weighted means [n, E], the direction still in them."""
        flat = [token for tokens in sentences for token in tokens]
        vectors_NE, known_N = self.lookup(flat)
        weights_N = known_N.astype(np.float32)
        if self.probability:
            p_N = [self.probability.get(plain(token).lower(), self.rarest) for token in flat]
            weights_N *= SIF_A / (SIF_A + np.array(p_N))
        ends = np.cumsum([0, *map(len, sentences)])
        words_nN = csr_array((weights_N, np.arange(len(flat)), ends), shape=(len(sentences), len(flat)))
        known_n1 = np.diff(np.cumsum([0, *known_N])[ends])[:, None]
        means: Float = ((words_nN @ vectors_NE) / np.maximum(known_n1, 1)).astype(np.float32)
        return means

    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Return the vectors [n, E] of strings (split at white space) or token lists."""
        tokens = [sentence.split() if isinstance(sentence, str) else sentence for sentence in sentences]
        vectors = self._means(tokens)
        if self.direction_1E is not None:
            vectors -= (vectors @ self.direction_1E.T) @ self.direction_1E
        return vectors


class RandomLSTM:
    """A bidirectional LSTM, h = ``dim`` / 2 units each way; weights uniform in ±1/√h, as torch draws them."""

    def __init__(self, dim: int, words: WordTable | None, seed: int, device: str | None) -> None:
        words = words or WordTable.hashed(WORD_DIM, views=1, seed=seed)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            lstm = nn.LSTM(words.dim, dim // 2, bidirectional=True)
        chosen = pick_device(device)
        self.words, self.lstm = words.to(chosen), lstm.to(chosen)

    @torch.inference_mode()
    def encode(self, sentences: Sequence[str | Sequence[str]]) -> Float:
        """Give vectors [n, D] of strings (split at white space) or token lists, of like length at a time."""
        tokens = [sentence.split() if isinstance(sentence, str) else list(sentence) for sentence in sentences]
        order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
        vectors = np.zeros((len(tokens), 2 * self.lstm.hidden_size), dtype=np.float32)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = [tokens[row] or ["."] for row in rows]
            words_NE = self.words.rows(0, self.words.vocabulary.lookup([*itertools.chain(*batch)]))
            inputs = pack_sequence(list(words_NE.split([len(words) for words in batch])))
            states, _ = pad_packed_sequence(self.lstm(inputs)[0], padding_value=float("-inf"))
            vectors[rows] = states.max(dim=0).values.cpu().numpy()
        return vectors


def load_start(model: Path | str, corpus: Path, device: str | torch.device | None = None) -> MultiViewEncoder:
    """Return a model as it was before its first step, from the tree cache that it was trained on.

    The weights are not stored: they are made again as ``multiview.train`` made them, from the configuration
    in the folder and the tree cache, whose word counts decide vocabulary and initial weighting.
    """
    from multiview.training.trainer import Trainer

    folder, trees, members = model_folder(model), TreeCache.open(corpus), []
    for name, record in model_records(folder).items():
        values = record.training.get("config")
        if values is None:
            raise UserError(
                f"{folder / name}: has no record of multiview.train, so its start cannot be made again"
            )
        if record.training.get("trees") != trees.identity.get("content_sha256"):
            raise UserError(f"{trees.folder}: is not the tree cache that {folder / name} was trained on")
        config = config_from_json(TrainConfig, values, where=folder / name / "config.json")
        # A teacher's part draws its weights after all others.
        untaught = dataclasses.replace(config.objective, teacher=None)
        with torch.random.fork_rng(devices=[]):
            trainer = Trainer(dataclasses.replace(config, device="cpu", objective=untaught), trees)
            network = trainer.network_to_keep(with_words=len(record.views) > len(config.view_list))
        members.append(Member(network, dict(record.parsers), record.corpus))
    return MultiViewEncoder(members, device=pick_device(device), name=f"start:{Path(model).name}")


def training_trees(folder: Path) -> Path | None:
    """Find the tree cache of a model's training, as named then or in ``runs/trees``; None: it is gone."""
    records = model_records(folder).values()
    named: list[Path] = []
    for record in records:
        with contextlib.suppress(UserError):  # not of multiview.train
            config = config_from_json(TrainConfig, record.training.get("config"), where=folder)
            named += [] if config.trees is None else [config.trees]
    for place in [*named, *sorted(Path("runs/trees").glob("*"))]:
        with contextlib.suppress(UserError):  # no cache, or an unfinished one
            content = TreeCache.open(place).identity.get("content_sha256")
            if all(record.training.get("trees") == content for record in records):
                return place
    return None
