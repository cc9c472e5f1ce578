"""Read and write dependency treebanks in CoNLL-U.

The words of a sentence are the syntactic words (ids 1, 2, 3 ...); ranges of multiword tokens (``1-2``) and
empty nodes (``8.1``) are skipped. ``# newdoc`` starts a document; a file without it is one document. A row
that is not CoNLL-U or not UTF-8 raises a UserError with file and line.
"""

import csv
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Literal

from corpora.characters import normalise_text
from corpora.inputs import Line, ReadMeter
from corpora.tables import text_lines
from corpora.text import Document, Sentence, split_document
from runtime.errors import UserError
from runtime.files import atomic_path, output_file

_NUMBER = re.compile("[0-9]{1,18}")  # int() refuses thousands of digits
_NO_WORD = re.compile(r"[0-9]{1,9}[-.][0-9]{1,9}")
"""Matches the id of a multiword range or an empty node."""
SEPARATOR = re.compile("[\t\n\r]")
"""Matches the characters that end a cell or a row; a word may hold any others, such as U+2028."""
TagColumn = Literal["xpos", "upos"]
_OPENING_WORD = re.compile(r"[(\[{$£€#“‘«/]|``?")
"""Matches words that no space follows."""
_CLOSING_WORD = re.compile(r"[,.;:!?%)\]}…’”»/]+|n['’]t|['’](s|re|ve|ll|d|m|t|')?|[nt]a", re.IGNORECASE)
"""Matches words that no space precedes."""


def read_packaged_table(name: str) -> list[dict[str, str]]:
    """Return the rows of a table in this package, each as a mapping by column."""
    with open(Path(__file__).with_name(name), encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream, delimiter="\t"))


_UPOS_BY_TAG = {
    tag: row["upos"] for row in read_packaged_table("upos.tsv") for tag in (row["upos"], *row["tags"].split())
}
UPOS_OF_RELATION = {
    row["relation"]: row["upos"] for row in read_packaged_table("relations.tsv") if row["upos"]
}
"""The UPOS tags that a relation allows at level 3 of the official validator, the usual tag first."""


def read_conllu(
    path: Path, *, tags: TagColumn = "xpos", name: str | None = None, meter: ReadMeter | None = None
) -> Iterator[Document]:
    """Yield the documents of a CoNLL-U file, in order.

    Args:
        path: the file.
        tags: the column that becomes ``Sentence.tags``; a ``_`` in XPOS is replaced by the UPOS.
        name: the first part of the id of a document that has none, by default the name of the file.
        meter: told how much of the file has been read.
    """
    sentences = _numbered_sentences(path, tags, meter)
    for (number, identifier), group in itertools.groupby(sentences, key=itemgetter(0)):
        yield from split_document(
            identifier or f"{name or path.name}#{number}", (sentence for _, sentence in group)
        )


def _numbered_sentences(
    path: Path, tags: TagColumn, meter: ReadMeter | None
) -> Iterator[tuple[tuple[int, str], Sentence]]:
    """Yield each sentence after the number and the id (or "") of its document."""
    number = 0
    identifier = ""
    has_sentences = False
    lines = text_lines(path, blank=True, meter=meter)
    for is_blank, block in itertools.groupby(lines, key=lambda line: not line.text.strip()):
        if is_blank:
            continue
        rows = []
        for line in block:
            key, _, value = line.text.removeprefix("#").partition("=")
            if not line.text.startswith("#"):
                rows.append(line)
            elif key.split() in (["newdoc"], ["newdoc", "id"]):
                if has_sentences:  # a document without sentences does not count
                    number += 1
                identifier = value.strip()
                has_sentences = False
        if rows:
            has_sentences = True
            yield (number, identifier), _conllu_sentence(path, rows, tags)


def _conllu_sentence(path: Path, rows: list[Line], tags: TagColumn) -> Sentence:
    """Return the sentence of some rows. Raises UserError with file and line of the first malformed row."""
    words: list[tuple[Line, list[str]]] = []
    for line in rows:
        columns = line.text.split("\t")
        if len(columns) != 10:
            raise UserError(f"{path}:{line.number}: {len(columns)} columns, CoNLL-U has 10")
        if "\r" in line.text:
            raise UserError(f"{path}:{line.number}: a carriage return within the row; remove it")
        if _NO_WORD.fullmatch(columns[0]):
            continue
        words.append((line, columns))
        if not columns[1]:
            raise UserError(f"{path}:{line.number}: an empty word; CoNLL-U writes _")
        if columns[0] != str(len(words)):
            raise UserError(f"{path}:{line.number}: word id {columns[0][:40]!r}, expected {len(words)}")
    if not words:
        raise UserError(f"{path}:{rows[0].number}: a sentence without words")
    tokens = tuple(columns[1] for _, columns in words)
    word_tags = tuple(c[3] if tags == "upos" or c[4] == "_" else c[4] for _, c in words)
    if all(columns[6] == "_" for _, columns in words):
        return Sentence(tokens, tags=word_tags)
    heads = []
    for position, (line, columns) in enumerate(words, start=1):
        head = int(columns[6]) if _NUMBER.fullmatch(columns[6]) else -1
        if not 0 <= head <= len(words) or head == position:
            allowed_heads = f"expected 0 to {len(words)} but not {position}"
            raise UserError(f"{path}:{line.number}: head {columns[6][:40]!r}, {allowed_heads}")
        heads.append(head)
    return Sentence(tokens, word_tags, tuple(heads), tuple(columns[7] for _, columns in words))


