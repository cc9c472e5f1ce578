"""Do two sentences say the same? A probability, and reasons, without a transformer.

    from multiview.judge import Judge

    judge = Judge.load()
    print(judge("How do I enable 2FA?", "How do I disable 2FA?"))

    python -m multiview.judge "How do I enable 2FA?" "How do I disable 2FA?"
    python -m multiview.judge pairs.tsv

The judge is a logistic regression of the pair's numbers (:data:`NUMBERS`), their squares and their products.
It reads English only. A file has two sentences a row, with a tab between them; for each row the command
prints the probability, both sentences and the reasons.

Legend of dimension suffixes: n pairs, F numbers of a pair, W weights.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from annotated_types import Ge, Le
from numpy.typing import NDArray
from scipy.special import expit
from tyro.conf import Positional, arg

from corpora.inputs import read_rows
from corpora.sentences import describe_value, read_elements, read_pairs
from runtime.cli import Command, config_from_json, configuration
from runtime.errors import UserError
from runtime.files import output_file, path_of, read_record, write_record

if TYPE_CHECKING:  # they import torch
    from multiview.comparison.facts import PairFacts
    from multiview.comparison.reasons import Reason
    from multiview.model import MultiViewEncoder

Text = str | tuple[str, ...]
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
    "opposites": "words opposed to words of the other: good | bad; good | not good; on | off",
    "agreeing": "words that agree with words of the other: not good | bad",
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
"""The numbers of a pair, each with its meaning and an example."""
JUDGE_FOLDER = Path(__file__).with_name("judges")
"""The folder of the judges in the package."""
STRENGTH = 5.0
"""Strength of the ridge, for a thousand pairs."""
MIN_DEVIATION = 1e-5
"""Numbers that vary less are always the same but for rounding."""
BATCH = 512
_Number = Annotated[float, Ge(-1e9), Le(1e9)]


@configuration
class Weights:
    """A fitted logistic regression, and what it was fitted on, as the file of a judge has them.

    The deviation of a number that is always the same is 1. There are weights for 1, for the numbers, and for
    the products of two of them: W = 1 + F + F (F + 1) / 2.
    """

    numbers: list[str]
    mean: list[_Number]
    deviation: list[Annotated[float, Ge(1e-6), Le(1e9)]]
    weight: list[_Number]
    about: dict[str, Any]
    """Data, licences and the encoder of the meanings."""

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
        weight_W, ridge_W = np.zeros(design_nW.shape[1]), np.full(design_nW.shape[1], strength)
        ridge_W[0] = 1e-6
        for _ in range(30):  # steps of Newton's method at most
            chance_n = expit(design_nW @ weight_W)
            gradient_W = design_nW.T @ (share_n * (label_n - chance_n)) - ridge_W * weight_W
            variance_n = share_n * chance_n * (1 - chance_n)
            hessian_WW = (design_nW * variance_n[:, None]).T @ design_nW + np.diag(ridge_W)
            step_W = np.linalg.solve(hessian_WW, gradient_W)
            weight_W += step_W
            if np.abs(step_W).max() < 1e-6:
                break
        mean, deviation, weight = (np.round(x, 6).tolist() for x in (mean_F, deviation_F, weight_W))
        return cls(numbers=[*NUMBERS], mean=mean, deviation=deviation, weight=weight, about=about or {})

    def probabilities(self, numbers_nF: Floats) -> Floats:
        """Return the probability that both sentences say the same, [n]."""
        design_nW = _design(numbers_nF, np.array(self.mean), np.array(self.deviation))
        chance_n: Floats = expit(design_nW @ np.array(self.weight))
        return chance_n

    def save(self, path: Path) -> None:
        """Write JSON; a UserError says that no file can have that name, or that ``about`` is no JSON."""
        path = output_file(path_of(path, "judge"))
        try:
            write_record(path, asdict(self))
        except (TypeError, ValueError) as error:
            raise UserError(f"{path}: what the judge is about is no JSON ({error})") from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote; a file that is missing or holds something else is a UserError."""
        weights, count = config_from_json(cls, read_record(path), where=path), len(NUMBERS)
        if weights.numbers != [*NUMBERS]:
            raise UserError(f"{path}: no judge, or one of other numbers of a pair; fit it anew")
        sizes = [len(weights.mean), len(weights.deviation), len(weights.weight)]
        if sizes != [count, count, 1 + count + count * (count + 1) // 2]:
            raise UserError(f"{path}: its weights do not fit its numbers; fit it anew")
        return weights


def _design(numbers_nF: Floats, mean_F: Floats, deviation_F: Floats) -> Floats:
    """Bring the numbers to one scale, and add 1 and their products: [n, W]."""
    scaled_nF = np.clip((numbers_nF - mean_F) / deviation_F, -5, 5)
    left, right = np.triu_indices(len(mean_F))
    return np.column_stack([np.ones(len(scaled_nF)), scaled_nF, scaled_nF[:, left] * scaled_nF[:, right]])


def read_numbers(
    pairs: Sequence[tuple[Text, Text]], source: MultiViewEncoder, encoder: Any = None
) -> tuple[PairFacts, Floats]:
    """Parse the sentences of pairs, each once, and return their facts and the pairs' numbers, [n, F]."""
    import torch

    from multiview.comparison.facts import read_pairs
    from multiview.comparison.pair_numbers import compute_numbers
    from multiview.pretrained import check_vectors, unit_rows
    from runtime.device import torch_threads

    places: dict[Text, int] = {}
    place_n2 = np.array([[places.setdefault(text, len(places)) for text in pair] for pair in pairs], np.int64)
    texts = list(places)
    with torch.inference_mode(), torch_threads(1):
        facts = read_pairs(source.reader.batches(texts, {"tokens", "dep"}, None, BATCH), place_n2)
        numbers = compute_numbers(facts, source.members[0].network.words)
    if encoder is not None:
        strings = [text if isinstance(text, str) else " ".join(text) for text in texts]
        vectors = unit_rows(check_vectors(encoder.encode(strings), strings, type(encoder).__name__)[0])
        numbers["topic"] = np.einsum("nd,nd->n", *vectors[place_n2.T])
    return facts, np.column_stack([numbers[name] for name in NUMBERS]).astype(np.float64)


@dataclass(frozen=True)
class Judgement:
    """The judgement of one pair; it prints as text."""

    a: Text
    b: Text
    probability: float
    """The probability that both say the same."""
    numbers: dict[str, float] = field(hash=False)
    """The pair's numbers, by the names in :data:`NUMBERS`."""
    _facts: PairFacts = field(repr=False, compare=False)
    _pair: int = field(repr=False, compare=False)

    @cached_property
    def reasons(self) -> list[Reason]:
        """Where the two sentences differ, what turns the sense first."""
        from multiview.comparison.reasons import reasons_of

        return reasons_of(self._facts, self._pair)

    def __str__(self) -> str:
        verdict = f"{self.probability:.2f} that both say the same"
        return "\n".join([verdict, *(f"  {reason}" for reason in self.reasons)])


class Judge:
    """Judges whether two sentences say the same.

    ``source``, ``builtin`` by default, parses the sentences and has the vectors of the words. ``encoder``
    computes the meanings by ``encode(list of str) -> [n, D]``; without one they are the sums of the words.
    """

    def __init__(self, weights: Weights, encoder: Any = None, source: MultiViewEncoder | None = None) -> None:
        self.weights, self.encoder = weights, encoder
        self.source = _source_for(encoder, source)

    @classmethod
    def load(
        cls, name: str | Path = "pairs", *, encoder: Any = None, source: MultiViewEncoder | None = None
    ) -> Self:
        """Load the judge in the package, ``pairs``, its twin ``pairs-without-mrpc``, or the file of another.

        A file that is missing, and a judge that was fitted beside another encoder, are a UserError.
        """
        path = path_of(name, "judge")
        judges_in_package = {file.stem: file for file in JUDGE_FOLDER.glob("*.json")}
        weights = Weights.load(judges_in_package.get(str(path), path))
        fitted_beside, present = weights.about.get("encoder", ""), _name_of(encoder)
        if fitted_beside != present:
            fault = f"was fitted beside {fitted_beside or 'no encoder'}, not {present or 'none'}"
            raise UserError(f"judge {name}: {fault}; give it that")
        return cls(weights, encoder, source)

    @classmethod
    def fit(
        cls,
        pairs: Iterable[Sequence[Any]],
        labels: Sequence[object],
        *,
        encoder: Any = None,
        source: MultiViewEncoder | None = None,
        strength: float = STRENGTH,
        about: dict[str, Any] | None = None,
    ) -> Self:
        """Fit a judge to pairs of one's own, in seconds.

        There is a label for each pair: 1 or True where both say the same, else 0; both must occur. ``about``
        goes into the judge's file and may name data and licences. ``strength`` is that of the ridge for a
        thousand pairs, from 1e-6 to 1e9. A UserError names the argument that is wrong.
        """
        pair_list, label_list = read_pairs(pairs, "Judge.fit"), read_elements(labels, "Judge.fit", "labels")
        for number, label in enumerate(label_list):
            if not isinstance(label, Real | np.bool_) or label not in (0, 1):
                raise UserError(f"Judge.fit: label {number}, {describe_value(label)}, is neither 0 nor 1")
        if len(label_list) != len(pair_list) or len({int(label) for label in label_list}) < 2:
            raise UserError("Judge.fit: labels: one for each pair, 0 or 1, and both must occur")
        if not isinstance(strength, Real) or not 1e-6 <= strength <= 1e9:
            raise UserError(f"Judge.fit: strength: {describe_value(strength)} is not from 1e-6 to 1e9")
        if not isinstance(about or {}, Mapping):
            raise UserError(f"Judge.fit: about: {describe_value(about)} is no mapping")
        source = _source_for(encoder, source)
        _, numbers_nF = read_numbers(pair_list, source, encoder)
        about = {**(about or {}), "encoder": _name_of(encoder), "pairs": len(pair_list)}
        label_n = np.array([int(label) for label in label_list])
        weights = Weights.fit(numbers_nF, label_n, strength=float(strength), about=about)
        return cls(weights, encoder, source)

    def save(self, path: Path | str) -> None:
        """Write the judge as JSON, without the encoder."""
        self.weights.save(path_of(path, "judge"))

    def __call__(self, a: Any, b: Any) -> Judgement:
        """Judge two sentences, strings or tokens."""
        return self.pairs([(a, b)])[0]

    def pairs(self, pairs: Iterable[Sequence[Any]]) -> list[Judgement]:
        """Judge pairs of sentences, each a string or tokens.

        By rule a sentence says the same as itself, and one without words says the same as no other. A
        UserError names what is no pair.
        """
        pair_list = read_pairs(pairs, "judge")
        if not pair_list:
            return []
        pair_facts, numbers_nF = read_numbers(pair_list, self.source, self.encoder)
        has_no_words = (pair_facts.facts.word_count[pair_facts.row_n2] == 0).any(axis=1)
        is_same = [_normalise(a) == _normalise(b) for a, b in pair_list]
        chance_n = self.weights.probabilities(numbers_nF)
        chance_n[has_no_words] = 0.0
        chance_n[is_same] = 1.0
        numbers = [dict(zip(NUMBERS, row_F, strict=True)) for row_F in numbers_nF.tolist()]
        return [
            Judgement(a, b, float(chance_n[pair]), numbers[pair], pair_facts, pair)
            for pair, (a, b) in enumerate(pair_list)
        ]


def _normalise(text: Text) -> str:
    """Take off capitals, blanks beyond one, and a full stop or exclamation mark at the end."""
    words = " ".join(text.split() if isinstance(text, str) else text).casefold()
    return words.rstrip(" .!") or words


def _source_for(encoder: Any, source: MultiViewEncoder | None) -> MultiViewEncoder:
    from multiview.model import MultiViewEncoder
    from multiview.pretrained import check_encoder

    if encoder is not None:
        check_encoder(encoder, "judge")
    if source is not None and not isinstance(source, MultiViewEncoder):
        raise UserError(f"judge: source: {describe_value(source)} is no MultiViewEncoder")
    return source or MultiViewEncoder.load("builtin")


def _name_of(encoder: Any) -> str:
    return "" if encoder is None else type(encoder).__name__


@configuration
class JudgeConfig:
    """Options of ``python -m multiview.judge``."""

    a: Annotated[Positional[str], arg(metavar="SENTENCE|FILE")]
    """A sentence; or, alone, a file with two sentences a row and a tab between them."""
    b: Annotated[Positional[str | None], arg(metavar="SENTENCE")] = None
    """Another sentence."""
    judge: str = "pairs"
    """pairs, pairs-without-mrpc, or the JSON file of a judge of your own."""


def main(config: JudgeConfig) -> None:
    """Print judgements."""
    judge = Judge.load(config.judge)
    if config.b is not None:
        print(judge(config.a, config.b))
        return
    if not os.path.exists(config.a):  # unlike Path.exists, false for a sentence longer than a name may be
        raise UserError(f"{config.a}: no such file; to judge two sentences, give both, each in quotes")
    rows = [row.cells for row in read_rows(Path(config.a), 2)]
    if not rows:
        raise UserError(f"{config.a}: holds no rows")
    for (a, b), judgement in zip(rows, judge.pairs(rows), strict=True):
        print(f"{judgement.probability:.4f}", a, b, "; ".join(map(str, judgement.reasons)), sep="\t")


cli = Command(
    JudgeConfig,
    main,
    "multiview.judge",
    "Do two sentences say the same? A probability, and reasons.",
    kept_work="nothing was written",
)


if __name__ == "__main__":
    sys.exit(cli())
