"""Score a parser on a treebank.

    python -m parsing.score dep builtin gum/dev.conllu
    python -m parsing.score const builtin gum/dev.ptb
    python -m parsing.score dep builtin gum/dev.conllu --device cuda

The parser sees only the words. Prints the scores and, as the last line, the same as JSON. On a GPU it also
prints the agreement with the trees of the CPU.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from corpora.support.cli import Command, Commands, configuration
from parsing.trees.batch import ConstituencyParse, DependencyParse

TITLES = {
    "dep": "per cent of tokens without punctuation (_punct: of all), relation subtypes included",
    "const": "labelled brackets without function tags, punctuation and wrapper; words with the right tag; "
    "sentences with exactly the right brackets; in per cent",
}


@configuration
class ScoreOptions:
    """Options of both parsers."""

    model: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="MODEL")]
    """builtin, a model folder, or (const) a benepar name or file."""
    treebank: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="TREEBANK...")]
    """Gold trees: CoNLL-U files (dep), bracket files (const)."""
    device: str = "cpu"
    """Where sentences are encoded and scored: cpu, cuda, cuda:N, or auto; a GPU's trees are also compared
    with those of the CPU."""


def main(kind: str, config: ScoreOptions) -> None:
    """Load a parser, ``dep`` or ``const``, score and time it on the treebank."""
    import torch

    from parsing.text_parser import load_parser
    from parsing.training import scores

    gold: Any
    score: Any
    compare: Any
    if kind == "dep":
        gold = scores.read_dependencies(config.treebank)
        score, compare = scores.score_dependency, dependency_agreement
    else:
        gold = scores.read_treebank(config.treebank)
        score, compare = scores.score_constituency, constituency_agreement
    torch.set_num_threads(1)  # as a worker of parsing.run
    parser = load_parser(kind, config.model, config.device)
    start = time.perf_counter()
    found = score(parser, gold)
    rate = len(gold) / (time.perf_counter() - start)
    print(f"{config.model} on {len(gold):,} sentences ({rate:,.0f} a second): {TITLES[kind]}")
    print("  ".join(f"{name} {value:.2f}" for name, value in found.items()))
    if "device" in parser.identity:
        words = [one.words if kind == "const" else one.tokens for one in gold]
        same = compare(parser.parse(words), load_parser(kind, config.model).parse(words))
        print("against the CPU: " + ", ".join(f"{k.replace('_', ' ')} {v:.2f} %" for k, v in same.items()))
        found |= same
    print(json.dumps({**{k: round(v, 4) for k, v in found.items()}, **parser.identity}))


def dependency_agreement(
    ours: Sequence[DependencyParse], reference: Sequence[DependencyParse]
) -> dict[str, float]:
    """In per cent: tokens with the same head, with the same head and relation, sentences with equal trees."""
    heads = [a.heads == b.heads for a, b in zip(ours, reference, strict=True)]
    both = [h & (a.relations == b.relations) for h, a, b in zip(heads, ours, reference, strict=True)]
    return {
        "same_heads": 100 * float(np.concatenate(heads).mean()),
        "same_relations": 100 * float(np.concatenate(both).mean()),
        "same_trees": 100 * float(np.mean([same.all() for same in both])),
    }


def constituency_agreement(
    ours: Sequence[ConstituencyParse], reference: Sequence[ConstituencyParse]
) -> dict[str, float]:
    """In per cent: F1 of labelled spans, words with the same tag, sentences with equal trees."""
    tags = [a.tags == b.tags for a, b in zip(ours, reference, strict=True)]
    pairs = [(_spans(a), _spans(b)) for a, b in zip(ours, reference, strict=True)]
    shared, total = sum(len(a & b) for a, b in pairs), sum(len(a) + len(b) for a, b in pairs)
    same = [t.all() and a == b for t, (a, b) in zip(tags, pairs, strict=True)]
    return {
        "same_spans": 200 * shared / total,
        "same_tags": 100 * float(np.concatenate(tags).mean()),
        "same_trees": 100 * float(np.mean(same)),
    }


def _spans(parse: ConstituencyParse) -> set[tuple[int, int, int]]:
    return set(zip(parse.starts.tolist(), parse.ends.tolist(), parse.labels.tolist(), strict=True))


ABOUT = {"const": "a constituency parser: bracket F1, tags", "dep": "a dependency parser: UAS, LAS"}
cli = Commands(
    {
        kind: Command(ScoreOptions, partial(main, kind), f"parsing.score {kind}", about)
        for kind, about in ABOUT.items()
    },
    "parsing.score",
    "Score a parser:",
)


if __name__ == "__main__":
    sys.exit(cli())
