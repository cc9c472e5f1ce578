"""Tokens and trees of sentences for encoders, the judge and structure: parsed here, or from a tree cache.

A model records the identity (name, version, SHA-256 of the weights) of each parser that it was trained with.
Its encoders know the trees of these parsers only, so any other parser is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from corpora.sentences import describe_value
from multiview.encoders.registry import fields_of
from multiview.folder.files import Model, load_model, model_folder, model_record
from multiview.words.table import WordTable
from parsing.names import absolute_name
from parsing.trees.batch import (
    ANNOTATIONS,
    NODE_FIELDS,
    Batch,
    Inventories,
    concatenated_ranges,
    is_same_parser,
    offsets_of,
)
from runtime.cli import warn_once
from runtime.device import pick_device
from runtime.errors import UserError, check_count
from runtime.process import loading, pause_collector
from runtime.products import chosen_products

if TYPE_CHECKING:
    import torch

    from corpora.text import Tokenizer
    from parsing.trees.cache import TreeCache

Tokens = Sequence[str]
CHUNK_SENTENCES = 4096
"""The most sentences of a chunk, which are parsed together: enough to fill the parsers' batches."""
CHUNK_TOKENS = 131_072
"""The number of tokens at which a chunk ends, with the sentence that reaches it."""
MAX_LENGTH = 4096
"""How many words of a text are read by default: some nine pages of a book."""
MAX_CHARACTERS = 64
"""How many characters are read for each of these words: by default 256 KiB, as much as a line may have."""
BATCH_TOKENS = 16_384
"""The most tokens that are encoded at a time, which bounds memory; a longer sentence is encoded alone."""


