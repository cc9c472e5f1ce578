"""Step 3 of 3 from a name to vectors: the encoder that users and commands get.

    encoder = open_encoder("runs/models/mine+glove.txt")
    encoder.encode(["A sentence."])                 # for cosines: float32 [n, D]
    encoder.features([["A", "sentence", "."]])      # for classifiers: float32 [n, F]

:func:`open_encoder` takes a name, :func:`as_encoder` an object with ``encode``. The vectors of ``A+B`` are
those of A and B concatenated. docs/senteval.md lists the names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from corpora.sentences import read_elements
from multiview.encoders.meaning import normalize_rows
from multiview.libraries.arrays import Float
from multiview.names.constructors import encoder_of, encoder_of_object
from multiview.names.encoder import BaseEncoder, LazyEncoder, Method, TreesOf
from multiview.names.grammar import Name, parse_names
from multiview.names.store import KeptEncoder
from runtime.files import json_digest

Tokens = list[str]
SentenceVectors = Callable[[Sequence[Tokens]], Float]
"""Returns the vectors of token lists, float32 [n, D]."""


class Encoder(Protocol):
    """Any object that encodes sentences.

    ``encode`` is called with strings, the tokens of a sentence joined by one space ("." if there are none),
    or with token lists if the object has ``pretokenized = True``. It returns an array or tensor [n, D], one
    row per sentence. If the object has a method ``features`` too, classifiers are trained on what it returns.
    """

    def encode(self, sentences: Any, /) -> Any:
        """Return vectors [n, D]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedEncoder(BaseEncoder):
    """An encoder whose vectors are those of several encoders, or of one, concatenated.

    With several, ``encode`` returns features, too, because a meaning of length 1 hardly counts beside longer
    vectors.
    """

    parts: Sequence[BaseEncoder]
    project: int | None = None
    """Size of a fixed Glorot random projection, the control for embedding size."""
    seed: int = 0
    """Seed of the projection."""
    name: str = "encoder"
    full_name: str = ""
    """The name as the user gave it."""

    @property
    def members(self) -> list[LazyEncoder]:
        """The encoder of each name of ``A+B``."""
        return [member for part in self.parts for member in part.members]

    def _method_of_parts(self, method: Method) -> Method:
        return method if len(self.parts) == 1 else "features"

    def identity(self, method: Method = "encode") -> list[Any]:
        """Return JSON values that decide the vectors of a method."""
        of_projection = [("project", self.project, self.seed)] if self.project else []
        return [*(part.key(self._method_of_parts(method)) for part in self.parts), *of_projection]

    def key(self, method: Method = "encode") -> str:
        """Return a hex digest of everything that decides the vectors of a method."""
        return json_digest(self.identity(method), 16)

    def label(self, method: Method = "encode") -> str:
        """Return the labels of the parts, joined by a plus sign."""
        labels = [part.label(self._method_of_parts(method)) for part in self.parts]
        return " + ".join(filter(None, labels))

    def vectors(self, method: Method, sentences: Any, *, normalize: bool = False, **options: Any) -> Float:
        """Return the vectors as :meth:`BaseEncoder.vectors` does, scaled to length 1 if ``normalize``."""
        if sentences is not None:
            sentences = read_elements(sentences, "encode", "sentences")  # a list, because all parts read it
        method = self._method_of_parts(method)
        blocks = [part.vectors(method, sentences, **options) for part in self.parts]
        vectors = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        if self.project:
            shape = (vectors.shape[1], self.project)
            bound = np.sqrt(6.0 / sum(shape))  # Glorot's
            projection = np.random.RandomState(self.seed).uniform(-bound, bound, shape)
            vectors = vectors @ projection.astype(np.float32)
        return normalize_rows(torch.from_numpy(vectors)).numpy() if normalize else vectors


def distinct_names(names: Sequence[str], full_names: Sequence[str]) -> list[str]:
    """Return a distinct name for each model: its short name, or its whole name if another shares it."""
    return [full if names.count(name) > 1 else name for name, full in zip(names, full_names, strict=True)]


def as_encoder(encoder: Encoder | SentenceVectors, trees: TreesOf | None = None) -> OpenedEncoder:
    """Return an object or a function as an encoder that keeps its vectors in memory.

    Raises UserError if it is neither an object with ``encode`` nor a function of token lists.
    """
    if isinstance(encoder, OpenedEncoder):
        return encoder
    return OpenedEncoder(parts=[KeptEncoder(encoder_of_object(encoder, trees))])


def open_encoder(
    names: str | Sequence[Name],
    *,
    cache: Path | None = None,
    keep: bool = False,
    seed: int = 0,
    project: int | None = None,
    **options: Any,
) -> OpenedEncoder:
    """Return the encoder that a name means; it is loaded at the first sentence.

    Args:
        names: A name (``A+B`` concatenates two encoders), or what ``parse_names`` returned for a name.
        cache: The folder in which vectors of token lists are kept, one subfolder per kind of vectors.
        keep: Whether vectors are kept in memory if ``cache`` is None.
        seed: Seed of random encoders and of the projection.
        project: Dimensions to which the vectors are projected at random.
        options: Those of :func:`multiview.names.constructors.encoder_of`.
    """
    names = parse_names(names) if isinstance(names, str) else names
    parts: Sequence[BaseEncoder] = [encoder_of(name, seed, **options) for name in names]
    if keep or cache is not None:
        parts = [KeptEncoder(part, cache) for part in parts]
    return OpenedEncoder(
        parts=parts,
        project=project,
        seed=seed,
        name="+".join(name.label for name in names),
        full_name="+".join(name.full_name for name in names),
    )
