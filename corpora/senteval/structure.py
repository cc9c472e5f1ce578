"""Tasks of structure: pairs that have the same words. Does a vector know who did what to whom?

*Binding* is made here, of frames and words of our own: an anchor, the same said otherwise, and the same words
bound otherwise::

    The lawyer praised the doctor. | The doctor was praised by the lawyer. | The doctor praised the lawyer.

Its test part shares no frame and no content word with its development part. *HANS* (McCoy et al. 2019) is the
lexical-overlap part of its published file: does the first sentence entail a second one of its words? *PAWS*
(Zhang et al. 2019) is a published TSV: pairs whose words were exchanged, paraphrases or not. *MinimalPairs*
are those of SICK's test set, of SNLI and of its counterfactual revisions (Kaushik et al. 2020) that have the
same content words in other places or forms; entailment counts as the same.

*SemAntoNeg* (Vahtola et al. 2022): an antonym and a negation cancel, one of them alone does not.
*SugarCrepe++* (Dumpala et al. 2024): two captions that say the same and one with words exchanged or
replaced. In both a row is three pairs, the first of which says the same. *Opposites* are pairs of a
sentence and its negation or its opposite from CANNOT (Anschütz et al. 2023): how many does a threshold
accept that accepts 90 % of PAWS's paraphrases?
"""

from __future__ import annotations

import csv
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora.inputs import bad_row, read_table
from runtime.errors import MissingExtraError

HERE = Path(__file__).parent
FILLINGS = 20
"""Sentences of each frame."""
_SLOTS = {
    **dict.fromkeys("pqr", "person"),
    **dict.fromkeys("tu", "thing"),
    **dict.fromkeys("xy", "place"),
    **dict.fromkeys("ab", "adjective"),
    **dict.fromkeys("vw", "verb"),
    **dict.fromkeys("nm", "number"),
}
"""The class of words of each slot of a frame; slots of one class get different words."""
_FORMS = {"verb": {"base": 0, "": 1, "part": 2}, **{c: {"": 0, "s": 1} for c in ("person", "thing")}}
"""Which form of a word a slot such as ``{v:part}`` takes: ``words.tsv`` lists base, past and participle of a
verb, singular and plural of a noun."""
_FUNCTION_WORDS = (
    *("a", "an", "the", "is", "are", "was", "were", "be", "been", "being", "am", "do", "does", "did", "has"),
    *("have", "had", "by", "to", "of", "and", "that", "which", "who", "whom", "whose", "it", "there", "s"),
)
Pair = tuple[bool, str, str]
"""Whether the two mean the same, and the two."""


@dataclass(frozen=True)
class Triplet:
    """Three sentences of one frame."""

    kind: str
    """What is said otherwise: passive, cleft, relative, ..."""
    frame: int
    """Row of ``frames.tsv``; intervals are taken over frames."""
    anchor: str
    same: str
    """Means the same."""
    other: str
    """Has the anchor's words in other places."""


def triplets(part: str, fillings: int = FILLINGS, seed: int = 0) -> list[Triplet]:
    """The triplets of a part, every frame filled with words at random.

    ``part`` is ``development`` or ``test``; ``seed`` decides the choice of words.
    """
    drawn = random.Random(f"{part} {seed}")
    words = {row["class"]: [w.split() for w in row["words"].split("; ")] for row in _rows("words.tsv", part)}
    filled = []
    for number, row in enumerate(_rows("frames.tsv", part)):
        texts = (row["anchor"], row["same"], row["other"])
        filled += [Triplet(row["kind"], number, *_filled(texts, words, drawn)) for _ in range(fillings)]
    return filled


def synonyms() -> list[tuple[str, str]]:
    """Words of the test part that stand in triplets, each with one that means the same."""
    return [
        (a, b) for row in _rows("words.tsv", "synonym") for a, b in map(str.split, row["words"].split("; "))
    ]


def _rows(file: str, part: str) -> Iterator[dict[str, str]]:
    with open(HERE / file, encoding="utf-8", newline="") as lines:
        yield from (row for row in csv.DictReader(lines, delimiter="\t") if row["split"] == part)


