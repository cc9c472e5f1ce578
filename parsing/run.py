"""Parses a corpus into a tree cache: both trees of each sentence, ready for training.

    python -m parsing.run books
    python -m parsing.run corpus.txt.xz --format lines --tokenize space --output runs/trees/mine
    xz -dc *.xz | python -m parsing.run - --output runs/trees/mine
    python -m parsing.run umbc --limit 1M --dry-run
    python -m parsing.run umbc --device cuda
    python -m parsing.run umbc --preset paper --dep-model runs/parsers/dep --const-model benepar_en3

Input: a corpus (see corpora.registry). Output: ``runs/trees/<corpus>/`` with HDF5 shards, ``manifest.json``,
the resolved configuration and a log. The same command finishes a run that was stopped, and does nothing if it
is finished. With ``--device cuda`` it is experimental: never run on a GPU.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from annotated_types import Le
from tyro.conf import Positional

from parsing.costs import PAPER_SENTENCES, paper_cost, parsing_cost
from parsing.names import find_parser
from runtime.cli import Command, Count, check, config_to_json, configuration, with_defaults
from runtime.errors import UserError, collect_refusals

if TYPE_CHECKING:
    from corpora.text import Corpus
    from parsing.text_parser import TextParser

PAPER = {"preset": "paper", "limit": "40M", "tokenize": "space"}
"""The options of Simoulin & Crabbé 2021, section 3.1. Their tokenised corpus is here understood as the tagged
files, whose words are used as they are."""
PAPER_SAMPLE = (
    f"what {PAPER_SENTENCES:,} sentences would cost here, from a sample of books and the builtin parsers, "
    "which are faster than the paper's"
)
PAPER_PARSERS = (
    "--preset paper needs --dep-model FOLDER (nearest to the paper's: parsing.convert biaffine-dep-en of "
    "https://github.com/yzhangcs/parser) and --const-model NAME (nearest: benepar_en3 of "
    "https://github.com/nikitakit/self-attentive-parser)"
)
DIFFERENCE_TO_PAPER = (
    "not the paper's parsers: dependencies by {dep_model} (section A.1: biaffine with BERT's features, as is "
    "biaffine-dep-bert-en of supar 1.0, which parsing.convert does not read), constituents by {const_model} "
    "(section 2.2: Kitaev & Klein 2018, whose en_charlstm_dev.93.61.pt and en_elmo_dev.95.21.pt benepar no "
    "longer reads)"
)
"""Printed by --preset paper, whichever parsers are given."""


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
    """Worker processes (or Ray actors), one thread each; None is one per core, or one per GPU. More workers
    than GPUs share them."""
    ray: str | None = None
    """Work on a Ray cluster: its address (auto, host:port), or local, which starts one on this machine."""
    device: str = "cpu"
    """Where sentences are encoded and scored: cpu, cuda (all GPUs of this machine or cluster), cuda:N, or
    auto (the GPUs of this machine if there are any). Trees of a GPU may differ in rare cases, so they make
    another cache. Never run on a GPU."""
    products: Literal["float32", "int8"] = "float32"
    """How a CPU multiplies by the weights; int8 is faster. Its trees differ in rare cases, so they make
    another cache."""
    dry_run: bool = False
    """Print the resolved configuration and an estimate of time and disk, write nothing."""


def main(config: ParseConfig) -> None:
    """Parse the corpus, or print an estimate. Raises UserError if an option has a wrong value."""
    from corpora.inputs import as_file
    from corpora.registry import open_corpus
    from parsing.text_parser import load
    from runtime.process import available_cores

    config = check(config)
    devices = parsing_devices(config.device, on_cluster=config.ray is not None)
    workers = config.workers or (available_cores() if devices == ["cpu"] else len(devices))
    names = {"dep": config.dep_model, "const": config.const_model}
    specs = {kind: None if name == "none" else name for kind, name in names.items()}
    load_parsers = functools.partial(
        load, *specs.values(), products=config.products, max_tokens=config.max_tokens
    )
    loaders = [functools.partial(load_parsers, device=device) for device in devices]
    reading = {name: getattr(config, name) for name in ("format", "tokenize", "limit", "data", "split")}
    with as_file(config.corpus) as spec:  # standard input or a pipe is copied to a file
        open_text = functools.partial(open_corpus, spec, **reading)
        if config.preset == "paper":
            check_paper(config, open_text, loaders[0], workers)
        for kind, parser in specs.items():
            if parser is not None:
                find_parser(kind, parser)
        corpus = open_text()
        output = config.output or Path("runs/trees") / corpus.name
        refuse_own_input(spec, output)
        print(corpus.describe())
        if config.preset == "paper":
            print(DIFFERENCE_TO_PAPER.format(dep_model=config.dep_model, const_model=config.const_model))
        config = replace(config, output=output)
        if config.dry_run:
            print(parsing_cost(corpus, loaders[0](), workers).text(config))
            return
        from parsing.pipeline.driver import Worker, run_corpus
        from runtime.pool import LocalPool, Pool

        pool: Pool = LocalPool(Worker, loaders, workers)
        if config.ray is not None:
            from parsing.pipeline.ray import RayPool

            pool = RayPool(loaders[0], config.workers, address=config.ray, gpus=int(devices != ["cpu"]))
        summary = run_corpus(corpus, output, pool, config=config_to_json(config))
        print(f"{corpus.name} -> {output}", summary.describe(output), sep="\n")


def check_paper(
    config: ParseConfig, open_text: Callable[[], Corpus], load: Callable[[], TextParser], workers: int
) -> None:
    """Raise UserError if the preset paper has no parsers; a dry run first prints the cost of its trees."""
    missing = [PAPER_PARSERS] if "builtin" in (config.dep_model, config.const_model) else []
    if config.dry_run:
        missing += collect_refusals(open_text) if missing else collect_refusals(open_text, load)
        if missing:
            print(" | ".join(missing), PAPER_SAMPLE, sep="\n", flush=True)
            print(paper_cost(workers).text(config))
    if missing:
        raise UserError(" | ".join(missing))


def refuse_own_input(corpus: str, output: Path) -> None:
    """Raise UserError if the output lies in the corpus folder, where a later run would read it as text."""
    from corpora.registry import CORPUS_NAMES

    corpus_folder, output_folder = Path(corpus).resolve(), output.resolve()
    is_inside = corpus_folder.is_dir() and output_folder.is_relative_to(corpus_folder)
    if corpus in CORPUS_NAMES or not is_inside:
        return
    if not any(part.startswith(".") for part in output_folder.relative_to(corpus_folder).parts):
        raise UserError(f"--output {output}: lies in the corpus folder {corpus}; choose one outside it")


def parsing_devices(device: str, *, on_cluster: bool) -> list[str]:
    """Return the devices that workers take in turn, ``["cpu"]`` or GPUs; on a cluster its kind of device.

    Raises UserError if there is no such device.
    """
    if on_cluster:  # which has its own devices
        return ["cuda" if device.startswith("cuda") else "cpu"]
    # Linux shows a GPU's driver as a file, which is found sooner than torch is imported (two seconds).
    has_driver = any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")))
    if device == "cpu" or (device == "auto" and not has_driver):
        return ["cpu"]
    import torch

    from runtime.device import pick_device

    torch_device = pick_device(device)
    if torch_device.type == "cuda" and device in ("auto", "cuda"):
        return [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    return [str(torch_device)]


cli = Command(
    ParseConfig,
    main,
    "parsing.run",
    "Parse a corpus into a cache of dependency and constituency trees.",
    defaults=lambda name: with_defaults(ParseConfig, PAPER if name == "paper" else {}),
)


if __name__ == "__main__":
    sys.exit(cli())
