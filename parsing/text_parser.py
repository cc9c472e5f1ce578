"""Parses sentences with one or two parsers, for ``parsing.run``, ``encode``, spaCy and direct use.

Examples are in docs/parsing-alone.md. A sentence that a parser cannot take keeps its place, with a fallback
tree and a flag. The trees of a sentence do not depend on the sentences that are parsed with it.

Legend of dimension suffixes: B sentences, N tokens.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from corpora.characters import VERSION, normalise_text
from corpora.inputs import NOT_UTF8, is_encodable
from corpora.sentences import read_sentences
from corpora.text import Tokenizer, Tokens
from parsing.names import find_parser
from parsing.trees.batch import (
    BLANK_TOKEN,
    DUMMY_NAME,
    EMPTY,
    FALLBACK_NAME,
    MAX_TOKENS,
    TOO_LONG,
    Batch,
    ConstituencyParser,
    DependencyParser,
    DeviceLost,
    Inventories,
    JointParser,
    UInt8,
)
from parsing.trees.parses import Report, batch_of_parses, fault_line
from parsing.trees.sentences import Trees, batch_sentences
from runtime.cli import warn_once
from runtime.errors import UserError, out_of_memory
from runtime.process import cached_property, loading, state_without

if TYPE_CHECKING:
    import torch

    from runtime.products import ProductKind

SAMPLE = 50
"""The number of sentences by which it is decided whether a text is English."""
EASY_SENTENCE = ("The", "cat", "sat", "on", "the", "mat", ".")
"""A sentence that every parser can parse."""

Parse = TypeVar("Parse")


class TextParser:
    """A tokenizer and one or two parsers, made by :func:`load` and called with a text.

    >>> import parsing
    >>> trees = parsing.load()("The lawyer praised the doctor.")
    >>> trees[0].heads
    [2, 3, 0, 5, 3, 3]
    """

    def __init__(
        self,
        dependency: DependencyParser | None,
        constituency: ConstituencyParser | None,
        *,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        self.dependency, self.constituency, self.max_tokens = dependency, constituency, max_tokens
        self.inventories = Inventories(
            relations=(*dependency.relations, FALLBACK_NAME) if dependency else (),
            labels=(*constituency.labels, DUMMY_NAME) if constituency else (),
            tags=(*constituency.tags, FALLBACK_NAME) if constituency else (),
        )
        """The names of the parsers' ids, with the reserved last names."""

    def __getstate__(self) -> dict[str, object]:
        return state_without(self, "_tokenizer")

    @property
    def identity(self) -> dict[str, Any]:
        """The parsers and options that decide the trees of a sentence; part of a tree cache's identity."""
        return {
            "dependency": dict(self.dependency.identity) if self.dependency else None,
            "constituency": dict(self.constituency.identity) if self.constituency else None,
            "options": {"max_tokens": self.max_tokens, "characters": VERSION},
        }

    def __call__(self, text: str) -> Trees:
        """Parse running text of any length; a line break ends a sentence, as in files."""
        if not isinstance(text, str):
            raise UserError(f"a text is a string, this is a {type(text).__name__}; .parse() takes tokens")
        if not is_encodable(text):
            raise UserError(f"parse: {text!r:.60}: {NOT_UTF8}")
        lines = re.split("\r?\n" if "\n" in text else "\r", text)
        return self.parse([tokens for line in lines for tokens in self._tokenizer.sentences(line)])

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        with loading():
            return Tokenizer("spacy", running=True)

    def parse(self, sentences: Iterable[Sequence[str]]) -> Trees:
        """Parse lists of tokens. Raises UserError, with the number of the sentence, if one is not a list."""
        rows = read_sentences(sentences, "parse", strings=False)
        return Trees(batch_sentences(self.parse_to_batch(rows), self.inventories))

    def parse_to_batch(
        self,
        sentences: Sequence[Sequence[str]],
        flags: Sequence[int] | None = None,
        report: Report = warn_once,
    ) -> Batch:
        """Parse sentences into a batch of trees.

        Args:
            sentences: lists of tokens.
            flags: flags that the reader of the text has set, [B]; None means none.
            report: called with a line for each sentence on which a parser failed.
        """
        sentences = read_sentences(sentences, "parse", strings=False, spaces=True)
        rows, flags_B, parsable = select_parsable(sentences, flags, self.max_tokens)
        if self._is_foreign(rows):
            fact = "few of these words are English, which alone the builtin parsers know"
            report(f"{fact}: trees will be wrong")
        # Parsers that share an encoder run together. Sentences that fail are parsed by each parser alone.
        pairs: dict[int, Any] = {}
        if isinstance(self.dependency, JointParser) and self.dependency.shares_encoder(self.constituency):
            parse_both = functools.partial(self.dependency.parse_with, self.constituency)
            pairs = parse_each(parse_both, rows, parsable, "joint", lambda fault: None)
        others = [i for i in parsable if i not in pairs]
        dependencies = constituents = None
        if self.dependency is not None:
            dependencies = {i: dependency_parse for i, (dependency_parse, _) in pairs.items()}
            dependencies |= parse_each(self.dependency.parse, rows, others, "dependency", report)
        if self.constituency is not None:
            constituents = {i: constituency_parse for i, (_, constituency_parse) in pairs.items()}
            constituents |= parse_each(self.constituency.parse, rows, others, "constituency", report)
        return batch_of_parses(rows, flags_B, self.inventories, dependencies, constituents, report)

    def _is_foreign(self, sentences: Sequence[Tokens]) -> bool:
        """Tell whether a builtin parser knows so few of the first words that they are not English.

        It knows 96 % of the words of English books, 92 % of those of Wikipedia, and 10 to 49 % of those of
        other European languages.
        """
        parser = self.dependency or self.constituency
        if not isinstance(parser, JointParser) or not parser.identity.get("name", "").startswith("builtin"):
            return False
        tokens = itertools.chain.from_iterable(sentences[:SAMPLE])
        words = [word for word in tokens if len(word) > 1 and word[0].isalpha()]
        known_words = sum(map(parser.knows, words))
        chance = len(words) ** 0.5 / 2  # allows for a small sample
        return len(words) > 3 and known_words < 0.6 * len(words) - chance


