"""The judge: :class:`Judge` takes pairs of sentences, and returns a :class:`Judgement` of each.

Legend of dimension suffixes: n pairs, F features of a pair, D size of a vector.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from corpora.sentences import describe_value, read_elements, read_pairs
from multiview.judge.checks import Checks
from multiview.judge.limits import Limits
from multiview.judge.long_texts import Text
from multiview.judge.pair_reading import read_features
from multiview.judge.similarity import ComparedPairs, SimilarityWeights, weights_of
from multiview.judge.thresholds import Threshold, choose_threshold
from multiview.judge.weights import FEATURES, SLOTS, THRESHOLD, Weights
from runtime.cli import LOGGER
from runtime.errors import UserError, is_number
from runtime.files import path_of
from runtime.process import cached_property, loading

if TYPE_CHECKING:  # these modules import torch
    from multiview.folder.reading import TextSource
    from multiview.judge.reasons import Reason

JUDGE_FOLDER = Path(__file__).parent
"""The folder of the judges in the package."""
UNHEEDED = " (but the judge takes both to say the same: look at this pair)"
"""The text that follows a reason of the kind opposite, if the judge accepts the pair all the same."""


@dataclass(frozen=True)
class Judgement:
    """The judgement of one pair; ``str`` returns the probability and the reasons as text."""

    a: Text
    b: Text
    probability: float
    """The probability that both sentences say the same."""
    numbers: dict[str, float] = field(hash=False)
    """The features of the pair, by the names in :data:`FEATURES`."""
    _compared_pairs: ComparedPairs = field(repr=False, compare=False)
    _pair: int = field(repr=False, compare=False)
    threshold: float = THRESHOLD
    """The threshold of the judge: from this probability on it takes both sentences to say the same."""

    @property
    def same(self) -> bool:
        """Whether the judge takes both sentences to say the same: the probability reaches the threshold."""
        return self.probability >= self.threshold

    @property
    def similarity(self) -> float:
        """How alike both sentences are, from 0 to 1.

        The first access computes the similarities of all pairs that were judged in the same call.
        """
        return float(self._compared_pairs.similarities.similarity_n[self._pair])

    @property
    def slots(self) -> dict[str, float]:
        """The cosine of each slot that both sentences fill, such as agent; computed as ``similarity`` is."""
        cosines = self._compared_pairs.similarities.slot_nL[self._pair].tolist()
        return {slot: min(cosine, 1.0) for slot, cosine in zip(SLOTS, cosines, strict=True) if cosine}

    @cached_property
    def reasons(self) -> list[Reason]:
        """The differences of the two sentences, sorted by :data:`multiview.judge.reasons.ORDER`."""
        with loading():
            from multiview.judge.reasons import reasons_of

        pairs = self._compared_pairs
        return reasons_of(pairs.comparison, self._pair, pairs.limits.differences[self._pair])

    @property
    def shown_reasons(self) -> list[str]:
        """The reasons as text; an opposite is marked if the judge takes both sentences to say the same."""
        return [
            f"{reason}{UNHEEDED if self.same and reason.kind == 'opposite' else ''}"
            for reason in self.reasons
        ]

    def __str__(self) -> str:
        verdict = f"{self.probability:.2f} that both say the same"
        return "\n".join([verdict, *(f"  {reason}" for reason in self.shown_reasons)])


class Judge:
    """Judges whether two sentences say the same.

    Args:
        weights: the fitted weights.
        encoder: its ``encode(list of str) -> [n, D]`` gives the vectors whose cosine is the topic; by default
            these are sums of word vectors. The weights must have been fitted with the same encoder.
        source: an encoder of this package that parses the sentences and has the vectors of the words, by
            default ``builtin``.
        similarity: the weights of similarity, as in :meth:`load`.

    >>> judge = Judge.load()
    >>> judge("The lawyer praised the doctor.", "The doctor praised the lawyer.").same
    False
    """

    def __init__(
        self, weights: Weights, encoder: Any = None, source: Any = None, similarity: str | Path = "free"
    ) -> None:
        self.weights, self.encoder, self._similarity = weights, encoder, similarity
        self.source = _source_for(encoder, source)

    @cached_property
    def similarity_weights(self) -> SimilarityWeights:
        """The weights of how alike two sentences are, loaded at the first access."""
        return weights_of(self._similarity)

    @classmethod
    @loading()
    def load(
        cls,
        name: str | Path = "pairs",
        *,
        encoder: Any = None,
        source: Any = None,
        similarity: str | Path = "free",
    ) -> Self:
        """Load a judge of the package, or one that :meth:`save` wrote.

        Raises UserError if a file is missing or damaged, or if its encoder was of another class.

        Args:
            name: ``pairs``; ``pairs-with-mrpc``, for research only; or a JSON file.
            encoder: computes the topic, if the judge was fitted with an encoder.
            source: parses the sentences and has the vectors of the words, by default ``builtin``.
            similarity: the weights of similarity: ``free``; ``rated``, for research only; or a JSON file.
        """
        judge = cls(load_weights(name, encoder), encoder, source, similarity)
        if similarity != "free":
            _ = judge.similarity_weights  # loaded now, so that a bad file is refused here
        return judge

    @classmethod
    def fit(
        cls,
        pairs: Iterable[Sequence[Any]],
        labels: Sequence[object],
        *,
        encoder: Any = None,
        source: Any = None,
        pull: float | None = None,
        about: dict[str, Any] | None = None,
    ) -> Self:
        """Fit a judge to pairs of one's own, in seconds, beginning with the weights of ``pairs``.

        The package's checks (:meth:`broken_checks`) that the new judge loses are logged. Raises UserError if
        an argument is wrong.

        Args:
            pairs: the pairs of sentences.
            labels: a label for each pair, 1 or True if both sentences say the same, else 0; both must occur.
            encoder: computes the topic; by default sums of word vectors do.
            source: parses the sentences and has the vectors of the words, by default ``builtin``.
            pull: the strength, from 1e-6 to 1e9, of the ridge that draws the weights towards those of
                ``pairs``. By default cross-validation chooses it (:meth:`Weights.fit_on`), and a stronger one
                is taken as long as more than one check would be lost.
            about: is written to the judge's file, and may name data and licences.
        """
        pair_list, label_list = _read_labelled(pairs, labels, "Judge.fit")
        if pull is not None and not is_number(pull, 1e-6, 1e9):
            raise UserError(f"Judge.fit: pull: {describe_value(pull)} is not from 1e-6 to 1e9")
        if not isinstance(about or {}, Mapping):
            raise UserError(f"Judge.fit: about: {describe_value(about)} is no mapping")
        source = _source_for(encoder, source)
        _, features_nF = read_features(pair_list, source, encoder)
        start = Weights.load(JUDGE_FOLDER / "pairs.json")
        if encoder is not None:
            start = start.with_scale_of("topic", features_nF)
        about = {**(about or {}), "encoder": _name_of(encoder), "pairs": len(pair_list), "start": start.about}
        checks = Checks.read(source, encoder)
        weights = checks.fit(start, features_nF, np.array(label_list), pull=pull, about=about)
        for check in weights.about["broken checks"]:
            logging.getLogger(LOGGER).warning(
                "Judge.fit: what the judge in the package knows is lost: %s", check
            )
        return cls(weights, encoder, source)

    def broken_checks(self) -> list[str]:
        """Return those of the package's checks on which this judge is wrong.

        The checks are sixty plain pairs: sentences in another form, opposites, exchanged words, passives,
        negation. A judge is wrong if the probability is on the other side of :data:`THRESHOLD` than the
        label. The judge's own threshold is not used, because the checks measure what the weights know: a
        threshold that was chosen for a high precision rejects pairs that say the same on purpose.
        """
        return Checks.read(self.source, self.encoder).broken_by(self.weights)

    def choose_threshold(
        self, pairs: Iterable[Sequence[Any]], labels: Sequence[object], *, precision: float = 0.99
    ) -> Threshold:
        """Choose, set and return a threshold that accepts pairs with the given precision.

        The pairs should come from the use of the judge: for a semantic cache, they are pairs that it finds by
        cosine. The threshold is chosen on one half of the pairs, and its precision is counted on the other
        half. From then on it decides :attr:`Judgement.same`, and :meth:`save` writes it. Raises UserError if
        the pairs do not show this precision; the message says what they show.

        Args:
            pairs: the pairs of sentences.
            labels: a label for each pair, 1 or True if both sentences say the same, else 0; both must occur.
            precision: the share of the accepted pairs that say the same, from 0.5 to below 1.
        """
        caller = "judge.choose_threshold"
        pair_list, label_list = _read_labelled(pairs, labels, caller)
        if not isinstance(precision, Real) or not 0.5 <= precision < 1:
            raise UserError(f"{caller}: precision: {describe_value(precision)} is not in [0.5, 1)")
        probability_n = np.array([judgement.probability for judgement in self.pairs(pair_list)])
        found = choose_threshold(probability_n, np.array(label_list) > 0, float(precision))
        about = {**self.weights.about, "threshold": {"precision": float(precision), **found._asdict()}}
        self.weights = replace(self.weights, about=about)
        return found

    def save(self, path: Path | str) -> None:
        """Write the judge as JSON, without the encoder."""
        self.weights.save(path_of(path, "judge"))

    def __call__(self, a: Any, b: Any) -> Judgement:
        """Judge two sentences, strings or tokens."""
        return self.pairs([(a, b)])[0]

    def similarity(self, a: Any, b: Any) -> float:
        """Return how alike two sentences are, from 0 to 1; their order does not matter.

        A sentence and itself have 1, and a sentence without words has 0 with any other. This is
        ``judge(a, b).similarity``; the judgement also has the reasons and the slots.
        """
        return self(a, b).similarity

    def pairs(self, pairs: Iterable[Sequence[Any]]) -> list[Judgement]:
        """Judge pairs of sentences, each of which is a string or a list of tokens.

        A sentence and itself always have probability 1, and a sentence without words has 0 with any other
        (:class:`multiview.judge.limits.Limits`). Raises UserError if an element of ``pairs`` is not a pair.
        """
        pair_list = read_pairs(pairs, "judge")
        if not pair_list:
            return []
        comparison, features_nF = read_features(pair_list, self.source, self.encoder)
        limits = Limits.of(pair_list, comparison)
        probability_n = limits.limit(self.weights.probabilities(features_nF))
        features = [dict(zip(FEATURES, row_F, strict=True)) for row_F in features_nF.tolist()]
        compared_pairs = ComparedPairs(
            pair_list, comparison, features_nF, limits, self.source, lambda: self.similarity_weights
        )
        return [
            Judgement(
                a, b, float(probability_n[pair]), features[pair], compared_pairs, pair, self.weights.threshold
            )
            for pair, (a, b) in enumerate(pair_list)
        ]


def load_weights(name: str | Path, encoder: Any = None) -> Weights:
    """Load the weights of a judge of the package, or those of a file, for use with ``encoder``.

    Raises UserError if the file is missing or damaged, or if their encoder was of another class.
    """
    weights = Weights.load_named(name, JUDGE_FOLDER, "judge")
    fitted_beside, present = weights.about.get("encoder", ""), _name_of(encoder)
    if fitted_beside != present:
        fault = f"was fitted beside {fitted_beside or 'no encoder'}, not {present or 'none'}"
        advice = "give it that" if fitted_beside else "leave out encoder="
        raise UserError(f"judge {name}: {fault}; {advice}")
    return weights


def _read_labelled(
    pairs: Iterable[Sequence[Any]], labels: Sequence[object], caller: str
) -> tuple[list[tuple[Text, Text]], list[int]]:
    """Return the pairs and their labels, 0 or 1.

    Raises UserError, which begins with ``caller``, if an element is not a pair, a label is neither 0 nor 1,
    the numbers of pairs and labels differ, or all labels are equal.
    """
    pair_list, label_list = read_pairs(pairs, caller), read_elements(labels, caller, "labels")
    for index, label in enumerate(label_list):
        if not isinstance(label, Real | np.bool_) or label not in (0, 1):
            raise UserError(f"{caller}: label {index}, {describe_value(label)}, is neither 0 nor 1")
    whole_labels = [int(label) for label in label_list]
    if len(whole_labels) != len(pair_list) or len(set(whole_labels)) < 2:
        raise UserError(f"{caller}: labels: one for each pair, 0 or 1, and both must occur")
    return pair_list, whole_labels


@loading()
def _source_for(encoder: Any, source: Any) -> TextSource:
    """Return what parses the sentences. Raises UserError if ``encoder`` or ``source`` is not an encoder."""
    from multiview.folder.reading import TextSource
    from multiview.libraries.arrays import check_encoder

    if encoder is not None:
        check_encoder(encoder, "judge")
    return TextSource.of(source, "judge")


def _name_of(encoder: Any) -> str:
    """Return the encoder's name in the files of judges: its class, "" for None."""
    return "" if encoder is None else type(encoder).__name__
