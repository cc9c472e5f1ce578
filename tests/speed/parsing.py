"""Parsing the sentences of a treebank: our parsers against the libraries' own, same weights.

    python -m tests.speed.parsing [FOLDER] [--alternations 5]

The folder holds ``dev.ptb``. Each alternation parses everything once with fresh parsers of ours (no word type
cached) and once with the library's untouched ``predict`` or ``parse``; the ratio is the median over
alternations. benepar runs at the fastest of several batch limits (with a limit it sorts by length; plain
batches of 64 are slower). End to end is words to both trees, binarised; the peers binarise through nltk, the
usual way. Ends with one line of JSON. That both sides give the same trees is a test.
"""

import json
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
from nltk.tree import Tree
from tyro.conf import Positional

from benchmarks import ratios, spread, time_in_turns
from corpora.brackets import write_tree
from parsing.networks.constituency import SpanParser
from parsing.networks.dependency import BiaffineParser
from parsing.text_parser import TextParser, load_parser
from parsing.training.scores import read_gold
from parsing.trees.arrays import from_parse
from runtime.cli import Command, Count, configuration
from tests.oracles.supar import stock_predict, to_supar


@configuration
class ParsingConfig:
    """Options of the benchmark."""

    folder: Positional[Path] = Path(os.environ.get("MULTIVIEW_DATA") or "data") / "treebank" / "gum"
    """Of dev.ptb."""
    alternations: Count = 5
    """Measured rounds."""


LIMITS = (250, 500, 1000, 2000)
"""Values of benepar's ``subbatch_max_tokens`` to try, in words."""
Call = Callable[[], object]


def races(folder: Path) -> tuple[int, dict[str, tuple[Call, Call]]]:
    """The number of sentences, and by name of a race what we do with them and what the libraries do."""
    from tests.oracles.benepar import stock_parse, to_benepar  # benepar warns when it is imported

    arcs, spans = load_parser("dep"), load_parser("const")
    sentences = [list(tree.tokens) for tree in read_gold("const", [folder / "dev.ptb"])]
    supar, benepar = to_supar(arcs.model), to_benepar(spans.model)

    def seconds(limit: int) -> float:
        began = time.perf_counter()
        stock_parse(benepar, sentences[:300], subbatch_max_tokens=limit)
        return time.perf_counter() - began

    limit = min(LIMITS, key=seconds)

    def fresh() -> tuple[BiaffineParser, SpanParser]:
        return BiaffineParser(arcs.model), SpanParser(spans.model)

    def by_both_libraries() -> None:
        """Brackets to nltk trees, unary chains collapsed, left markovisation of order 0."""
        stock_predict(supar, sentences)
        for words, parse in zip(
            sentences, stock_parse(benepar, sentences, subbatch_max_tokens=limit), strict=True
        ):
            tree = Tree.fromstring(write_tree(from_parse(parse, words, spans.labels, spans.tags)))
            tree.collapse_unary(collapsePOS=True, collapseRoot=True)
            tree.chomsky_normal_form(factor="left", horzMarkov=0)

    return len(sentences), {
        "dep": (lambda: fresh()[0].parse(sentences), lambda: stock_predict(supar, sentences)),
        "const": (
            lambda: fresh()[1].parse(sentences),
            lambda: stock_parse(benepar, sentences, subbatch_max_tokens=limit),
        ),
        "end_to_end": (lambda: TextParser(*fresh()).parse_to_batch(sentences), by_both_libraries),
    }


def main(config: ParsingConfig) -> None:
    """Run and print."""
    torch.set_num_threads(1)
    # supar uses what torch deprecates, and pads with an index that torch is about to read differently.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Using a non-tuple sequence")
    # torch-struct, under benepar, lacks an attribute that torch asks for.
    warnings.filterwarnings("ignore", message=".*arg_constraints")
    count, pairs = races(config.folder)
    figures = {}
    for name, (ours, theirs) in pairs.items():
        taken = time_in_turns({"ours": ours, "theirs": theirs}, config.alternations)
        rates = {who: [count / s for s in seconds] for who, seconds in taken.items()}
        ratio = ratios(taken, "ours", "theirs")
        print(f"{name}: ours {spread(rates['ours'], 0)}, theirs {spread(rates['theirs'], 0)} sentences/s")
        print(f"    ratio {spread(ratio)}", flush=True)
        figures |= {
            f"{name}_per_s": round(median(rates["ours"]), 4),
            f"{name}_ratio": round(median(ratio), 4),
        }
    print(json.dumps(figures))


cli = Command(ParsingConfig, main, "tests.speed.parsing", "Our parsers against the libraries' own.")


if __name__ == "__main__":
    sys.exit(cli())
