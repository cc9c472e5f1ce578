"""Step 4 of 4 from a name to vectors: the encoder that users and commands get.

    encoder = open_encoder("runs/models/mine+glove.txt")
    encoder.encode(["A sentence."])                 # for cosines: float32 [n, D]
    encoder.features([["A", "sentence", "."]])      # for classifiers: float32 [n, F]

:func:`open_encoder` takes a name, :func:`as_encoder` an object with ``encode``. The vectors of ``A+B`` are
those of A and B concatenated. docs/senteval.md lists the names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch

from corpora.sentences import read_elements
from multiview.encoders.meaning import normalize_rows
from multiview.libraries.arrays import Float
from multiview.model import MultiViewEncoder
from multiview.names.grammar import Name, parse_names
from multiview.names.recipe import EncoderRecipe, recipe_of
from multiview.names.store import StoredVectors, VectorFunction
from multiview.names.vectors import ComputedVectors, Loader, TreesOf, computed_vectors
from runtime.errors import UserError
from runtime.files import json_digest

Tokens = list[str]
SentenceVectors = Callable[[Sequence[Tokens]], Float]
"""Returns the vectors of token lists, float32 [n, D]."""


@runtime_checkable
class Encoder(Protocol):
    """Any object that encodes sentences.

    ``encode`` is called with strings, the tokens of a sentence joined by one space ("." if there are none),
    or with token lists if the object has ``pretokenized = True``. It returns an array or tensor [n, D], one
    row per sentence. If the object has a method ``features`` too, classifiers are trained on what it returns.
    """

    def encode(self, sentences: Any, /) -> Any:
        """Return vectors [n, D]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ConcatenatedVectors:
    """A function of sentences whose vectors are those of several encoders, or of one, concatenated."""

    parts: Sequence[VectorFunction]
    project: int | None = None
    """Size of a fixed Glorot random projection, the control for embedding size."""
    seed: int = 0
    """Seed of the projection."""

    @property
    def label(self) -> str:
        """The labels of the parts, joined by a plus sign."""
        return " + ".join(filter(None, (part.label for part in self.parts)))

    @property
    def identity(self) -> list[Any]:
        """JSON values that decide the vectors."""
        of_projection = [("project", self.project, self.seed)] if self.project else []
        return [*(part.key for part in self.parts), *of_projection]

    def __call__(self, sentences: Any, *, normalize: bool = False, **options: Any) -> Float:
        """Return the vectors [n, D] of sentences, at length 1 with ``normalize``.

        ``options`` are those of calling :class:`multiview.names.vectors.ComputedVectors`.
        """
        if sentences is not None:
            sentences = read_elements(sentences, "encode", "sentences")  # a list, because all parts read it
        blocks = [part(sentences, **options) for part in self.parts]
        vectors = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        if self.project:
            shape = (vectors.shape[1], self.project)
            bound = np.sqrt(6.0 / sum(shape))  # Glorot's
            projection = np.random.RandomState(self.seed).uniform(-bound, bound, shape)
            vectors = vectors @ projection.astype(np.float32)
        return normalize_rows(torch.from_numpy(vectors)).numpy() if normalize else vectors


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedEncoder:
    """The encoder of a name: two functions of sentences, ``encode`` and ``features``."""

    loaders: Sequence[Loader]
    """Each encoder of ``A+B``, loaded at its first sentence."""
    encode: ConcatenatedVectors
    """Returns the vectors for cosines, float32 [n, D]."""
    features: ConcatenatedVectors
    """Returns the vectors for classifiers, float32 [n, F]: ``encode`` itself where they are the same."""
    name: str = "encoder"
    """The name in tables."""
    full_name: str = ""
    """The name as the user gave it."""

    @classmethod
    def of(
        cls,
        loaders: Sequence[Loader],
        keep: Callable[[ComputedVectors], VectorFunction],
        *,
        project: int | None = None,
        seed: int = 0,
        **names: str,
    ) -> Self:
        """Return the encoder of one loader, or of several, whose vectors are then concatenated.

        With several, ``encode`` returns features, too, because a meaning of length 1 hardly counts beside
        longer vectors. ``keep`` wraps a function of sentences to keep its vectors, or returns it unchanged;
        ``names`` are the fields ``name`` and ``full_name``.
        """
        options: dict[str, Any] = {"project": project, "seed": seed}
        features = ConcatenatedVectors(
            parts=[keep(computed_vectors(loader, "features")) for loader in loaders], **options
        )
        encode, recipe = features, loaders[0].recipe
        if len(loaders) == 1 and recipe.vector_kind("encode") != recipe.vector_kind("features"):
            encode = ConcatenatedVectors(parts=[keep(computed_vectors(loaders[0], "encode"))], **options)
        return cls(loaders=loaders, encode=encode, features=features, **names)

    @property
    def recipes(self) -> list[EncoderRecipe]:
        """What is known of each encoder without loading it."""
        return [loader.recipe for loader in self.loaders]

    @property
    def identity(self) -> list[Any]:
        """JSON values that decide its vectors."""
        return self.encode.identity

    @property
    def key(self) -> str:
        """A digest of everything that decides its vectors."""
        return json_digest(self.identity, 16)

    @property
    def has_features(self) -> bool:
        """Whether classifiers get other vectors than cosines."""
        return self.features is not self.encode


