"""Trees of sentences at inference: parsed on the fly, or read from a tree cache.

A model records the identity (name, version, SHA-256 of the weights) of the parsers it was trained with. The
encoders only know the trees of those parsers, so any other parser is refused.

Legend of dimension suffixes: B sentences, N tokens.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from multiview.encoders.registry import fields_of
from multiview.folder.files import KINDS, Member
from parsing.trees.batch import NODE_FIELDS, Batch, Inventories, is_same_parser, offsets_of, places_of_ranges
from runtime.errors import UserError
from runtime.surroundings import shared_lock

if TYPE_CHECKING:
    import torch

    from corpora.text import Tokenizer
    from parsing.trees.cache import TreeCache

Tokens = Sequence[str]
LOADING = shared_lock()
"""Held by who loads or asks a tokenizer, which remembers words, or loads a parser."""
CHUNK_SENTENCES = 4096
"""Sentences parsed at a time: enough to fill the parsers' batches without much memory."""
BATCH_TOKENS = 16_384
"""Tokens encoded at a time at most, whatever the number of sentences: bounds memory."""


class SentenceReader:
    """Tokenises and parses sentences for a model, whose members must share their parsers."""

    def __init__(self, members: Sequence[Member]) -> None:
        self.specs: dict[str, str] = {}
        """Parser to load for an annotation (``dep``, ``const``) in place of the builtin or recorded one."""
        self.device = "cpu"
        """Where parsers that are loaded from now on encode and score."""
        self.identities: dict[str, Any] = {}
        self.parsers: dict[str, Any] = {}
        """Loaded or given ones, by annotation; one with other trees than the model's is refused on use."""
        self._loaded: dict[str, Any] = {}
        self._tokenizer: Tokenizer | None = None
        self._index: tuple[TreeCache, dict[tuple[str, ...], int]] | None = None
        for member in members:
            for need, identity in member.parsers.items():
                if self.identities.setdefault(need, identity) != identity:
                    raise UserError(f"the model's parts were trained on trees of different {need} parsers")

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what use adds, for copies too: they are small, and hashes stay as they are."""
        own = {need: parser for need, parser in self.parsers.items() if self._loaded.get(need) is not parser}
        return {**vars(self), "parsers": own, "_loaded": {}, "_tokenizer": None, "_index": None}

    def tokens(self, text: str | Sequence[str]) -> tuple[str, ...]:
        """Give tokens of one input; a string is split by spaCy's rules, whatever the training text was."""
        if not isinstance(text, str):
            return tuple(text)
        with LOADING:
            if self._tokenizer is None:
                from corpora.text import Tokenizer

                self._tokenizer = Tokenizer("spacy", running=False)
            return self._tokenizer.line(text)

    def parser(self, need: str) -> Any:
        """Return the parser of an annotation, loaded on first use, which the model was trained with."""
        advice = f"give that one as --{need}-model, or encode from a tree cache"
        with LOADING:
            if need not in self.parsers:
                from parsing.text_parser import load_parser  # here, because it imports parser libraries

                spec = self.parser_spec(need)
                try:
                    self._loaded[need] = self.parsers[need] = load_parser(need, spec, self.device)
                except UserError:
                    if self.specs.get(need) or spec.startswith(("builtin", "benepar")) or Path(spec).exists():
                        raise
                    by = f"{KINDS[need]} parser {_short(self.identities[need])}"  # a name, not a folder
                    raise UserError(f"the model was trained on trees of {by}: {advice}") from None
        self._check(need, self.parsers[need].identity, "here is", advice)
        return self.parsers[need]

    def move(self, device: torch.device) -> None:
        """Parse on another device from now on; a parser of the caller's that knows no devices stays."""
        self.device = str(device)
        for parser in self.parsers.values():
            if hasattr(parser, "to"):
                parser.to(device)

    def parser_spec(self, need: str) -> str:
        """Name the parser to load for an annotation: as given, else the builtin one or the one on record."""
        name = str((self.identities.get(need) or {}).get("name", "builtin"))
        if not self.specs.get(need) and not re.fullmatch(r"\w[\w .+-]*", name):
            raise UserError(f"the model's {need} parser has no plain name, {name!r:.60}: give --{need}-model")
        return self.specs.get(need) or ("builtin" if name.startswith("builtin") else name)

    def _check(self, need: str, parser: Any, where: str, advice: str) -> None:
        identity = self.identities.get(need)
        if identity and not is_same_parser(parser or {}, identity):
            raise UserError(
                f"the model was trained on trees of {KINDS[need]} parser {_short(identity)}; {where} "
                f"{_short(parser)}: {advice}"
            )

    def parse(self, sentences: Sequence[tuple[str, ...]], requires: Set[str]) -> Batch:
        """Parse tokenised sentences into one batch with word types."""
        from parsing.text_parser import TextParser

        dependency, constituency = (self.parser(n) if n in requires else None for n in ("dep", "const"))
        return TextParser(dependency, constituency).arrays(sentences)

    def inventories(self) -> Inventories:
        """Return names of the ids in the trees that :meth:`parse` made."""
        from parsing.text_parser import TextParser

        return TextParser(self.parsers.get("dep"), self.parsers.get("const")).inventories

    def check_trees(self, trees: TreeCache, requires: Set[str]) -> None:
        """Refuse a cache that lacks an annotation which the model reads, or that other parsers made."""
        for need in sorted(requires & KINDS.keys()):
            if not trees.has(need):
                raise UserError(f"{trees.folder}: has no {need} trees")
            by, advice = trees.identity.get(KINDS[need]), "parse the text again with that parser"
            self._check(need, by, f"{trees.folder} was parsed by", advice)

    def batches(
        self,
        texts: Sequence[str | Tokens] | None,
        requires: Set[str],
        trees: TreeCache | None,
        batch_size: int,
    ) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """Yield places in the input (int64 [B]) and parsed sentences, in batches of similar length.

        They have at most ``batch_size`` sentences, and ``BATCH_TOKENS`` tokens or one sentence. Without
        texts all of ``trees`` is read; else sentences found in it are not parsed again.
        """
        for places, chunk in self._chunks(texts, requires, trees):
            lengths = np.diff(chunk.sentence_offsets)
            order = np.argsort(-lengths, kind="stable")
            ends = np.cumsum(lengths[order])
            start = 0
            while start < len(order):
                read = ends[start] - lengths[order[start]]
                full = int(np.searchsorted(ends, read + BATCH_TOKENS, side="right"))
                rows = order[start : max(min(start + batch_size, full), start + 1)]
                yield places[rows], select(chunk, rows)
                start += len(rows)

    def _chunks(
        self, texts: Sequence[str | Tokens] | None, requires: Set[str], trees: TreeCache | None
    ) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """Yield the places in the input and parsed sentences, a chunk at a time."""
        fields = fields_of(requires)
        if trees is not None:
            self.check_trees(trees, requires)
        if texts is None:
            if trees is None:
                raise UserError("encode(None) encodes a tree cache: give trees=")
            for start in range(0, len(trees), CHUNK_SENTENCES):
                stop = min(start + CHUNK_SENTENCES, len(trees))
                yield np.arange(start, stop), trees.read(start, stop, fields)
            return
        tokens = [self.tokens(text) for text in texts]
        left = np.arange(len(tokens))
        if trees is not None:
            left, places_of = self.look_up(trees, tokens)
            rows = np.array(sorted(places_of), dtype=np.int64)
            while len(rows):
                here = rows[rows < rows[0] + CHUNK_SENTENCES]
                batch = trees.read(int(here[0]), int(here[-1]) + 1, fields)
                same = [places_of[row] for row in here.tolist()]
                repeats = np.repeat(here - here[0], [len(places) for places in same])
                yield np.concatenate(same), select(batch, repeats)
                rows = rows[len(here) :]
        for start in range(0, len(left), CHUNK_SENTENCES):
            places = left[start : start + CHUNK_SENTENCES]
            yield places, self.parse([tokens[place] for place in places], requires)

    def look_up(
        self, trees: TreeCache, sentences: Sequence[tuple[str, ...]]
    ) -> tuple[NDArray[np.int64], dict[int, list[int]]]:
        """Find the places of the sentences that a cache lacks, int64 [n], and of the others by cache row."""
        latest = self._index  # read once: another thread may look up in other trees
        if latest is None or latest[0] is not trees:
            rows: dict[tuple[str, ...], int] = {}
            for row, words in enumerate(trees.words()):
                rows.setdefault(tuple(words), row)
            latest = self._index = (trees, rows)
        left: list[int] = []
        places_of: dict[int, list[int]] = {}
        for place, tokens in enumerate(sentences):
            if tokens in latest[1]:
                places_of.setdefault(latest[1][tokens], []).append(place)
            else:
                left.append(place)
        return np.array(left, dtype=np.int64), places_of


def select(batch: Batch, rows: NDArray[np.integer]) -> Batch:
    """Return the sentences ``rows`` (integers [B]) of a batch, in that order; repeats are allowed."""
    lengths = np.diff(batch.sentence_offsets)[rows]
    tokens = places_of_ranges(batch.sentence_offsets[:-1][rows], lengths)
    nodes = places_of_ranges(batch.node_offsets[:-1][rows], lengths - 1)
    arrays = {f: getattr(batch, f)[nodes if f in NODE_FIELDS else tokens] for f in batch.fields}
    return Batch(
        sentence_offsets=offsets_of(lengths),
        flags=batch.flags[rows],
        fields=batch.fields,
        types=batch.types,
        relations=batch.relations,
        **arrays,
    )


def _short(identity: Any) -> str:
    values = dict(identity or {})
    return f"{values.get('name', '?')} {values.get('version', '')} ({str(values.get('sha256', '?'))[:8]})"
