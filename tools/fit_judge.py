"""Fit the judges in the package (:mod:`multiview.judge`) and write their files.

    python -m tools.fit_judge FOLDER [--cache FOLDER]

This writes two files to FOLDER: pairs.json, whose data may be used in production, and pairs-with-mrpc.json,
for research alone. The rows are those of :mod:`tools.judge_rows`. MULTIVIEW_DATA is the folder of the real
data.
"""

import sys
from collections import Counter
from pathlib import Path
from typing import Annotated

import numpy as np
from tyro.conf import Positional, arg

from multiview.folder.reading import TextSource
from multiview.judge.pair_reading import read_features
from multiview.judge.weights import Weights
from runtime.cli import Command, configuration
from tools import data_folder
from tools.judge_rows import parsed, read_sides, texts_of

SHARES = {"PAWS": 3.5, "MRPC": 5, "Binding": 0.3, "SemAntoNeg": 0.2, "swap": 2.5, "replace": 4.5, "Near": 1}
"""The weight of each group of sets in the fit, chosen by cross-validation with five folds.

Groups in which pairs are hard to judge have a larger weight.
"""
STRENGTH = 3.0
"""Strength of the L2 penalty, for a thousand pairs."""
CACHE = Path("runs/judge")
"""The folder of trees, and of vectors of benchmarks."""
DATA = {
    "PAWS": "PAWS-Wiki dev, rows 1 to 2,000 (Zhang et al. 2019), free for any purpose; source: Google LLC",
    "MRPC": "MRPC train (Dolan and Brockett 2005), Microsoft Research licence: research only",
    "SugarCrepe++": "SugarCrepe++, every second row of each file (Dumpala et al. 2024), CC BY 4.0",
    "SemAntoNeg": "SemAntoNeg, half of its pairs of antonyms (Vahtola et al. 2022), CC BY 4.0",
    "Binding": "Binding, development part: this package, Apache 2.0",
    "Near": "short sentences that nearly say the same: this package, Apache 2.0",
}
LICENCE = "Apache-2.0 AND CC-BY-4.0 AND LicenseRef-PAWS"
"""The licence of the data of pairs.json."""


@configuration
class FitJudgeConfig:
    """Options of ``python -m tools.fit_judge``."""

    folder: Annotated[Positional[Path], arg(metavar="FOLDER")]
    """Folder of the files."""
    cache: Path = CACHE
    """Folder where trees are kept."""


def main(config: FitJudgeConfig) -> None:
    """Fit both judges, and write their files."""
    folder = config.folder
    sides = read_sides(data_folder())
    source = TextSource.load("builtin", "cpu")
    trees = parsed(texts_of(sides), config.cache)
    sets = {name: [pair for row in rows for pair in row] for name, rows in sides.fitted.items()}
    pair_counts = Counter[str]()
    for name, pairs in sets.items():
        pair_counts[name.split()[0]] += len(pairs)
    features, labels, shares = {}, {}, {}
    for name, pairs in sets.items():
        group = name.split()[0]
        label_n = np.array([int(pair.is_same) for pair in pairs])
        balance_n = np.where(label_n == 1, 0.5 / label_n.mean(), 0.5 / (1 - label_n.mean()))
        labels[name] = label_n
        shares[name] = balance_n * SHARES[group] / pair_counts[group]
        _, features[name] = read_features([(pair.first, pair.second) for pair in pairs], source, trees=trees)
        print(name, len(pairs), flush=True)
    for file, omitted_set, licence in (
        ("pairs", "MRPC", LICENCE),
        ("pairs-with-mrpc", "", f"{LICENCE} AND LicenseRef-MRPC"),
    ):
        names = [name for name in sets if name != omitted_set]
        features_nF = np.concatenate([features[name] for name in names])
        label_n = np.concatenate([labels[name] for name in names])
        share_n = np.concatenate([shares[name] for name in names])
        data = {name: origin for name, origin in DATA.items() if name != omitted_set}
        about = {"data": data, "licence": licence, "encoder": "", "pairs": len(label_n)}
        weights = Weights.fit(features_nF, label_n, share_n, strength=STRENGTH, about=about)
        weights.save(folder / f"{file}.json")


cli = Command(FitJudgeConfig, main, "tools.fit_judge", "Fit the judges in the package.")


if __name__ == "__main__":
    sys.exit(cli())