def distinct_names(names: Sequence[str], full_names: Sequence[str]) -> list[str]:
    """Return a distinct name for each model: its short name, or its whole name if another shares it."""
    return [full if names.count(name) > 1 else name for name, full in zip(names, full_names, strict=True)]


def as_encoder(encoder: Encoder | SentenceVectors, trees: TreesOf | None = None) -> OpenedEncoder:
    """Return an object or a function as an encoder that keeps its vectors in memory.

    Raises UserError if it is neither an object with ``encode`` nor a function of token lists.
    """
    if isinstance(encoder, OpenedEncoder):
        return encoder
    loader = Loader(recipe=_recipe_of_object(encoder), trees=trees)
    return OpenedEncoder.of([loader], StoredVectors)


def _recipe_of_object(encoder: Encoder | SentenceVectors) -> EncoderRecipe:
    name, is_encoder = Name(base="encoder"), isinstance(encoder, Encoder)
    if isinstance(encoder, MultiViewEncoder):
        return EncoderRecipe(
            name=name,
            family="object",
            load=functools.partial(_return_encoder, encoder),
            reads="trees",
            has_features=bool(encoder.readout or encoder.structure) or encoder.has_scale,
            has_meaning=bool(encoder.readout),
            share=encoder.structure,
        )
    if not is_encoder and not callable(encoder):
        raise UserError(
            f"{encoder!r:.60} is no encoder: give an object with encode(sentences) or a function of token "
            "lists; either returns an array [sentences, dimensions]"
        )
    return EncoderRecipe(
        name=name,
        family="object",
        load=functools.partial(_return_encoder, encoder),
        reads="tokens" if getattr(encoder, "pretokenized", not is_encoder) else "text",
        has_features=is_encoder and callable(getattr(encoder, "features", None)),
    )


def _return_encoder(encoder: Any, device: str | None) -> Any:
    """Return a loaded encoder. This is no lambda, because a lambda cannot be pickled."""
    return encoder


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
        options: Fields of :class:`multiview.names.vectors.Loader`.
    """
    names = parse_names(names) if isinstance(names, str) else names
    loaders = [Loader(recipe=recipe_of(name, seed), **options) for name in names]
    is_kept = keep or cache is not None
    return OpenedEncoder.of(
        loaders,
        functools.partial(StoredVectors, cache=cache) if is_kept else lambda computed: computed,
        project=project,
        seed=seed,
        name="+".join(name.label for name in names),
        full_name="+".join(name.full_name for name in names),
    )
