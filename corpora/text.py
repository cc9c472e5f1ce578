"""Sentences, documents and corpora, which parsers read, and the reader of text files.

Text has one of two formats, which is never guessed. ``lines``: every line is one sentence; one or more blank
lines (only white space) end the document. ``running``: every line is running text, which is split into
sentences; no sentence crosses a line.
"""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from corpora.characters import normalise_text, original_words
from corpora.inputs import ReadMeter, input_hash, list_files, read_lines, relative_name
from runtime.errors import UserError
from runtime.files import path_of
from runtime.process import cached_property

MAX_SENTENCES = 8192
"""The largest number of sentences of a :class:`Document`; longer ones come in pieces, to bound memory."""
# spaCy strips prefixes and suffixes one at a time, which is quadratic in the length of text without white
# space. Longer runs are therefore cut into tokens of this many characters; no English word is as long.
MAX_RUN = 200
_LONG_RUN = re.compile(rf"(\S{{{MAX_RUN + 1},}})")
_SEVERAL_SENTENCES = re.compile(r"[^\w\s,;:]\s")
"""Matches a place where one sentence may end and another may begin."""
MAX_LEXEMES = 1_000_000
"""The number of word types after which spaCy is started anew, because it keeps each type in memory."""
Tokens = tuple[str, ...]
Span = tuple[int, int, str]
"""First word, one past the last word, label."""
CHAIN_JOINER = "::"
"""The separator between the labels of a unary chain, the outermost label first."""


class Tokenizer:
    """Splits text into words and sentences by spaCy's rules for English, which need no trained model.

    White-space tokens of spaCy are removed, because parsers cannot take them. The rules read normalised text
    (:mod:`corpora.characters`); the words are returned as they are written.

    ``name`` is ``spacy``, or ``space``, which splits words at white space and sentences by spaCy's rule. With
    ``running`` the text may hold several sentences.

    >>> from corpora.text import Tokenizer
    >>> Tokenizer("spacy").sentences("It rained. We didn't go.")
    [('It', 'rained', '.'), ('We', 'did', "n't", 'go', '.')]
    """

    def __init__(self, name: str, *, running: bool = True) -> None:
        if name not in ("spacy", "space"):
            raise UserError(f"--tokenize {name}: must be spacy or space")
        self.is_space = name == "space"
        self.is_running = running
        self.identity = "space"
        """The name and the version, which decide the tokens."""
        if running or not self.is_space:
            spacy_rules = f"spacy-{version('spacy')}-blank-en"
            self.identity = f"space, sentencizer of {spacy_rules}" if self.is_space else spacy_rules
            self._start()

    def _start(self) -> None:
        """Start spaCy's pipeline, with an empty vocabulary."""
        import spacy
        from spacy.attrs import IS_PUNCT, IS_SPACE
        from spacy.lang.lex_attrs import LEX_ATTRS
        from spacy.vocab import Vocab

        # For every new word spaCy computes 23 attributes, which takes half of the time. Tokens and sentences
        # depend on these two alone.
        vocab = Vocab(lex_attr_getters={name: LEX_ATTRS[name] for name in (IS_SPACE, IS_PUNCT)})
        self._nlp: Any = spacy.blank("en", vocab=vocab)
        self._split: Any = self._nlp.add_pipe("sentencizer")

    def tokenize(self, text: str) -> Tokens:
        """Return the tokens of one sentence, or ``("",)`` if the text has none."""
        return tuple(original_words(text, self._words(normalise_text(text)))) or ("",)

    def sentences(self, text: str) -> list[Tokens]:
        """Return the tokens of each sentence of running text; text without tokens has no sentence."""
        from spacy.tokens import Doc

        plain_text = normalise_text(text)
        if self.is_space or _LONG_RUN.search(plain_text):
            doc = Doc(self._spacy().vocab, words=self._words(plain_text))
        else:
            doc = self._spacy().tokenizer(plain_text)
        spans = self._split(doc).sents if len(doc) else ()
        sentences = [[token.text for token in span if not token.is_space] for span in spans]
        written_words = iter(original_words(text, itertools.chain.from_iterable(sentences)))
        return [tuple(itertools.islice(written_words, len(sentence))) for sentence in sentences if sentence]

    def split_sentences(self, text: str) -> list[str]:
        """Return the sentences of running text as strings, with single spaces as white space."""
        text = " ".join(text.split())
        if not _SEVERAL_SENTENCES.search(text) or _LONG_RUN.search(text):
            return [text]
        return [span.text for span in self._split(self._spacy().tokenizer(text)).sents]

    def _words(self, text: str) -> list[str]:
        """Return the tokens of a text; runs over :data:`MAX_RUN` characters are cut."""
        if self.is_space:
            return text.split()
        words: list[str] = []
        for number, part in enumerate(_LONG_RUN.split(text)):
            if number % 2:  # a long run, the separator that the pattern captures
                words += [part[first : first + MAX_RUN] for first in range(0, len(part), MAX_RUN)]
            else:
                words += [token.text for token in self._spacy().tokenizer(part) if not token.is_space]
        return words

    def _spacy(self) -> Any:
        """Return spaCy's pipeline, which is started anew if its vocabulary is too large."""
        if len(self._nlp.vocab) > MAX_LEXEMES:
            self._start()
        return self._nlp


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence: its tokens are word forms; an empty line of a corpus is one empty token.

    Annotation that is missing is None. ``tags``, ``heads`` (1-based, 0 for the root) and ``relations`` have a
    value for each token; ``spans`` are the labelled spans of a constituency tree in preorder, the whole
    sentence first.
    """

    tokens: Tokens
    tags: tuple[str, ...] | None = None
    heads: tuple[int, ...] | None = None
    relations: tuple[str, ...] | None = None
    spans: tuple[Span, ...] | None = None
    has_replaced_bytes: bool = False
    """Whether undecodable bytes or NULs were replaced in this sentence."""
    is_truncated: bool = False
    """Whether the line of the sentence was cut at the reader's length limit."""


