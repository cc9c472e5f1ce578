"""The weights of a judge: a logistic regression of the pair's features, their squares and their products.

Legend of dimension suffixes: n pairs, F features of a pair, W weights, P strengths of the ridge.
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
FEATURES: Mapping[str, str] = {
    "topic": "cosine of the sums of words, rare ones weighing more; or that of another encoder",
    "arcs": "share of arcs that both have: the lawyer praised | the lawyer praised",
    "turned arcs": "share of arcs that both have with another sign: he came | he did not come",
    "other fillers": "share of places that are filled otherwise: the lawyer praised | the doctor praised",
    "moved": "share of arcs whose dependent has another place: he praised the doctor | the doctor praised",
    "words": "share of content words that both have: a red hat | a red coat",
    "every word": "share of all words that both have, function words too: a red hat | the red hat",
    "rare words": "share of words in common, rare ones weighing more, the less of both: he came | Tom came",
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
"""The features of a pair, each with what it counts and an example."""
SLOTS: Mapping[str, float] = {
    "agent": 1,
    "patient": 1,
    "predicate": 1,
    "place": 0.7,
    "attribute of agent": 0.5,
    "attribute of patient": 0.5,
    "other attribute": 0.5,
    "adverb": 0.4,
    "rest": 0.5,
}
"""The slots of a sentence, each with its weight in the mean cosine of all slots."""
MAX_LEVELS = 20
"""The greatest depth to which the JSON of ``about`` may be nested."""
THRESHOLD = 0.5
"""The threshold of a judge for which :meth:`multiview.judge.judge.Judge.choose_threshold` has found none."""
FOLDS = 5
"""The number of folds of the cross-validation that chooses among :data:`PULLS`."""
MIN_SLOPE = 0.1
"""The least slope by which :meth:`Weights.fit_on` multiplies the score of the weights that it begins with.

The fitted weights are divided by the slope. Without a bound it would be 0, or negative, for pairs that the
first weights tell apart no better than chance.
"""
PULLS = (10_000.0, 3000.0, 1000.0, 300.0, 100.0, 30.0)
"""The strengths of the ridge that :meth:`Weights.fit_on` tries, the strongest first."""
MIN_DEVIATION = 1e-5
"""A feature with a smaller standard deviation is taken for a constant that varies by rounding."""
NAMES_KEY = "numbers"
"""The key of ``feature_names`` in a judge's JSON file, in which all other fields are keys themselves."""
_Bounded = Annotated[float, Ge(-1e9), Le(1e9)]


