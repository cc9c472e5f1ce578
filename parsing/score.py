"""Score a parser on a treebank.

    python -m parsing.score dep builtin gum/dev.conllu
    python -m parsing.score const builtin gum/dev.ptb

    python -m parsing.score dep builtin gum/dev.conllu --precision bf16
    python -m parsing.score dep builtin gum/dev.conllu --device cuda

The parser sees only the words. Prints the scores and, as the last line, the same as JSON. In reduced
precision or on a GPU it also prints the agreement with the trees of the CPU in fp32 and the speed-up.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import tyro

from corpora.support.cli import Command, Commands
from corpora.support.config import Count, configuration
from parsing.networks.config import Precision

if TYPE_CHECKING:
    from parsing.trees.parsers import ConstituencyParser, DependencyParser

Scores = dict[str, float]
Parser = TypeVar("Parser", "DependencyParser", "ConstituencyParser")


@configuration
class ScoreOptions:
    """Options of both parsers."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """builtin, a model folder, or (const) a benepar name or file."""
    treebank: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TREEBANK...")]
    """Gold trees: CoNLL-U files (dep), bracket files (const)."""
    precision: Precision = "fp32"
    """Arithmetic of the encoder; bf16 is also compared with fp32."""
    threads: Count = 1
    """Threads of torch."""
    device: str = "cpu"
    """Where sentences are encoded and scored: cpu, cuda, cuda:N, or auto; a GPU's trees are also compared
    with those of the CPU in fp32."""


def score_dependency(config: ScoreOptions) -> None:
    """Attachment scores with and without punctuation."""
    from parsing.models import load_dependency_parser
    from parsing.training.scores import read_dependencies
    from parsing.training.scores import score_dependency as score_parser
    from parsing.trees.agreement import dependency_agreement

    def table(scores: Scores) -> list[str]:
        return [
            "                       UAS     LAS   (per cent of tokens; LAS with relation subtypes)",
            f"without punctuation  {scores['uas']:6.2f}  {scores['las']:6.2f}",
            f"all tokens           {scores['uas_punct']:6.2f}  {scores['las_punct']:6.2f}",
        ]

    gold = read_dependencies(config.treebank)
    words = [sentence.tokens for sentence in gold]
    _score(
        config, words, load_dependency_parser, lambda p: score_parser(p, gold), dependency_agreement, table
    )


def score_constituency(config: ScoreOptions) -> None:
    """Labelled brackets without function tags and punctuation, and tags."""
    from parsing.models import load_constituency_parser
    from parsing.training.scores import read_treebank
    from parsing.training.scores import score_constituency as score_parser
    from parsing.trees.agreement import constituency_agreement

    def table(scores: Scores) -> list[str]:
        return [
            "labelled brackets, without function tags, punctuation and wrapper, in per cent:",
            f"precision {scores['precision']:.2f}  recall {scores['recall']:.2f}  F1 {scores['f1']:.2f}",
            f"tags {scores['tags']:.2f} of words, complete trees {scores['complete']:.2f} of sentences",
        ]

    gold = read_treebank(config.treebank)
    words = [tree.words for tree in gold]
    load = load_constituency_parser
    _score(config, words, load, lambda p: score_parser(p, gold), constituency_agreement, table)


def _score(
    config: ScoreOptions,
    words: Sequence[Sequence[str]],
    load: Callable[[str, Precision, str], Parser],
    score: Callable[[Parser], Scores],
    agreement: Callable[..., Scores],
    table: Callable[[Scores], list[str]],
) -> None:
    """Load a parser, time it on the treebank, print its scores for people and as JSON.

    Args:
        config: the options.
        words: of the treebank's sentences.
        load: a parser by name and precision.
        score: scores of a parser on the gold trees.
        agreement: of two parsers' trees, see :func:`parsing.trees.agreement.compare`.
        table: lines about the scores.
    """
    import torch

    from parsing.trees.agreement import compare

    torch.set_num_threads(config.threads)
    parser = load(config.model, config.precision, config.device)
    start = time.perf_counter()
    scores = score(parser)
    rate = len(words) / (time.perf_counter() - start)
    tokens = sum(map(len, words))
    print(f"{config.model} on {len(words):,} sentences, {tokens:,} tokens ({rate:,.0f} sentences/s)")
    print("\n".join(table(scores)))
    on_gpu = "device" in parser.identity
    if config.precision != "fp32" or on_gpu:
        # Processor time leaves out what else the machine does; a GPU's own time is not in it.
        clock = time.perf_counter if on_gpu else time.process_time
        reference = load(config.model, "fp32", "cpu")
        scores |= compare(parser, reference, words, agreement, clock=clock)
    print(json.dumps({**{k: round(v, 4) for k, v in scores.items()}, **parser.identity}))


cli = Commands(
    {
        "const": Command(
            ScoreOptions,
            score_constituency,
            "parsing.score const",
            "a constituency parser: bracket F1, tags",
        ),
        "dep": Command(
            ScoreOptions,
            score_dependency,
            "parsing.score dep",
            "a dependency parser: UAS, LAS",
        ),
    },
    "parsing.score",
    "Score a parser:",
)


if __name__ == "__main__":
    sys.exit(cli())