@dataclass(frozen=True, slots=True)
class Document:
    """Successive sentences, with an identifier that is unique within the corpus."""

    id: str
    sentences: tuple[Sentence, ...]
    is_continuation: bool = False
    """Whether this is the next piece of the previous document, of the same id, which was too long."""


@dataclass
class Corpus:
    """A collection of documents; every iteration reads them again, in the same order."""

    name: str
    """Name of the corpus, and of the folder of its tree cache."""
    documents: Callable[[], Iterator[Document]]
    """Reads the documents."""
    _: KW_ONLY
    settings: dict[str, str]
    """The settings that decide the content besides the input, such as format and tokenizer."""
    hash_input: Callable[[], str]
    """Computes the hash of the input; it is called once, when the identity is first used."""
    limit: int | None = None
    """Number of sentences to keep; None keeps all."""
    path: Path | None = None
    """The file or folder, for messages."""
    meter: ReadMeter | None = None
    """Measures how much of the files has been read."""
    length: int | None = None
    """Number of sentences, if it is known before they are read."""
    sentences_read: int = 0
    """Number of sentences that the current iteration has read."""

    @cached_property
    def identity(self) -> dict[str, str]:
        """Everything that decides the content: reader, format, tokenizer, limit, hash of the input."""
        limit = {} if self.limit is None else {"first_sentences": str(self.limit)}
        return {**self.settings, **limit, "input_sha256": self.hash_input()}

    def describe(self) -> str:
        """Return a line with the name and all settings, defaults included."""
        return f"{self.name}: " + ", ".join(f"{key} {value}" for key, value in self.settings.items())

    def estimate_length(self) -> int | None:
        """Estimate the number of sentences, at most the limit, from the share of bytes read so far."""
        length = self.length
        if length is None and self.sentences_read and self.meter and (share := self.meter.share_read()):
            length = round(self.sentences_read / share)
        return min((number for number in (length, self.limit) if number is not None), default=None)

    def __iter__(self) -> Iterator[Document]:
        self.sentences_read = 0
        for document in self.documents():
            if self.limit is not None:
                remaining_count = self.limit - self.sentences_read
                document = replace(document, sentences=document.sentences[:remaining_count])
            self.sentences_read += len(document.sentences)
            yield document
            if self.sentences_read == self.limit:
                return
        self.length = self.sentences_read
        if not self.sentences_read:
            raise UserError(f"{self.path or self.name}: holds no sentences ({self.describe()})")


