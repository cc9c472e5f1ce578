"""Encoders by name as commands open them: lines of text or a tree cache in, vectors out."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from multiview.folder.reading import CHUNK_SENTENCES, Reader
from multiview.model import MultiViewEncoder
from multiview.names.grammar import split_parts
from multiview.names.sources import STRINGS, Source, find_source, load_multiview
from multiview.pretrained import Float
from parsing.trees.cache import TreeCache
from runtime.errors import UserError
from runtime.files import json_digest
from runtime.progress import progress

CHUNK = 512
"""Sentences between two steps of progress."""


class NamedEncoder:
    """One encoder, or several whose vectors stand side by side (``A+B``: the features of both).

    Args:
        spec: the name, see :mod:`multiview.names.sources`; with ``?scale=CACHE`` features are given.
        device: of the models; None is a GPU if there is one.
        parsers: of models whose parsers are not the builtin ones, by annotation (``dep``, ``const``).

    Raises:
        UserError: no encoder of that name, or a damaged one.
    """

    def __init__(
        self, spec: str, device: str | None = None, parsers: Mapping[str, str] | None = None
    ) -> None:
        found = [find_source(part) for part in split_parts(spec)]
        plain = len(found) == 1 and found[0].text is None
        sources = found if plain else [source.for_classifiers() for source in found]
        self.name = spec
        self.key = json_digest([source.key for source in sources], 16)
        """Digest of everything that decides the vectors."""
        self.models: list[MultiViewEncoder] = []
        """Those that are models of ours."""
        self.parts: list[Callable[..., Float]] = []
        """Each one's function of texts, or None, and ``trees=``."""
        for source in sources:
            if source.is_multiview:
                self.models.append(load_multiview(source, device, parsers))
                self.parts.append(functools.partial(self.models[-1].encode, **source.options))
            else:
                self.parts.append(in_chunks(source, device))

    def encode(
        self, texts: Sequence[str] | None, *, trees: TreeCache | None = None, normalize: bool = False
    ) -> Float:
        """Vectors [n, D] of lines of text, or of all sentences of a cache.

        Args:
            texts: the lines; None is all of ``trees``.
            trees: where an encoder reads trees, sentences found here are not parsed again.
            normalize: scale every vector to length 1; a zero vector stays zero.

        Raises:
            UserError: a sentence that cannot be encoded.
        """
        vectors = np.concatenate([part(texts, trees=trees) for part in self.parts], axis=1)
        if not (finite := np.isfinite(vectors).all(axis=1)).all():
            raise UserError(f"model {self.name!r}: its vector of sentence {finite.argmin()} is not finite")
        if normalize:
            vectors = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        return vectors.astype(np.float32, copy=False)


def all_words(trees: TreeCache) -> list[list[str]]:
    """The sentences of a cache as words."""
    starts = range(0, len(trees), CHUNK_SENTENCES)
    spans = [(start, min(start + CHUNK_SENTENCES, len(trees))) for start in starts]
    return [words for span in spans for words in trees.read(*span, ("token",)).words()]


def in_chunks(source: Source, device: str | None) -> Callable[..., Float]:
    """What encodes with another library's model, a bag, vectors: a function of texts, or None, and trees."""
    encode, reader = source.load(device=device), Reader([])

    def read(text: str | Sequence[str]) -> str | Sequence[str]:
        """A sentence as the encoder takes it."""
        if source.kind in STRINGS:
            return text if isinstance(text, str) else " ".join(text)
        return reader.tokens(text)

    def encode_all(texts: Sequence[str] | None, trees: TreeCache | None) -> Float:
        sentences = all_words(trees) if texts is None and trees is not None else texts or ()
        found: list[Any] = []
        with progress(total=len(sentences), description=f"encode {source.name}") as bar:
            for start in range(0, len(sentences), CHUNK):
                chunk = [read(sentence) for sentence in sentences[start : start + CHUNK]]
                found.append(encode(chunk))
                bar.update(len(chunk))
        return np.concatenate(found)

    return encode_all
