"""Parsing the sentences of a treebank: our parsers against the libraries' own, same weights.

    OMP_NUM_THREADS=1 python -m benchmarks.parsing [FOLDER] [--alternations 5]

The folder holds ``dev.conllu`` and ``dev.ptb`` of the same sentences. Each alternation parses everything
once with a fresh parser of ours (no word type cached) and once with the library's untouched ``predict``
or ``parse``; the ratio is the median over alternations. ``agreement`` is the fraction of sentences whose
trees are equal in every detail, ``decode_fraction`` the fraction of our time spent on decoding.
benepar runs at the fastest of several batch limits (with a limit it sorts by length; plain batches of 64 are
slower). End to end is words to both trees, binarised; the peers binarise through nltk, the
usual way. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from nltk.tree import Tree

import parsing.constituency.model
import parsing.constituency.span_head
import parsing.dependency.model
from benchmarks.timing import Timer, compare, seconds, spread
from parsing.constituency.model import SpanParser
from parsing.dependency.model import BiaffineParser, DependencyModel
from parsing.models import (
    BUILTIN,
    BUILTIN_CONSTITUENCY,
    BUILTIN_DEPENDENCY,
    load_constituency_parser,
    load_dependency_parser,
)
from parsing.networks.model_folder import load_model_folder
from parsing.text_parser import TextParser
from parsing.training.scores import (
    attachment_scores,
    read_dependencies,
    read_treebank,
    score_constituency,
)
from parsing.trees.binarise import binarise
from parsing.trees.brackets import from_parse, write_tree
from parsing.trees.parsers import ConstituencyParse

LIMITS = (250, 500, 1000, 2000)
"""Values of benepar's ``subbatch_max_tokens`` to try, in words."""


def dependency(treebank: Path, model_folder: Path, alternations: int) -> dict[str, float]:
    """The dependency parser against supar."""
    from tests.oracles.supar import stock_predict, to_supar

    folder = load_model_folder(model_folder, "dependency")
    model = DependencyModel.from_folder(folder)
    gold = read_dependencies([treebank])
    sentences = [list(s.tokens) for s in gold]
    parses = BiaffineParser(model, folder.identity).parse(sentences)
    peak_rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    with Timer((parsing.dependency.model, "decode_heads")) as timer:
        BiaffineParser(model, folder.identity).parse(sentences)
    decode_fraction = timer.total_s / (time.perf_counter() - start)

    stock = to_supar(model)
    heads, relations = stock_predict(stock, sentences)
    same = [
        p.heads.tolist() == h and [model.relations[i] for i in p.relations] == r
        for p, h, r in zip(parses, heads, relations, strict=True)
    ]
    rates, their_rates, ratios = compare(
        lambda: BiaffineParser(model, folder.identity).parse(sentences),
        lambda: stock_predict(stock, sentences),
        alternations,
        len(sentences),
    )
    print(f"dependency, {len(sentences)} sentences, {torch.get_num_threads()} thread(s)")
    print(f"  ours   {spread(rates, 0)} sentences/s")
    print(f"  supar  {spread(their_rates, 0)} sentences/s")
    print(f"  ratio  {spread(ratios)}; decoding {100 * decode_fraction:.1f} % of our time")
    scores = attachment_scores(gold, parses, model.relations)
    return {
        "dep_vs_supar": statistics.median(ratios),
        "sentences_per_s": statistics.median(rates),
        "decode_fraction": decode_fraction,
        "agreement": sum(same) / len(same),
        "peak_rss_mb": peak_rss_mb,
        "uas": scores["uas"],
        "las": scores["las"],
    }


def same(a: ConstituencyParse, b: ConstituencyParse) -> bool:
    """Whether spans, labels and tags are all equal."""
    return all(np.array_equal(getattr(a, k), getattr(b, k)) for k in ("tags", "starts", "ends", "labels"))


def constituency(treebank: Path, model_folder: Path, alternations: int) -> dict[str, float]:
    """The constituency parser against benepar."""
    from tests.oracles.benepar import stock_parse, to_benepar  # benepar warns when it is imported

    trained = load_constituency_parser(str(model_folder))
    assert isinstance(trained, SpanParser), "benepar runs the BiLSTM's weights only"
    model = trained.model
    gold = read_treebank([treebank])
    sentences = [list(tree.words) for tree in gold]

    def ours() -> list[ConstituencyParse]:
        return SpanParser(model, trained.identity).parse(sentences)

    parses = ours()
    peak_rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    decoder = ((parsing.constituency.span_head, "best_labels"), (parsing.constituency.model, "decode_batch"))
    start = time.perf_counter()
    with Timer(*decoder) as timer:
        ours()
    decode_fraction = timer.total_s / (time.perf_counter() - start)
    stock = to_benepar(model)
    limit = min(
        LIMITS, key=lambda n: seconds(lambda: stock_parse(stock, sentences[:300], subbatch_max_tokens=n))
    )

    def theirs() -> list[ConstituencyParse]:
        return stock_parse(stock, sentences, subbatch_max_tokens=limit)

    agreement = [same(a, b) for a, b in zip(parses, theirs(), strict=True)]
    rates, their_rates, ratios = compare(ours, theirs, alternations, len(sentences))
    print(f"constituency, {len(sentences)} sentences, {torch.get_num_threads()} thread(s)")
    print(f"  ours     {spread(rates, 0)} sentences/s")
    print(f"  benepar  {spread(their_rates, 0)} sentences/s (limit {limit} words)")
    print(f"  ratio    {spread(ratios)}; decoding {100 * decode_fraction:.1f} % of our time")
    scores = score_constituency(trained, gold)
    return {
        "const_vs_benepar": statistics.median(ratios),
        "const_sentences_per_s": statistics.median(rates),
        "const_decode_fraction": decode_fraction,
        "const_agreement": sum(agreement) / len(agreement),
        "const_peak_rss_mb": peak_rss_mb,
        "const_binarise_ms": binarising(parses, trained),
        "f1": scores["f1"],
        "tags": scores["tags"],
    }


