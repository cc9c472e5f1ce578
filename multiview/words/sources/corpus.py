"""``--vectors train``, ``train:TEXT``: word vectors that gensim's skip-gram trains on the corpus or a text.

Mikolov et al. 2013, with window 5, 5 negatives and 3 passes, or more over a small corpus. Of 736,666 words of
documentation, the sum of its words' vectors matched 7.6% of sentences with a neighbour after 3 passes and
11.6% after 15 (random vectors: 8.6%). One worker reads the sentences in order, so the same cache and options
give the same vectors; more workers would race for the rows.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from corpora.registry import open_corpus
from corpora.stream import StreamCorpus
from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import json_digest
from corpora.support.progress import Bar, progress
from multiview.vector_names import TRAIN, TRAIN_ON
from multiview.words.vectors import Float, Source
from multiview.words.vocabulary import corpus_words, words_record
from parsing.cache.reader import TreeCache

if TYPE_CHECKING:
    from multiview.config import TrainConfig

SKIP_GRAM = {"window": 5, "negative": 5}
PASSES = {"words": 10_000_000, "least": 3, "most": 20}
"""Read the corpus until so many words are read, but not less or more often than this."""
LEAST = 5
"""Occurrences that a word needs in a text, word2vec's own number."""
BLOCK = 4096
"""Sentences read from the cache at a time."""


def trained_on_corpus(config: TrainConfig, trees: TreeCache) -> Source:
    """Vectors of ``--table.dim`` numbers for the words that ``--vocabulary`` lists.

    Args:
        config: of the training.
        trees: the corpus.
    """
    passes = _passes(trees)
    record = {**words_record(trees, config.vocabulary), **_record(config, passes)}
    return Source(
        TRAIN,
        f"train-{json_digest(record, 8)}",
        record,
        f"skip-gram vectors of {config.table.dim} dimensions that gensim trained on the same corpus "
        f"({passes} passes)",
        lambda: _of_corpus(config, trees),
    )


def trained_on_text(text: Path, config: TrainConfig, trees: TreeCache) -> Source:
    """Vectors of ``--table.dim`` numbers for words of a text, which may be far longer than the corpus.

    Args:
        text: file or folder of a sentence a line, or a corpus by name.
        config: of the training.
        trees: the corpus, whose tokens the text's are to be like.
    """
    corpus = open_corpus(text, tokenize=_tokenizer(trees))
    passes = PASSES["least"]
    record = {
        "text": dict(corpus.identity),
        "case": config.vocabulary.case,
        "least": LEAST,
        **_record(config, passes),
    }
    return Source(
        f"{TRAIN_ON}{text}",
        f"train-{json_digest(record, 8)}",
        record,
        f"skip-gram vectors of {config.table.dim} dimensions that gensim trained on `{text.name}` "
        f"({passes} passes)",
        lambda: _of_text(corpus, config, passes),
    )


def _record(config: TrainConfig, passes: int) -> dict[str, object]:
    return {"dim": config.table.dim, "seed": config.seed, "passes": passes, **SKIP_GRAM}


def _tokenizer(trees: TreeCache) -> str:
    """Whose tokens a corpus has."""
    return "space" if str(trees.identity.get("tokenizer", "")).startswith("space") else "spacy"


def _of_corpus(config: TrainConfig, trees: TreeCache) -> Iterator[tuple[str, Float]]:
    wanted = config.vocabulary
    counted = corpus_words(trees.type_counts(), wanted)
    if not counted[0]:
        raise UserError(
            f"--vectors train: no word occurs {wanted.min_count} times in {trees.folder}; lower "
            "--vocabulary.min-count"
        )
    yield from _skip_gram(config, counted, lambda: _of_trees(trees), len(trees), _passes(trees))


def _of_text(corpus: StreamCorpus, config: TrainConfig, passes: int) -> Iterator[tuple[str, Float]]:
    counts: Counter[str] = Counter()
    read = 0
    # Tokenised once, because that takes as long as a pass of training.
    with tempfile.TemporaryFile("w+", encoding="utf-8") as tokenised:
        with progress(description="tokenise text") as bar:
            for document in corpus:
                for sentence in document.sentences:
                    counts.update(sentence.tokens)
                    tokenised.write(" ".join(sentence.tokens) + "\n")
                read += len(document.sentences)
                bar.update(len(document.sentences))
        wanted = replace(config.vocabulary, size=len(counts) or 1, min_count=LEAST)
        counted = corpus_words(counts, wanted)
        if not counted[0]:
            raise UserError(f"--vectors {config.vectors}: no word occurs {LEAST} times")

        def again() -> Iterator[Sequence[str]]:
            tokenised.seek(0)
            return (line.rstrip("\n").split(" ") for line in tokenised)

        yield from _skip_gram(config, counted, again, read, passes)


def _skip_gram(
    config: TrainConfig,
    counted: tuple[list[str], NDArray[np.int64]],
    sentences: Callable[[], Iterator[Sequence[str]]],
    total: int,
    passes: int,
) -> Iterator[tuple[str, Float]]:
    try:
        from gensim.models import Word2Vec
    except ImportError:
        raise MissingExtraError("gensim", "vectors") from None
    words, counts_W = counted
    model = Word2Vec(
        sg=1, vector_size=config.table.dim, min_count=1, seed=config.seed, workers=1, **SKIP_GRAM
    )
    model.build_vocab_from_freq(dict(zip(words, counts_W.tolist(), strict=True)), corpus_count=total)
    with progress(total=passes * total, description="word vectors") as bar:
        again = _Sentences(sentences, lower=config.vocabulary.case == "lower", bar=bar)
        model.train(again, total_examples=total, epochs=passes)
    for word in words:
        yield word, np.asarray(model.wv[word], dtype=np.float32)


def _passes(trees: TreeCache) -> int:
    tokens = sum(row.tokens for row in trees.rows)
    return min(max(PASSES["words"] // max(tokens, 1), PASSES["least"]), PASSES["most"])


def _of_trees(trees: TreeCache) -> Iterator[Sequence[str]]:
    # gensim reads each pass in a new thread; a cache belongs to one.
    own = TreeCache(trees.folder, trees.manifest)
    for start in range(0, len(own), BLOCK):
        yield from own.read(start, min(start + BLOCK, len(own)), ("token",)).words()
    own.close()


class _Sentences:
    """The words of every sentence, as often as gensim asks.

    Args:
        sentences: reads them once.
        lower: whether to lower-case the words.
        bar: moved on by every sentence.
    """

    def __init__(self, sentences: Callable[[], Iterator[Sequence[str]]], *, lower: bool, bar: Bar) -> None:
        self.sentences, self.lower, self.bar = sentences, lower, bar

    def __iter__(self) -> Iterator[list[str]]:
        for words in self.sentences():
            yield [word.lower() for word in words] if self.lower else list(words)
            self.bar.update(1)
