"""Opens encoders by name: they give vectors of sentences, of lines of text and of tree caches.

    encoder = open_encoder("runs/models/mine+glove.txt")
    encoder.encode(["A sentence."])                 # to compare with: float32 [n, D]
    encoder.features([["A", "sentence", "."]])      # what classifiers get: float32 [n, F]

docs/senteval.md lists the names.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from corpora.sentences import read_elements
from multiview.encoders.meaning import normalize_rows
from multiview.model import MultiViewEncoder
from multiview.names.functions import Function
from multiview.names.grammar import Name, parse_names
from multiview.names.named import NamedEncoder, Output, Places, TreesOf, given, named, of_model
from multiview.names.store import Kept
from multiview.pretrained import Float
from runtime.errors import UserError
from runtime.files import json_digest

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


@dataclass(eq=False, kw_only=True)
class OpenedEncoder:
    """One encoder, or several side by side.

    Several compare by their features: beside larger vectors a meaning, whose length is 1, hardly counts.
    """

    parts: Sequence[NamedEncoder | Kept]
    name: str = "encoder"
    """For tables."""
    spec: str = ""
    """The name as the user gave it."""
    project: int | None = None
    """Size of a fixed Glorot random projection, the control for embedding size."""
    seed: int = 0
    """Seed of the projection."""

    @property
    def has_features(self) -> bool:
        """Whether classifiers get other vectors than cosines."""
        return len(self.parts) == 1 and bool(self.parts[0].has_features)

    def _output(self, output: Output) -> Output:
        return output if len(self.parts) == 1 else "features"

    def label_of(self, output: Output) -> str:
        """Return which vectors of its models these are."""
        return " + ".join(filter(None, (part.label_of(self._output(output)) for part in self.parts)))

    @property
    def identity(self) -> list[Any]:
        """Everything that decides its vectors."""
        of_projection = [("project", self.project, self.seed)] if self.project else []
        return [*(part.key(self._output("encode")) for part in self.parts), *of_projection]

    @property
    def key(self) -> str:
        """A digest of everything that decides its vectors."""
        return json_digest(self.identity, 16)

    @property
    def dim(self) -> int | None:
        """The size of a kept vector, as classifiers get it or else to compare with; None before the first."""
        for output in ("features", "encode"):
            sizes = [part.store(output).dim for part in self.parts if isinstance(part, Kept)]
            if sizes and all(sizes):
                return self.project or sum(filter(None, sizes))
        return None

    def encode(self, sentences: Any, *, normalize: bool = False, **options: Any) -> Float:
        """Return the vectors [n, D] of sentences to compare with; ``normalize`` scales them to length 1.

        Sentences and options are those of :meth:`multiview.names.named.NamedEncoder.encode`.
        """
        vectors = self._of_parts(self._output("encode"), sentences, options)
        return normalize_rows(torch.from_numpy(vectors)).numpy() if normalize else vectors

    def features(self, sentences: Any, **options: Any) -> Float:
        """Return the vectors [n, F] of sentences that classifiers get."""
        return self._of_parts("features", sentences, options)

    def _of_parts(self, output: Output, sentences: Any, options: Mapping[str, Any]) -> Float:
        if sentences is not None:
            sentences = read_elements(sentences, "encode", "sentences")  # a generator serves all parts
        blocks: list[Float] = [getattr(part, output)(sentences, **options) for part in self.parts]
        vectors: Float = blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=1)
        if self.project:
            shape = (vectors.shape[1], self.project)
            bound = np.sqrt(6.0 / sum(shape))  # Glorot's
            projection = np.random.RandomState(self.seed).uniform(-bound, bound, shape)
            vectors = vectors @ projection.astype(np.float32)
        return vectors


def distinct_names(names: Sequence[str], specs: Sequence[str]) -> list[str]:
    """Return names for models: their own, but the specs of those that share a name."""
    return [spec if names.count(name) > 1 else name for name, spec in zip(names, specs, strict=True)]


def as_encoder(encoder: Encoder | SentenceVectors, trees: TreesOf | None = None) -> OpenedEncoder:
    """Keep the vectors of an encoder, or of a function of token lists, in memory; refuse anything else."""
    if isinstance(encoder, OpenedEncoder):
        return encoder
    name, is_encoder = Name(base="encoder"), isinstance(encoder, Encoder)
    if isinstance(encoder, MultiViewEncoder):
        part = replace(of_model(encoder, name), places=Places(trees=trees))
        return OpenedEncoder(parts=[Kept(part)])
    if not is_encoder and not callable(encoder):
        raise UserError(
            f"{encoder!r:.60} is no encoder: give an object with encode(sentences) or a function of token "
            "lists; either returns an array [sentences, dimensions]"
        )
    loaded = encoder if isinstance(encoder, Encoder) else Function(encoder)
    part = NamedEncoder(
        name=name,
        kind="object",
        content=[],
        load=functools.partial(given, loaded),
        takes_tokens=bool(getattr(encoder, "pretokenized", not is_encoder)),
        has_own_features=is_encoder and callable(getattr(encoder, "features", None)),
    )
    return OpenedEncoder(parts=[Kept(part)])


def open_encoder(
    names: str | Sequence[Name],
    *,
    cache: Path | None = None,
    keep: bool = False,
    seed: int = 0,
    project: int | None = None,
    **places: Any,
) -> OpenedEncoder:
    """Return the encoder that a name means, ``A+B`` both side by side; loaded at the first sentence.

    With ``keep``, the vectors of token lists are kept: below the folder ``cache``, one subfolder per part, or
    in memory. ``seed`` is that of random encoders and of the projection to ``project`` dimensions.
    ``places`` are fields of :class:`multiview.names.named.Places`.
    """
    names = parse_names(names) if isinstance(names, str) else names
    encoders = [named(name, seed, Places(**places)) for name in names]
    return OpenedEncoder(
        parts=[Kept(encoder, cache) for encoder in encoders] if keep or cache else encoders,
        name="+".join(name.label for name in names),
        spec="+".join(name.spec for name in names),
        project=project,
        seed=seed,
    )
