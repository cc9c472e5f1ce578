"""Fit the judges in the package (:mod:`multiview.judge`) on development rows alone.

    python -m tools.fit_judge FOLDER

This writes pairs.json and pairs-without-mrpc.json to FOLDER. MULTIVIEW_DATA is the folder of the real data.
SemAntoNeg is split by a hash of the words that an input's negation and its paraphrase do not share,
SugarCrepe++ by row.
"""

import hashlib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks import data_folder
from corpora.inputs import read_table
from corpora.senteval.files import read_task
from corpora.senteval.structure import Pair, task_pairs, triplets
from multiview.folder.reading import TextSource
from multiview.judge.judge import read_numbers
from multiview.judge.weights import Weights

SHARES = {"PAWS": 3.5, "MRPC": 5, "Binding": 0.3, "SemAntoNeg": 0.2, "swap": 2.5, "replace": 4.5, "Near": 1}
"""How much each set counts; hard sets count more than easy ones. Chosen by five folds."""
CAPTIONS = {
    "swap object": "swap_obj",
    "swap attribute": "swap_att",
    "replace relation": "replace_rel",
    "replace attribute": "replace_att",
    "replace object": "replace_obj",
}
"""SugarCrepe++'s parts, and their names in its files."""
STRENGTH = 3.0
"""Strength of the ridge, for a thousand pairs."""
FILLINGS_OF_NEAR = 8
"""Fillings of each frame of short sentences that differ by an article, a tense or one word."""
DATA = {
    "PAWS": "PAWS-Wiki dev, rows 1 to 2,000 (Zhang et al. 2019): free for any purpose, source Google LLC",
    "MRPC": "MRPC train (Dolan and Brockett 2005): Microsoft Research licence",
    "SugarCrepe++": "SugarCrepe++, every second row of each file (Dumpala et al. 2024): CC BY 4.0",
    "SemAntoNeg": "SemAntoNeg, half of its pairs of antonyms (Vahtola et al. 2022): CC BY 4.0",
    "Binding": "Binding, development part: this package",
    "Near": "short sentences that nearly say the same: this package",
}


def differing_words(a: str, b: str) -> set[str]:
    """Return the words that only one of two sentences has, in SemAntoNeg the pair of antonyms."""
    words_a, words_b = (set(re.findall(r"[a-z'’-]+", text.lower())) for text in (a, b))
    return words_a ^ words_b


def is_development(pair: set[str]) -> bool:
    """Tell whether SemAntoNeg's rows of a pair of antonyms belong to the development half."""
    name = " ".join(sorted(pair))
    return hashlib.blake2b(name.encode(), digest_size=1).digest()[0] % 2 == 0


def read_half(data: Path, *, is_scored: bool = False) -> dict[str, list[Pair]]:
    """Read the pairs of every set's development or scored half; rows of three stay together."""
    folder = data / "structure"
    antonyms, paws = folder / "semantoneg_dev.tsv", list(task_pairs("PAWS", folder / "paws_wiki_dev.tsv"))
    files = read_task("MRPC", data / "senteval").files
    mrpc = read_table(files["test" if is_scored else "train"][0], ("Quality", "#1 String", "#2 String"))
    triplets_by_set = {"Binding": triplets("new" if is_scored else "development")}
    if not is_scored:
        triplets_by_set["Near"] = triplets("near", FILLINGS_OF_NEAR)
    rows = [row.cells for row in read_table(antonyms, ("no_not", "paraphrase"))]
    half = [row for row, cells in enumerate(rows) if is_development(differing_words(*cells)) != is_scored]
    pairs = {
        "PAWS": paws[2000:] if is_scored else paws[:2000],
        "MRPC": [(row.cells[0] == "1", row.cells[1], row.cells[2]) for row in mrpc],
        "SemAntoNeg": _pairs_of_rows(list(task_pairs("SemAntoNeg", antonyms)), half),
    }
    for name, triplets_of_set in triplets_by_set.items():
        pairs[name] = [pair for triplet in triplets_of_set for pair in triplet.pairs()]
    for name, file in CAPTIONS.items():
        captions = list(task_pairs("SugarCrepe++", folder / f"sugarcrepe_pp_{file}_dev.tsv"))
        pairs[name] = _pairs_of_rows(captions, range(int(is_scored), len(captions) // 3, 2))
    return pairs


def _pairs_of_rows(pairs: Sequence[Pair], rows: Iterable[int]) -> list[Pair]:
    """Return the three pairs of each row."""
    return [pair for row in rows for pair in pairs[3 * row : 3 * row + 3]]


def main(folder: Path) -> None:
    """Fit both judges."""
    source = TextSource.load("builtin", "cpu")
    sets = read_half(data_folder())
    pair_counts = Counter[str]()
    for name, pairs in sets.items():
        pair_counts[name.split()[0]] += len(pairs)
    parts = {}
    for name, pairs in sets.items():
        group = name.split()[0]
        label_n = np.array([int(is_same) for is_same, _, _ in pairs])
        balance_n = np.where(label_n == 1, 0.5 / label_n.mean(), 0.5 / (1 - label_n.mean()))
        share_n = balance_n * SHARES[group] / pair_counts[group]
        _, numbers_nF = read_numbers([(a, b) for _, a, b in pairs], source)
        parts[name] = (numbers_nF, label_n, share_n)
        print(name, len(pairs), flush=True)
    for file, omitted_set in (("pairs", ""), ("pairs-without-mrpc", "MRPC")):
        columns = zip(*(part for name, part in parts.items() if name != omitted_set), strict=True)
        numbers_nF, label_n, share_n = (np.concatenate(column) for column in columns)
        data = {name: licence for name, licence in DATA.items() if name != omitted_set}
        about = {"data": data, "licence": "CC-BY-4.0", "encoder": "", "pairs": len(label_n)}
        weights = Weights.fit(numbers_nF, label_n, share_n, strength=STRENGTH, about=about)
        weights.save(folder / f"{file}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
