"""The rows that judges are fitted on, and those that they are scored on.

The scored rows are those of other halves, or parts, than the rows that judges are fitted on and numbers were
chosen on, without each row that has a sentence of a fitted row (in lower case, without articles and
punctuation), or one of its pairs of antonyms (a word of either sentence, listed by :mod:`the package
<multiview.structure.poles>` or WordNet). What is left of them: :func:`overlaps`.

A row is one pair, the pairs of a triplet, or the three of SemAntoNeg and SugarCrepe++. SemAntoNeg is halved
by a hash of the words that an input's negation and its paraphrase do not share, SugarCrepe++ by row.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from corpora.inputs import read_table
from corpora.senteval.files import read_task
from corpora.senteval.structure import Pair, split_rows, task_pairs, triplets
from corpora.text import Tokenizer
from multiview.structure.forms import possible_bases
from multiview.structure.poles import known_opposites
from parsing.run import ParseConfig, main
from parsing.trees.cache import TreeCache
from runtime.files import json_digest, write_text

CAPTIONS = {
    "swap object": "swap_obj",
    "swap attribute": "swap_att",
    "replace relation": "replace_rel",
    "replace attribute": "replace_att",
    "replace object": "replace_obj",
}
"""SugarCrepe++'s parts, and their names in its files."""
PAWS_ROWS = 2000
"""PAWS's first rows are fitted on."""
QUORA_ROWS = 1000
"""Duplicates of Quora that are scored."""
FILLINGS_OF_NEAR = 8
"""Fillings of each frame of short sentences that differ by an article, a tense or one word."""
Row = tuple[Pair, ...]
Rows = dict[str, list[Row]]
"""The rows of each set."""
Antonyms = frozenset[str]


class Sides(NamedTuple):
    """The rows of either side."""

    fitted: Rows
    scored: Rows
    dropped: dict[str, int]
    """How many rows of each scored set share something with a fitted row, and were left out."""


def differing_words(a: str, b: str) -> set[str]:
    """Return the words that only one of two sentences has, in SemAntoNeg the pair of antonyms."""
    return _words(a) ^ _words(b)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z'’-]+", text.lower()))


def _is_in_first_half(row: Row) -> bool:
    """Tell whether a row of SemAntoNeg is fitted on."""
    name = " ".join(sorted(differing_words(row[2].second, row[0].second)))
    return hashlib.blake2b(name.encode(), digest_size=1).digest()[0] % 2 == 0


def read_sides(data: Path) -> Sides:
    """Read the rows of both sides, where the scored one has nothing of the fitted one."""
    folder = data / "structure"
    mrpc = read_task("MRPC", data / "senteval").files
    paws = _rows(task_pairs("PAWS", folder / "paws_wiki_dev.tsv"))
    opposites = _rows(task_pairs("SemAntoNeg", folder / "semantoneg_dev.tsv"), 3)
    fitted = {
        "PAWS": paws[:PAWS_ROWS],
        "MRPC": _mrpc_rows(mrpc["train"][0]),
        "SemAntoNeg": [row for row in opposites if _is_in_first_half(row)],
        "Binding": [tuple(triplet.pairs()) for triplet in triplets("development")],
        "Near": [tuple(triplet.pairs()) for triplet in triplets("near", FILLINGS_OF_NEAR)],
    }
    scored = {
        "PAWS": paws[PAWS_ROWS:],
        "MRPC": _mrpc_rows(mrpc["test"][0]),
        "SemAntoNeg": [row for row in opposites if not _is_in_first_half(row)],
        "Binding": _new_bindings(),
        "claims": _rows(task_pairs("Opposites", folder / "cannot_wikifactcheck_english_0.tsv")),
    }
    for name, file in CAPTIONS.items():
        captions = _rows(task_pairs("SugarCrepe++", folder / f"sugarcrepe_pp_{file}_dev.tsv"), 3)
        fitted[name], scored[name] = captions[::2], captions[1::2]
    quora = data / "paraphrase/quora_duplicates_eval_split.tsv.gz"
    pairs = islice(read_table(quora, ("sentence1", "sentence2")), QUORA_ROWS)
    scored["Quora"] = [(Pair(True, *row.cells),) for row in pairs]
    listed = listed_antonyms(data)
    known = _sentences_and_antonyms(fitted, listed)
    left = {name: [row for row in rows if not _shares(row, known, listed)] for name, rows in scored.items()}
    return Sides(fitted, left, {name: len(rows) - len(left[name]) for name, rows in scored.items()})


