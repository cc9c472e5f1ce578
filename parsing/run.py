"""Parse a corpus into a tree cache: both trees of every sentence, ready for training.

    python -m parsing.run books
    python -m parsing.run corpus.txt.xz --format lines --tokenize space --output runs/trees/mine
    xz -dc *.xz | python -m parsing.run - --output runs/trees/mine
    python -m parsing.run umbc --limit 1M --dry-run
    python -m parsing.run umbc --device cuda
    python -m parsing.run umbc --preset paper --dep-model runs/parsers/dep --const-model benepar_en3

Input: a corpus (see corpora.registry). Output: ``runs/trees/<corpus>/`` with HDF5 shards,
``manifest.json``, the resolved configuration and a log. The same command finishes a run that was
stopped, and does nothing when everything is there.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Le
from tyro.conf import Positional

from runtime.cli import (
    Command,
    Count,
    config_to_json,
    configuration,
    dry_run_text,
    peak_memory,
    preset_defaults,
)

if TYPE_CHECKING:
    from corpora.text import Corpus
    from parsing.pipeline.driver import Pool, RunSummary
    from parsing.text_parser import TextParser

SAMPLE, SAMPLE_PART = 2048, 512
"""Sentences of a dry run, and how many are parsed together."""
WARM_UP = 64
NONE = "none"
"""The model that stands for no trees of its kind."""
PAPER = {"preset": "paper", "limit": "40M", "tokenize": "space"}
"""Simoulin & Crabbé 2021, section 3.1: sentences of the tokenised corpus, in our reading the tagged files,
whose words are taken as they are."""
PAPER_SENTENCES = 40_000_000
PAPER_SAMPLE = (
    f"what {PAPER_SENTENCES:,} sentences would cost here, from a sample of books and the builtin parsers, "
    "which are faster than the paper's"
)
PAPER_PARSERS = (
    "--preset paper needs --dep-model FOLDER (nearest to the paper's: parsing.convert dep biaffine-dep-en of "
    "https://github.com/yzhangcs/parser) and --const-model NAME (nearest: benepar_en3 of "
    "https://github.com/nikitakit/self-attentive-parser)"
)
DEVIATES = (
    "not the paper's parsers: dependencies by {dep_model} (section A.1: biaffine with BERT's features, as is "
    "biaffine-dep-bert-en of supar 1.0, which parsing.convert does not read), constituents by {const_model} "
    "(section 2.2: Kitaev & Klein 2018, whose en_charlstm_dev.93.61.pt and en_elmo_dev.95.21.pt benepar no "
    "longer reads)"
)
"""Said by --preset paper, whichever parsers are given."""


@configuration
class ParseConfig:
    """Options of ``parsing.run``."""

    corpus: Positional[str]
    """books, umbc, a text file or folder, - for standard input, or a pipe."""
    preset: Literal["default", "paper"] = "default"
    """paper: the sentences and parsers of Simoulin & Crabbé 2021, whose checkpoints have to be given."""
    output: Path | None = None
    """Folder of the tree cache; None is runs/trees/<corpus>."""
    dep_model: str = "builtin"
    """Dependency parser: builtin, a folder of parsing.train or parsing.convert, or none."""
    const_model: str = "builtin"
    """Constituency parser: builtin, a folder, a benepar model's name or file, or none."""
    format: Literal["lines", "running"] | None = None
    """Sentences per line, or running text; None is the corpus's own default."""
    tokenize: Literal["spacy", "space"] | None = None
    """spaCy's rules, or split at white space; None is the corpus's own default."""
    limit: str | None = None
    """Read only the first sentences: how many, e.g. 5000, 1.5k or 40M; None is all."""
    data: Path | None = None
    """Folder that holds umbc; None is $MULTIVIEW_DATA, else data."""
    split: Literal["train", "heldout", "all"] | None = None
    """Part of books; None is train."""
    max_tokens: Count = 128
    """Longer sentences are not parsed: they keep their place, with a fallback tree and a flag."""
    workers: Annotated[Count, Le(1024)] | None = None
    """Worker processes (or Ray actors), one thread each; None is one per core, or one per GPU."""
    ray: str | None = None
    """Work on a Ray cluster: its address (auto, host:port), or local, which starts one on this machine."""
    device: str = "auto"
    """Where sentences are encoded and scored: cpu, cuda (all GPUs of this machine or cluster) or cuda:N; auto
    takes GPUs of this machine if there are any. Trees of a GPU may differ in rare cases, so they make another
    cache."""
    dry_run: bool = False
    """Print the resolved configuration and an estimate of time and disk, write nothing."""


