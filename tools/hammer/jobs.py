"""Commands that own a folder, with tiny inputs: what to type, and which results must be the same bytes."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.hammer.processes import Child, command, preload
from tools.hammer.world import SHARD, World


def _small_shards() -> None:
    """In the fork: a small corpus has several shards."""
    from parsing.pipeline.driver import run_corpus

    assert run_corpus.__kwdefaults__ is not None
    run_corpus.__kwdefaults__["shard_sentences"] = SHARD


def _in_one_process() -> None:
    """In the fork: no workers, which would import everything again."""
    import parsing.run
    from parsing.pipeline.serial import SerialPool

    _small_shards()
    parsing.run.worker_pool = lambda config: SerialPool


@dataclass(frozen=True)
class Job:
    """A command that owns the folder ``out``."""

    name: str
    module: str
    words: str
    """``@name/file`` is an input of the world."""
    results: tuple[str, ...]
    """Globs below ``out``: equal bytes, however often the command was stopped."""
    inside: Callable[[], None] = lambda: None
    """Changes the fork before the command starts."""
    once: bool = False
    """It refuses a folder that it has finished, with exit code 2."""

    @property
    def ends(self) -> list[int]:
        """The exit codes of a run that nothing disturbs."""
        return [0, 2] if self.once else [0]

    def typed(self, world: World) -> list[str]:
        """The words, with the paths of the inputs."""
        words = []
        for word in self.words.split():
            before, mark, name = word.partition("@")
            path = name.split("/", 1)
            words.append(f"{before}{world(path[0]).joinpath(*path[1:])}" if mark else word)
        return words

    def start(
        self,
        cwd: Path,
        world: World,
        limits: Mapping[int, int] | None = None,
        *,
        listing: Path | None = None,
    ) -> Child:
        """Start it in ``cwd``, where its results go to ``out``; ``listing`` gets what it has imported."""
        words = self.typed(world)

        def call() -> int:
            self.inside()
            code = command(self.module, words)()
            if listing is not None:
                listing.write_text("\n".join(sorted(sys.modules)), encoding="utf-8")
            return code

        return Child(call, cwd, limits)

    def digest(self, cwd: Path) -> dict[str, bytes]:
        """The results by name."""
        out = cwd / "out"
        found = sorted({path for pattern in self.results for path in out.glob(pattern) if path.is_file()})
        return {str(path.relative_to(out)): path.read_bytes() for path in found}

    def left_over(self, cwd: Path) -> list[str]:
        """Half-written files that nobody will remove."""
        return [str(path.relative_to(cwd)) for path in sorted((cwd / "out").rglob(".*.tmp"))]


@dataclass(frozen=True)
class Whole:
    """What the uninterrupted run of a job gave."""

    results: dict[str, bytes]
    seconds: float
    size: int
    """Bytes of all its files."""


def whole(job: Job, world: World) -> Whole:
    """The uninterrupted run, made once; what it imported is imported here, so that later forks start at once.

    Raises:
        RuntimeError: it fails.
    """
    cwd = world.root / "whole" / job.name
    facts = cwd / "facts.json"
    if not facts.exists():
        shutil.rmtree(cwd, ignore_errors=True)
        cwd.mkdir(parents=True)
        job.typed(world)  # makes the inputs
        for attempt in ("first", "out"):  # the second is timed, without imports and compilation
            ended = job.start(cwd, world, listing=cwd / "modules").wait()
            if ended.code != 0 or not job.digest(cwd):
                raise RuntimeError(f"{job.name}: cannot be run: {ended.text[-2000:]}")
            preload((cwd / "modules").read_text(encoding="utf-8").split())
            (cwd / "out").rename(cwd / attempt)
        facts.write_text(json.dumps(ended.seconds), encoding="utf-8")
    preload((cwd / "modules").read_text(encoding="utf-8").split())
    size = sum(path.stat().st_size for path in (cwd / "out").rglob("*") if path.is_file())
    return Whole(job.digest(cwd), float(json.loads(facts.read_text(encoding="utf-8"))), size)


_PARSE = "@text/corpus.txt --format lines --tokenize space --output out --workers"
_TRAIN = (
    "--trees @cache --output out --name m --views dep,const --encoder.dim 8 --table.dim 8 --loop.batch 8 "
    "--loop.max-steps 60 --loop.epochs 100 --loop.checkpoint-every 7 --validation.sentences 8 "
    "--validation.every 20 --device cpu --loop.threads 1"
)
_SMALL_PARSER = (
    "--output out --model.encoder.word-dim 8 --model.encoder.hidden 8 --model.encoder.layers 1 "
    "--loop.epochs 12 --loop.checkpoint-s 0 --loop.threads 1"
)
_PARSER = f"--train @treebanks/bank.{{0}} --dev @treebanks/bank.{{0}} {_SMALL_PARSER}"
_BOTH = (
    "--train-dep @treebanks/bank.conllu --train-const @treebanks/bank.ptb --dev-dep @treebanks/bank.conllu "
    f"--dev-const @treebanks/bank.ptb --loop.parallel 2 {_SMALL_PARSER}"
)
_TINY = "--backbone tiny --tiny.layers 1 --tiny.hidden 16 --tiny.vocabulary 300 --device cpu"
JOBS = (
    Job("parse", "parsing.run", f"{_PARSE} 1", ("shard-*.h5", "manifest.json"), _in_one_process),
    Job("parse-workers", "parsing.run", f"{_PARSE} 2", ("shard-*.h5", "manifest.json"), _small_shards),
    Job("train", "multiview.train", _TRAIN, ("m/model.safetensors", "m/vocab.txt", "m/config.json")),
    Job("train-dep", "parsing.train", f"dep {_PARSER.format('conllu')}", ("*.safetensors", "vocab.json")),
    Job("train-const", "parsing.train", f"const {_PARSER.format('ptb')}", ("*.safetensors", "vocab.json")),
    Job("train-both", "parsing.train", f"both {_BOTH}", ("*/*.safetensors", "*/vocab.json")),
    Job(
        "senteval",
        "senteval_runner.run",
        "random:seq @senteval/words.txt --data @senteval/senteval --tasks CR,STSBenchmark --protocol fast "
        "--output out --cache out/vectors --trees out/trees --threads 1",
        ("results.md", "vectors/**/*.npy"),
    ),
    Job(
        "burt",
        "studies.burt",
        f"--output out --nli @pairs/nli.tsv --ppdb @pairs/ppdb.txt --epochs 2 --batch-size 8 --save-every 3 "
        f"--evaluate-every 9 {_TINY}",
        ("model.safetensors", "heads.safetensors"),
    ),
    Job(
        "multitask",
        "studies.multitask",
        f"--output out --data @senteval --stages SA-NLI(M) --epochs 2 --batch-size 8 --save-every 3 {_TINY}",
        ("stages/**/model.safetensors", "stages/**/head.safetensors"),
    ),
    Job(
        "passages",
        "studies.passages",
        "wikiqa=@passages/wikiqa --models random:seq --output out --cache out/vectors --ranker.epochs 3 "
        "--features cosine bilinear --scorers linear",
        ("tables.md",),
    ),
    Job(
        "layers",
        "studies.layers",
        "random:seq --data @senteval/senteval --tasks CR --protocol fast --output out --cache out/vectors "
        "--threads 1",
        ("results.md", "vectors/**/*.npy"),
    ),
    Job(
        "faq",
        "studies.faq",
        "@faq --models random:seq --tune map --split random --runs 2 --output out",
        ("tables.md",),
    ),
    Job(
        "analogies",
        "studies.analogies",
        "build --cache @cache --candidates category --output out",
        ("*.tsv",),
    ),
    Job("probing", "senteval_runner.build_probing", "--trees @cache --output out", ("*.txt",)),
    Job("encode-npy", "multiview.encode", "@models/trained @cache --output out/v.npy", ("v.npy",)),
    Job("encode-h5", "multiview.encode", "@models/trained @cache --output out/v.h5", ("v.h5",)),
    Job(
        "import",
        "parsing.import_trees",
        "--conllu @treebanks/bank.conllu --output out",
        ("shard-*.h5", "manifest.json"),
        _small_shards,
        once=True,
    ),
)
