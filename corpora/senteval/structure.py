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

import csv
import random
import re
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
_COLUMNS = {
    "HANS": ("sentence1", "sentence2", "gold_label", "heuristic"),
    "PAWS": ("sentence1", "sentence2", "label"),
    "MinimalPairs": ("sentence1", "sentence2", "label"),
    "SemAntoNeg": ("input", "paraphrase", "not_antonym", "no_not"),
    "SugarCrepe++": ("caption", "caption2", "negative"),
    "Opposites": ("sentence", "negated"),
}
"""The columns of a task's published files: two texts, then what else decides."""
_SICK_COLUMNS = ("sentence_A", "sentence_B", "entailment_judgment")
Pair = tuple[bool, str, str]
"""Whether the two mean the same, and the two."""


@dataclass(frozen=True)
class Triplet:
    """Three sentences: an anchor, the same said otherwise, the anchor's words in other places.

    ``kind`` is how it is said otherwise (passive, cleft, relative, ...), ``frame`` the row of ``frames.tsv``;
    intervals are taken over frames.
    """

    kind: str
    frame: int
    anchor: str
    same: str
    other: str


def triplets(part: str, fillings: int = FILLINGS) -> list[Triplet]:
    """Return the triplets of a part, ``development`` or ``test``, every frame filled with words at random."""
    drawn = random.Random(f"{part} 0")
    words = {row["class"]: [w.split() for w in row["words"].split("; ")] for row in _rows("words.tsv", part)}
    filled = []
    for number, row in enumerate(_rows("frames.tsv", part)):
        texts = (row["anchor"], row["same"], row["other"])
        filled += [Triplet(row["kind"], number, *_filled(texts, words, drawn)) for _ in range(fillings)]
    return filled


def synonyms() -> list[tuple[str, str]]:
    """Return words of the test part that stand in triplets, each with one that means the same."""
    return [
        (a, b) for row in _rows("words.tsv", "synonym") for a, b in map(str.split, row["words"].split("; "))
    ]


def _rows(file: str, part: str) -> Iterator[dict[str, str]]:
    with open(HERE / file, encoding="utf-8", newline="") as lines:
        yield from (row for row in csv.DictReader(lines, delimiter="\t") if row["split"] == part)


def _filled(texts: Sequence[str], words: dict[str, list[list[str]]], drawn: random.Random) -> list[str]:
    """Put one word into each slot of a frame's texts; capitals and articles are put right."""
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


def task_pairs(task: str, path: Path) -> Iterator[Pair]:
    """Yield the pairs of a published file of a task of structure."""
    if task == "Opposites" and path.name.startswith("paws"):
        yield from (pair for pair in task_pairs("PAWS", path) if pair[0])
        return
    is_sick = path.name.startswith("SICK")
    for row in read_table(path, _SICK_COLUMNS if is_sick else _COLUMNS[task]):
        first, second, *others = row.cells
        if task == "HANS" and others[1] == "lexical_overlap":
            yield others[0] == "entailment", first, second
        elif task == "PAWS":  # its quotes are set as in running text
            if others[0] not in ("0", "1"):
                raise bad_row(row.path, row.line, "a label 0 or 1", others[0])
            first, second = (text.replace("``", '"').replace("''", '"') for text in (first, second))
            yield others[0] == "1", first, second
        elif task == "SemAntoNeg":
            yield from ((place == 0, first, text) for place, text in enumerate((second, *others)))
        elif task == "SugarCrepe++":
            yield from ((True, first, second), (False, first, others[0]), (False, second, others[0]))
        elif task == "Opposites":
            yield False, first, second
        elif task == "MinimalPairs" and _spoken(first) != _spoken(second) and _same_content(first, second):
            yield others[0].lower() == "entailment", first, second


def _spoken(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _same_content(*texts: str) -> bool:
    """Tell whether two sentences have the same stems of content words, each as often."""
    try:
        from gensim.parsing.porter import PorterStemmer
    except ImportError:
        raise MissingExtraError("gensim", "vectors") from None
    words = ((word for word in _spoken(text) if word not in _FUNCTION_WORDS) for text in texts)
    first, second = (sorted(map(PorterStemmer().stem, some)) for some in words)
    return first == second