def binarising(parses: Sequence[ConstituencyParse], parser: SpanParser) -> float:
    """Milliseconds per sentence to binarise; prints nltk's beside it."""
    dummy = len(parser.labels)
    ours = 1000 * seconds(lambda: [binarise(parse, dummy) for parse in parses]) / len(parses)
    nltk = 1000 * seconds(lambda: by_nltk(parses, parser)) / len(parses)
    print(f"  binarising {ours:.4f} ms a sentence; through nltk {nltk:.4f} ms")
    return ours


def by_nltk(parses: Sequence[ConstituencyParse], parser: SpanParser) -> None:
    """Brackets to nltk trees, unary chains collapsed, left markovisation of order 0."""
    for parse in parses:
        words = ["w"] * len(parse.tags)
        tree = Tree.fromstring(write_tree(from_parse(parse, words, parser.labels, parser.tags)))
        tree.collapse_unary(collapsePOS=True, collapseRoot=True)
        tree.chomsky_normal_form(factor="left", horzMarkov=0)


def end_to_end(treebank: Path, dep_folder: Path, const_folder: Path, alternations: int) -> dict[str, float]:
    """Words to both trees, binarised: ours against supar, benepar and nltk."""
    from tests.oracles.benepar import stock_parse, to_benepar
    from tests.oracles.supar import stock_predict, to_supar

    spans = load_constituency_parser(str(const_folder))
    arcs = load_dependency_parser(str(dep_folder))
    assert isinstance(spans, SpanParser) and isinstance(arcs, BiaffineParser)
    sentences = [list(tree.words) for tree in read_treebank([treebank])]
    supar, benepar = to_supar(arcs.model), to_benepar(spans.model)

    def ours(dependency: bool = True, constituency: bool = True) -> None:
        TextParser(
            BiaffineParser(arcs.model, arcs.identity) if dependency else None,
            SpanParser(spans.model, spans.identity) if constituency else None,
        ).arrays(sentences)

    def one_by_one() -> None:
        ours(constituency=False)
        ours(dependency=False)

    def theirs() -> None:
        stock_predict(supar, sentences)
        by_nltk(stock_parse(benepar, sentences, subbatch_max_tokens=1000), spans)

    rates, _, ratios = compare(ours, theirs, alternations, len(sentences))
    print(f"end to end: {spread(rates, 0)} sentences/s, ratio {spread(ratios)}")
    _, _, gains = compare(ours, one_by_one, alternations, len(sentences))
    print(f"  both parsers together against one after the other {spread(gains)}")
    return {
        "together_vs_one_by_one": statistics.median(gains),
        "end_to_end_vs_peers": statistics.median(ratios),
        "end_to_end_sentences_per_s": statistics.median(rates),
    }


def main() -> None:
    """Run and print."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    data = Path(os.environ.get("MULTIVIEW_DATA", "data"))
    arguments.add_argument(
        "folder",
        type=Path,
        nargs="?",
        default=data / "treebank" / "gum",
        help="folder with dev.conllu and dev.ptb, by default treebank/gum under $MULTIVIEW_DATA",
    )
    arguments.add_argument("--dep-model", type=Path, default=BUILTIN / BUILTIN_DEPENDENCY)
    arguments.add_argument("--const-model", type=Path, default=BUILTIN / BUILTIN_CONSTITUENCY)
    arguments.add_argument("--alternations", type=int, default=5)
    arguments.add_argument("--threads", type=int, default=1)
    options = arguments.parse_args()
    torch.set_num_threads(options.threads)
    # supar uses what torch deprecates, and pads with an index that torch is about to read differently.
    warnings.filterwarnings("ignore", category=FutureWarning)
    warnings.filterwarnings("ignore", message="Using a non-tuple sequence")
    # torch-struct, under benepar, lacks an attribute that torch asks for.
    warnings.filterwarnings("ignore", message=".*arg_constraints")
    brackets, n = options.folder / "dev.ptb", options.alternations
    results = dependency(options.folder / "dev.conllu", options.dep_model, n)
    results |= constituency(brackets, options.const_model, n)
    results |= end_to_end(brackets, options.dep_model, options.const_model, n)
    print(json.dumps({key: round(value, 4) for key, value in results.items()}))


if __name__ == "__main__":
    main()
