"""Development tasks of classification, none of which is reported, for ``benchmarks.recipe --classify``.

SentEval's own logistic regression in five folds (the best of its regularisers): TREC's training questions and
MRPC's training pairs. SICK's relatedness: trained on the training part, Pearson on the trial part. With
``--reviews`` also two corpora of NLTK's data: the sentences of ``product_reviews_2`` (Ding, Liu & Yu 2008;
nine products, none of which is in SentEval's CR) that have a polarity, and 3,000 of ``pros_cons``.

Shapes: n sentences, D vector size.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.model_selection import StratifiedKFold

from corpora.senteval.files import read_task
from corpora.support.errors import UserError
from senteval_runner.protocol.batched import Fit, train_fits
from senteval_runner.protocol.config import TORCH_REGULARISERS, get_protocol
from senteval_runner.protocol.features import Float, as_tensor, design, pair_blocks
from senteval_runner.protocol.relatedness import relatedness
from senteval_runner.vectors.embed import SentenceVectors

SEED = 1111
FOLDS = 5
PROS_CONS = 1500
"""Of each kind, of 4 to 40 words."""
_WORDS = re.compile(r"\w+(?:'\w+)?|[^\w\s]")
_POLARITY = re.compile(r"\[([+-]\d)\]")

Labelled = tuple[list[list[str]], list[int]]


def development_scores(vectors: SentenceVectors, data: Path, reviews: Path | None) -> dict[str, float]:
    """Accuracies, and Pearson's r of SICK, in [0, 1].

    Args:
        vectors: of the model.
        data: SentEval's folder.
        reviews: folder that holds ``product_reviews_2`` and ``pros_cons``, unpacked.
    """
    trec, mrpc = (read_task(name, data).splits["train"] for name in ("TREC", "MRPC"))
    assert mrpc.b is not None
    scores = {
        "trec": accuracy(design((vectors(trec.a),)), [int(label) for label in trec.y]),
        "mrpc": accuracy(
            design(pair_blocks(vectors(mrpc.a), vectors(mrpc.b))), [int(label) for label in mrpc.y]
        ),
        "sick_r": sick_relatedness(vectors, data),
    }
    if reviews is not None:
        for name, read in (("reviews", product_reviews), ("pros_cons", pros_and_cons)):
            sentences, labels = read(reviews)
            scores[name] = accuracy(design((vectors(sentences),)), labels)
    return scores


def accuracy(x: Float, labels: list[int]) -> float:
    """Mean over folds of the best regulariser's accuracy; x is a design matrix [n, D + 1]."""
    y = np.array(labels)
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED).split(x, y)
    fits = [Fit(train=train, dev=held_out, l2=TORCH_REGULARISERS) for train, held_out in folds]
    fitted = train_fits(as_tensor(x), y, fits, int(y.max()) + 1, get_protocol("default"), SEED)
    return float(np.max(np.mean([one.accuracy for one in fitted], axis=0)))


def sick_relatedness(vectors: SentenceVectors, data: Path) -> float:
    """Pearson's r on the trial part; a tenth of the training part decides when to stop."""
    parts = {}
    for name in ("train", "dev"):
        split = read_task("SICKRelatedness", data).splits[name]
        assert split.b is not None
        x = design(pair_blocks(vectors(split.a), vectors(split.b)))
        parts[name] = (x, np.array(split.y, dtype=np.float64))
    x, y = parts["train"]
    order = np.random.RandomState(0).permutation(len(y))
    tenth = len(y) // 10
    stop, train = order[:tenth], order[tenth:]
    return relatedness((x[train], y[train]), (x[stop], y[stop]), parts["dev"], SEED).pearson


def product_reviews(folder: Path) -> Labelled:
    """Sentences of customer reviews whose opinions are all good (1) or all bad (0)."""
    sentences, labels = [], []
    for line in _lines(folder / "product_reviews_2"):
        head, marked, text = line.partition("##")
        signs = [int(found) for found in _POLARITY.findall(head)]
        words = _WORDS.findall(text)
        if marked and signs and len(words) > 1 and (min(signs) > 0 or max(signs) < 0):
            sentences.append(words)
            labels.append(int(signs[0] > 0))
    return sentences, labels


def pros_and_cons(folder: Path) -> Labelled:
    """What reviewers list as good (1) and as bad (0)."""
    sentences: list[list[str]] = []
    labels: list[int] = []
    for kind, label in (("Pros", 1), ("Cons", 0)):
        text = "\n".join(_lines(folder / "pros_cons", f"*{kind}.txt"))
        found = [_WORDS.findall(one) for one in re.findall(f"<{kind}>(.*?)</{kind}>", text)]
        usable = [words for words in found if 4 <= len(words) <= 40]
        random.Random(1).shuffle(usable)
        sentences += usable[:PROS_CONS]
        labels += [label] * len(usable[:PROS_CONS])
    return sentences, labels


def _lines(folder: Path, pattern: str = "*.txt") -> Iterator[str]:
    files = [path for path in sorted(folder.glob(pattern)) if path.name != "README.txt"]
    if not files:
        raise UserError(f"--reviews: {folder} holds no {pattern}; unpack NLTK's {folder.name}.zip there")
    for path in files:
        yield from path.read_text(encoding="latin-1").splitlines()