def _filled(texts: Sequence[str], words: dict[str, list[list[str]]], drawn: random.Random) -> list[str]:
    """The texts of a frame with one word for each slot; capitals and articles are put right."""
    slots = sorted({slot for text in texts for slot in re.findall(r"\{(\w)", text)})
    chosen: dict[str, list[str]] = {}
    for slot in slots:
        used = list(chosen.values())
        chosen[slot] = drawn.choice([word for word in words[_SLOTS[slot]] if word not in used])

    def form(match: re.Match[str]) -> str:
        return chosen[match[1]][_FORMS.get(_SLOTS[match[1]], {"": 0})[match[2] or ""]]

    filled = (re.sub(r"\{(\w)(?::(\w+))?\}", form, text) for text in texts)
    articles = (re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", text) for text in filled)
    return [text[0].upper() + text[1:] for text in articles]


def read_hans(path: Path) -> list[Pair]:
    """Return the lexical-overlap pairs of HANS's published file.

    Raises:
        UserError: a missing column.
    """
    rows = read_table(path, ("gold_label", "sentence1", "sentence2", "heuristic"))
    return [
        (gold == "entailment", first, second)
        for gold, first, second, heuristic in (row.cells for row in rows)
        if heuristic == "lexical_overlap"
    ]


def read_paws(path: Path) -> list[Pair]:
    """The pairs of a published TSV of PAWS; its quotes are set as in running text.

    Raises:
        UserError: a missing column, or a label that is neither 0 nor 1.
    """
    pairs = []
    for row in read_table(path, ("sentence1", "sentence2", "label")):
        first, second, label = row.cells
        if label not in ("0", "1"):
            raise bad_row(row.path, row.line, "a label 0 or 1", label)
        texts = (text.replace("``", '"').replace("''", '"') for text in (first, second))
        pairs.append((label == "1", *texts))
    return pairs  # type: ignore[return-value]


def read_semantoneg(path: Path) -> list[Pair]:
    """Three pairs a row of SemAntoNeg's TSV: the input with its paraphrase and with two others.

    Raises:
        UserError: a missing column.
    """
    rows = read_table(path, ("input", "paraphrase", "not_antonym", "no_not"))
    return [(n == 1, row.cells[0], row.cells[n]) for row in rows for n in (1, 2, 3)]


def read_captions(path: Path) -> list[Pair]:
    """Three pairs a row of SugarCrepe++'s TSV: both captions, and each with the one that says otherwise.

    Raises:
        UserError: a missing column.
    """
    rows = read_table(path, ("caption", "caption2", "negative"))
    pairs = ((0, 1), (0, 2), (1, 2))
    return [(b == 1, row.cells[a], row.cells[b]) for row in rows for a, b in pairs]


def read_opposites(path: Path) -> list[Pair]:
    """The pairs of a TSV of CANNOT, which say the opposite; of PAWS's file those that say the same.

    Raises:
        UserError: a missing column.
    """
    if path.name.startswith("paws"):
        return [pair for pair in read_paws(path) if pair[0]]
    return [(False, *row.cells) for row in read_table(path, ("sentence", "negated"))]  # type: ignore[misc]


def read_minimal(path: Path) -> list[Pair]:
    """Pairs of an NLI file that have the same content words, by stem, and not the same wording.

    The file is SICK's, or a TSV with ``label``, ``sentence1``, ``sentence2``.

    Raises:
        UserError: a missing column.
    """
    sick = path.name.startswith("SICK")
    names = (
        ("entailment_judgment", "sentence_A", "sentence_B") if sick else ("label", "sentence1", "sentence2")
    )
    rows = [row.cells for row in read_table(path, names)]
    return [
        (label.strip().lower() == "entailment", first, second)
        for label, first, second in rows
        if _spoken(first) != _spoken(second) and _content(first) == _content(second)
    ]


def _spoken(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _content(text: str) -> Counter[str]:
    """Return the stems of a sentence's content words."""
    try:
        from gensim.parsing.porter import PorterStemmer
    except ImportError:
        raise MissingExtraError("gensim", "vectors") from None
    return Counter(PorterStemmer().stem(word) for word in _spoken(text) if word not in _FUNCTION_WORDS)
