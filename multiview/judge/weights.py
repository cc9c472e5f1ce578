"""The weights of a judge: a logistic regression of the pair's numbers, their squares and their products.

Legend of dimension suffixes: n pairs, F numbers of a pair, W weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from scipy.special import expit

from corpora.characters import VERSION
from runtime.cli import config_from_json, configuration
from runtime.errors import UserError
from runtime.files import json_digest, output_file, path_of, read_record, write_record

Floats = NDArray[np.float64]
NUMBERS: Mapping[str, str] = {
    "topic": "cosine of the sums of words, rare ones weighing more; or that of another encoder",
    "arcs": "share of arcs that both have: the lawyer praised | the lawyer praised",
    "turned arcs": "share of arcs that both have with another sign: he came | he did not come",
    "other fillers": "share of places that are filled otherwise: the lawyer praised | the doctor praised",
    "moved": "share of arcs whose dependent has another place: he praised the doctor | the doctor praised",
    "words": "share of content words that both have: a red hat | a red coat",
    "every word": "share of all words that both have, function words too: a red hat | the red hat",
    "rare words": "share of shared words where it is less, rare words weighing more: he came | Tom came",
    "near words": "rare words, where another word counts as its nearest: a red car | a red automobile",
    "opposites": "words opposed to words of the other, on both sides: good | bad; good | not good",
    "agreeing": "words that agree with other words of the other, on both sides: not good | bad",
    "negation": "whether one sentence denies an odd number of words and the other does not: good | not good",
    "numbers": "numbers that the other lacks, on both sides: two hats | three hats",
    "names": "names that the other lacks, on both sides: Rome | Paris",
    "missing names": "names or numbers that one side has alone: he came | Tom came",
    "other words": "cosine of the sums of words that the other lacks: enable it | turn it on",
    "worst partner": "least cosine of a word that the other lacks with its nearest: a red hat | a red idea",
    "neighbours": "share of words after the same word in both: red hat, blue coat | red coat, blue hat",
    "inversions": "share of pairs of words in the other order: Rome to Paris | Paris to Rome",
    "moves": "whether shared words are in another order: in May he came | he came in May",
    "exchanges": "whether two words, or blocks, moved: a red hat on a blue coat | a blue hat on a red coat",
    "prepositions": "prepositions that the other lacks, on both sides: from Rome | to Rome",
    "length": "logarithm of the lengths' ratio: he came | he came home late",
    "words in all": "logarithm of how many content words a sentence has, the mean of both",
    "names in all": "share of content words that are names, the mean of both",
    "words alone": "root of how many content words of both have no equal: a red hat | a red coat",
    "extra words": "root of how many words one has more, function words too: it is good | it is a good one",
}
"""The numbers of a pair, each with what it counts and an example."""
SLOTS: Mapping[str, float] = {
    **{"agent": 1, "patient": 1, "predicate": 1, "place": 0.7, "attribute of agent": 0.5},
    **{"attribute of patient": 0.5, "other attribute": 0.5, "adverb": 0.4, "rest": 0.5},
}
"""The slots of a sentence, each with its weight in the cosine of all."""
STRENGTH = 5.0
"""Strength of the ridge, for a thousand pairs."""
MAX_LEVELS = 20
"""Deepest nesting of the JSON in ``about``."""
THRESHOLD = 0.5
"""The probability from which on two say the same, where a judge has none of its own."""
FOLDS = 5
MIN_SLOPE = 0.1
"""Pairs that the judge in the package tells apart no better than chance would have the slope 0."""
PULLS = (10_000.0, 3000.0, 1000.0, 300.0, 100.0, 30.0)
"""Strengths of the ridge towards the judge in the package that are tried, the strongest first."""
MIN_DEVIATION = 1e-5
"""Numbers that vary less are always the same but for rounding."""
_Number = Annotated[float, Ge(-1e9), Le(1e9)]


@configuration
class Weights:
    """A fitted logistic regression, and what it was fitted on, as the file of a judge has them.

    The deviation of a number that is always the same is 1. There are weights for 1, for the numbers, and for
    the products of two of them: W = 1 + F + F (F + 1) / 2.
    """

    names: ClassVar[tuple[str, ...]] = (*NUMBERS,)
    """The numbers that are read, in their order."""
    numbers: list[str]
    mean: list[_Number]
    deviation: list[Annotated[float, Ge(1e-6), Le(1e9)]]
    weight: list[_Number]
    tables: str
    """The digest of the word classes, opposites and rules that the numbers are counted by."""
    about: dict[str, Any]
    """Data, licences and the encoder of the meanings."""

    @property
    def threshold(self) -> float:
        """The probability from which on two say the same: what :meth:`Judge.threshold` found, or 0.5."""
        found = self.about.get("threshold")
        value = found.get("threshold") if isinstance(found, Mapping) else None
        return value if isinstance(value, float) and 0 <= value <= 1 else THRESHOLD

    @classmethod
    def fit(
        cls,
        numbers_nF: Floats,
        label_n: NDArray[np.number],
        share_n: Floats | None = None,
        *,
        strength: float = STRENGTH,
        about: dict[str, Any] | None = None,
    ) -> Self:
        """Fit by Newton's method; ``share_n`` says how much each pair counts, all the same by default."""
        share_n = np.ones(len(label_n)) if share_n is None else share_n
        share_n = share_n * (1000 / share_n.sum())
        mean_F, deviation_F = numbers_nF.mean(axis=0), numbers_nF.std(axis=0)
        deviation_F = np.where(deviation_F > MIN_DEVIATION, deviation_F, 1)
        design_nW = _design(numbers_nF, mean_F, deviation_F)
        ridge_W = np.full(design_nW.shape[1], strength)
        ridge_W[0] = 1e-6
        weight_W = _newton(design_nW, label_n, share_n, ridge_W, np.zeros_like(ridge_W))
        mean, deviation, weight = (np.round(x, 6).tolist() for x in (mean_F, deviation_F, weight_W))
        return cls(
            numbers=[*cls.names],
            mean=mean,
            deviation=deviation,
            weight=weight,
            tables=digest_of_tables(),
            about=about or {},
        )

    def with_scale_of(self, number: str, numbers_nF: Floats) -> Self:
        """Return these weights for a number of another scale, such as the cosine of another encoder."""
        index, mean, deviation = self.numbers.index(number), [*self.mean], [*self.deviation]
        mean[index] = float(numbers_nF[:, index].mean())
        deviation[index] = max(float(numbers_nF[:, index].std()), MIN_DEVIATION)
        return replace(self, mean=mean, deviation=deviation)

    def fit_on(
        self,
        numbers_nF: Floats,
        label_n: NDArray[np.number],
        *,
        pull: float | None = None,
        about: dict[str, Any] | None = None,
    ) -> Self:
        """Fit to other pairs, where a ridge of strength ``pull`` draws the weights to these ones.

        By default that of :data:`PULLS` is taken whose weights give left-out fifths of the pairs the least
        logistic loss; of those not worse than it by two standard errors, the strongest. The pairs' base rate
        is not learnt: a level and a slope of the whole score are fitted beside the weights, and left out, so
        that what these weights say of other kinds of pairs does not shift with it.
        """
        design_nW = _design(numbers_nF, np.array(self.mean), np.array(self.deviation))
        if pull is None:
            fold_n = np.random.default_rng(0).permutation(len(label_n)) % FOLDS
            loss_nP = np.empty((len(label_n), len(PULLS)))
            for fold in range(FOLDS):
                is_out_n = fold_n == fold
                path_PW, level, slope = self._path(design_nW[~is_out_n], label_n[~is_out_n], PULLS)
                score_nP = level + slope * design_nW[is_out_n] @ path_PW.T
                loss_nP[is_out_n] = np.logaddexp(0, score_nP) - label_n[is_out_n, None] * score_nP
            excess_nP = loss_nP - loss_nP[:, [loss_nP.mean(axis=0).argmin()]]
            is_near_P = excess_nP.mean(axis=0) <= 2 * excess_nP.std(axis=0) / np.sqrt(len(label_n))
            pull = PULLS[is_near_P.argmax()]
        pulls = [*(stronger for stronger in PULLS if stronger > pull), pull]
        weight = np.round(self._path(design_nW, label_n, pulls)[0][-1], 6).tolist()
        return replace(self, weight=weight, about={**(about or {}), "pull": pull})

    def _path(
        self, design_nW: Floats, label_n: NDArray[np.number], pulls: Sequence[float]
    ) -> tuple[Floats, float, float]:
        """Return the weights for each strength of the ridge, [P, W], and the level and slope left out."""
        share_n, own_W = np.ones(len(label_n)), np.array(self.weight)
        design_n2 = np.column_stack([share_n, design_nW @ own_W])
        level, slope = _newton(design_n2, label_n, share_n, np.ones(2), np.array([0.0, 1.0])).tolist()
        slope = max(slope, MIN_SLOPE)
        level_W = level * (np.arange(len(own_W)) == 0)
        weight_W = centre_W = slope * own_W + level_W
        path = []
        for pull in pulls:  # each begins where the one before it ended
            weight_W = _newton(design_nW, label_n, share_n, np.full(len(own_W), pull), centre_W, weight_W)
            path.append((weight_W - level_W) / slope)
        return np.array(path), level, slope

    def probabilities(self, numbers_nF: Floats) -> Floats:
        """Return the probability that both sentences say the same, [n]."""
        design_nW = _design(numbers_nF, np.array(self.mean), np.array(self.deviation))
        probability_n: Floats = expit(design_nW @ np.array(self.weight))
        return probability_n

    def save(self, path: Path) -> None:
        """Write JSON; a UserError says that no file can have that name, or that ``about`` is no JSON."""
        path = output_file(path_of(path, "judge"))
        if not _is_plain(self.about):
            raise UserError(
                f"{path}: what the judge is about is no JSON, or nested more than {MAX_LEVELS} times: keys "
                "are text, values text, numbers, lists and mappings of these"
            )
        try:
            write_record(path, asdict(self))
        except (TypeError, ValueError) as error:
            raise UserError(f"{path}: what the judge is about is no JSON ({error})") from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote; a file that is missing or holds something else is a UserError."""
        weights, count = config_from_json(cls, read_record(path), where=path), len(cls.names)
        if weights.numbers != [*cls.names]:
            raise UserError(f"{path}: no judge, or one of other numbers of a pair; fit it anew")
        if weights.tables != digest_of_tables():
            raise UserError(f"{path}: fitted on other opposites or classes of words than these; fit it anew")
        sizes = [len(weights.mean), len(weights.deviation), len(weights.weight)]
        if sizes != [count, count, 1 + count + count * (count + 1) // 2]:
            raise UserError(f"{path}: its weights do not fit its numbers; fit it anew")
        return weights


def _newton(
    design_nW: Floats,
    label_n: NDArray[np.number],
    share_n: Floats,
    ridge_W: Floats,
    centre_W: Floats,
    start_W: Floats | None = None,
) -> Floats:
    """Return the weights of least logistic loss plus half the ridge on their squared distance to a centre."""

    def loss(weight_W: Floats) -> float:
        score_n = design_nW @ weight_W
        distance_W = weight_W - centre_W
        loss_n = share_n * (np.logaddexp(0, score_n) - label_n * score_n)
        return float(loss_n.sum() + ridge_W @ distance_W**2 / 2)

    weight_W = centre_W if start_W is None else start_W
    for _ in range(30):  # steps of Newton's method at most
        probability_n = expit(design_nW @ weight_W)
        gradient_W = design_nW.T @ (share_n * (label_n - probability_n)) - ridge_W * (weight_W - centre_W)
        variance_n = share_n * probability_n * (1 - probability_n)
        hessian_WW = (design_nW * variance_n[:, None]).T @ design_nW + np.diag(ridge_W)
        step_W, before = np.linalg.solve(hessian_WW, gradient_W), loss(weight_W)
        while loss(weight_W + step_W) > before and np.abs(step_W).max() >= 1e-6:
            step_W = step_W / 2  # a whole step may overshoot where the judge was sure and wrong
        weight_W = weight_W + step_W
        if np.abs(step_W).max() < 1e-6:
            break
    return weight_W


def digest_of_tables() -> str:
    """Return the digest of the tables that decide a pair's numbers.

    Those of :mod:`multiview.judge.typed` and :mod:`multiview.judge.certain` are left out: few of the texts
    that judges were fitted on have such forms, and what is certain changes no number.
    """
    from multiview.judge import facts  # here, as they import torch
    from multiview.structure import negation, poles
    from parsing.trees.role_rules import TABLES

    rules = [negation.TABLES, (poles.known_opposites().rows, *poles.TABLES), facts.TABLES]
    return json_digest([*NUMBERS, VERSION, repr(rules), repr(TABLES)], 16)


def _is_plain(value: Any, levels: int = 0) -> bool:
    """Tell whether JSON gives a value back as it is."""
    if isinstance(value, Mapping):
        value, keys = [*value.values()], [*value]
        return all(isinstance(key, str) for key in keys) and _is_plain(value, levels)
    if isinstance(value, list | tuple):
        return levels < MAX_LEVELS and all(_is_plain(part, levels + 1) for part in value)
    return isinstance(value, str | int | float | None)


def _design(numbers_nF: Floats, mean_F: Floats, deviation_F: Floats) -> Floats:
    """Bring the numbers to one scale, and add 1 and their products: [n, W]."""
    scaled_nF = np.clip((numbers_nF - mean_F) / deviation_F, -5, 5)
    left, right = np.triu_indices(len(mean_F))
    return np.column_stack([np.ones(len(scaled_nF)), scaled_nF, scaled_nF[:, left] * scaled_nF[:, right]])
