"""Read the rows that judges are fitted on, and the rows that they are scored on.

Fitted rows are those on which weights are fitted and settings were chosen; scored rows are from other halves
or parts of the data sets. A scored row is dropped if it has a sentence of a fitted row (compared in lower
case, without articles and punctuation) or one of its pairs of antonyms. A pair of antonyms is a word of one
sentence and a word of the other that are listed as antonyms in :mod:`the package <multiview.structure.poles>`
or in WordNet.

A row is a single pair, the pairs of a triplet, or three pairs in SemAntoNeg and SugarCrepe++. SemAntoNeg is
halved by a hash of its antonyms, SugarCrepe++ by taking every second row.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from corpora.senteval.files import read_task
from corpora.senteval.structure import Pair, split_rows, task_pairs, triplets
from corpora.tables import read_table
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
"""The number of PAWS's first rows, on which judges are fitted."""
QUORA_ROWS = 1000
"""The number of Quora's duplicates that are scored."""
FILLINGS_OF_NEAR = 8
"""Fillings of each frame of short sentences that differ by an article, a tense or one word."""
Row = tuple[Pair, ...]
Rows = dict[str, list[Row]]
"""The rows of each set."""
Antonyms = frozenset[str]


class Sides(NamedTuple):
    """The fitted and the scored rows."""

    fitted: Rows
    scored: Rows
    dropped: dict[str, int]
    """How many rows of each scored set were dropped."""


def differing_words(a: str, b: str) -> set[str]:
    """Return the words that are in one of two sentences only; in SemAntoNeg these are the two antonyms."""
    return _words(a) ^ _words(b)


def _words(text: str) -> set[str]:
    """Return the words of a sentence in lower case."""
    return set(re.findall(r"[a-z'’-]+", text.lower()))


def _is_in_first_half(row: Row) -> bool:
    """Tell whether a row of SemAntoNeg is in the half that judges are fitted on."""
    name = " ".join(sorted(differing_words(row[2].second, row[0].second)))
    return hashlib.blake2b(name.encode(), digest_size=1).digest()[0] % 2 == 0


def read_sides(data: Path) -> Sides:
    """Return the fitted rows, and the scored rows that have no sentence and no antonyms of these."""
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
    known_sentences: set[str] = set()
    known_antonyms: set[Antonyms] = set()
    for rows in fitted.values():
        for row in rows:
            known_sentences |= sentences_of(row)
            known_antonyms |= antonyms_of(row, listed)

    def is_new(row: Row) -> bool:
        has_new_sentences = sentences_of(row).isdisjoint(known_sentences)
        return has_new_sentences and antonyms_of(row, listed).isdisjoint(known_antonyms)

    kept = {name: [row for row in rows if is_new(row)] for name, rows in scored.items()}
    return Sides(fitted, kept, {name: len(rows) - len(kept[name]) for name, rows in scored.items()})


def listed_antonyms(data: Path) -> dict[str, set[str]]:
    """Return the antonyms of each word by the list of the package and by that of WordNet."""
    listed = {word: set(others) for word, others in known_opposites().antonyms.items()}
    text = (data / "paraphrase/counterfitting_wordnet_antonyms.txt").read_text("utf-8")
    for line in text.splitlines():
        one, other = (word.removeprefix("en_") for word in line.split())
        listed.setdefault(one, set()).add(other)
        listed.setdefault(other, set()).add(one)
    return listed


def sentences_of(row: Row) -> set[str]:
    """Return the sentences of a row in lower case, without articles and punctuation."""
    sentences = set()
    for pair in row:
        for text in (pair.first, pair.second):
            words = re.findall(r"\w+", text.lower())
            sentences.add(" ".join(word for word in words if word not in ("a", "an", "the")))
    return sentences


def antonyms_of(row: Row, listed: Mapping[str, set[str]]) -> set[Antonyms]:
    """Return the pairs of antonyms in a row; each of the two words is in one sentence of a pair only.

    ``listed`` are the antonyms of each word. In a triplet the two words in which the paraphrase and the
    opposite differ count as antonyms even if they are not listed.
    """
    antonyms: set[Antonyms] = set()
    if len(row) == 3:
        words = differing_words(row[2].second, row[0].second)
        if len(words) == 2:
            antonyms.add(frozenset(words))
    for pair in row:
        words_of_first, words_of_second = _words(pair.first), _words(pair.second)
        bases_of_second = {base for word in words_of_second - words_of_first for base in possible_bases(word)}
        for word in words_of_first - words_of_second:
            for base in possible_bases(word):
                for antonym in listed.get(base, set()) & bases_of_second:
                    antonyms.add(frozenset((base, antonym)))
    return antonyms


def _rows(pairs: Iterable[Pair], size: int = 1) -> list[Row]:
    """Return rows of ``size`` successive pairs."""
    listed = list(pairs)
    return [tuple(listed[first : first + size]) for first in range(0, len(listed), size)]


def _mrpc_rows(path: Path) -> list[Row]:
    """Return the rows of a file of MRPC, one pair each."""
    rows = (row.cells for row in read_table(path, ("Quality", "#1 String", "#2 String")))
    return [(Pair(quality == "1", first, second),) for quality, first, second in rows]


def _new_bindings() -> list[Row]:
    """Return the triplets of Binding's part ``new`` whose frame is not in the part ``development``."""

    def frames(part: str) -> list[tuple[str, str, str]]:
        return [(row["anchor"], row["same"], row["other"]) for row in split_rows("frames.tsv", part)]

    new, fitted = frames("new"), frames("development")
    return [tuple(triplet.pairs()) for triplet in triplets("new") if new[triplet.frame] not in fitted]


def texts_of(sides: Sides) -> list[str]:
    """Return the distinct sentences of fitted and scored rows."""
    texts: dict[str, None] = {}
    for rows in (*sides.fitted.values(), *sides.scored.values()):
        for row in rows:
            for pair in row:
                texts |= {pair.first: None, pair.second: None}
    return list(texts)


def parsed(texts: Sequence[str], folder: Path) -> TreeCache:
    """Return the dependency trees of sentences; they are parsed once, and kept in ``folder``."""
    tokenizer = Tokenizer("spacy", running=False)
    lines = list(dict.fromkeys(" ".join(tokenizer.tokenize(text)) for text in texts))
    output = folder / json_digest(lines, 16)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "sentences.txt"
    write_text(file, "\n".join(lines) + "\n")
    main(ParseConfig(corpus=str(file), output=output, tokenize="space", const_model="none", workers=1))
    return TreeCache.open(output)
