"""Words and sentences: spaCy's rule-based English tokenizer and sentencizer, or white space.

``spacy.blank("en")`` needs no trained model. One CPU core tokenises about 20,000 sentences of 23 tokens per
second, which is little compared to parsing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any, Protocol, cast

from corpora.support.errors import UserError

Tokens = tuple[str, ...]

# spaCy strips prefixes and suffixes one at a time, which is quadratic in the length of a run without white
# space: 16,384 times "(" took 27 s, 16,384 characters of "'s's's" 43 s. No English word is this long, so
# longer runs are cut into tokens of this many characters without spaCy.
MAX_RUN = 200
_LONG_RUN = re.compile(rf"(\S{{{MAX_RUN + 1},}})")
# spaCy keeps every word type it has seen; restarting the pipeline now and then bounds memory.
MAX_LEXEMES = 1_000_000


class Tokenizer(Protocol):
    """Text to tokens."""

    identity: str
    """Name and version: what decides the tokens."""

    def line(self, text: str) -> Tokens:
        """Tokens of one sentence; ``("",)`` for text without any."""
        ...

    def sentences(self, text: str) -> list[Tokens]:
        """Sentences of running text; empty for text without tokens."""
        ...


class SpacyTokenizer:
    """spaCy's English rules. White-space tokens are dropped: parsers cannot take them."""

    def __init__(self) -> None:
        import spacy

        self.identity = f"spacy-{version('spacy')}-blank-en"
        self._blank = spacy.blank
        self._start()

    def _start(self) -> None:
        from spacy.attrs import IS_PUNCT, IS_SPACE

        self._nlp: Any = self._blank("en")
        # Of the 23 attributes that spaCy works out for every new word (half of the time it takes for words),
        # tokens and sentences depend on these two.
        vocab = cast(Any, self._nlp.vocab)
        vocab.lex_attr_getters = {name: vocab.lex_attr_getters[name] for name in (IS_SPACE, IS_PUNCT)}
        self._split: Any = self._nlp.add_pipe("sentencizer")

    def _check_memory(self) -> None:
        if len(self._nlp.vocab) > MAX_LEXEMES:
            self._start()

    def line(self, text: str) -> Tokens:
        """Tokens of one sentence; ``("",)`` for text without any."""
        self._check_memory()
        return tuple(self._words(text)) or ("",)

    def sentences(self, text: str) -> list[Tokens]:
        """Sentences of running text; empty for text without tokens."""
        self._check_memory()
        if len(text) > MAX_RUN and _LONG_RUN.search(text):
            return self.split_tokens(self._words(text))
        doc = self._split(self._nlp.tokenizer(text))
        sentences = (tuple(t.text for t in span if not t.is_space) for span in doc.sents)
        return [sentence for sentence in sentences if sentence]

    def split_tokens(self, tokens: Sequence[str]) -> list[Tokens]:
        """Split tokenised running text into sentences with the sentencizer's rule."""
        from spacy.tokens import Doc

        self._check_memory()
        doc = self._split(Doc(self._nlp.vocab, words=list(tokens)))
        spans = doc.sents if len(doc) else ()
        return [tuple(tokens[span.start : span.end]) for span in spans]

    def _words(self, text: str) -> list[str]:
        words: list[str] = []
        for number, part in enumerate(_LONG_RUN.split(text)):
            if number % 2:
                words += [part[start : start + MAX_RUN] for start in range(0, len(part), MAX_RUN)]
            else:
                words += [token.text for token in self._nlp.tokenizer(part) if not token.is_space]
        return words


class SpaceTokenizer:
    """Splits at white space; running text is cut into sentences by spaCy's sentencizer rule."""

    def __init__(self, *, running: bool = False) -> None:
        self._splitter = SpacyTokenizer() if running else None
        self.identity = f"space, sentencizer of {self._splitter.identity}" if self._splitter else "space"

    def line(self, text: str) -> Tokens:
        """Tokens of one sentence; ``("",)`` for text without any."""
        return tuple(text.split()) or ("",)

    def sentences(self, text: str) -> list[Tokens]:
        """Sentences of running text; empty for text without tokens."""
        assert self._splitter is not None, "made for lines"
        return self._splitter.split_tokens(text.split())


def make_tokenizer(name: str, *, running: bool) -> Tokenizer:
    """The tokenizer called ``spacy`` or ``space``.

    Args:
        name: as on the command line.
        running: whether it must split running text into sentences.

    Raises:
        UserError: unknown name.
    """
    if name == "spacy":
        return SpacyTokenizer()
    if name == "space":
        return SpaceTokenizer(running=running)
    raise UserError(f"--tokenize {name}: must be spacy or space")