def overlaps(sides: Sides, data: Path) -> dict[str, int]:
    """Count the rows of each scored set that have a sentence or a pair of antonyms of any fitted row."""
    listed = listed_antonyms(data)
    known = _sentences_and_antonyms(sides.fitted, listed)
    return {name: sum(_shares(row, known, listed) for row in rows) for name, rows in sides.scored.items()}


def listed_antonyms(data: Path) -> dict[str, set[str]]:
    """Return the antonyms of each word by the list of the package and by WordNet's."""
    listed = {word: set(others) for word, others in known_opposites().antonyms.items()}
    text = (data / "paraphrase/counterfitting_wordnet_antonyms.txt").read_text("utf-8")
    for line in text.splitlines():
        one, other = (word.removeprefix("en_") for word in line.split())
        listed.setdefault(one, set()).add(other)
        listed.setdefault(other, set()).add(one)
    return listed


def sentences_of(row: Row) -> set[str]:
    """Return a row's sentences in lower case, without articles and punctuation."""
    words_of_texts = (re.findall(r"\w+", text.lower()) for pair in row for text in pair[1:])
    return {" ".join(word for word in words if word not in ("a", "an", "the")) for words in words_of_texts}


def antonyms_of(row: Row, listed: Mapping[str, set[str]]) -> set[Antonyms]:
    """Return the pairs of antonyms of which one sentence has the one, the other the other alone."""
    pairs = set()
    if len(row) == 3 and len(pair := differing_words(row[2].second, row[0].second)) == 2:
        pairs.add(frozenset(pair))
    for _, a, b in row:
        for one in _words(a) - _words(b):
            antonyms_of_one = {base: listed[base] for base in possible_bases(one) if base in listed}
            for other in _words(b) - _words(a) if antonyms_of_one else ():
                bases = set(possible_bases(other))
                pairs |= {frozenset((x, y)) for x, others in antonyms_of_one.items() for y in others & bases}
    return pairs


def _sentences_and_antonyms(rows: Rows, listed: Mapping[str, set[str]]) -> tuple[set[str], set[Antonyms]]:
    every_row = [row for part in rows.values() for row in part]
    sentences = set[str]().union(*map(sentences_of, every_row))
    return sentences, set[Antonyms]().union(*(antonyms_of(row, listed) for row in every_row))


def _shares(row: Row, known: tuple[set[str], set[Antonyms]], listed: Mapping[str, set[str]]) -> bool:
    sentences, pairs = known
    return not (sentences_of(row).isdisjoint(sentences) and antonyms_of(row, listed).isdisjoint(pairs))


def _rows(pairs: Iterable[Pair], size: int = 1) -> list[Row]:
    listed = list(pairs)
    return [tuple(listed[first : first + size]) for first in range(0, len(listed), size)]


def _mrpc_rows(path: Path) -> list[Row]:
    rows = (row.cells for row in read_table(path, ("Quality", "#1 String", "#2 String")))
    return [(Pair(quality == "1", a, b),) for quality, a, b in rows]


def _new_bindings() -> list[Row]:
    """Return Binding's new triplets, without those of a frame that is fitted on as well."""
    columns = ("anchor", "same", "other")
    fitted, new = (
        [tuple(row[column] for column in columns) for row in split_rows("frames.tsv", part)]
        for part in ("development", "new")
    )
    return [tuple(triplet.pairs()) for triplet in triplets("new") if new[triplet.frame] not in fitted]


def texts_of(sides: Sides) -> list[str]:
    """Return the distinct sentences of both sides."""
    parts: Iterator[Sequence[Row]] = (rows for side in sides[:2] for rows in side.values())
    return list(dict.fromkeys(text for rows in parts for row in rows for pair in row for text in pair[1:]))


def parsed(texts: Sequence[str], folder: Path) -> TreeCache:
    """Return the dependency trees of sentences, parsed once and kept in a folder."""
    tokenizer = Tokenizer("spacy", running=False)
    lines = list(dict.fromkeys(" ".join(tokenizer.tokenize(text)) for text in texts))
    output = folder / json_digest(lines, 16)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "sentences.txt"
    write_text(file, "\n".join(lines) + "\n")
    main(ParseConfig(corpus=str(file), output=output, tokenize="space", const_model="none", workers=1))
    return TreeCache.open(output)