class SentenceReader:
    """Tokenises and parses sentences for a model, by the parsers that it was trained with.

    ``identities`` are those of these parsers, by annotation, as the model records them.
    """

    def __init__(self, identities: Mapping[str, Any], max_length: int = MAX_LENGTH) -> None:
        self.max_length: int = check_count(max_length, "max_length")
        """How many words of a text are read, which bounds time and memory."""
        self.parser_names: dict[str, str] = {}
        """The parser to load by annotation (``dep``, ``const``), in place of the builtin or recorded one."""
        self.device: str = "cpu"
        """The device of parsers that are loaded from now on."""
        self.products = chosen_products()
        """How parsers that are loaded from now on multiply matrices on a CPU."""
        self.identities: dict[str, Any] = dict(identities)
        self._absolute_names = {kind: absolute_name(self._recorded_name(kind)) for kind in identities}
        self.parsers: dict[str, Any] = {}
        """The parsers by annotation, loaded here or given by a caller; those of other trees are refused."""
        self._loaded_parsers: dict[str, Any] = {}
        self._tokenizer: Tokenizer | None = None
        self._index: tuple[TreeCache, dict[tuple[str, ...], int]] | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without loaded parsers and caches, so that copies are small and hashes equal."""
        loaded = self._loaded_parsers
        given_parsers = {kind: each for kind, each in self.parsers.items() if each is not loaded.get(kind)}
        own_state: dict[str, Any] = {"_loaded_parsers": {}, "_tokenizer": None, "_index": None}
        return {**vars(self), "parsers": given_parsers, **own_state}

    def tokens(self, text: str | Sequence[str]) -> tuple[str, ...]:
        """Return the tokens of a sentence; a string is split by spaCy's rules, however the corpus was split.

        If it is longer than :attr:`max_length`, only the first words are read, with a warning, once.
        """
        per_word = MAX_CHARACTERS if isinstance(text, str) else 1
        beginning = text[: per_word * self.max_length]
        tokens = self._split(beginning) if isinstance(beginning, str) else tuple(beginning)
        if len(beginning) < len(text) or len(tokens) > self.max_length:
            warn_once(
                f"the first {self.max_length:,} words of a text are read, and the rest is not: "
                "MultiViewEncoder.load(..., max_length=) sets how many"
            )
        return tokens[: self.max_length]

    def _split(self, text: str) -> tuple[str, ...]:
        """Return the tokens of a string by spaCy's rules."""
        with loading():  # for the call as well, in which the tokenizer stores words
            if self._tokenizer is None:
                from corpora.text import Tokenizer

                self._tokenizer = Tokenizer("spacy", running=False)
            return self._tokenizer.tokenize(text)

    def parser(self, kind: str) -> Any:
        """Return the parser of an annotation, which is loaded on first use.

        Raises UserError if the parser has another identity than the model's, or cannot be loaded.
        """
        advice = f"give that one as --{kind}-model, or encode from a tree cache"
        with loading():
            if kind not in self.parsers:
                from parsing.text_parser import load_parser  # here, because it imports parser libraries

                parser_name = self.parser_name_of(kind)
                try:
                    parser = load_parser(kind, parser_name, self.device, self.products)
                except UserError:
                    is_given = self.parser_names.get(kind) or Path(parser_name).exists()
                    if is_given or parser_name.startswith(("builtin", "benepar")):
                        raise
                    expected_name = f"{ANNOTATIONS[kind].parser} parser {_summary(self.identities[kind])}"
                    raise UserError(f"the model was trained on trees of {expected_name}: {advice}") from None
                self._loaded_parsers[kind] = self.parsers[kind] = parser
        self._check(kind, self.parsers[kind].identity, "here is", advice)
        return self.parsers[kind]

    def move(self, device: torch.device) -> None:
        """Parse on another device from now on; a parser without a method ``to`` stays where it is."""
        self.device = str(device)
        for parser in self.parsers.values():
            if hasattr(parser, "to"):
                parser.to(device)

    def parser_name_of(self, kind: str) -> str:
        """Return the name of the parser to load for an annotation: from :attr:`parser_names`, or as recorded.

        Raises UserError if a recorded name has other characters than a plain name has.
        """
        name = self._recorded_name(kind)
        if self.parser_names.get(kind):
            return self.parser_names[kind]
        if not re.fullmatch(r"\w[\w .+-]*", name):
            raise UserError(f"the model's {kind} parser has no plain name, {name!r:.60}: give --{kind}-model")
        return "builtin" if name.startswith("builtin") else self._absolute_names.get(kind, name)

    def _recorded_name(self, kind: str) -> str:
        """Return the recorded name of the parser of an annotation; ``builtin`` if none is recorded."""
        return str((self.identities.get(kind) or {}).get("name", "builtin"))

    def _check(self, kind: str, identity: Any, where: str, advice: str) -> None:
        """Raise UserError if a parser, found ``where``, is not the one that the model was trained with."""
        expected_identity = self.identities.get(kind)
        if expected_identity and not is_same_parser(identity or {}, expected_identity):
            raise UserError(
                f"the model was trained on trees of {ANNOTATIONS[kind].parser} parser "
                f"{_summary(expected_identity)}; {where} {_summary(identity)}: {advice}"
            )

    def parse(self, sentences: Sequence[tuple[str, ...]], requires: Set[str]) -> Batch:
        """Parse tokenised sentences into one batch with the trees that ``requires`` asks for."""
        with loading():
            from parsing.text_parser import TextParser

        dependency = self.parser("dep") if "dep" in requires else None
        constituency = self.parser("const") if "const" in requires else None
        return TextParser(dependency, constituency).parse_to_batch(sentences)

    def inventories(self) -> Inventories:
        """Return the names of relations and labels; trees by :meth:`parse` have their indices."""
        from parsing.text_parser import TextParser

        return TextParser(self.parsers.get("dep"), self.parsers.get("const")).inventories

    def check_trees(self, trees: TreeCache, requires: Set[str]) -> None:
        """Raise UserError if a cache lacks a required annotation, or if other parsers made its trees."""
        for kind in sorted(requires & ANNOTATIONS.keys()):
            if not trees.has(kind):
                raise UserError(f"{trees.folder}: has no {kind} trees")
            identity = trees.identity.get(ANNOTATIONS[kind].parser)
            advice = "parse the text again with that parser"
            self._check(kind, identity, f"{trees.folder} was parsed by", advice)

    def batches(
        self,
        texts: Sequence[str | Tokens] | None,
        requires: Set[str],
        trees: TreeCache | None,
        batch_size: int,
    ) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """Yield batches of sentences of similar length, each with their positions in the input, int64 [B].

        A batch has at most ``batch_size`` sentences, and at most ``BATCH_TOKENS`` tokens unless it is one
        sentence.

        Args:
            texts: the sentences; None reads all of ``trees``.
            requires: the annotations to parse or read.
            trees: a cache of parsed sentences; those of ``texts`` that it has are not parsed again.
            batch_size: the most sentences of a batch.
        """
        for positions, chunk in self._chunks(texts, requires, trees):
            lengths = np.diff(chunk.sentence_offsets)
            longest_first = np.argsort(-lengths, kind="stable")
            token_ends = np.cumsum(lengths[longest_first])
            first = 0
            while first < len(longest_first):
                tokens_before = token_ends[first] - lengths[longest_first[first]]
                token_stop = int(np.searchsorted(token_ends, tokens_before + BATCH_TOKENS, side="right"))
                stop = max(min(first + batch_size, token_stop), first + 1)
                rows = longest_first[first:stop]
                yield positions[rows], select(chunk, rows)
                first = stop

    def _chunks(
        self, texts: Sequence[str | Tokens] | None, requires: Set[str], trees: TreeCache | None
    ) -> Iterator[tuple[NDArray[np.int64], Batch]]:
        """Yield chunks of parsed sentences with their positions in the input; see :meth:`batches`."""
        fields = fields_of(requires)
        if trees is not None:
            self.check_trees(trees, requires)
        if texts is None:
            if trees is None:
                raise UserError("encode(None) encodes a tree cache: give trees=")
            for first in range(0, len(trees), CHUNK_SENTENCES):
                stop = min(first + CHUNK_SENTENCES, len(trees))
                yield np.arange(first, stop), trees.read(first, stop, fields)
            return
        sentences = [self.tokens(text) for text in texts]
        positions_to_parse = np.arange(len(sentences))
        if trees is not None:
            positions_to_parse, positions_of_row = self.look_up(trees, sentences)
            rows = np.array(sorted(positions_of_row), dtype=np.int64)
            while len(rows):
                chunk_rows = rows[rows < rows[0] + CHUNK_SENTENCES]
                chunk = trees.read(int(chunk_rows[0]), int(chunk_rows[-1]) + 1, fields)
                positions = [positions_of_row[row] for row in chunk_rows.tolist()]
                counts = [len(positions_of_sentence) for positions_of_sentence in positions]
                yield np.concatenate(positions), select(chunk, np.repeat(chunk_rows - chunk_rows[0], counts))
                rows = rows[len(chunk_rows) :]
        first, token_ends = 0, np.cumsum([len(sentences[position]) for position in positions_to_parse])
        while first < len(positions_to_parse):
            tokens_before = token_ends[first - 1] if first else 0
            token_stop = int(np.searchsorted(token_ends, tokens_before + CHUNK_TOKENS)) + 1
            chunk_positions = positions_to_parse[first : min(first + CHUNK_SENTENCES, token_stop)]
            yield chunk_positions, self.parse([sentences[position] for position in chunk_positions], requires)
            first += len(chunk_positions)

    def look_up(
        self, trees: TreeCache, sentences: Sequence[tuple[str, ...]]
    ) -> tuple[NDArray[np.int64], dict[int, list[int]]]:
        """Return the positions of the sentences that a cache lacks, int64 [n], and of those that it has.

        The latter are lists by cache row, because equal sentences have the same row.
        """
        index = self._index  # read once, because another thread may look up sentences in another cache
        if index is None or index[0] is not trees:
            row_of_sentence: dict[tuple[str, ...], int] = {}
            for row, words in enumerate(trees.words()):
                row_of_sentence.setdefault(tuple(words), row)
            index = self._index = (trees, row_of_sentence)
        missing_positions: list[int] = []
        positions_of_row: dict[int, list[int]] = {}
        for position, sentence in enumerate(sentences):
            if sentence in index[1]:
                positions_of_row.setdefault(index[1][sentence], []).append(position)
            else:
                missing_positions.append(position)
        return np.array(missing_positions, dtype=np.int64), positions_of_row


