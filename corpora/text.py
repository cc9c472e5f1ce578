"""What flows from a corpus to a parser: words, sentences, documents; and text files as a corpus.

``lines``: every line is one sentence; one or more blank lines (only white space) end the document.
``running``: every line is running text, which is split into sentences; no sentence crosses a line. The
format is never guessed.
"""

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from corpora.characters import as_written, plain
from corpora.inputs import input_hash, list_files, read_lines, relative_name, share_read
from runtime.errors import UserError

MAX_PIECE = 8192
"""Most sentences per :class:`Document`; longer documents arrive in pieces to bound memory."""
# spaCy strips prefixes and suffixes one at a time, which is quadratic in the length of a run without white
# space. No English word is this long, so longer runs are cut into tokens of this many characters without it.
MAX_RUN = 200
_LONG_RUN = re.compile(rf"(\S{{{MAX_RUN + 1},}})")
MAX_LEXEMES = 1_000_000
"""spaCy keeps every word type it has seen; restarting the pipeline now and then bounds memory."""
Tokens = tuple[str, ...]


class Tokenizer:
    """Text to words and sentences: spaCy's rules for English, without a trained model, or white space.

    White-space tokens of spaCy's are dropped: parsers cannot take them. The rules see plain characters
    (:mod:`corpora.characters`), and the words come back as the text has them.

    ``name`` is ``spacy``, or ``space`` (split at white space; sentences by spaCy's rule).
    """

    def __init__(self, name: str, *, running: bool = True) -> None:
        if name not in ("spacy", "space"):
            raise UserError(f"--tokenize {name}: must be spacy or space")
        self.is_space, self.running = name == "space", running
        self.identity = "space"
        """Name and version: what decides the tokens."""
        if running or not self.is_space:
            spacy = f"spacy-{version('spacy')}-blank-en"
            self.identity = f"space, sentencizer of {spacy}" if self.is_space else spacy
            self._start()

    def _start(self) -> None:
        import spacy
        from spacy.attrs import IS_PUNCT, IS_SPACE
        from spacy.lang.lex_attrs import LEX_ATTRS
        from spacy.vocab import Vocab

        # Of the 23 attributes that spaCy works out for every new word (half of the time it takes for words),
        # tokens and sentences depend on these two.
        vocab = Vocab(lex_attr_getters={name: LEX_ATTRS[name] for name in (IS_SPACE, IS_PUNCT)})
        self._nlp: Any = spacy.blank("en", vocab=vocab)
        self._split: Any = self._nlp.add_pipe("sentencizer")

    def line(self, text: str) -> Tokens:
        """Return the tokens of one sentence; ``("",)`` for text without any."""
        return tuple(as_written(text, self._words(plain(text)))) or ("",)

    def sentences(self, text: str) -> list[Tokens]:
        """Return the sentences of running text; empty for text without tokens."""
        from spacy.tokens import Doc

        seen = plain(text)
        if self.is_space or _LONG_RUN.search(seen):
            doc = Doc(self._spacy().vocab, words=self._words(seen))
        else:
            doc = self._spacy().tokenizer(seen)
        spans = self._split(doc).sents if len(doc) else ()
        sentences = [[token.text for token in span if not token.is_space] for span in spans]
        written = iter(as_written(text, itertools.chain.from_iterable(sentences)))
        return [tuple(itertools.islice(written, len(sentence))) for sentence in sentences if sentence]

    def _words(self, text: str) -> list[str]:
        if self.is_space:
            return text.split()
        words: list[str] = []
        for number, part in enumerate(_LONG_RUN.split(text)):
            if number % 2:
                words += [part[start : start + MAX_RUN] for start in range(0, len(part), MAX_RUN)]
            else:
                words += [token.text for token in self._spacy().tokenizer(part) if not token.is_space]
        return words

    def _spacy(self) -> Any:
        if len(self._nlp.vocab) > MAX_LEXEMES:
            self._start()
        return self._nlp


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of tokens, word forms; an empty line of a corpus is one empty token.

    What may be None is gold annotation: a part-of-speech tag, a head (1-based, 0 for the root) and the
    relation to it for each token, and a constituency tree in PTB brackets, on one line.
    """

    tokens: Tokens
    tags: tuple[str, ...] | None = None
    heads: tuple[int, ...] | None = None
    relations: tuple[str, ...] | None = None
    tree: str | None = None
    replaced_bytes: bool = False
    """Whether undecodable bytes or NULs were replaced in this sentence."""
    truncated: bool = False
    """Whether the line was cut at the reader's length limit."""


@dataclass(frozen=True, slots=True)
class Document:
    """Sentences in running order, with an identifier unique within the corpus."""

    id: str
    sentences: tuple[Sentence, ...]
    continued: bool = False
    """Whether this continues the previous document (same id), which was too long to hold at once."""