def main(config: ParseConfig) -> None:
    """Parse the corpus, or print an estimate."""
    from corpora.inputs import as_file

    with as_file(config.corpus) as spec:
        parse(config, spec)


def parse(config: ParseConfig, spec: str) -> None:
    """Parse the corpus ``spec``, which may be a copy of what the configuration names."""
    from corpora.registry import open_corpus
    from parsing.parser_names import check_parser
    from parsing.pipeline.driver import LocalPool, run_corpus
    from parsing.text_parser import load
    from runtime.errors import UserError, refusals
    from runtime.surroundings import available_cores

    opened = functools.partial(
        open_corpus,
        spec,
        format=config.format,
        tokenize=config.tokenize,
        limit=config.limit,
        data=config.data,
        split=config.split,
    )
    devices = parsing_devices(config)
    makes = [
        functools.partial(
            load,
            None if config.dep_model == NONE else config.dep_model,
            None if config.const_model == NONE else config.const_model,
            device=device,
            max_tokens=config.max_tokens,
        )
        for device in devices
    ]
    workers = config.workers or (available_cores() if devices == ["cpu"] else len(devices))
    papers = config.preset == "paper"
    missing = [PAPER_PARSERS] if papers and "builtin" in (config.dep_model, config.const_model) else []
    if papers and config.dry_run:
        missing += refusals(opened, *[makes[0]] * (not missing))
        if missing:  # what the paper's trees would cost is said before there are its data and parsers
            print(" | ".join(missing), PAPER_SAMPLE, sep="\n", flush=True)
            sample = open_corpus("books", limit=SAMPLE)
            parser = load(device=devices[0], max_tokens=config.max_tokens)
            print(dry_run_text(config, *cost(sample, parser, workers, PAPER_SENTENCES)))
    if missing:
        raise UserError(" | ".join(missing))
    for kind, name in (("dep", config.dep_model), ("const", config.const_model)):
        if name != NONE:
            check_parser(kind, name)
    corpus = opened()
    output = config.output or Path("runs/trees") / corpus.name
    refuse_own_input(spec, output)
    pool: Pool = LocalPool(makes, workers)
    if config.ray is not None:
        from parsing.pipeline.ray import RayPool

        pool = RayPool(makes[0], config.workers, address=config.ray, gpus=int(devices != ["cpu"]))
    print(corpus.describe())
    if papers:
        print(DEVIATES.format_map(config_to_json(config)))
    if config.dry_run:
        resolved = dataclasses.replace(config, output=output)
        print(dry_run_text(resolved, *cost(corpus, makes[0](), workers)))
        return
    summary = run_corpus(
        corpus,
        output,
        pool,
        expected=corpus.expected,
        config={**config_to_json(config), "output": str(output)},
    )
    print(report(corpus, output, summary))


def refuse_own_input(corpus: str, output: Path) -> None:
    """Refuse an output folder that the next run would read as text; no reader enters hidden folders.

    Raises:
        UserError: ``output`` lies in the folder ``corpus``.
    """
    from corpora.registry import NAMED
    from runtime.errors import UserError

    root, place = Path(corpus).resolve(), output.resolve()
    inside = corpus not in NAMED and root.is_dir() and place.is_relative_to(root)
    if inside and not any(part.startswith(".") for part in place.relative_to(root).parts):
        raise UserError(f"--output {output}: lies in the corpus folder {corpus}; choose one outside it")