@loading()
def load(
    dep: str | None = "builtin",
    const: str | None = "builtin",
    *,
    device: str | torch.device = "cpu",
    products: ProductKind | None = None,
    max_tokens: int = MAX_TOKENS,
) -> TextParser:
    """Load one or two parsers.

    Args:
        dep: the dependency parser, as in :func:`load_parser`; None leaves out dependency trees.
        const: the constituency parser; None leaves out constituency trees.
        device: where sentences are encoded and scored.
        products: the kind of products on a CPU, ``float32`` (None) or ``int8``.
        max_tokens: longer sentences get a fallback tree.

    Raises UserError if both parsers are None, or as :func:`load_parser` does.
    """
    if dep is None and const is None:
        raise UserError("dep and const are both None: nothing to parse with")
    dependency = None if dep is None else load_parser("dep", dep, device, products)
    constituency = None if const is None else load_parser("const", const, device, products)
    return TextParser(dependency, constituency, max_tokens=max_tokens)


@loading()
def load_parser(
    kind: str,
    spec: str = "builtin",
    device: str | torch.device = "cpu",
    products: ProductKind | None = None,
) -> Any:
    """Load the parser that ``--dep-model`` or ``--const-model`` names.

    Args:
        kind: ``dep`` or ``const``.
        spec: ``builtin``, or a folder of parsing.train or parsing.convert; for ``const`` also a benepar model
            by name (``benepar_en3``), file or folder.
        device: where sentences are encoded and scored; a GPU is part of the parser's identity.
        products: the kind of products on a CPU, ``float32`` (None) or ``int8``; int8 is part of the identity.

    Raises UserError if the model or the device does not exist, or if the model is damaged or has to be
    converted first.
    """
    from runtime.device import pick_device
    from runtime.products import products_in

    if kind not in ("dep", "const"):
        raise UserError(f"load_parser: kind={kind!r:.40}: dep or const")
    parser: Any
    folder = find_parser(kind, spec)
    with products_in(products):
        if folder is None:
            from parsing.libraries.benepar import load_benepar

            parser = load_benepar(spec)
        elif kind == "dep":
            from parsing.networks.dependency import BiaffineParser, DependencyModel

            parser = BiaffineParser(DependencyModel.load(folder))
        else:
            from parsing.networks.constituency import ConstituencyModel, SpanParser

            parser = SpanParser(ConstituencyModel.load(folder))
    torch_device = pick_device(device)
    if torch_device.type != "cpu":
        parser.to(torch_device)
    return parser


def select_parsable(
    sentences: Sequence[Sequence[str]], flags: Sequence[int] | None, max_tokens: int
) -> tuple[list[Tokens], UInt8, list[int]]:
    """Return the sentences to store, their flags [B], and the indices of the sentences that can be parsed."""
    to_store: list[Tokens] = []
    flags_B = np.zeros(len(sentences), np.uint8) if flags is None else np.array(flags, np.uint8)
    parsable: list[int] = []
    for i, tokens in enumerate(map(tuple, sentences)):
        is_blank = [not normalise_text(word).strip() for word in tokens]
        if all(is_blank):
            flags_B[i] |= EMPTY
            tokens = ("",)
        elif len(tokens) > max_tokens:
            flags_B[i] |= TOO_LONG
        elif any(is_blank):
            flags_B[i] |= BLANK_TOKEN
        else:
            parsable.append(i)
        to_store.append(tokens)
    return to_store, flags_B, parsable


def parse_each(
    parse: Callable[[Sequence[Tokens]], Sequence[Parse]],
    sentences: list[Tokens],
    indices: list[int],
    name: str,
    report: Report,
) -> dict[int, Parse]:
    """Parse some of the sentences; return the parses by index. If a batch fails, its halves are tried.

    A sentence that fails alone is reported and left out. Errors that no sentence causes are raised, because
    trees must not depend on them: a lack of memory, a lost device, a parser that fails on an easy sentence.

    Args:
        parse: parses a batch.
        sentences: all sentences.
        indices: the sentences to parse.
        name: the name of the parser in messages.
        report: called with a line for each sentence that fails.
    """
    if not indices:
        return {}
    try:
        parses = parse([sentences[i] for i in indices])
        if len(parses) != len(indices):
            raise ValueError(f"{len(parses)} parses of {len(indices)} sentences")
        return dict(zip(indices, parses, strict=True))
    except Exception as error:
        if out_of_memory(error) or isinstance(error, DeviceLost):
            raise
        if len(indices) == 1:
            try:
                parse([EASY_SENTENCE])
            except Exception:
                line = f"{type(error).__name__}: {' '.join(str(error).split())}"
                raise UserError(f"{name} parser: fails on any sentence here ({line})") from error
            report(fault_line(f"{name} parser", error, sentences[indices[0]]))
            return {}
    half = len(indices) // 2
    first_half = parse_each(parse, sentences, indices[:half], name, report)
    return first_half | parse_each(parse, sentences, indices[half:], name, report)