def write_conllu(path: Path, documents: Iterable[Document], *, guess_spaces: bool = False) -> None:
    """Write documents as CoNLL-U, see :func:`conllu_lines`."""
    with atomic_path(output_file(path)) as temporary, open(temporary, "w", encoding="utf-8") as stream:
        stream.writelines(conllu_lines(documents, guess_spaces=guess_spaces))


def conllu_lines(documents: Iterable[Document], *, guess_spaces: bool = False) -> Iterator[str]:
    """Yield the lines of CoNLL-U, with tags as XPOS and, mapped, as UPOS; missing annotation is ``_``.

    The words do not tell where the text had spaces. With ``guess_spaces``, ``# text`` and ``SpaceAfter``
    follow English typography. Raises UserError if a word is empty or has a tab or line break, which CoNLL-U
    cannot hold.
    """
    row = 0
    for document in documents:
        for index, sentence in enumerate(document.sentences):
            row += 1
            if index == 0 and not document.is_continuation:
                # The id may be the name of a file, which may hold line breaks.
                yield f"# newdoc id = {SEPARATOR.sub(' ', document.id)}\n"
            words = sentence.tokens
            blanks = ("_",) * len(words)
            tags, relations = sentence.tags or blanks, sentence.relations or blanks
            spaces = _spaces_after(words, tags, relations) if guess_spaces else [" "] * len(words)
            text = "".join(word + space for word, space in zip(words, spaces, strict=True))
            yield f"# sent_id = {row}\n# text = {text.rstrip()}\n"
            upos_tags = universal_tags(words, tags, relations)
            columns = zip(words, upos_tags, tags, sentence.heads or blanks, relations, spaces, strict=True)
            for number, (word, upos, xpos, head, relation, space) in enumerate(columns, start=1):
                if not word or SEPARATOR.search(word):
                    raise UserError(f"word {word!r} cannot be written as CoNLL-U")
                miscellaneous = "_" if space else "SpaceAfter=No"
                yield f"{number}\t{word}\t_\t{upos}\t{xpos}\t_\t{head}\t{relation}\t_\t{miscellaneous}\n"
            yield "\n"


def _spaces_after(words: Sequence[str], tags: Sequence[str], relations: Sequence[str]) -> list[str]:
    """Return " " or "" after each word, by English typography; straight quotes open and close in turn."""
    quotes = itertools.cycle("(,")
    print_forms = []
    for word, tag in zip(words, tags, strict=True):
        print_forms.append(next(quotes) if word == '"' else "/" if tag == "HYPH" else word)
    spaces = []
    for word, next_word, next_relation in zip(
        print_forms, [*print_forms[1:], " "], [*relations[1:], ""], strict=True
    ):
        is_close = _OPENING_WORD.fullmatch(word) or _CLOSING_WORD.fullmatch(next_word)
        spaces.append("" if is_close and next_relation != "goeswith" else " ")
    return spaces


def universal_tags(words: Sequence[str], tags: Sequence[str], relations: Sequence[str]) -> list[str]:
    """Return each word's UPOS by its Penn tag; if the relation excludes that, the relation's usual UPOS."""
    tags_of_words = []
    for word, tag, relation in zip(words, tags, strip_subtypes(relations), strict=True):
        upos = _UPOS_BY_TAG.get(tag, tag if tag in _UPOS_BY_TAG.values() else "X")
        if normalise_text(word).lower() in ("not", "n't") and (tag == "RB" or relation == "advmod"):
            upos = "PART"  # the English negation; German Not is a noun
        elif upos == "DET" and relation not in ("det", "advmod"):
            upos = "PRON"
        elif (tag, relation) == ("TO", "case"):
            upos = "ADP"
        elif upos == "PUNCT" and relation not in ("punct", "root", "_"):
            upos = "SYM"
        elif upos == "PROPN" and relation == "fixed":
            upos = "NOUN"
        usual_upos, *other_upos = UPOS_OF_RELATION.get(relation, upos).split()
        tags_of_words.append(upos if upos in other_upos else usual_upos)
    return tags_of_words


def strip_subtypes(relations: Sequence[str]) -> list[str]:
    """Return relations such as ``obl:tmod`` without their subtypes."""
    return [relation.partition(":")[0] for relation in relations]
