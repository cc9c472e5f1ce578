"""Read the tasks of structure: pairs with similar words, where it matters who did what to whom.

*Binding* is generated from the frames and words of this package. A triplet is an anchor, a paraphrase of it,
and a distractor, which has the words of the anchor in other roles::

    The lawyer praised the doctor. | The doctor was praised by the lawyer. | The doctor praised the lawyer.

Its splits ``development`` and ``test`` share no frame and no content word. The split ``near``, on which
judges are fitted as well, has short sentences that differ by an article, a tense or one word. Judges are
scored on the split ``new``, which has no content word of ``development`` or ``test``.

*HANS* (McCoy et al. 2019) is the lexical-overlap part of its published file: does a sentence entail a second
one that is made of its words? *PAWS* (Zhang et al. 2019) has pairs whose words were exchanged, which are
paraphrases or not. *MinimalPairs* are the pairs of SICK's test set, of SNLI and of its counterfactual
revisions (Kaushik et al. 2020) that have the same content words in other places or forms; entailment counts
as the same.

In *SemAntoNeg* (Vahtola et al. 2022) an antonym and a negation cancel each other, and one of them alone does
not. *SugarCrepe++* (Dumpala et al. 2024) has two captions that mean the same and one with words exchanged or
replaced. In both, a row becomes three pairs, of which the first means the same. *Opposites* are pairs of a
sentence and its negation or its opposite, from CANNOT (Anschütz et al. 2023); the score is the share of pairs
that are accepted at the threshold that accepts 90 % of the paraphrases of PAWS.
"""

import csv
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from corpora.senteval.tasks import TASKS
from corpora.tables import TableRow, bad_row, read_table
from runtime.errors import extra

FOLDER = Path(__file__).parent
FILLINGS = 20
"""The number of triplets that are made of each frame."""
_CLASS_OF_BLANK = {
    **dict.fromkeys("pqr", "person"),
    **dict.fromkeys("tu", "thing"),
    **dict.fromkeys("xy", "place"),
    **dict.fromkeys("ab", "adjective"),
    **dict.fromkeys("vw", "verb"),
    **dict.fromkeys("nm", "number"),
}
"""The word class of each blank of a frame; blanks of the same class are filled with different words."""
_FORM_INDEX = {"verb": {"base": 0, "": 1, "part": 2}, **{c: {"": 0, "s": 1} for c in ("person", "thing")}}
"""The index of a form, such as ``part`` in ``{v:part}``, among the forms of a word in ``words.tsv``: base,
past and participle of a verb, singular and plural of a noun."""
_FUNCTION_WORDS = (
    *("a", "an", "the", "is", "are", "was", "were", "be", "been", "being", "am", "do", "does", "did", "has"),
    *("have", "had", "by", "to", "of", "and", "that", "which", "who", "whom", "whose", "it", "there", "s"),
)
_SICK_COLUMNS = ("sentence_A", "sentence_B", "entailment_judgment")


class Pair(NamedTuple):
    """Two sentences, and whether they mean the same."""

    is_same: bool
    first: str
    second: str


@dataclass(frozen=True)
class Triplet:
    """A sentence (anchor), a paraphrase of it, and a distractor with the anchor's words in other places."""

    kind: str
    """The construction of the paraphrase: passive, cleft, relative, ..."""
    frame: int
    """The row in ``frames.tsv``; confidence intervals are computed over frames."""
    anchor: str
    paraphrase: str
    distractor: str

    def pairs(self) -> list[Pair]:
        """Return two pairs: the anchor with its paraphrase, and with its distractor."""
        return [Pair(True, self.anchor, self.paraphrase), Pair(False, self.anchor, self.distractor)]


def triplets(split: str, fillings: int = FILLINGS) -> list[Triplet]:
    """Return the triplets of a split, whose frames are filled with random words.

    The splits are ``development``, ``test``, ``near`` and ``new``.
    """
    generator = random.Random(f"{split} 0")
    words = {
        row["class"]: [w.split() for w in row["words"].split("; ")] for row in split_rows("words.tsv", split)
    }
    triplets_of_split = []
    for number, row in enumerate(split_rows("frames.tsv", split)):
        frame = (row["anchor"], row["same"], row["other"])
        for _ in range(fillings):
            triplets_of_split.append(Triplet(row["kind"], number, *_fill_frame(frame, words, generator)))
    return triplets_of_split