@dataclass
class Corpus:
    """Documents in running order, read again by every iteration; the cache's folder has its name."""

    name: str
    documents: Callable[[], Iterator[Document]]
    _: KW_ONLY
    about: dict[str, str]
    """What decides the content besides the input, e.g. format and tokenizer."""
    hash_input: Callable[[], str]
    """Computes the input's hash; called at most once, on first use of the identity."""
    limit: int | None = None
    """Number of sentences to keep; None keeps all."""
    path: Path | None = None
    """The file or folder, for messages."""
    files: Sequence[Path] = ()
    """What is read, in this order."""
    length: int | None = None
    """Number of sentences, where that is known before they are read."""
    sentences_read: int = 0
    """By the iteration that is under way."""

    @functools.cached_property
    def identity(self) -> dict[str, str]:
        """Say what decides the content: reader, format, tokenizer, limit, and the hash of the input."""
        limit = {} if self.limit is None else {"first_sentences": str(self.limit)}
        return {**self.about, **limit, "input_sha256": self.hash_input()}

    def describe(self) -> str:
        """State in one line how the input is read, defaults included."""
        return f"{self.name}: " + ", ".join(f"{key} {value}" for key, value in self.about.items())

    def expected(self) -> int | None:
        """Estimate the number of sentences from the bytes that those read so far took, up to the limit."""
        total = self.length
        if total is None and self.sentences_read and (share := share_read(self.files)):
            total = round(self.sentences_read / share)
        return min((number for number in (total, self.limit) if number is not None), default=None)

    def __iter__(self) -> Iterator[Document]:
        self.sentences_read = 0
        for document in self.documents():
            if self.limit is not None:
                left = self.limit - self.sentences_read
                document = replace(document, sentences=document.sentences[:left])
            self.sentences_read += len(document.sentences)
            yield document
            if self.sentences_read == self.limit:
                return
        self.length = self.sentences_read
        if not self.sentences_read:
            raise UserError(f"{self.path or self.name}: holds no sentences ({self.describe()})")


def in_pieces(identifier: str, sentences: Iterable[Sentence]) -> Iterator[Document]:
    """Yield one document in pieces of at most :data:`MAX_PIECE` sentences; none if it has no sentences."""
    remaining = iter(sentences)
    continued = False
    while piece := tuple(itertools.islice(remaining, MAX_PIECE)):
        yield Document(identifier, piece, continued)
        continued = True


def sentences_of_file(
    file: Path, tokenizer: Tokenizer, clean: Callable[[str], str]
) -> Iterator[Sentence | None]:
    """Yield the sentences of a text, None for every blank line."""
    for line in read_lines(file):
        if not plain(line.text).strip():
            yield None
            continue
        text, running = clean(line.text), tokenizer.running
        sentences = tokenizer.sentences(text) if running else [tokenizer.line(text)]
        for number, tokens in enumerate(sentences, start=1):
            # In running text only those with replaced or cut words carry the line's marks.
            replaced = line.replaced and not (running and "\ufffd" not in "".join(tokens))
            cut = line.truncated and number == len(sentences)
            yield Sentence(tokens, replaced_bytes=replaced, truncated=cut)


def text_corpus(
    path: Path,
    *,
    format: str = "lines",
    tokenize: str = "spacy",
    limit: int | None = None,
    name: str = "",
    suffix: str = "",
    clean: Callable[[str], str] = str,
    about: Mapping[str, str] = {},
) -> Corpus:
    """Return the text file, or the files of a folder in sorted order, as a corpus.

    ``format`` is ``lines`` or ``running``, ``tokenize`` ``spacy`` or ``space``. A ``suffix`` chooses files of
    a folder. ``clean`` is applied to every line first, and ``about`` says what else decides the content.
    """
    if format not in ("lines", "running"):
        raise UserError(f"--format {format}: must be lines or running")
    files, tokenizer = list_files(path, suffix), Tokenizer(tokenize, running=format == "running")

    def documents() -> Iterator[Document]:
        for file in files:
            number, sentences = itertools.count(), sentences_of_file(file, tokenizer, clean)
            for is_blank, block in itertools.groupby(sentences, key=lambda sentence: sentence is None):
                if not is_blank:
                    identifier = f"{relative_name(path, file)}#{next(number)}"
                    yield from in_pieces(identifier, filter(None, block))

    return Corpus(
        name or path.resolve().name.split(".")[0] or "text",
        documents,
        about={"reader": "text-1", "format": format, "tokenizer": tokenizer.identity, **about},
        hash_input=lambda: input_hash(path, files),
        limit=limit,
        path=path,
        files=files,
    )
