"""Fit the judges in the package (:mod:`multiview.judge`) and write their files.

    python -m tools.fit_judge FOLDER [CACHE]

This writes pairs.json, whose data may be used in production, and pairs-with-mrpc.json, for research, to
FOLDER. The rows are those of :mod:`tools.judge_rows`. CACHE, by default runs/judge, keeps the trees.
MULTIVIEW_DATA is the folder of the real data.
"""

import sys
from collections import Counter
from pathlib import Path

import numpy as np

from multiview.folder.reading import TextSource
from multiview.judge.judge import read_numbers
from multiview.judge.weights import Weights
from tools import data_folder
from tools.judge_rows import parsed, read_sides, texts_of

SHARES = {"PAWS": 3.5, "MRPC": 5, "Binding": 0.3, "SemAntoNeg": 0.2, "swap": 2.5, "replace": 4.5, "Near": 1}
"""How much each set counts; hard sets count more than easy ones. Chosen by five folds."""
STRENGTH = 3.0
"""Strength of the ridge, for a thousand pairs."""
CACHE = Path("runs/judge")
"""The folder of what is kept."""
DATA = {
    "PAWS": "PAWS-Wiki dev, rows 1 to 2,000 (Zhang et al. 2019), free for any purpose; source: Google LLC",
    "MRPC": "MRPC train (Dolan and Brockett 2005), Microsoft Research licence: research only",
    "SugarCrepe++": "SugarCrepe++, every second row of each file (Dumpala et al. 2024), CC BY 4.0",
    "SemAntoNeg": "SemAntoNeg, half of its pairs of antonyms (Vahtola et al. 2022), CC BY 4.0",
    "Binding": "Binding, development part: this package, Apache 2.0",
    "Near": "short sentences that nearly say the same: this package, Apache 2.0",
}
LICENCE = "Apache-2.0 AND CC-BY-4.0 AND LicenseRef-PAWS"
"""Of the default judge's data."""


def main(folder: Path, cache: Path = CACHE) -> None:
    """Fit both judges."""
    sides = read_sides(data_folder())
    source = TextSource.load("builtin", "cpu")
    trees = parsed(texts_of(sides), cache)
    sets = {name: [pair for row in rows for pair in row] for name, rows in sides.fitted.items()}
    pair_counts = Counter[str]()
    for name, pairs in sets.items():
        pair_counts[name.split()[0]] += len(pairs)
    parts = {}
    for name, pairs in sets.items():
        group = name.split()[0]
        label_n = np.array([int(is_same) for is_same, _, _ in pairs])
        balance_n = np.where(label_n == 1, 0.5 / label_n.mean(), 0.5 / (1 - label_n.mean()))
        share_n = balance_n * SHARES[group] / pair_counts[group]
        _, numbers_nF = read_numbers([(a, b) for _, a, b in pairs], source, trees=trees)
        parts[name] = (numbers_nF, label_n, share_n)
        print(name, len(pairs), flush=True)
    for file, omitted_set, licence in (
        ("pairs", "MRPC", LICENCE),
        ("pairs-with-mrpc", "", f"{LICENCE} AND LicenseRef-MRPC"),
    ):
        columns = zip(*(part for name, part in parts.items() if name != omitted_set), strict=True)
        numbers_nF, label_n, share_n = (np.concatenate(column) for column in columns)
        data = {name: origin for name, origin in DATA.items() if name != omitted_set}
        about = {"data": data, "licence": licence, "encoder": "", "pairs": len(label_n)}
        weights = Weights.fit(numbers_nF, label_n, share_n, strength=STRENGTH, about=about)
        weights.save(folder / f"{file}.json")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