@dataclass(frozen=True, eq=False)
class TextSource:
    """The parsers and the words of a model, by which structure and the judge read sentences."""

    model: Model
    reader: SentenceReader
    name: str
    folder: Path | None
    """The folder that the model was loaded from or saved to; None if there is none."""
    structure_size: int
    """S, the size of a structure vector."""

    @classmethod
    def of(cls, model: Any, caller: str = "", device: str | None = None) -> Self:
        """Return the source of a :class:`~multiview.model.MultiViewEncoder`; None stands for ``builtin``.

        Raises UserError if it is another object; the message names the ``caller``.
        """
        if model is None:
            return cls.load("builtin", device)
        if not isinstance(getattr(model, "reader", None), SentenceReader):
            raise UserError(f"{caller}: source: {describe_value(model)} is no MultiViewEncoder")
        return cls(model.model, model.reader, model.name, model.folder, model.structure_size)

    @classmethod
    @loading()
    def load(
        cls, folder: Path | str, device: str | torch.device | None = None, structure_size: int | None = None
    ) -> Self:
        """Return the source of a model folder or of ``builtin``, by default on a GPU if there is one."""
        path, target = model_folder(folder), pick_device(device)
        with pause_collector():
            record = model_record(path)
            model = load_model(path, target, record)
        reader = SentenceReader(model.parsers)
        reader.device = str(target)
        size = structure_size or record.structure_size
        return cls(model, reader, Path(folder).name, path.absolute(), size)

    @property
    def words(self) -> WordTable:
        """The model's vocabulary and word vectors."""
        return self.model.network.words


def select(batch: Batch, rows: NDArray[np.integer]) -> Batch:
    """Return some sentences of a batch, ``rows`` [B], in that order; a row may be repeated."""
    if len(rows) == len(batch) == 1:
        return batch
    lengths = np.diff(batch.sentence_offsets)[rows]
    tokens = concatenated_ranges(batch.sentence_offsets[:-1][rows], lengths)
    nodes = concatenated_ranges(batch.internal_node_offsets[:-1][rows], lengths - 1)
    fields = [*batch.fields, *(["row"] if len(batch.row) else [])]
    arrays = {name: getattr(batch, name)[nodes if name in NODE_FIELDS else tokens] for name in fields}
    return replace(batch, sentence_offsets=offsets_of(lengths), flags=batch.flags[rows], **arrays)


def _summary(identity: Any) -> str:
    """Return the name, the version and the hash of a parser, for messages."""
    values = dict(identity or {})
    return f"{values.get('name', '?')} {values.get('version', '')} ({str(values.get('sha256', '?'))[:8]})"
