"""Fit the judges in the package (:mod:`multiview.judge`) on development rows alone.

    python -m tools.fit_judge FOLDER

FOLDER gets pairs.json and pairs-without-mrpc.json. MULTIVIEW_DATA is the folder of the real data. SemAntoNeg
is split by a hash of the words that an input's negation and its paraphrase do not share, SugarCrepe++ by row.
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
from multiview.judge import Weights, read_numbers
from multiview.model import MultiViewEncoder

SHARES = {"PAWS": 3.5, "MRPC": 5, "Binding": 0.3, "SemAntoNeg": 0.2, "swap": 2.5, "replace": 4.5, "Near": 1}
"""How much each set counts, so that the hard ones do not lose to the easy ones; chosen by five folds."""
CAPTIONS = {
    "swap object": "swap_obj",
    "swap attribute": "swap_att",
    "replace relation": "replace_rel",
    "replace attribute": "replace_att",
    "replace object": "replace_obj",
}
"""SugarCrepe++'s parts, and their names in its files."""
STRENGTH = 3.0
NEAR = 8
"""Fillings of each frame of short sentences that differ by an article, a tense or one word."""
DATA = {
    "PAWS": "PAWS-Wiki dev, rows 1 to 2,000 (Zhang et al. 2019): free for any purpose, source Google LLC",
    "MRPC": "MRPC train (Dolan and Brockett 2005): Microsoft Research licence",
    "SugarCrepe++": "SugarCrepe++, every second row of each file (Dumpala et al. 2024): CC BY 4.0",
    "SemAntoNeg": "SemAntoNeg, half of its pairs of antonyms (Vahtola et al. 2022): CC BY 4.0",
    "Binding": "Binding, development part: this package",
    "Near": "short sentences that nearly say the same: this package",
}


def exchanged(one: str, other: str) -> set[str]:
    """Return the words that only one of two sentences has: of SemAntoNeg's the pair of antonyms."""
    first, second = (set(re.findall(r"[a-z'’-]+", text.lower())) for text in (one, other))
    return first ^ second


def is_development(pair: set[str]) -> bool:
    """Tell whether SemAntoNeg's rows of a pair of antonyms belong to the development half."""
    name = " ".join(sorted(pair))
    return hashlib.blake2b(name.encode(), digest_size=1).digest()[0] % 2 == 0


def read_half(data: Path, *, scored: bool = False) -> dict[str, list[Pair]]:
    """Read the pairs of every set's development or scored half; rows of three stay together."""
    folder = data / "structure"
    antonyms, paws = folder / "semantoneg_dev.tsv", list(task_pairs("PAWS", folder / "paws_wiki_dev.tsv"))
    files = read_task("MRPC", data / "senteval").files
    mrpc = read_table(files["test" if scored else "train"][0], ("Quality", "#1 String", "#2 String"))
    frames = {"Binding": triplets("new" if scored else "development")}
    if not scored:
        frames["Near"] = triplets("near", NEAR)
    rows = [row.cells for row in read_table(antonyms, ("no_not", "paraphrase"))]
    chosen = [row for row, cells in enumerate(rows) if is_development(exchanged(*cells)) != scored]
    pairs = {
        "PAWS": paws[2000:] if scored else paws[:2000],
        "MRPC": [(row.cells[0] == "1", row.cells[1], row.cells[2]) for row in mrpc],
        "SemAntoNeg": _chosen(list(task_pairs("SemAntoNeg", antonyms)), chosen),
    }
    for name, rows_of_name in frames.items():
        both = (((True, t.anchor, t.same), (False, t.anchor, t.other)) for t in rows_of_name)
        pairs[name] = [pair for row in both for pair in row]
    for name, file in CAPTIONS.items():
        captions = list(task_pairs("SugarCrepe++", folder / f"sugarcrepe_pp_{file}_dev.tsv"))
        pairs[name] = _chosen(captions, range(int(scored), len(captions) // 3, 2))
    return pairs


def _chosen(pairs: Sequence[Pair], rows: Iterable[int]) -> list[Pair]:
    """Return the three pairs of each row."""
    return [pair for row in rows for pair in pairs[3 * row : 3 * row + 3]]


def main(folder: Path) -> None:
    """Fit both judges."""
    source = MultiViewEncoder.load("builtin", "cpu")
    parts, halves, total = [], read_half(data_folder()), Counter[str]()
    for name, pairs in halves.items():
        total[name.split()[0]] += len(pairs)
    for name, pairs in halves.items():
        group = name.split()[0]
        label = np.array([int(same) for same, _, _ in pairs])
        even = np.where(label == 1, 0.5 / label.mean(), 0.5 / (1 - label.mean()))
        share = even * SHARES[group] / total[group]
        parts.append((name, read_numbers([pair[1:] for pair in pairs], source)[1], label, share))
        print(name, len(pairs), flush=True)
    for file, left_out in (("pairs", ""), ("pairs-without-mrpc", "MRPC")):
        chosen = [part[1:] for part in parts if part[0] != left_out]
        numbers, label, share = (np.concatenate(columns) for columns in zip(*chosen, strict=True))
        data = {name: licence for name, licence in DATA.items() if name != left_out}
        about = {"data": data, "licence": "CC-BY-4.0", "encoder": "", "pairs": len(label)}
        Weights.fit(numbers, label, share, strength=STRENGTH, about=about).save(folder / f"{file}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
