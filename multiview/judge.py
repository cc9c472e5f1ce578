"""Do two sentences say the same? A probability, and reasons, without a transformer.

    from multiview.judge import Judge

    judge = Judge.load()
    print(judge("How do I enable 2FA?", "How do I disable 2FA?"))

    python -m multiview.judge "How do I enable 2FA?" "How do I disable 2FA?"
    python -m multiview.judge pairs.tsv

A logistic regression of the numbers of the pair, :data:`NUMBERS`, of their squares and products.
FILE has two sentences a row, with a tab between; out come the probability, the sentences and the reasons.
English only.

Legend of dimension suffixes: n pairs, F numbers of a pair, W weights.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
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
from corpora.sentences import described, listed, read_pairs
from runtime.cli import Command, config_from_json, configuration
from runtime.errors import UserError
from runtime.files import output_file, path_of, read_record, write_record

if TYPE_CHECKING:  # they import torch
    from multiview.comparison.facts import ReadPairs
    from multiview.comparison.reasons import Reason
    from multiview.model import MultiViewEncoder

Text = str | tuple[str, ...]
Floats = NDArray[np.float64]
NUMBERS: Mapping[str, str] = {
    "topic": "cosine of the sums of words, rare ones weighing more; or that of another encoder",
    "arcs": "share of arcs that both have: the lawyer praised | the lawyer praised",
    "turned arcs": "share of arcs that both have with another sign: he came | he did not come",
    "other fillers": "share of places that are filled otherwise: the lawyer praised | the doctor praised",
    "moved": "share of words in another place: the lawyer praised the doctor | the doctor praised the lawyer",
    "words": "share of words that both have: a red hat | a red coat",
    "every word": "share of words that both have, function words too: a red hat | the red hat",
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
    "moves": "whether words are in another order: in May he came | he came in May",
    "exchanges": "whether more than one block has moved: a red hat on a blue coat | a blue hat on a red coat",
    "prepositions": "prepositions that the other lacks, on both sides: from Rome | to Rome",
    "length": "logarithm of the lengths' ratio: he came | he came home late",
    "words in all": "logarithm of how many words a sentence has",
    "names in all": "share of words that are names",
    "words alone": "root of how many words have no equal: a red hat | a red coat",
    "extra words": "root of how many words one has more, function words too: it is good | it is a good one",
}
"""The numbers of a pair, each with what it says and an example."""
PACKAGED = Path(__file__).with_name("judges")
STRENGTH = 5.0
"""Of the ridge, for a thousand pairs."""
ALIKE = 1e-5
"""Numbers that vary less are always the same, but for rounding."""
BATCH = 512
STEPS = 30
"""Of Newton's method, at most."""
_Number = Annotated[float, Ge(-1e9), Le(1e9)]


@configuration
class _Record:
    """The file of a judge, as :class:`Weights` has it."""

    numbers: list[str]
    mean: list[_Number]
    deviation: list[Annotated[float, Ge(1e-6), Le(1e9)]]
    weight: list[_Number]
    about: dict[str, Any]


