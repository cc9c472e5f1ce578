"""``--dry-run`` of the demo: every step's time from a small part of its own text."""

from __future__ import annotations

import itertools
import tempfile
import time
from pathlib import Path

from corpora.pydocs import Source, fresh_documents, sources
from corpora.registry import open_corpus
from corpora.stream import Counts, parse_limit
from corpora.support.estimate import Work, dry_run_text, rate
from multiview.config import TrainConfig, ValidationConfig
from multiview.encoders.stack import parameter_counts
from multiview.folder.files import Member
from multiview.model import MultiViewEncoder
from multiview.training.dry_run import step_rate
from multiview.training.trainer import Trainer
from parsing.cache.manifest import Manifest
from parsing.cache.reader import TreeCache
from parsing.cache.shard_file import write_shard
from parsing.pipeline.driver import shard_specs
from parsing.pipeline.local import available_cores
from parsing.pipeline.parse_shard import ShardOptions, parse_shard
from parsing.pipeline.split import ShardSpec
from parsing.pipeline.workers import LoadedParsers
from parsing.run import RunConfig, parser_factories
from senteval_runner.demo.pipeline import DemoConfig, sentence_documents
from senteval_runner.demo.retrieval import neighbour_retrieval

SHARD = 500
SHARDS = 4
EVERY = 50
"""Of so many source files one is read."""


def dry_run(config: DemoConfig) -> str:
    """What the demo would take; the calibration writes into a temporary folder alone."""
    training, held_out = parse_limit(config.sentences) or 0, parse_limit(config.held_out) or 0
    loop = TrainConfig().loop
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        cache, parse_per_s = _parse_first(folder)
        tree_bytes = sum(path.stat().st_size for path in folder.glob("shard-*.h5")) / len(cache)
        measured = TrainConfig(trees=folder, out=folder, validation=ValidationConfig(sentences=SHARD))
        trainer = Trainer(measured, cache)
        steps_per_s, _ = step_rate(trainer)
        encode_per_s = rate(lambda _: _evaluate(trainer, cache), range(2))
    steps = min(loop.epochs * training / loop.batch, 60 * config.minutes * steps_per_s)
    parameters = parameter_counts(trainer.network)
    model_bytes = 4.0 * sum(parameters.values()) * (1 + 3 * loop.keep)  # checkpoints: weights, two moments
    files = sources()
    read_per_s = rate(_read, [files[::EVERY], files[1::EVERY]])
    return dry_run_text(
        config,
        facts={
            "words": f"{len(trainer.network.words.vocabulary):,} in the calibration, more in the whole text"
        },
        parameters=parameters,
        disk_bytes=tree_bytes * (training + held_out) + model_bytes,
        work=[
            Work(name="parse", units=training + held_out, unit="sentences", per_s=parse_per_s),
            # The held-out packages lie all over the sources, the training text at their beginning.
            Work(name="search", units=len(files), unit="source files", per_s=read_per_s),
            Work(name="train", units=steps, unit="steps", per_s=steps_per_s),
            Work(name="evaluate", units=held_out, unit="sentences", per_s=encode_per_s),
        ],
        not_counted="start of the commands, validation, TF-IDF and the report",
    )


def _parse_first(folder: Path) -> tuple[TreeCache, float]:
    """The first sentences as a tree cache, and sentences per second of reading and parsing on all cores."""
    loaded = LoadedParsers.make(parser_factories(RunConfig(corpus="pydocs")))
    described = loaded.describe()
    identity = {
        "corpus": {"name": "pydocs"},
        "dependency": described.dependency,
        "constituency": described.constituency,
    }
    manifest = Manifest(identity=identity, inventories=described.inventories, shard_sentences=SHARD)
    began = time.perf_counter()
    specs = list(itertools.islice(shard_specs(open_corpus("pydocs"), SHARD), SHARDS))
    read_s = (time.perf_counter() - began) / len(specs)

    def parse(spec: ShardSpec) -> int:
        result = parse_shard(spec, loaded.dependency, loaded.constituency, ShardOptions())
        manifest.rows[spec.index] = write_shard(
            folder, result, identity=identity, inventories=manifest.inventories
        )
        return len(spec.sentences)

    parse_s = SHARD / rate(parse, specs)
    manifest.complete = True
    manifest.write(folder)
    return TreeCache.open(folder), min(SHARD / read_s, available_cores() * SHARD / (read_s + parse_s))


def _evaluate(trainer: Trainer, cache: TreeCache) -> int:
    """Encode by two models and rank twice as often, as the demo does."""
    encoder = MultiViewEncoder([Member(trainer.network)])
    documents = sentence_documents(cache)
    for _ in range(2):
        vectors = encoder.encode(None, trees=cache, batch_size=256, show_progress_bar=False)
        for _ in range(2):
            neighbour_retrieval(vectors, documents)
    return len(cache)


def _read(files: list[Source]) -> int:
    """Look for documents in source files."""
    for _ in fresh_documents(files, Counts()):
        pass
    return len(files)