def split_document(identifier: str, sentences: Iterable[Sentence]) -> Iterator[Document]:
    """Yield a document in pieces of at most :data:`MAX_SENTENCES` sentences; no piece is empty."""
    remaining_sentences = iter(sentences)
    is_continuation = False
    while piece := tuple(itertools.islice(remaining_sentences, MAX_SENTENCES)):
        yield Document(identifier, piece, is_continuation)
        is_continuation = True


def sentences_of_file(
    file: Path, tokenizer: Tokenizer, clean: Callable[[str], str], meter: ReadMeter
) -> Iterator[Sentence | None]:
    """Yield the sentences of a text file, and None for every blank line.

    Args:
        file: the file.
        tokenizer: splits each line.
        clean: applied to each line first.
        meter: told how much of the file has been read.
    """
    for line in read_lines(file, meter=meter):
        if not normalise_text(line.text).strip():
            yield None
            continue
        text = clean(line.text)
        sentences = tokenizer.sentences(text) if tokenizer.is_running else [tokenizer.tokenize(text)]
        for number, tokens in enumerate(sentences, start=1):
            # Of a line of running text, only the sentences with replaced or cut words are marked.
            has_mark = not tokenizer.is_running or "\ufffd" in "".join(tokens)
            is_replaced = line.has_replacements and has_mark
            is_truncated = line.is_truncated and number == len(sentences)
            yield Sentence(tokens, has_replaced_bytes=is_replaced, is_truncated=is_truncated)


def text_corpus(
    path: Path | str,
    *,
    format: str = "lines",
    tokenize: str = "spacy",
    limit: int | None = None,
    name: str = "",
    suffix: str = "",
    clean: Callable[[str], str] = str,
    settings: Mapping[str, str] = {},
) -> Corpus:
    """Return a text file, or the files of a folder in sorted order, as a corpus.

    Args:
        path: the file or folder.
        format: ``lines`` or ``running``.
        tokenize: ``spacy`` or ``space``.
        limit: the number of sentences to keep; None keeps all.
        name: the name of the corpus, by default that of the path.
        suffix: the suffix of the files to read from a folder.
        clean: applied to every line first.
        settings: further settings that decide the content.
    """
    path = path_of(path, "corpus")
    if format not in ("lines", "running"):
        raise UserError(f"--format {format}: must be lines or running")
    tokenizer = Tokenizer(tokenize, running=format == "running")

    def documents_of(file: Path, meter: ReadMeter) -> Iterator[Document]:
        numbers = itertools.count()
        sentences = sentences_of_file(file, tokenizer, clean, meter)
        for is_blank, block in itertools.groupby(sentences, key=lambda sentence: sentence is None):
            if not is_blank:
                identifier = f"{relative_name(path, file)}#{next(numbers)}"
                yield from split_document(identifier, filter(None, block))

    settings = {"reader": "text-1", "format": format, "tokenizer": tokenizer.identity, **settings}
    return corpus_of_files(path, list_files(path, suffix), documents_of, settings, limit, name)


def corpus_of_files(
    path: Path,
    files: list[Path],
    documents_of: Callable[[Path, ReadMeter], Iterator[Document]],
    settings: dict[str, str],
    limit: int | None,
    name: str = "",
) -> Corpus:
    """Return files as a corpus.

    Args:
        path: the file, or the folder of the files.
        files: the files, in order.
        documents_of: reads the documents of one file.
        settings: the settings that decide the content besides the files.
        limit: the number of sentences to keep; None keeps all.
        name: the name of the corpus, by default that of the path.
    """
    meter = ReadMeter(files)
    return Corpus(
        name or path.resolve().name.split(".")[0] or "text",
        lambda: itertools.chain.from_iterable(documents_of(file, meter) for file in files),
        settings=settings,
        hash_input=lambda: input_hash(path, files),
        limit=limit,
        path=path,
        meter=meter,
    )