@dataclass(frozen=True)
class Weights:
    """A fitted logistic regression, and what it was fitted on."""

    mean: Floats
    """[F], of the numbers of :data:`NUMBERS`."""
    deviation: Floats
    """[F], 1 of a number that is always the same."""
    weight: Floats
    """[W], of 1, the numbers, and the products of two; W = 1 + F + F (F + 1) / 2."""
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
        share = np.ones(len(label_n)) if share_n is None else share_n
        share = share * (1000 / share.sum())
        mean, deviation = numbers_nF.mean(axis=0), numbers_nF.std(axis=0)
        shape = cls(mean, np.where(deviation > ALIKE, deviation, 1), np.empty(0), about or {})
        design = shape._design(numbers_nF)
        weight, ridge = np.zeros(design.shape[1]), np.full(design.shape[1], strength)
        ridge[0] = 1e-6
        for _ in range(STEPS):
            chance = expit(design @ weight)
            slope = design.T @ (share * (label_n - chance)) - ridge * weight
            curve = (design * (share * chance * (1 - chance))[:, None]).T @ design + np.diag(ridge)
            step = np.linalg.solve(curve, slope)
            weight += step
            if np.abs(step).max() < 1e-6:
                break
        return cls(shape.mean, shape.deviation, weight, shape.about)

    def _design(self, numbers_nF: Floats) -> Floats:
        """Put the numbers at one scale, beside their products: [n, W]."""
        scaled = np.clip((numbers_nF - self.mean) / self.deviation, -5, 5)
        one, other = np.triu_indices(len(self.mean))
        return np.column_stack([np.ones(len(scaled)), scaled, scaled[:, one] * scaled[:, other]])

    def probabilities(self, numbers_nF: Floats) -> Floats:
        """Return the probability that both sentences say the same, [n]."""
        chance: Floats = expit(self._design(numbers_nF) @ self.weight)
        return chance

    def save(self, path: Path) -> None:
        """Write JSON; a UserError says that no file can have that name, or that ``about`` is no JSON."""
        path = output_file(path_of(path, "judge"))
        parts = {name: np.round(getattr(self, name), 6).tolist() for name in ("mean", "deviation", "weight")}
        try:
            write_record(path, {"numbers": [*NUMBERS], **parts, "about": self.about})
        except (TypeError, ValueError) as error:
            raise UserError(f"{path}: what the judge is about is no JSON ({error})") from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read what :meth:`save` wrote; a file that is missing or holds something else is a UserError."""
        record, count = config_from_json(_Record, read_record(path), where=path), len(NUMBERS)
        if record.numbers != [*NUMBERS]:
            raise UserError(f"{path}: no judge, or one of other numbers of a pair; fit it anew")
        parts = [np.array(part, np.float64) for part in (record.mean, record.deviation, record.weight)]
        if [len(part) for part in parts] != [count, count, 1 + count + count * (count + 1) // 2]:
            raise UserError(f"{path}: its weights do not fit its numbers; fit it anew")
        mean, deviation, weight = parts
        return cls(mean, deviation, weight, record.about)


def read_numbers(
    pairs: Sequence[tuple[Text, Text]], source: MultiViewEncoder, encoder: Any = None
) -> tuple[ReadPairs, Floats]:
    """Parse the sentences of pairs, each once, and return them with their numbers, [n, F]."""
    import torch

    from multiview.comparison.facts import Facts, Forms, ReadPairs, read_facts
    from multiview.comparison.pair_numbers import numbers
    from multiview.pretrained import check_vectors, unit_rows
    from runtime.device import torch_threads

    place: dict[Text, int] = {}
    row_n2 = np.array([[place.setdefault(text, len(place)) for text in pair] for pair in pairs], np.int64)
    texts, forms, parts, order = list(place), Forms(), [], []
    with torch.inference_mode(), torch_threads(1):
        for places, batch in source.reader.batches(texts, {"tokens", "dep"}, None, BATCH):
            parts.append(read_facts(batch, forms))
            order.append(places)
        known = {f.name: np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Facts)}
        read = ReadPairs(Facts(**known), forms, np.argsort(np.concatenate(order))[row_n2])
        by_name = numbers(read, source.members[0].network.words)
    if encoder is not None:
        strings = [text if isinstance(text, str) else " ".join(text) for text in texts]
        vectors = unit_rows(check_vectors(encoder.encode(strings), strings, type(encoder).__name__)[0])
        by_name["topic"] = np.einsum("nd,nd->n", *vectors[row_n2.T])
    return read, np.column_stack([by_name[name] for name in NUMBERS]).astype(np.float64)


@dataclass(frozen=True)
class Judgement:
    """What is said of one pair; it prints as text."""

    a: Text
    b: Text
    probability: float
    """That both say the same."""
    numbers: dict[str, float] = field(hash=False)
    """By the names in :data:`NUMBERS`."""
    _read: tuple[ReadPairs, int] = field(repr=False, compare=False)

    @cached_property
    def reasons(self) -> list[Reason]:
        """List where the two differ, what turns the sense first."""
        from multiview.comparison.reasons import reasons_of

        return reasons_of(*self._read)

    def __str__(self) -> str:
        verdict = f"{self.probability:.2f} that both say the same"
        return "\n".join([verdict, *(f"  {reason}" for reason in self.reasons)])


class Judge:
    """Judges pairs of sentences.

    ``source``, ``builtin`` by default, parses and has the words; ``encoder`` gives the meanings, by
    ``encode(list of str) -> [n, D]``, which are the sums of the words without it.
    """

    def __init__(self, weights: Weights, encoder: Any = None, source: MultiViewEncoder | None = None) -> None:
        self.weights, self.encoder = weights, encoder
        self.source = _source_for(encoder, source)

    @classmethod
    def load(
        cls, name: str | Path = "pairs", *, encoder: Any = None, source: MultiViewEncoder | None = None
    ) -> Self:
        """Load the judge in the package, ``pairs``, its twin ``pairs-without-mrpc``, or a saved one's file.

        A file that is missing, and a judge that was fitted beside another encoder, are a UserError.
        """
        path = path_of(name, "judge")
        packaged = path_of(PACKAGED / f"{path.name}.json", "judge")
        weights = Weights.load(packaged if str(path) == packaged.stem and packaged.is_file() else path)
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

        Labels, one a pair, are 1 or True where both say the same, else 0; both must occur. ``about`` is what
        the file is to say of data and licences, ``strength`` that of the ridge for a thousand pairs, from
        1e-6 to 1e9. A UserError names what is not so.
        """
        checked, label_list = read_pairs(pairs, "Judge.fit"), listed(labels, "Judge.fit", "labels")
        for number, label in enumerate(label_list):
            if not isinstance(label, Real | np.bool_) or label not in (0, 1):
                raise UserError(f"Judge.fit: label {number}, {described(label)}, is neither 0 nor 1")
        if len(label_list) != len(checked) or len({int(label) for label in label_list}) < 2:
            raise UserError("Judge.fit: labels: one for each pair, 0 or 1, and both must occur")
        if not isinstance(strength, Real) or not 1e-6 <= strength <= 1e9:
            raise UserError(f"Judge.fit: strength: {described(strength)} is not from 1e-6 to 1e9")
        if not isinstance(about or {}, Mapping):
            raise UserError(f"Judge.fit: about: {described(about)} is no mapping")
        source = _source_for(encoder, source)
        _, numbers_nF = read_numbers(checked, source, encoder)
        about = {**(about or {}), "encoder": _name_of(encoder), "pairs": len(checked)}
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

        By rule a sentence says the same as itself, and one without words as no other. A UserError names what
        is no pair.
        """
        checked = read_pairs(pairs, "judge")
        if not checked:
            return []
        read, numbers_nF = read_numbers(checked, self.source, self.encoder)
        chances = self.weights.probabilities(numbers_nF)
        chances[(read.facts.words[read.rows] == 0).any(axis=1)] = 0.0
        chances[[_plain(a) == _plain(b) for a, b in checked]] = 1.0
        rows = zip(checked, chances.tolist(), numbers_nF.tolist(), strict=True)
        return [
            Judgement(a, b, chance, dict(zip(NUMBERS, row, strict=True)), (read, place))
            for place, ((a, b), chance, row) in enumerate(rows)
        ]


def _plain(text: Text) -> str:
    """Take off capitals, blanks beyond one, and a full stop or exclamation mark at the end."""
    words = " ".join(text.split() if isinstance(text, str) else text).casefold()
    return words.rstrip(" .!") or words


def _source_for(encoder: Any, source: MultiViewEncoder | None) -> MultiViewEncoder:
    """Check both encoders, and return the one that parses."""
    from multiview.model import MultiViewEncoder
    from multiview.pretrained import check_encoder

    if encoder is not None:
        check_encoder(encoder, "judge")
    if source is not None and not isinstance(source, MultiViewEncoder):
        raise UserError(f"judge: source: {described(source)} is no MultiViewEncoder")
    return source or MultiViewEncoder.load("builtin")


def _name_of(encoder: Any) -> str:
    return "" if encoder is None else type(encoder).__name__


@configuration
class JudgeConfig:
    """Options of ``python -m multiview.judge``."""

    a: Annotated[Positional[str], arg(metavar="SENTENCE|FILE")]
    """A sentence; or, alone, a file with two sentences a row and a tab between them."""
    b: Annotated[Positional[str], arg(metavar="SENTENCE")] = ""
    """Another sentence."""
    judge: str = "pairs"
    """pairs, pairs-without-mrpc, or the JSON file of a judge of your own."""


def main(config: JudgeConfig) -> None:
    """Print judgements."""
    judge = Judge.load(config.judge)
    if config.b:
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