@configuration
class Weights:
    """A fitted logistic regression with a record of its data. Its fields are the keys of a judge's JSON file.

    There are weights for 1, for the features, and for the products of two features (or of a feature with
    itself): W = 1 + F + F (F + 1) / 2.
    """

    required_features: ClassVar[tuple[str, ...]] = tuple(FEATURES)
    """The names of the F features that weights of this class read, in this order."""
    feature_names: list[str]
    """The names of the features in the file, which :meth:`load` compares with ``required_features``."""
    mean: list[_Bounded]
    """The mean of each feature over the fitted pairs, [F]."""
    deviation: list[Annotated[float, Ge(1e-6), Le(1e9)]]
    """The standard deviation of each feature, [F]: 1 if the feature is constant in the fit, and at least
    :data:`MIN_DEVIATION` where :meth:`with_scale_of` gave the feature another scale."""
    weight: list[_Bounded]
    """[W]."""
    tables: str
    """The :func:`digest_of_tables` of the fit."""
    about: dict[str, Any]
    """Data, licences, the encoder whose cosine is the topic, and the threshold if one was found."""

    @property
    def threshold(self) -> float:
        """The threshold that ``Judge.choose_threshold`` found, else :data:`THRESHOLD`.

        The judge takes both sentences to say the same if the probability is not below it.
        """
        found = self.about.get("threshold")
        value = found.get("threshold") if isinstance(found, Mapping) else None
        return value if isinstance(value, float) and 0 <= value <= 1 else THRESHOLD

    @classmethod
    def fit(
        cls,
        features_nF: Floats,
        label_n: NDArray[np.number],
        pair_weight_n: Floats | None = None,
        *,
        strength: float,
        about: dict[str, Any] | None = None,
    ) -> Self:
        """Fit weights to pairs by Newton's method.

        Args:
            features_nF: the features of the pairs.
            label_n: the labels, or grades from 0 to 1.
            pair_weight_n: how much each pair counts; by default all count the same.
            strength: the strength of the L2 penalty, for a thousand pairs.
            about: the record of the data.
        """
        pair_weight_n = np.ones(len(label_n)) if pair_weight_n is None else pair_weight_n
        pair_weight_n = pair_weight_n * (1000 / pair_weight_n.sum())
        mean_F, deviation_F = features_nF.mean(axis=0), features_nF.std(axis=0)
        deviation_F = np.where(deviation_F > MIN_DEVIATION, deviation_F, 1)
        design_nW = _design(features_nF, mean_F, deviation_F)
        ridge_W = np.full(design_nW.shape[1], strength)
        ridge_W[0] = 1e-6
        weight_W = _newton(design_nW, label_n, pair_weight_n, ridge_W, np.zeros_like(ridge_W))
        mean, deviation, weight = (np.round(x, 6).tolist() for x in (mean_F, deviation_F, weight_W))
        return cls(
            feature_names=[*cls.required_features],
            mean=mean,
            deviation=deviation,
            weight=weight,
            tables=digest_of_tables(),
            about=about or {},
        )

    def with_scale_of(self, name: str, features_nF: Floats) -> Self:
        """Return these weights with the mean and deviation that the feature ``name`` has in other pairs.

        The feature may be of another scale there, as the topic is if another encoder computes it.
        """
        index, mean, deviation = self.feature_names.index(name), [*self.mean], [*self.deviation]
        mean[index] = float(features_nF[:, index].mean())
        deviation[index] = max(float(features_nF[:, index].std()), MIN_DEVIATION)
        return replace(self, mean=mean, deviation=deviation)

    def fit_on(
        self,
        features_nF: Floats,
        label_n: NDArray[np.number],
        *,
        pull: float | None = None,
        about: dict[str, Any] | None = None,
    ) -> Self:
        """Return weights that are fitted to other pairs, with a ridge that draws them towards these weights.

        The base rate of the pairs is not learnt, because it would shift the probabilities of other kinds of
        pairs. Therefore an intercept and a slope of the whole score are fitted first, held fixed while the
        weights are fitted, and then left out.

        Args:
            features_nF: the features of the pairs.
            label_n: the labels, or grades from 0 to 1.
            pull: the strength of the ridge. By default cross-validation takes the strongest of :data:`PULLS`
                whose logistic loss on held-out pairs is within two standard errors of the least.
            about: the record of the data.
        """
        design_nW = _design(features_nF, np.array(self.mean), np.array(self.deviation))
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
        """Return the weights for each strength of the ridge, [P, W], and the level and slope that they lack.

        The score of a pair in the fit is level + slope * (the score by the returned weights).
        """
        pair_weight_n, own_W = np.ones(len(label_n)), np.array(self.weight)
        design_n2 = np.column_stack([pair_weight_n, design_nW @ own_W])
        level, slope = _newton(design_n2, label_n, pair_weight_n, np.ones(2), np.array([0.0, 1.0])).tolist()
        slope = max(slope, MIN_SLOPE)
        level_W = level * (np.arange(len(own_W)) == 0)
        weight_W = centre_W = slope * own_W + level_W
        path = []
        for pull in pulls:  # Newton's method starts from the weights of the stronger pull before
            ridge_W = np.full(len(own_W), pull)
            weight_W = _newton(design_nW, label_n, pair_weight_n, ridge_W, centre_W, weight_W)
            path.append((weight_W - level_W) / slope)
        return np.array(path), level, slope

    def probabilities(self, features_nF: Floats) -> Floats:
        """Return the probability that both sentences say the same, [n]."""
        design_nW = _design(features_nF, np.array(self.mean), np.array(self.deviation))
        probability_n: Floats = expit(design_nW @ np.array(self.weight))
        return probability_n

    def save(self, path: Path) -> None:
        """Write the weights as JSON. Raises UserError if ``path`` or ``about`` cannot be written."""
        path = output_file(path_of(path, "judge"))
        if not _is_json(self.about):
            raise UserError(
                f"{path}: what the judge is about is no JSON, or nested more than {MAX_LEVELS} times: keys "
                "are text, values text, numbers, lists and mappings of these"
            )
        try:
            record = asdict(self)
            write_record(path, {NAMES_KEY: record.pop("feature_names"), **record})
        except (TypeError, ValueError) as error:
            raise UserError(f"{path}: what the judge is about is no JSON ({error})") from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read weights from a file that :meth:`save` wrote.

        Raises UserError if the file is missing or damaged, or if its weights are for other features or
        tables.
        """
        record, count = read_record(path), len(cls.required_features)
        record = {"feature_names" if key == NAMES_KEY else key: value for key, value in record.items()}
        weights = config_from_json(cls, record, where=path)
        if weights.feature_names != [*cls.required_features]:
            raise UserError(f"{path}: was fitted to other features of pairs than these; fit it anew")
        if weights.tables != digest_of_tables():
            raise UserError(f"{path}: was fitted with other tables of opposites or word classes; fit it anew")
        sizes = [len(weights.mean), len(weights.deviation), len(weights.weight)]
        if sizes != [count, count, 1 + count + count * (count + 1) // 2]:
            raise UserError(f"{path}: its weights do not fit its features; fit it anew")
        return weights

    @classmethod
    def load_named(cls, name: str | Path, folder: Path, kind: str) -> Self:
        """Load the weights ``name`` of a folder of the package or, if it has none of this name, of a file.

        Error messages call the file a ``kind``. Raises UserError as :meth:`load` does.
        """
        files = {file.stem: file for file in folder.glob("*.json")}
        return cls.load(files.get(str(name)) or path_of(name, kind))


def _newton(
    design_nW: Floats,
    label_n: NDArray[np.number],
    pair_weight_n: Floats,
    ridge_W: Floats,
    centre_W: Floats,
    start_W: Floats | None = None,
) -> Floats:
    """Return the weights that minimise a logistic loss with a ridge, [W], by Newton's method.

    The loss is the sum of ``pair_weight_n`` times the logistic loss of each pair, plus half the sum of
    ``ridge_W`` times the squared distance of each weight from ``centre_W``.
    """

    def loss(weight_W: Floats) -> float:
        score_n = design_nW @ weight_W
        distance_W = weight_W - centre_W
        loss_n = pair_weight_n * (np.logaddexp(0, score_n) - label_n * score_n)
        return float(loss_n.sum() + ridge_W @ distance_W**2 / 2)

    weight_W = centre_W if start_W is None else start_W
    for _ in range(30):  # a bound on the steps; far fewer are usual
        probability_n = expit(design_nW @ weight_W)
        error_n = pair_weight_n * (label_n - probability_n)
        gradient_W = design_nW.T @ error_n - ridge_W * (weight_W - centre_W)
        variance_n = pair_weight_n * probability_n * (1 - probability_n)
        hessian_WW = (design_nW * variance_n[:, None]).T @ design_nW + np.diag(ridge_W)
        step_W, before = np.linalg.solve(hessian_WW, gradient_W), loss(weight_W)
        while loss(weight_W + step_W) > before and np.abs(step_W).max() >= 1e-6:
            step_W = step_W / 2  # a whole step may overshoot if the first weights are sure of a wrong label
        weight_W = weight_W + step_W
        if np.abs(step_W).max() < 1e-6:
            break
    return weight_W


def digest_of_tables() -> str:
    """Return the digest of the tables that decide a pair's features: word classes, opposites and rules.

    The tables of :mod:`multiview.judge.one_form` are left out, because few of the texts that judges were
    fitted on have forms that it rewrites. Those of :mod:`multiview.judge.limits` are left out, because they
    limit probabilities and change no feature.
    """
    from multiview.judge import facts  # imported here, because these modules import torch
    from multiview.structure import negation, poles
    from parsing.trees.role_rules import TABLES

    rules = [negation.TABLES, (poles.known_opposites().rows, *poles.TABLES), facts.TABLES]
    return json_digest([*FEATURES, VERSION, repr(rules), repr(TABLES)], 16)


def _is_json(value: Any, levels: int = 0) -> bool:
    """Tell whether a value can be written as JSON, nested at most :data:`MAX_LEVELS` times."""
    if isinstance(value, Mapping):
        value, keys = [*value.values()], [*value]
        return all(isinstance(key, str) for key in keys) and _is_json(value, levels)
    if isinstance(value, list | tuple):
        return levels < MAX_LEVELS and all(_is_json(part, levels + 1) for part in value)
    return isinstance(value, str | int | float | None)


def _design(features_nF: Floats, mean_F: Floats, deviation_F: Floats) -> Floats:
    """Return a column of ones, the standardised features, and their products: [n, W]."""
    scaled_nF = np.clip((features_nF - mean_F) / deviation_F, -5, 5)
    left, right = np.triu_indices(len(mean_F))
    return np.column_stack([np.ones(len(scaled_nF)), scaled_nF, scaled_nF[:, left] * scaled_nF[:, right]])
