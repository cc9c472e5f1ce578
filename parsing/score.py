"""Score a parser on a treebank.

    python -m parsing.score dep builtin gum/dev.conllu
    python -m parsing.score const builtin gum/dev.ptb

    python -m parsing.score dep builtin gum/dev.conllu --precision bf16

The parser sees the words alone. Prints the scores and, as the last line, the same as JSON. In reduced
precision also how far the trees agree with fp32's and how much faster they come (processor time).
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from parsing.configs import Precision
from parsing.subcommands import Subcommand, run_subcommand


@dataclass(frozen=True, kw_only=True)
class ScoreDependency:
    """Options of ``dep``."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """builtin, or a model folder."""
    treebank: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TREEBANK...")]
    """CoNLL-U files."""
    precision: Precision = "fp32"
    """Arithmetic of the encoder; bf16 is compared with fp32."""
    threads: int = 1
    """Threads of torch."""


def score_dependency(config: ScoreDependency) -> None:
    """Attachment scores with and without punctuation."""
    import torch

    from parsing.agreement import compare, dependency_agreement
    from parsing.dep_task import score_parser
    from parsing.dep_train import read_dependencies
    from parsing.models import load_dependency_parser

    torch.set_num_threads(config.threads)
    parser = load_dependency_parser(config.model, config.precision)
    sentences = read_dependencies(config.treebank)
    start = time.perf_counter()
    scores = score_parser(parser, sentences)
    seconds = time.perf_counter() - start
    tokens = sum(len(s.tokens) for s in sentences)
    rate = len(sentences) / seconds
    print(f"{config.model} on {len(sentences):,} sentences, {tokens:,} tokens ({rate:,.0f} sentences/s)")
    print("                       UAS     LAS   (per cent of tokens; LAS with relation subtypes)")
    print(f"without punctuation  {scores['uas']:6.2f}  {scores['las']:6.2f}")
    print(f"all tokens           {scores['uas_punct']:6.2f}  {scores['las_punct']:6.2f}")
    if config.precision != "fp32":
        words = [s.tokens for s in sentences]
        scores |= compare(parser, load_dependency_parser(config.model), words, dependency_agreement)
    print(json.dumps({**{k: round(v, 4) for k, v in scores.items()}, **parser.identity}))


@dataclass(frozen=True, kw_only=True)
class ScoreConstituency:
    """Options of ``const``."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """builtin, a model folder, or a benepar name or file."""
    treebank: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TREEBANK...")]
    """Bracket files."""
    precision: Precision = "fp32"
    """Arithmetic of the encoder; bf16 is compared with fp32."""
    threads: int = 1
    """Threads of torch."""


def score_constituency(config: ScoreConstituency) -> None:
    """Labelled brackets without function tags and punctuation, and tags."""
    import torch

    from parsing.agreement import compare, constituency_agreement
    from parsing.const_task import score_parser
    from parsing.const_train import read_treebank
    from parsing.models import load_constituency_parser

    torch.set_num_threads(config.threads)
    parser = load_constituency_parser(config.model, config.precision)
    trees = read_treebank(config.treebank)
    start = time.perf_counter()
    scores = score_parser(parser, trees)
    seconds = time.perf_counter() - start
    tokens = sum(len(tree.words) for tree in trees)
    rate = len(trees) / seconds
    print(f"{config.model} on {len(trees):,} trees, {tokens:,} tokens ({rate:,.0f} sentences/s)")
    print("labelled brackets, without function tags, punctuation and wrapper, in per cent:")
    print(f"precision {scores['precision']:.2f}  recall {scores['recall']:.2f}  F1 {scores['f1']:.2f}")
    print(f"tags {scores['tags']:.2f} of words, complete trees {scores['complete']:.2f} of sentences")
    if config.precision != "fp32":
        words = [tree.words for tree in trees]
        scores |= compare(parser, load_constituency_parser(config.model), words, constituency_agreement)
    print(json.dumps({**{k: round(v, 4) for k, v in scores.items()}, **parser.identity}))


COMMANDS = {
    "const": Subcommand(ScoreConstituency, score_constituency, "a constituency parser: bracket F1, tags"),
    "dep": Subcommand(ScoreDependency, score_dependency, "a dependency parser: UAS, LAS"),
}


def cli(args: list[str] | None = None) -> int:
    """Entry point."""
    return run_subcommand(COMMANDS, prog="python -m parsing.score", description="Score a parser:", args=args)


if __name__ == "__main__":
    sys.exit(cli())
