"""Parsing the sentences of a treebank: our parsers against the libraries' own, same weights.

    python -m tests.speed.parsing [FOLDER] [--alternations 5]

The folder holds ``dev.conllu`` and ``dev.ptb`` of the same sentences. Each alternation parses everything
once with a fresh parser of ours (no word type cached) and once with the library's untouched ``predict``
or ``parse``; the ratio is the median over alternations. ``agreement`` is the fraction of sentences whose
trees are equal in every detail. benepar runs at the fastest of several batch limits (with a limit it sorts by
length; plain batches of 64 are slower). End to end is words to both trees, binarised; the peers binarise
through nltk, the usual way. Ends with one line of JSON.
"""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np
import torch
from nltk.tree import Tree
from tyro.conf import Positional

from benchmarks import alternate, ratios, spread
from parsing.networks.constituency import SpanParser
from parsing.networks.dependency import BiaffineParser
from parsing.score import equal_trees
from parsing.text_parser import TextParser, load_parser
from parsing.training.scores import attachment_scores, read_dependencies, read_treebank, score_constituency
from parsing.trees.batch import ConstituencyParse
from parsing.trees.brackets import from_parse, write_tree
from runtime.cli import Command, Count, configuration
from runtime.surroundings import peak_memory
from tests.oracles.supar import stock_predict, to_supar


@configuration
class ParsingConfig:
    """Options of the benchmark."""

    folder: Positional[Path] = Path(os.environ.get("MULTIVIEW_DATA") or "data") / "treebank" / "gum"
    """Of dev.conllu and dev.ptb."""
    alternations: Count = 5
    """Measured rounds."""


LIMITS = (250, 500, 1000, 2000)
"""Values of benepar's ``subbatch_max_tokens`` to try, in words."""


def race(
    name: str, ours: Callable[[], object], theirs: Callable[[], object], rounds: int, sentences: int
) -> dict[str, float]:
    """Sentences per second of ours, and how much longer theirs takes."""
    taken = alternate({"ours": ours, "theirs": theirs}, rounds)
    rates = {who: [sentences / s for s in seconds] for who, seconds in taken.items()}
    print(f"{name}: ours {spread(rates['ours'], 0)}, theirs {spread(rates['theirs'], 0)} sentences/s", end="")
    print(f", ratio {spread(ratios(taken, 'ours', 'theirs'))}", flush=True)
    ratio = median(ratios(taken, "ours", "theirs"))
    return {f"{name}_per_s": median(rates["ours"]), f"{name}_ratio": ratio}


def by_nltk(parses: Sequence[ConstituencyParse], parser: SpanParser) -> None:
    """Brackets to nltk trees, unary chains collapsed, left markovisation of order 0."""
    for parse in parses:
        words = ["w"] * len(parse.tags)
        tree = Tree.fromstring(write_tree(from_parse(parse, words, parser.labels, parser.tags)))
        tree.collapse_unary(collapsePOS=True, collapseRoot=True)
        tree.chomsky_normal_form(factor="left", horzMarkov=0)


def measure(folder: Path, rounds: int) -> dict[str, float]:
    """All figures."""
    from tests.oracles.benepar import stock_parse, to_benepar  # benepar warns when it is imported

    arcs, spans = load_parser("dep", "builtin"), load_parser("const", "builtin")
    assert isinstance(arcs, BiaffineParser) and isinstance(spans, SpanParser), "the BiLSTMs' weights only"
    gold, trees = read_dependencies([folder / "dev.conllu"]), read_treebank([folder / "dev.ptb"])
    sentences = [list(tree.words) for tree in trees]
    fresh = {
        "dep": lambda: BiaffineParser(arcs.model, arcs.identity),
        "const": lambda: SpanParser(spans.model, spans.identity),
    }
    parses, brackets = (make().parse(sentences) for make in fresh.values())
    found = {"peak_rss_mb": peak_memory() / 2**20}

    supar = to_supar(arcs.model)
    named = [(p.heads.tolist(), [arcs.model.relations[i] for i in p.relations]) for p in parses]
    theirs = zip(*stock_predict(supar, sentences), strict=True)
    found["dep_agreement"] = float(np.mean([a == b for a, b in zip(named, theirs, strict=True)]))
    found |= attachment_scores(gold, parses, arcs.model.relations)

    benepar = to_benepar(spans.model)

    def seconds(limit: int) -> float:
        began = time.perf_counter()
        stock_parse(benepar, sentences[:300], subbatch_max_tokens=limit)
        return time.perf_counter() - began

    limit = min(LIMITS, key=seconds)
    others = stock_parse(benepar, sentences, subbatch_max_tokens=limit)
    found["const_agreement"] = equal_trees(brackets, others) / 100
    found |= {name: score_constituency(spans, trees)[name] for name in ("f1", "tags")}

    count = len(sentences)
    by_supar = lambda: stock_predict(supar, sentences)  # noqa: E731
    by_benepar = lambda: stock_parse(benepar, sentences, subbatch_max_tokens=limit)  # noqa: E731
    found |= race("dep", lambda: fresh["dep"]().parse(sentences), by_supar, rounds, count)
    found |= race("const", lambda: fresh["const"]().parse(sentences), by_benepar, rounds, count)

    def peers() -> None:
        by_supar()
        by_nltk(by_benepar(), spans)

    both = lambda: TextParser(fresh["dep"](), fresh["const"]()).arrays(sentences)  # noqa: E731
    return found | race("end_to_end", both, peers, rounds, count)


def main(config: ParsingConfig) -> None:
    """Run and print."""
    torch.set_num_threads(1)
    # supar uses what torch deprecates, and pads with an index that torch is about to read differently.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Using a non-tuple sequence")
    # torch-struct, under benepar, lacks an attribute that torch asks for.
    warnings.filterwarnings("ignore", message=".*arg_constraints")
    found = measure(config.folder, config.alternations)
    print(json.dumps({key: round(value, 4) for key, value in found.items()}))


cli = Command(ParsingConfig, main, "tests.speed.parsing", "Our parsers against the libraries' own.")


if __name__ == "__main__":
    sys.exit(cli())
