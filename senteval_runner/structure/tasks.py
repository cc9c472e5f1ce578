"""Tasks of structure: Binding, HANS, PAWS and natural minimal pairs, scored by cosine without training.

Binding is :mod:`senteval_runner.structure.binding`. HANS (McCoy et al. 2019) is the lexical-overlap part of
its published file: does the premise entail a hypothesis of the same words? PAWS (Zhang et al. 2019) is a
published TSV: pairs whose words were exchanged, paraphrases or not. Minimal pairs are those of SICK's test
set, of counterfactual SNLI and of MED whose two sentences have the same words in another order.
"""

from __future__ import annotations

import csv
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from corpora.support.errors import UserError
from senteval_runner.structure.binding import Triplet

TIE = 1e-6
"""A same sentence that is nearer by no more than this is no nearer."""
DRAWS = 1000
Encode = Callable[[Sequence[str]], NDArray[np.floating]]
"""Sentences to vectors [n, D]."""
Pair = tuple[bool, str, str]
"""Whether the two mean the same, and the two."""


def binding_scores(encode: Encode, triplets: Sequence[Triplet]) -> dict[str, float]:
    """Per cent right by kind, ``mean`` over kinds, ``low`` and ``high`` of its 95 % interval over frames."""
    right = nearer(encode, [(t.anchor, t.same, t.other) for t in triplets])
    frames: dict[str, dict[int, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for triplet, hit in zip(triplets, right, strict=True):
        frames[triplet.kind][triplet.frame].append(bool(hit))
    by_kind = {
        kind: np.array([100 * np.mean(hits) for hits in found.values()]) for kind, found in frames.items()
    }
    drawn = np.random.default_rng(0)
    means = [
        np.mean([drawn.choice(scores, len(scores)).mean() for scores in by_kind.values()])
        for _ in range(DRAWS)
    ]
    low, high = np.percentile(means, [2.5, 97.5])
    scores = {kind: float(values.mean()) for kind, values in by_kind.items()}
    return {"mean": float(np.mean(list(scores.values()))), "low": float(low), "high": float(high), **scores}


def nearer(encode: Encode, triplets: Sequence[tuple[str, str, str]]) -> NDArray[np.bool_]:
    """Whether the first sentence of each triplet is nearer to the second than to the third: [n]."""
    first, second, third = (_unit(encode(list(texts))) for texts in zip(*triplets, strict=True))
    right: NDArray[np.bool_] = (first * second).sum(1) > (first * third).sum(1) + TIE
    return right


def pair_scores(encode: Encode, pairs: Sequence[Pair]) -> dict[str, float]:
    """Average precision, area under the ROC curve, and accuracy at the best threshold, in per cent."""
    gold, first, second = zip(*pairs, strict=True)
    cosine = (_unit(encode(first)) * _unit(encode(second))).sum(1)
    order = np.argsort(-cosine, kind="stable")
    truth = np.array(gold)[order]
    # The first k pairs are called the same: those of them that are, and the others that are not.
    hits = np.append(0, np.cumsum(truth)) + np.append(np.cumsum(~truth[::-1])[::-1], 0)
    return {
        "ap": 100 * float(average_precision_score(gold, cosine)),
        "auc": 100 * float(roc_auc_score(gold, cosine)),
        "acc": 100 * float(hits.max() / len(truth)),
        "n": len(pairs),
    }


def read_hans(path: Path) -> list[Pair]:
    """The lexical-overlap pairs of HANS's published file."""
    rows = _rows(path, ("gold_label", "sentence1", "sentence2", "heuristic"))
    return [
        (row["gold_label"] == "entailment", row["sentence1"], row["sentence2"])
        for row in rows
        if row["heuristic"] == "lexical_overlap"
    ]


def read_paws(path: Path) -> list[Pair]:
    """The pairs of a published TSV of PAWS; its quotes are set as in running text."""
    rows = _rows(path, ("label", "sentence1", "sentence2"))
    plain = [(row["label"] == "1", _quoted(row["sentence1"]), _quoted(row["sentence2"])) for row in rows]
    return plain


def read_minimal(files: Sequence[Path]) -> list[Pair]:
    """Pairs of NLI files whose two sentences have the same words in another order; entailment is the same."""
    found = []
    for path in files:
        for row in _rows(path, ("label", "sentence1", "sentence2")):
            first, second = row["sentence1"], row["sentence2"]
            if first.lower() != second.lower() and _words(first) == _words(second):
                found.append((row["label"].lower() == "entailment", first, second))
    return found


def _words(text: str) -> Counter[str]:
    letters = "".join(c if c.isalnum() or c == "'" else " " for c in text.lower())
    return Counter(letters.split())


def _quoted(text: str) -> str:
    return text.replace("``", '"').replace("''", '"')


def _rows(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """The rows of a TSV with a header."""
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    with open(path, encoding="utf-8", newline="") as lines:
        reader = csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
        missing = [column for column in columns if column not in (reader.fieldnames or ())]
        if missing:
            raise UserError(f"{path}, line 1: has no column {missing[0]}")
        return list(reader)


def _unit(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    rows = np.asarray(vectors, np.float64)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(lengths > 0, lengths, 1)
