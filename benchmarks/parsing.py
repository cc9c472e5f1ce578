"""Parsing the sentences of a treebank: our parsers against the libraries' own, same weights.

    OMP_NUM_THREADS=1 python -m benchmarks.parsing [FOLDER] [--alternations 5]

The folder holds ``dev.conllu`` and ``dev.ptb`` of the same sentences. Each alternation parses everything
once with a fresh parser of ours (no word type cached) and once with the library's untouched ``predict``
or ``parse``; the ratio is the median over alternations. ``agreement`` is the fraction of sentences whose
trees are equal in every detail, ``decode_fraction`` the fraction of our time spent on decoding.
Constituency and end to end are in :mod:`benchmarks.parsing_const`. Ends with one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
import warnings
from pathlib import Path

import torch

import parsing.dependency.parser
from benchmarks.timing import Timer, compare, spread
from parsing.dependency.model import DependencyModel
from parsing.dependency.parser import BiaffineParser
from parsing.dependency.task import attachment_scores
from parsing.dependency.train import read_dependencies
from parsing.models import BUILTIN, BUILTIN_CONSTITUENCY, BUILTIN_DEPENDENCY
from parsing.networks.model_folder import load_model_folder


def dependency(treebank: Path, model_folder: Path, alternations: int) -> dict[str, float]:
    """The dependency parser against supar."""
    from tests.oracles.supar import stock_predict, to_supar

    folder = load_model_folder(model_folder, kind="dependency")
    model = DependencyModel.from_folder(folder)
    gold = read_dependencies([treebank])
    sentences = [list(s.tokens) for s in gold]
    parses = BiaffineParser(model, folder.identity).parse(sentences)
    peak_rss_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    start = time.perf_counter()
    with Timer((parsing.dependency.parser, "decode_heads")) as timer:
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
    from benchmarks.parsing_const import constituency, end_to_end  # benepar warns when it is imported

    brackets, n = options.folder / "dev.ptb", options.alternations
    results = dependency(options.folder / "dev.conllu", options.dep_model, n)
    results |= constituency(brackets, options.const_model, n)
    results |= end_to_end(brackets, options.dep_model, options.const_model, n)
    print(json.dumps({key: round(value, 4) for key, value in results.items()}))


if __name__ == "__main__":
    main()
