"""A parser by itself: text in, sentences with both trees out.

    from parsing import load

    trees = load()("Some text. Two sentences.")
    print(trees[0])                # or just `trees` in a notebook, which draws them
    trees[0].heads, trees[0].spans
    trees.to_conllu(), trees.to_ptb()

The sentences are those that ``parsing.run`` would cache: the same tokenizer, parsers and fallbacks.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, overload

from corpora.support.errors import UserError
from corpora.tokenize import make_tokenizer
from parsing.models import load_constituency_parser, load_dependency_parser
from parsing.networks.config import Precision
from parsing.pipeline.parse_shard import MAX_TOKENS, inventories_of, parse_sentences
from parsing.sentences import ParsedSentence, batch_sentences
from parsing.trees.parsers import check_tokens

if TYPE_CHECKING:
    from parsing.trees.parsers import ConstituencyParser, DependencyParser

CHUNK = 2048
"""Sentences parsed at once: enough for full batches, little memory."""


class Trees(Sequence[ParsedSentence]):
    """The sentences of a text, in order."""

    def __init__(self, sentences: Iterable[ParsedSentence]) -> None:
        self._sentences = tuple(sentences)

    @overload
    def __getitem__(self, index: int) -> ParsedSentence: ...
    @overload
    def __getitem__(self, index: slice) -> Trees: ...
    def __getitem__(self, index: int | slice) -> ParsedSentence | Trees:
        if isinstance(index, slice):
            return Trees(self._sentences[index])
        return self._sentences[index]

    def __len__(self) -> int:
        return len(self._sentences)

    def __repr__(self) -> str:
        return f"<Trees of {len(self)} sentences, {sum(len(s.words) for s in self)} words; str() draws them>"

    def __str__(self) -> str:
        return "\n\n\n".join(map(str, self))

    def _repr_html_(self) -> str:
        return "".join(sentence._repr_html_() for sentence in self)

    def to_conllu(self) -> str:
        """All sentences in CoNLL-U, tags in XPOS."""
        return "".join(sentence.to_conllu() for sentence in self)

    def to_ptb(self) -> str:
        """All constituency trees in Penn Treebank brackets, one a line."""
        return "".join(f"{sentence.to_ptb()}\n" for sentence in self)


class TextParser:
    """Tokenizer and parsers; call it with a text. Made by :func:`load`.

    Args:
        dependency: parser, or None to leave dependencies out.
        constituency: parser, or None to leave constituents and tags out.
        max_tokens: longer sentences are not parsed: they get a fallback tree and a flag.
    """

    def __init__(
        self,
        dependency: DependencyParser | None,
        constituency: ConstituencyParser | None,
        *,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        if dependency is None and constituency is None:
            raise UserError("dep and const are both None: nothing to parse with")
        self.dependency, self.constituency, self.max_tokens = dependency, constituency, max_tokens
        self.inventories = inventories_of(dependency, constituency)
        self._tokenizer = make_tokenizer("spacy", running=True)

    def __repr__(self) -> str:
        parsers = (self.dependency, self.constituency)
        names = [f"{p.identity['name']} {p.identity['version']}" for p in parsers if p is not None]
        return f"TextParser({', '.join(names)})"

    def __call__(self, text: str) -> Trees:
        """Parse running text of any length.

        Raises:
            UserError: not a string; :meth:`parse` takes tokens.
        """
        if not isinstance(text, str):
            raise UserError(f"a text is a string, this is a {type(text).__name__}; .parse() takes tokens")
        return self.parse(self._tokenizer.sentences(text))

    def parse(self, sentences: Iterable[Sequence[str]]) -> Trees:
        """Parse tokenised sentences, [sentences][tokens].

        Raises:
            UserError: a sentence is a string, or a token is none.
        """
        return Trees(self.stream(sentences))

    def stream(self, sentences: Iterable[Sequence[str]]) -> Iterator[ParsedSentence]:
        """Like :meth:`parse`, a few thousand sentences in memory at a time."""
        rest = iter(sentences)
        first = 0
        while chunk := list(itertools.islice(rest, CHUNK)):
            check_tokens(chunk, first)
            batch = parse_sentences(chunk, self.dependency, self.constituency, max_tokens=self.max_tokens)
            yield from batch_sentences(batch, self.inventories)
            first += len(chunk)


def load(
    dep: str | None = "builtin",
    const: str | None = "builtin",
    *,
    precision: Precision = "fp32",
    max_tokens: int = MAX_TOKENS,
    trust_pickle: bool = False,
) -> TextParser:
    """The parsers of a specification, ready for text.

    Args:
        dep: ``builtin``, a model folder, or a name that supar's authors publish (``biaffine-dep-en``);
            None leaves dependencies out.
        const: ``builtin``, a model folder, or a benepar model by name (``benepar_en3``) or file; None leaves
            constituents and tags out.
        precision: arithmetic of the encoders.
        max_tokens: longer sentences get a fallback tree and a flag.
        trust_pickle: supar publishes pickles, which can run code when opened; with this one is fetched,
            opened once and kept as a model folder in ``$XDG_CACHE_HOME/multiview/parsers``.

    Raises:
        UserError: no such model, or one that needs ``trust_pickle``.
    """
    if dep is not None and trust_pickle and dep != "builtin" and not Path(dep).is_dir():
        dep = str(_converted(dep))
    return TextParser(
        None if dep is None else load_dependency_parser(dep, precision),
        None if const is None else load_constituency_parser(const, precision),
        max_tokens=max_tokens,
    )


def _converted(checkpoint: str) -> Path:
    """The model folder of one of supar's checkpoints, converted the first time."""
    from parsing.convert import Convert, convert_dependency

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "multiview" / "parsers" / Path(checkpoint).name
    if not folder.is_dir():
        convert_dependency(Convert(checkpoint=checkpoint, output=folder, trust_pickle=True))
    return folder
