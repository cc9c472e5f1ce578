"""Fit the judges in the package (:mod:`multiview.judge`) on development rows alone.

    python -m tools.fit_judge FOLDER

FOLDER gets pairs.json and pairs-without-mrpc.json. MULTIVIEW_DATA is the folder of the real data. SemAntoNeg
is split by a hash of the words that an input's negation and its paraphrase do not share, SugarCrepe++ by row.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path

import numpy as np

from corpora.inputs import read_table
from corpora.senteval.files import read_task
from corpora.senteval.structure import Pair, read_captions, read_paws, read_semantoneg, triplets
from multiview.judge import Weights
from multiview.model import MultiViewEncoder
from multiview.pair_numbers import numbered_pairs

SHARES = {"PAWS": 2.3, "MRPC": 5, "Binding": 0.3, "SemAntoNeg": 0.2, "swap": 1.3, "replace": 4.5}
"""How much each set counts, so that the hard ones do not lose to the easy ones; chosen by five folds."""
STRENGTH = 3.0
DATA = {
    "PAWS": "PAWS-Wiki dev, rows 1 to 2,000 (Zhang et al. 2019): free for any purpose, source Google LLC",
    "MRPC": "MRPC train (Dolan and Brockett 2005): Microsoft Research licence",
    "SugarCrepe++": "SugarCrepe++, every second row of each file (Dumpala et al. 2024): CC BY 4.0",
    "SemAntoNeg": "SemAntoNeg, half of its pairs of antonyms (Vahtola et al. 2022): CC BY 4.0",
    "Binding": "Binding, development part: this package",
}


def is_development(no_not: str, paraphrase: str) -> bool:
    """Whether SemAntoNeg's row belongs to the development half, by its pair of antonyms."""
    one, other = (set(re.findall(r"[a-z'’-]+", text.lower())) for text in (no_not, paraphrase))
    name = " ".join(sorted(one ^ other))
    return hashlib.blake2b(name.encode(), digest_size=1).digest()[0] % 2 == 0


def development(data: Path) -> dict[str, list[list[Pair]]]:
    """The pairs of every set, by file."""
    folder = data / "structure"
    antonyms = folder / "semantoneg_dev.tsv"
    rows = [row.cells for row in read_table(antonyms, ("no_not", "paraphrase"))]
    kept = [row for row, cells in enumerate(rows) if is_development(*cells)]
    negated, mrpc = read_semantoneg(antonyms), read_task("MRPC", data / "senteval").files["train"][0]
    captions: dict[str, list[list[Pair]]] = {"swap": [], "replace": []}
    for part in ("swap_obj", "swap_att", "replace_rel", "replace_att", "replace_obj"):
        pairs = read_captions(folder / f"sugarcrepe_pp_{part}_dev.tsv")
        even = [pair for row in range(0, len(pairs) // 3, 2) for pair in pairs[3 * row : 3 * row + 3]]
        captions[part.split("_")[0]].append(even)
    names = ("Quality", "#1 String", "#2 String")
    return {
        "PAWS": [read_paws(folder / "paws_wiki_dev.tsv")[:2000]],
        "MRPC": [[(row.cells[0] == "1", *row.cells[1:]) for row in read_table(mrpc, names)]],  # type: ignore[misc]
        "Binding": [
            [
                pair
                for t in triplets("development")
                for pair in ((True, t.anchor, t.same), (False, t.anchor, t.other))
            ]
        ],
        "SemAntoNeg": [[pair for row in kept for pair in negated[3 * row : 3 * row + 3]]],
        **captions,
    }


def main(folder: Path) -> None:
    """Fit both judges."""
    source = MultiViewEncoder.load("builtin", "cpu")
    parts = []
    for name, files in development(Path(os.environ["MULTIVIEW_DATA"])).items():
        total = sum(map(len, files))
        for pairs in files:
            label = np.array([int(same) for same, _, _ in pairs])
            share = np.where(label == 1, 0.5 / label.mean(), 0.5 / (1 - label.mean())) * SHARES[name] / total
            parts.append((name, numbered_pairs([pair[1:] for pair in pairs], source).numbers, label, share))
            print(name, len(pairs), flush=True)
    for file, left_out in (("pairs", ""), ("pairs-without-mrpc", "MRPC")):
        chosen = [part[1:] for part in parts if part[0] != left_out]
        numbers, label, share = (np.concatenate(columns) for columns in zip(*chosen, strict=True))
        data = {name: licence for name, licence in DATA.items() if name != left_out}
        about = {"data": data, "licence": "CC-BY-4.0", "encoder": "", "pairs": len(label)}
        Weights.fit(numbers, label, share, strength=STRENGTH, about=about).save(folder / f"{file}.json")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
