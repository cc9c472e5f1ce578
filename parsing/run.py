"""Parse a corpus into a tree cache: both trees of every sentence, ready for training.

    python -m parsing.run pydocs
    python -m parsing.run corpus.txt.xz --format lines --tokenize space --output runs/trees/mine
    python -m parsing.run umbc --limit 1M --dry-run
    python -m parsing.run umbc --device cuda --precision bf16
    python -m parsing.run umbc --preset paper --dep-model runs/parsers/dep --const-model benepar_en3

Input: a corpus (see corpora.registry). Output: ``runs/trees/<corpus>/`` with HDF5 shards,
``manifest.json``, the resolved configuration and a log. The same command finishes a run that was
stopped, and does nothing when everything is there.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro
from tyro.conf import Positional

from corpora.support.cli import Command
from corpora.support.config import Count, NotNegative, config_to_json, configuration
from parsing import paper
from parsing.networks.config import Precision

if TYPE_CHECKING:
    from corpora.documents import Corpus
    from parsing.pipeline.driver import RunSummary
    from parsing.pipeline.workers import ParserFactories, WorkerPool

VIEWS = ("dep", "const")


@configuration
class ParseConfig:
    """Options of ``parsing.run``."""

    corpus: Positional[str]
    """pydocs, umbc, senteval, or a text file or folder."""
    preset: Literal["default", "paper"] = "default"
    """paper: the sentences and parsers of Simoulin & Crabbé 2021, whose checkpoints have to be given."""
    output: Path | None = None
    """Folder of the tree cache; None is runs/trees/<corpus>."""
    views: str = "dep,const"
    """Which trees: dep, const, or both separated by a comma."""
    dep_model: str = "builtin"
    """Dependency parser: builtin, a folder of parsing.train, or a library's name or file."""
    const_model: str = "builtin"
    """Constituency parser: builtin, a folder of parsing.train, or a library's name or file."""
    precision: Precision = "fp32"
    """Arithmetic of the parsers' encoders: bf16 is faster where the processor has it (AVX512-BF16, AMX) and
    changes about one tree in a hundred (parsing.score measures it), so it makes another cache."""
    format: Literal["lines", "running"] | None = None
    """Sentences per line, or running text; None is the corpus's own default."""
    tokenize: Literal["spacy", "space"] | None = None
    """spaCy's rules, or split at white space; None is the corpus's own default."""
    limit: str | None = None
    """Read only the first sentences: how many, e.g. 5000, 1.5k or 40M; None is all."""
    data: Path | None = None
    """Folder that holds umbc and senteval; None is $MULTIVIEW_DATA, else data."""
    split: Literal["train", "heldout", "all"] | None = None
    """Part of pydocs; None is train."""
    max_tokens: Count = 128
    """Longer sentences are not parsed: they keep their place, with a fallback tree and a flag."""
    workers: Count | None = None
    """Worker processes (or Ray actors), one thread each; None is one per core."""
    pool: Literal["local", "ray"] = "local"
    """Workers are processes on this machine, or actors on a Ray cluster."""
    address: str | None = None
    """Address of a running Ray cluster; None starts one on this machine."""
    device: str = "auto"
    """Where sentences are encoded and scored: cpu, cuda (all GPUs of this machine) or cuda:N; auto takes GPUs
    if there are any. Trees of a GPU may differ in rare cases, so they make another cache."""
    gpus_per_worker: NotNegative = 0.0
    """With --pool ray, GPUs of each actor; 0.25 puts four actors on one GPU, 0 keeps them on CPUs."""
    dry_run: bool = False
    """Print the resolved configuration and an estimate of time and disk, write nothing."""


def main(config: ParseConfig) -> None:
    """Parse the corpus, or print an estimate."""
    from corpora.registry import open_corpus
    from corpora.support.errors import UserError
    from parsing.pipeline.driver import run_corpus
    from parsing.pipeline.estimate import dry_run, expected_sentences
    from parsing.pipeline.local import available_cores
    from parsing.pipeline.parse_shard import ShardOptions

    if config.preset == "paper":
        _follow_paper(config)
    if config.address is not None and config.pool != "ray":
        raise UserError(f"--address {config.address}: needs --pool ray")
    corpus = open_corpus(
        config.corpus,
        format=config.format,
        tokenize=config.tokenize,
        limit=config.limit,
        data=config.data,
        split=config.split,
    )
    output = config.output or Path("runs/trees") / corpus.name
    refuse_own_input(config.corpus, output)
    devices = parsing_devices(config)
    parsers = parser_factories(dataclasses.replace(config, device=devices[0]))
    options = ShardOptions(max_tokens=config.max_tokens)
    if devices != ["cpu"]:
        options = ShardOptions.on_device(config.max_tokens)
    print(corpus.describe())
    if config.dry_run:
        workers = len(devices) if devices != ["cpu"] else config.workers or available_cores()
        config = dataclasses.replace(config, output=output)
        print(dry_run(config, corpus, config.corpus, parsers, options, workers))
        return
    summary = run_corpus(
        corpus,
        output,
        parsers,
        options=options,
        expected=functools.partial(expected_sentences, corpus, config.corpus),
        workers=config.workers,
        pool=worker_pool(config),
        config={**config_to_json(config), "output": str(output), "command": command_of(config)},
    )
    print(report(corpus, output, summary))


def _follow_paper(config: ParseConfig) -> None:
    """Refuse what the preset cannot do without; say what the run changes of the paper's data."""
    from corpora.registry import data_folder

    models = {"dep": config.dep_model, "const": config.const_model}
    wanted = {view: spec for view, spec in models.items() if view in config.views}
    paper.refuse_incomplete(config.corpus, data_folder(config.data), wanted)
    found = paper.deviations(
        corpus=config.corpus,
        limit=config.limit,
        tokenize=config.tokenize,
        precision=config.precision,
        max_tokens=config.max_tokens,
    )
    print("".join(f"deviates   {text}\n" for text in found), end="")


