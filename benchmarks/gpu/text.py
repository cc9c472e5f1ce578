"""Sentences of a toy grammar, and their trees: text for a machine that has no data."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from corpora.documents import Document, Sentence
from parsing.cache.reader import TreeCache
from parsing.pipeline.driver import run_corpus
from parsing.pipeline.workers import Pool
from parsing.text_parser import load

WORDS = {
    "det": "the a this every some",
    "adj": "old small quiet famous red strange heavy young",
    "noun": "dog river teacher market letter engine garden city bank child report island",
    "verb": "saw found followed described wanted left built remembered",
    "say": "said knew believed thought",
    "prep": "of in near under with from behind",
    "link": "and but while because",
}
DOCUMENT_SENTENCES = 20


def sentence(pick: random.Random, words: int) -> list[str]:
    """A sentence of about so many words, of clauses and nested phrases."""

    def one(kind: str) -> str:
        return pick.choice(WORDS[kind].split())

    def phrase(depth: int) -> list[str]:
        found = [one("det"), *([one("adj")] if pick.random() < 0.4 else []), one("noun")]
        return [*found, one("prep"), *phrase(depth + 1)] if pick.random() < 0.5 / (depth + 1) else found

    found: list[str] = []
    while len(found) < words:
        found += [one("link")] if found else []
        found += [*phrase(0), *([one("say"), "that", *phrase(1)] if pick.random() < 0.3 else [])]
        found += [one("verb"), *phrase(0)]
    return [*found, "."]


class ToyText:
    """A corpus of the grammar's sentences.

    Args:
        size: number of sentences.
    """

    name = "toy grammar"

    def __init__(self, size: int) -> None:
        self.identity = {"sentences": size}
        pick = random.Random(0)
        lengths = [min(60, 4 + int(pick.expovariate(1 / 17))) for _ in range(size)]
        self.sentences = [tuple(sentence(pick, length)) for length in lengths]

    def describe(self) -> str:
        """One line."""
        return f"{len(self.sentences)} sentences of a toy grammar"

    def __iter__(self) -> Iterator[Document]:
        for start in range(0, len(self.sentences), DOCUMENT_SENTENCES):
            part = self.sentences[start : start + DOCUMENT_SENTENCES]
            yield Document(str(start), tuple(Sentence(tokens) for tokens in part))


def parsed_text(folder: Path, size: int) -> tuple[TreeCache, list[tuple[str, ...]]]:
    """A tree cache of so many sentences, made here, and the sentences."""
    text = ToyText(size)
    run_corpus(text, folder, Pool(load))
    return TreeCache.open(folder), text.sentences
