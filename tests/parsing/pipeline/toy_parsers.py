"""Tiny deterministic parsers that follow the Protocols: rules over word forms, no weights; and corpora."""

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np

from corpora.text import Corpus, Document, Sentence
from parsing.pipeline.driver import Worker, run_corpus
from parsing.text_parser import TextParser
from parsing.trees.batch import ConstituencyParse, DependencyParse, DeviceLost
from runtime.pool import Pool


def number(tokens: Sequence[str]) -> int:
    """Return a number that depends on the words alone (Python's hash is salted per process)."""
    return sum(len(word) * (i + 1) for i, word in enumerate(tokens))


class ToyDependencyParser:
    """The longest word is the root; every other word hangs on its neighbour in that direction."""

    relations = ("root", "left", "right")
    identity: ClassVar = {"name": "toy-dep", "version": "1", "sha256": "0" * 64}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[DependencyParse]:
        return [self._one(tokens) for tokens in sentences]

    def _one(self, tokens: Sequence[str]) -> DependencyParse:
        n = len(tokens)
        root = max(range(n), key=lambda i: len(tokens[i]))
        i = np.arange(n)
        heads = np.where(i < root, i + 2, i)
        heads[root] = 0
        relations = np.where(i < root, 1, 2)
        relations[root] = 0
        return DependencyParse(heads=heads.astype(np.int32), relations=relations.astype(np.int32))


class ToyConstituencyParser:
    """Splits a span at a place that depends on its words; some spans get no label and vanish."""

    labels = ("", "S", "NP", "VP", "S::VP")
    tags = ("NN", "VB", "DT")
    identity: ClassVar = {"name": "toy-const", "version": "1", "sha256": "1" * 64}

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[ConstituencyParse]:
        return [self._one(tokens) for tokens in sentences]

    def _one(self, tokens: Sequence[str]) -> ConstituencyParse:
        spans: list[tuple[int, int, int]] = []

        def split(first: int, end: int, top: bool) -> None:
            seed = number(tokens[first:end])
            label = 1 + seed % 4 if top else seed % 5
            if label:
                spans.append((first, end, label))
            if end - first > 1:
                middle = first + 1 + seed % (end - first - 1)
                split(first, middle, False)
                split(middle, end, False)

        split(0, len(tokens), True)
        starts, ends, labels = (np.array(column, np.int32) for column in zip(*spans, strict=True))
        tags = np.array([len(word) % 3 for word in tokens], np.int32)
        return ConstituencyParse(tags=tags, starts=starts, ends=ends, labels=labels)


def die() -> None:
    """End the process, as the system does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def no_memory() -> None:
    """Ask for more than there is."""
    np.ones(1 << 50)


def lose_device() -> None:
    """Fail as a GPU does."""
    raise DeviceLost("cuda:0 was lost (CUDA error); the same command goes on from what is done")


@dataclass
class FailingDependencyParser(ToyDependencyParser):
    """Calls ``fail`` on a word: always, or once if ``marker`` names a file that is not there."""

    fail: Callable[[], None]
    marker: Path | None = None
    word: str = "fail"

    def parse(self, sentences: Sequence[Sequence[str]]) -> list[DependencyParse]:
        if any(self.word in tokens for tokens in sentences) and not (self.marker and self.marker.exists()):
            if self.marker is not None:
                self.marker.touch()
            self.fail()
        return super().parse(sentences)


def toys(dependency: Callable[[], ToyDependencyParser] = ToyDependencyParser) -> TextParser:
    """What a worker loads."""
    return TextParser(dependency(), ToyConstituencyParser())


def load_toys(dep: str | None = "builtin", const: str | None = "builtin", **options: object) -> TextParser:
    """Stands for :func:`parsing.load`."""
    parsers = ToyDependencyParser(), ToyConstituencyParser()
    dependency, constituency = parsers[0] if dep else None, parsers[1] if const else None
    return TextParser(dependency, constituency, max_tokens=int(str(options.get("max_tokens", 128))))


def load_sleeping(*specs: object, **options: object) -> TextParser:
    """Stands for :func:`parsing.load`; the first parser to see "fail" makes a file and sleeps over it."""
    return toys(partial(FailingDependencyParser, partial(time.sleep, 100), Path("asleep")))


def documents_of(sentences: Sequence[Sequence[str]], starts: Sequence[int] = (0,)) -> list[Document]:
    """Documents that start at these sentences."""
    ends = [*starts[1:], len(sentences)]
    return [
        Document(f"doc {first}", tuple(Sentence(tuple(tokens)) for tokens in sentences[first:end]))
        for first, end in zip(starts, ends, strict=True)
    ]


def corpus_of(documents: Sequence[Document], name: str = "toy", digest: str = "toy") -> Corpus:
    """A corpus without a file."""
    length = sum(len(document.sentences) for document in documents)
    return Corpus(
        name, lambda: iter(documents), settings={"reader": "list"}, hash_input=lambda: digest, length=length
    )


WORDS = ("a", "of", "tree", "parser", "日本語", "née", "\u202eשלום", "🙂", "x" * 300, "\x07", "x\x00y")


def odd_sentences(n: int, seed: int = 0) -> list[tuple[str, ...]]:
    """``n`` sentences of 1 to 14 words."""
    random = np.random.default_rng(seed)
    return [tuple(random.choice(WORDS, size=random.integers(1, 15)).tolist()) for _ in range(n)]


def toy_corpus(n: int, seed: int = 0) -> Corpus:
    """``n`` odd sentences in documents of 1 to 40."""
    starts = np.cumsum([0, *np.random.default_rng(seed).integers(1, 41, n)])
    documents = documents_of(odd_sentences(n, seed), starts[starts < n].tolist())
    return corpus_of(documents, digest=f"toy {seed}")


SHARD = 16


def write_cache(folder: Path, sentences, documents=(0,), views=("dep", "const"), shard=SHARD) -> None:
    """A cache of ``sentences`` in shards of ``shard``; a document starts at each of ``documents``."""
    dependency = ToyDependencyParser() if "dep" in views else None
    constituency = ToyConstituencyParser() if "const" in views else None
    pool = Pool(Worker, lambda: TextParser(dependency, constituency))
    run_corpus(corpus_of(documents_of(sentences, documents)), folder, pool, shard_sentences=shard)