def refuse_own_input(corpus: str, output: Path) -> None:
    """Refuse an output folder that the next run would read as text of the corpus.

    Raises:
        UserError: ``output`` lies in the folder ``corpus``, and not in a hidden one, which no reader enters.
    """
    from corpora.registry import NAMED
    from corpora.support.errors import UserError

    root, place = Path(corpus).resolve(), output.resolve()
    if corpus in NAMED or not root.is_dir() or not place.is_relative_to(root):
        return
    if not any(part.startswith(".") for part in place.relative_to(root).parts):
        raise UserError(
            f"--output {output}: lies in the corpus folder {corpus} and would become part of the corpus; "
            "choose a folder outside it"
        )


def parsing_devices(config: ParseConfig) -> list[str]:
    """The devices to parse on: ``["cpu"]``, or GPUs.

    Raises:
        UserError: a device that is not here, or options that do not go together.
    """
    from corpora.support.errors import UserError

    if config.pool == "ray":
        wanted = "cuda" if config.gpus_per_worker else "cpu"
        if config.device not in ("auto", wanted):
            advice = "--gpus-per-worker above 0" if wanted == "cpu" else "--device cuda"
            raise UserError(f"--device {config.device}: with --pool ray it needs {advice}")
        return [wanted]
    if config.gpus_per_worker:
        raise UserError(f"--gpus-per-worker {config.gpus_per_worker:g}: needs --pool ray")
    if config.device == "cpu" or (config.device == "auto" and not _may_have_gpu()):
        return ["cpu"]
    from parsing.networks.device import devices_of

    return devices_of(config.device)


def _may_have_gpu() -> bool:
    """Whether it is worth two seconds to ask torch; Linux shows the driver as a file."""
    return sys.platform != "linux" or any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")))


def worker_pool(config: ParseConfig) -> Callable[[ParserFactories, int | None], WorkerPool]:
    """What makes the pool of workers that ``config`` asks for."""
    from parsing.pipeline.local import LocalPool

    if config.pool == "ray":
        from parsing.pipeline.ray import RayPool

        return functools.partial(RayPool, address=config.address, gpus_per_worker=config.gpus_per_worker)
    devices = parsing_devices(config)
    if devices == ["cpu"]:
        return LocalPool
    on_devices = [parser_factories(dataclasses.replace(config, device=device)) for device in devices]
    return functools.partial(LocalPool, devices=on_devices)


def command_of(config: ParseConfig) -> str:
    """The command that makes this cache, without ``--output``: a cache may be moved."""
    words = ["python", "-m", "parsing.run", config.corpus]
    for option in dataclasses.fields(config):
        value = getattr(config, option.name)
        if option.name not in ("corpus", "output", "dry_run") and value != option.default:
            words += [f"--{option.name.replace('_', '-')}", str(value)]
    return shlex.join(words)


def parser_factories(config: ParseConfig) -> ParserFactories:
    """How workers load the parsers that ``config`` names, on its device.

    Raises:
        UserError: an unknown view, or no view.
    """
    from corpora.support.errors import UserError
    from parsing.models import load_constituency_parser, load_dependency_parser
    from parsing.pipeline.workers import ParserFactories

    views = [view.strip() for view in config.views.split(",") if view.strip()]
    unknown = [view for view in views if view not in VIEWS]
    if unknown or not views:
        raise UserError(f"--views {config.views}: expected dep, const or dep,const")
    return ParserFactories(
        dependency=functools.partial(
            load_dependency_parser, config.dep_model, config.precision, config.device
        )
        if "dep" in views
        else None,
        constituency=functools.partial(
            load_constituency_parser, config.const_model, config.precision, config.device
        )
        if "const" in views
        else None,
    )


def report(corpus: Corpus, output: Path, summary: RunSummary) -> str:
    """One screen: what is in the cache, what was flagged and why, how long it took."""
    size = sum(path.stat().st_size for path in output.glob("shard-*.h5"))
    lines = [
        f"{corpus.name} -> {output}",
        f"  {summary.sentences:,} sentences, {summary.tokens:,} tokens, {summary.documents:,} documents, "
        f"{summary.shards:,} shards",
        f"  {size / 1e6:.1f} MB, {size / max(summary.tokens, 1):.2f} bytes per token",
        f"  flagged: {summary.flagged:,} sentences",
        *(f"    {reason}: {count:,}" for reason, count in sorted(summary.reasons.items()) if count),
    ]
    if summary.parsed_now:
        rate = summary.parsed_now / summary.seconds
        lines.append(
            f"  parsed {summary.parsed_now:,} now in {summary.seconds:.1f} s: {rate:,.0f} sentences/s"
        )
    else:
        lines.append("  everything was there already")
    lines.append(f"  content sha256 {summary.content_sha256}")
    return "\n".join(lines)


def defaults_from(args: Sequence[str]) -> ParseConfig:
    """The defaults that ``--preset`` on a command line asks for."""
    chosen = [
        arg.partition("=")[2] or following
        for arg, following in zip(args, [*args[1:], ""], strict=True)
        if arg.partition("=")[0] == "--preset"
    ]
    if "paper" not in chosen:
        return ParseConfig(corpus=tyro.MISSING)
    return ParseConfig(corpus=tyro.MISSING, preset="paper", limit=paper.LIMIT, tokenize=paper.TOKENIZE)


cli = Command(
    ParseConfig,
    main,
    "parsing.run",
    "Parse a corpus into a cache of dependency and constituency trees.",
    defaults=defaults_from,
)


if __name__ == "__main__":
    sys.exit(cli())
