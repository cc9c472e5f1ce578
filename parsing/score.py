"""Scores a parser on a treebank.

    python -m parsing.score dep builtin gum/dev.conllu
    python -m parsing.score const builtin gum/dev.ptb
    python -m parsing.score dep builtin gum/dev.conllu --device cuda

The parser sees only the words. Prints the scores and, as the last line, the same as JSON. On a GPU it also
prints how many trees equal those of the CPU.
"""

import dataclasses
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from runtime.cli import Command, configuration

UNITS = {
    "dep": "per cent of tokens without punctuation (_punct: of all), relation subtypes included",
    "const": "labelled brackets without function tags, punctuation and wrapper; words with the right tag; "
    "sentences with exactly the right brackets; in per cent",
}


@configuration
class ScoreConfig:
    """Options of ``parsing.score``."""

    kind: tyro.conf.Positional[Literal["dep", "const"]]
    """A dependency parser (UAS, LAS) or a constituency parser (bracket F1, tags)."""
    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """builtin, a model folder, or (const) a benepar name or file."""
    treebank: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TREEBANK...")]
    """Gold trees: CoNLL-U files (dep), bracket files (const)."""
    device: str = "cpu"
    """Where sentences are encoded and scored: cpu, cuda, cuda:N, or auto; a GPU's trees are also compared
    with those of the CPU."""


def main(config: ScoreConfig) -> None:
    """Load a parser, and print its scores and its speed on the treebank."""
    import torch

    from parsing.text_parser import load_parser
    from parsing.training.scores import read_gold, score_parser

    kind = config.kind
    gold = read_gold(kind, config.treebank)
    torch.set_num_threads(1)  # as in a worker of parsing.run
    parser = load_parser(kind, config.model, config.device)
    began = time.perf_counter()
    figures = score_parser(kind, parser, gold)
    rate = len(gold) / (time.perf_counter() - began)
    print(f"{config.model} on {len(gold):,} sentences ({rate:,.0f} a second): {UNITS[kind]}")
    print("  ".join(f"{name} {value:.2f}" for name, value in figures.items()))
    if "device" in parser.identity:
        words = [sentence.tokens for sentence in gold]
        figures["same_trees"] = equal_trees(parser.parse(words), load_parser(kind, config.model).parse(words))
        print(f"same trees as on the CPU: {figures['same_trees']:.2f} %")
    print(json.dumps({**{k: round(v, 4) for k, v in figures.items()}, **parser.identity}))


def equal_trees(parses: Sequence[Any], reference: Sequence[Any]) -> float:
    """Return the percentage of parses whose arrays are all equal to those of ``reference``."""
    pairs = zip(map(dataclasses.astuple, parses), map(dataclasses.astuple, reference), strict=True)
    are_equal = [all(map(np.array_equal, arrays, reference_arrays)) for arrays, reference_arrays in pairs]
    return 100 * sum(are_equal) / len(parses)


cli = Command(ScoreConfig, main, "parsing.score", "Score a parser on a treebank.")


if __name__ == "__main__":
    sys.exit(cli())