def split_rows(file: str, split: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a split of ``frames.tsv`` or ``words.tsv``."""
    with open(FOLDER / file, encoding="utf-8", newline="") as lines:
        yield from (row for row in csv.DictReader(lines, delimiter="\t") if row["split"] == split)


def _fill_frame(
    texts: Sequence[str], words: dict[str, list[list[str]]], generator: random.Random
) -> list[str]:
    """Return the texts of a frame with a word in each blank, and with correct capitals and articles."""
    blanks = sorted({blank for text in texts for blank in re.findall(r"\{(\w)", text)})
    word_of_blank: dict[str, list[str]] = {}
    for blank in blanks:
        free_words = [word for word in words[_CLASS_OF_BLANK[blank]] if word not in word_of_blank.values()]
        word_of_blank[blank] = generator.choice(free_words)

    def form_of_word(match: re.Match[str]) -> str:
        blank, form = match[1], match[2] or ""
        index_of_form = _FORM_INDEX.get(_CLASS_OF_BLANK[blank], {"": 0})
        return word_of_blank[blank][index_of_form[form]]

    sentences = []
    for text in texts:
        sentence = re.sub(r"\{(\w)(?::(\w+))?\}", form_of_word, text)
        sentence = re.sub(r"\b([Aa]) (?=[aeiou])", r"\1n ", sentence)
        sentences.append(sentence[0].upper() + sentence[1:])
    return sentences


def _hans(row: TableRow) -> Iterator[Pair]:
    first, second, label, heuristic = row.cells
    if heuristic == "lexical_overlap":
        yield Pair(label == "entailment", first, second)


def _paws(row: TableRow) -> Iterator[Pair]:
    first, second, label = row.cells
    if label not in ("0", "1"):
        raise bad_row(row.path, row.line, "a label 0 or 1", label)
    # Quotation marks become those of running text.
    first, second = (text.replace("``", '"').replace("''", '"') for text in (first, second))
    yield Pair(label == "1", first, second)


def _minimal_pairs(row: TableRow) -> Iterator[Pair]:
    first, second, label = row.cells
    if _words(first) != _words(second) and _stems(first) == _stems(second):
        yield Pair(label.lower() == "entailment", first, second)


def _semantoneg(row: TableRow) -> Iterator[Pair]:
    text, paraphrase, *opposites = row.cells
    yield Pair(True, text, paraphrase)
    yield from (Pair(False, text, opposite) for opposite in opposites)


def _sugarcrepe(row: TableRow) -> Iterator[Pair]:
    first, second, negative = row.cells
    yield Pair(True, first, second)
    yield from (Pair(False, first, negative), Pair(False, second, negative))


def _opposites(row: TableRow) -> Iterator[Pair]:
    yield Pair(False, *row.cells)


PAIR_READERS: Mapping[str, tuple[Sequence[str], Callable[[TableRow], Iterator[Pair]]]] = {
    "hans": (("sentence1", "sentence2", "gold_label", "heuristic"), _hans),
    "paws": (("sentence1", "sentence2", "label"), _paws),
    "minimal-pairs": (("sentence1", "sentence2", "label"), _minimal_pairs),
    "semantoneg": (("input", "paraphrase", "not_antonym", "no_not"), _semantoneg),
    "sugarcrepe": (("caption", "caption2", "negative"), _sugarcrepe),
    "opposites": (("sentence", "negated"), _opposites),
}
"""The columns of the published file, and the function that makes pairs of a row, by reader."""


def task_pairs(task: str, path: Path) -> Iterator[Pair]:
    """Yield the pairs of a published file of a task of structure."""
    reader = TASKS[task].reader
    if reader == "opposites" and path.name.startswith("paws"):
        yield from (pair for pair in task_pairs("PAWS", path) if pair.is_same)
        return
    columns, pairs_of = PAIR_READERS[reader]
    for row in read_table(path, _SICK_COLUMNS if path.name.startswith("SICK") else columns):
        yield from pairs_of(row)


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z0-9]+", text.lower())


def _stems(text: str) -> list[str]:
    """Return the sorted stems of the content words of a sentence."""
    with extra("vectors"):
        from gensim.parsing.porter import PorterStemmer
    stemmer = PorterStemmer()
    return sorted(stemmer.stem(word) for word in _words(text) if word not in _FUNCTION_WORDS)
