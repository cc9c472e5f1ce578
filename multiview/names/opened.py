"""Opens encoders by name: they give vectors of sentences, of lines of text and of tree caches.

    encoder = open_encoder("runs/models/mine+glove.txt")
    encoder.encode(["A sentence."])                 # to compare with: float32 [n, D]
    encoder.features([["A", "sentence", "."]])      # what classifiers get: float32 [n, F]

docs/senteval.md lists the names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from multiview.libraries.arrays import Float
from multiview.model import MultiViewEncoder
from multiview.names.grammar import Name, parse_names
from multiview.names.recipe import EncoderRecipe, Loader, TreesOf, recipe_of
from multiview.names.vectors import Computed, SideBySide, StoredVectors, Vectors, computed_vectors
from runtime.errors import UserError
from runtime.files import json_digest
from runtime.process import cached_property

Tokens = list[str]
SentenceVectors = Callable[[Sequence[Tokens]], Float]
"""Tokenised sentences to float32 [n, D], one row each, in order."""


@runtime_checkable
class Encoder(Protocol):
    """Any sentence encoder.

    ``encode`` gets sentences as tokens joined by one space (an empty one as "."), or as token lists if the
    encoder has ``pretokenized = True``. It returns an array or tensor [n, D], one row per sentence. If the
    encoder has ``features`` too, classifiers get what that returns.
    """

    def encode(self, sentences: Any, /) -> Any:
        """Return vectors [n, D]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Part:
    """One encoder, which is loaded at its first sentence."""

    recipe: EncoderRecipe
    encode: Vectors
    """What one compares with."""
    features: Vectors
    """What classifiers get: ``encode`` itself where they get the same."""

    @classmethod
    def of(cls, loader: Loader, wrap: Callable[[Computed], Vectors] = lambda vectors: vectors) -> Self:
        """Return the encoder of a loader, whose vectors ``wrap`` may keep."""
        recipe = loader.recipe
        encode = features = wrap(computed_vectors(loader, "encode"))
        if recipe.vector_kind("features") != recipe.vector_kind("encode"):
            features = wrap(computed_vectors(loader, "features"))
        return cls(recipe=recipe, encode=encode, features=features)


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedEncoder:
    """One encoder, or several side by side.

    Several compare by their features: beside larger vectors a meaning, whose length is 1, hardly counts.
    """

    parts: Sequence[Part]
    name: str = "encoder"
    """For tables."""
    spec: str = ""
    """The name as the user gave it."""
    project: int | None = None
    """Size to which all vectors are projected."""
    seed: int = 0
    """Seed of the projection."""

    @cached_property
    def features(self) -> SideBySide:
        """The vectors that classifiers get: a function of sentences, float32 [n, F]."""
        return SideBySide([part.features for part in self.parts], self.project, self.seed)

    @cached_property
    def encode(self) -> SideBySide:
        """The vectors that one compares with: a function of sentences, float32 [n, D]."""
        if len(self.parts) > 1 or self.parts[0].encode is self.parts[0].features:
            return self.features
        return SideBySide([self.parts[0].encode], self.project, self.seed)

    @property
    def identity(self) -> list[Any]:
        """Everything that decides its vectors."""
        of_projection = [("project", self.project, self.seed)] if self.project else []
        return [*(part.key for part in self.encode.parts), *of_projection]

    @property
    def key(self) -> str:
        """A digest of everything that decides its vectors."""
        return json_digest(self.identity, 16)

    @property
    def has_features(self) -> bool:
        """Whether classifiers get other vectors than cosines."""
        return self.features is not self.encode


def distinct_names(names: Sequence[str], specs: Sequence[str]) -> list[str]:
    """Return names for models: their own, but the specs of those that share a name."""
    return [spec if names.count(name) > 1 else name for name, spec in zip(names, specs, strict=True)]


def as_encoder(encoder: Encoder | SentenceVectors, trees: TreesOf | None = None) -> OpenedEncoder:
    """Keep the vectors of an encoder, or of a function of token lists, in memory; refuse anything else."""
    if isinstance(encoder, OpenedEncoder):
        return encoder
    loader = Loader(recipe=_recipe_of_object(encoder), trees=trees)
    return OpenedEncoder(parts=[Part.of(loader, StoredVectors)])


def _recipe_of_object(encoder: Encoder | SentenceVectors) -> EncoderRecipe:
    name, is_encoder = Name(base="encoder"), isinstance(encoder, Encoder)
    if isinstance(encoder, MultiViewEncoder):
        has_meaning = bool(encoder.readout or encoder.structure)
        return EncoderRecipe(
            name=name,
            kind="object",
            load=functools.partial(_given, encoder),
            reads="trees",
            has_features=has_meaning or encoder.has_scale,
            has_meaning=has_meaning,
            share=encoder.structure,
        )
    if not is_encoder and not callable(encoder):
        raise UserError(
            f"{encoder!r:.60} is no encoder: give an object with encode(sentences) or a function of token "
            "lists; either returns an array [sentences, dimensions]"
        )
    return EncoderRecipe(
        name=name,
        kind="object",
        load=functools.partial(_given, encoder),
        reads="tokens" if getattr(encoder, "pretokenized", not is_encoder) else "text",
        has_features=is_encoder and callable(getattr(encoder, "features", None)),
    )


def _given(encoder: Any, device: str | None) -> Any:
    """Return an encoder that is loaded already; it has a name because a lambda cannot be pickled."""
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
    """Return the encoder that a name means, ``A+B`` both side by side; loaded at the first sentence.

    With ``keep``, the vectors of token lists are kept: below the folder ``cache``, one subfolder per kind of
    vectors, or in memory. ``seed`` is that of random encoders and of the projection to ``project``
    dimensions. ``options`` are fields of :class:`multiview.names.recipe.Loader`.
    """
    names = parse_names(names) if isinstance(names, str) else names
    loaders = [Loader(recipe=recipe_of(name, seed), **options) for name in names]
    wrap = [functools.partial(StoredVectors, cache=cache)] if keep or cache else []
    return OpenedEncoder(
        parts=[Part.of(loader, *wrap) for loader in loaders],
        name="+".join(name.label for name in names),
        spec="+".join(name.spec for name in names),
        project=project,
        seed=seed,
    )
