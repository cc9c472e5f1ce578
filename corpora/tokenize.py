"""Words and sentences: spaCy's rule-based English tokenizer and sentencizer, or white space.

``spacy.blank("en")`` needs no trained model. One CPU core tokenises about 20,000 sentences of 23 tokens per
second, which is little compared to parsing.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any, cast

from corpora.support.errors import UserError

Tokens = tuple[str, ...]

# spaCy strips prefixes and suffixes one at a time, which is quadratic in the length of a run without white
# space. No English word is this long, so longer runs are cut into tokens of this many characters without it.
MAX_RUN = 200
_LONG_RUN = re.compile(rf"(\S{{{MAX_RUN + 1},}})")
# spaCy keeps every word type it has seen; restarting the pipeline now and then bounds memory.
MAX_LEXEMES = 1_000_000


class Tokenizer:
    """Text to words and sentences.

    White-space tokens of spaCy's are dropped: parsers cannot take them.

    Args:
        name: ``spacy`` (its English rules) or ``space`` (split at white space; sentences by spaCy's rule).
        running: whether it is to split running text into sentences.

    Raises:
        UserError: another name.
    """

    def __init__(self, name: str, *, running: bool = True) -> None:
        if name not in ("spacy", "space"):
            raise UserError(f"--tokenize {name}: must be spacy or space")
        self.is_space = name == "space"
        self.identity = "space"
        """Name and version: what decides the tokens."""
        if running or not self.is_space:
            spacy = f"spacy-{version('spacy')}-blank-en"
            self.identity = f"space, sentencizer of {spacy}" if self.is_space else spacy
            self._start()

    def _start(self) -> None:
        import spacy
        from spacy.attrs import IS_PUNCT, IS_SPACE

        self._nlp: Any = spacy.blank("en")
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
        return tuple(self._words(text)) or ("",)

    def sentences(self, text: str) -> list[Tokens]:
        """Sentences of running text; empty for text without tokens."""
        from spacy.tokens import Doc

        self._check_memory()
        if self.is_space or _LONG_RUN.search(text):
            words = self._words(text)
            doc = self._split(Doc(self._nlp.vocab, words=words))
            spans = doc.sents if words else ()
            return [tuple(words[span.start : span.end]) for span in spans]
        doc = self._split(self._nlp.tokenizer(text))
        sentences = (tuple(t.text for t in span if not t.is_space) for span in doc.sents)
        return [sentence for sentence in sentences if sentence]

    def _words(self, text: str) -> list[str]:
        if self.is_space:
            return text.split()
        self._check_memory()
        words: list[str] = []
        for number, part in enumerate(_LONG_RUN.split(text)):
            if number % 2:
                words += [part[start : start + MAX_RUN] for start in range(0, len(part), MAX_RUN)]
            else:
                words += [token.text for token in self._nlp.tokenizer(part) if not token.is_space]
        return words
