"""Parses sentences outside of documents, such as those of tasks or pairs, by a model's own parsers."""

import functools
from collections.abc import Sequence
from pathlib import Path

from corpora.text import Corpus, Sentence, split_document
from multiview.folder.reading import SentenceReader, Tokens
from parsing.pipeline.driver import Worker, run_corpus
from parsing.text_parser import TextParser, load
from runtime.files import json_digest
from runtime.pool import LocalPool, Pool

TASK_SHARD_SENTENCES = 4096
"""The sentences of a shard. They are few, because a killed run loses the shards that are not finished."""
MIN_SENTENCES_FOR_PARSING_WORKERS = 2048
"""The fewest sentences for which worker processes are started. Their start takes as long as parsing these."""


def parse_sentences(
    sentences: Sequence[Tokens], output: Path, reader: SentenceReader, kinds: Sequence[str], *, name: str
) -> None:
    """Parse sentences into a tree cache, unless it exists; worker processes parse large numbers of sentences.

    Args:
        sentences: the tokens of each sentence.
        output: the folder of the tree cache.
        reader: has the parsers.
        kinds: the annotations to parse: ``dep``, ``const`` or both.
        name: the name of the corpus, which the cache records.
    """
    corpus = Corpus(
        name,
        lambda: split_document(name, map(Sentence, map(tuple, sentences))),
        settings={"reader": "sentences-1", "format": "lines", "tokenizer": "space"},
        hash_input=lambda: json_digest(sentences, 64),
        length=len(sentences),
    )
    pool: Pool
    if len(sentences) < MIN_SENTENCES_FOR_PARSING_WORKERS:  # by the parsers that the reader has loaded
        parser = TextParser(*(reader.parser(kind) if kind in kinds else None for kind in ("dep", "const")))
        pool = Pool(Worker, lambda: parser)
    else:
        parser_names = [reader.parser_name_of(kind) if kind in kinds else None for kind in ("dep", "const")]
        pool = LocalPool(Worker, functools.partial(load, *parser_names))
    summary = run_corpus(corpus, output, pool, shard_sentences=TASK_SHARD_SENTENCES)
    if summary.parsed_now:
        print(f"parsed {summary.parsed_now:,} sentences in {summary.seconds:.1f} s into {output}")
