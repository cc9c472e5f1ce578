"""Parse sentences that stand alone, such as those of tasks or pairs, by a model's own parsers."""

import functools
from collections.abc import Sequence
from pathlib import Path

from corpora.text import Corpus, Sentence, split_document
from multiview.folder.reading import SentenceReader, Tokens
from parsing.pipeline.driver import Worker, run_corpus
from parsing.text_parser import TextParser, load
from runtime.files import json_digest
from runtime.pool import LocalPool, Pool

SHARD_SENTENCES = 4096
"""A killed run loses its unfinished shards; one core parses this many sentences in a few seconds."""
MIN_SENTENCES_FOR_WORKERS = 2048
"""Starting workers takes as long as parsing this many sentences in this process."""


def parse_sentences(
    sentences: Sequence[Tokens], output: Path, reader: SentenceReader, kinds: Sequence[str], *, name: str
) -> None:
    """Parse sentences into a tree cache, unless it is there; many are parsed in worker processes.

    ``kinds`` are the annotations, ``dep``, ``const`` or both; ``name`` is that of the corpus.
    """
    corpus = Corpus(
        name,
        lambda: split_document(name, map(Sentence, map(tuple, sentences))),
        settings={"reader": "sentences-1", "format": "lines", "tokenizer": "space"},
        hash_input=lambda: json_digest(sentences, 64),
        length=len(sentences),
    )
    pool: Pool
    if len(sentences) < MIN_SENTENCES_FOR_WORKERS:  # with the model's parsers themselves
        parser = TextParser(*(reader.parser(kind) if kind in kinds else None for kind in ("dep", "const")))
        pool = Pool(Worker, lambda: parser)
    else:
        specs = [reader.parser_spec(kind) if kind in kinds else None for kind in ("dep", "const")]
        pool = LocalPool(Worker, functools.partial(load, *specs))
    summary = run_corpus(corpus, output, pool, shard_sentences=SHARD_SENTENCES)
    if summary.parsed_now:
        print(f"parsed {summary.parsed_now:,} sentences in {summary.seconds:.1f} s into {output}")