def parsing_devices(config: ParseConfig) -> list[str]:
    """The devices to parse on: ``["cpu"]``, or GPUs.

    Raises:
        UserError: a device that is not here.
    """
    if config.ray is not None:  # the devices of the cluster, not of this machine
        return ["cuda" if config.device.startswith("cuda") else "cpu"]
    # It takes two seconds to ask torch; Linux shows the driver as a file.
    may_be_here = sys.platform != "linux" or any(
        map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd"))
    )
    if config.device == "cpu" or (config.device == "auto" and not may_be_here):
        return ["cpu"]
    from runtime.device import devices_of

    return devices_of(config.device)


def report(corpus: Corpus, output: Path, summary: RunSummary) -> str:
    """One screen: what is in the cache, what was flagged and why, how long it took."""
    manifest = summary.manifest
    size = sum((output / row.file).stat().st_size for row in manifest.shards)
    reasons: Counter[str] = Counter()
    for row in manifest.shards:
        reasons.update(row.reasons)
    now, tokens = summary.parsed_now, manifest.total("tokens")
    return "\n".join([
        f"{corpus.name} -> {output}",
        f"  {manifest.total('sentences'):,} sentences, {tokens:,} tokens, "
        f"{manifest.total('documents'):,} documents, {len(manifest.shards):,} shards",
        f"  {size / 1e6:.1f} MB, {size / tokens:.2f} bytes per token",
        f"  flagged: {manifest.total('flagged'):,} sentences",
        *(f"    {reason}: {count:,}" for reason, count in sorted(reasons.items())),
        f"  parsed {now:,} now in {summary.seconds:.1f} s: {now / summary.seconds:,.0f} sentences/s"
        if now else "  everything was there already",
        f"  content sha256 {manifest.content_sha256()}",
    ])  # fmt: skip


def cost(
    corpus: Corpus, parser: TextParser, workers: int, sentences: int | None = None
) -> tuple[dict[str, str], int | None, str, float, bool]:
    """Parse the first sentences in this process and scale up, by default to as many as the corpus has.

    Returns:
        Facts, units, their name, units a second, and whether the units are an estimate.

    Raises:
        UserError: the corpus has no sentences.
    """
    from parsing.pipeline.driver import shards_of
    from parsing.trees.batch import join
    from parsing.trees.cache import write_shard
    from runtime.errors import UserError
    from runtime.progress import progress

    shards = shards_of(corpus, SAMPLE)  # kept, since the estimate looks at how far they are read
    sample, total = next(shards, None), sentences or corpus.expected()
    if sample is None:
        raise UserError(f"{corpus.name}: has no sentences")
    parser.arrays(sample.sentences[:WARM_UP])
    began = time.perf_counter()
    parts = []
    with progress(total=len(sample.sentences), description="sample") as bar:
        for part in range(0, len(sample.sentences), SAMPLE_PART):
            rows = slice(part, part + SAMPLE_PART)
            parts.append(parser.arrays(sample.sentences[rows], sample.flags[rows]))
            bar.update(len(parts[-1]))
    batch = join(parts)
    per_s = len(batch) / (time.perf_counter() - began)
    with tempfile.TemporaryDirectory() as folder:
        row = write_shard(Path(folder), 0, batch, sample.document_starts, sample.document_ids)
        size = (Path(folder) / row.file).stat().st_size / len(batch)
    whole = len(batch) < SAMPLE  # which keeps one worker busy
    total = len(batch) if whole else total
    facts = {
        "sample": f"{len(batch):,} sentences, parsed by one worker of {workers}",
        "memory": f"{peak_memory() / 2**20:,.0f} MiB at most while it was parsed",
        "disk": "unknown" if total is None else f"{total * size / 1e6:,.1f} MB",
    }
    guess = not whole and sentences is None and corpus.length is None
    return facts, total, "sentences", per_s * (1 if whole else workers), guess


cli = Command(
    ParseConfig,
    main,
    "parsing.run",
    "Parse a corpus into a cache of dependency and constituency trees.",
    defaults=preset_defaults(ParseConfig, {"paper": PAPER}),
)


if __name__ == "__main__":
    sys.exit(cli())
