"""Encoders by name (see :mod:`senteval_runner.vectors.sources`), loaded on first use; vectors are kept.

encoder = open_model("runs/models/mine+glove.txt")
encoder([["A", "sentence", "."]])         # token lists, as evaluations have them
encoder.encode(["A sentence."])           # raw texts
"""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from corpora.support.errors import UserError
from multiview.model import MultiViewEncoder
from multiview.pretrained import whole_model
from senteval_runner.protocol.features import Float
from senteval_runner.vectors.bags import Bag, lookup_of
from senteval_runner.vectors.embed import Encode, Part, StoredEncoder
from senteval_runner.vectors.evaluation_trees import EvaluationTrees, open_trees
from senteval_runner.vectors.pretrained import pooled_model
from senteval_runner.vectors.sources import Source, find_source, split_parts
from senteval_runner.vectors.store import VectorStore
from senteval_runner.vectors.untrained import RandomLSTM, load_start, untrained_views

BATCH = 128
"""Sentences encoded at a time."""
STRINGS = ("vectors", "sentence-transformers", "pooled")
"""Kinds of encoders that take strings, not token lists."""


def open_model(
    spec: str,
    *,
    cache: Path | None = None,
    seed: int = 0,
    project: int | None = None,
    device: str | None = None,
    trees: EvaluationTrees | Path | None = None,
) -> StoredEncoder:
    """The model a name means; it is loaded for the first sentence without a vector.

    Args:
        spec: the name; ``A+B`` concatenates.
        cache: folder of stores, one subfolder per part; None keeps vectors in memory.
        seed: of random encoders and of the projection.
        project: dimensions of a random projection; None does not project.
        device: of the models; None is a GPU if there is one.
        trees: source of a tree encoder's trees, see :func:`tree_reading`.

    Raises:
        UserError: the name cannot mean any model.
    """
    parts = [
        Part(
            functools.partial(load_source, source, device=device, trees=trees),
            tokens=source.kind not in STRINGS,
            name=source.name,
            store=VectorStore(cache and cache / source.key),
            source=source,
        )
        for source in (find_source(part, seed=seed) for part in split_parts(spec))
    ]
    name = "+".join(part.name for part in parts)
    keys = [part.source.key for part in parts if part.source]
    return StoredEncoder(*parts, name=name, spec=spec, project=project, seed=seed, identity=keys)


def load_source(
    source: Source, *, device: str | None = None, trees: EvaluationTrees | Path | None = None
) -> Encode:
    """Load a source's model: a function from sentences to vectors [n, D].

    Raises:
        UserError: a damaged model, or none under that name.
    """
    if source.kind == "vectors":
        return PrecomputedVectors(Path(source.spec)).encode
    if source.kind in ("words", "bag"):
        lookup = lookup_of(source.base, source.dim, seed=source.seed)
        return Bag(lookup, Path(source.option) if source.option else None).encode
    if source.kind in ("sentence-transformers", "pooled"):
        model = (
            pooled_model(source.base, source.prefix, device)
            if source.kind == "pooled"
            else whole_model(source.base, device)
        )
        return functools.partial(
            model.encode, batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True
        )
    if source.kind == "lstm":
        return RandomLSTM(source, device=device).encode
    views = source.option.split(",") if source.kind == "views" else None
    return tree_reading(load_multiview(source, device), trees, views=views)


def tree_reading(
    model: MultiViewEncoder,
    trees: EvaluationTrees | Path | None = None,
    *,
    views: Sequence[str] | None = None,
) -> Encode:
    """A multi-view encoder with stored trees; sentences without one are parsed on the fly.

    Args:
        model: the encoder.
        trees: see :func:`senteval_runner.vectors.evaluation_trees.open_trees`. They are those of all views,
            so that a model and each of its views share them.
        views: only these; None is all.
    """
    stored = open_trees(model, trees)
    return functools.partial(
        model.encode, batch_size=BATCH, trees=stored, show_progress_bar=False, views=views
    )


def load_multiview(source: Source, device: str | None) -> MultiViewEncoder:
    """A model folder of ``multiview.train``, the same before its first step, or untrained encoders.

    The whole model, also where the source chooses views.
    """
    if source.kind == "start":
        return load_start(source.base, Path(source.option), device)
    if source.kind == "random":
        return untrained_views(source, device)
    return MultiViewEncoder.load(source.base, device)


class PrecomputedVectors:
    """Vectors computed elsewhere, by sentence."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # Opened here because numpy does not close a damaged archive.
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
                sentences, self.vectors = arrays["sentences"], arrays["vectors"]
            if self.vectors.ndim != 2 or len(sentences) != len(self.vectors):
                raise ValueError(f"{len(sentences)} sentences, vectors {list(self.vectors.shape)}")
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile) as error:
            raise UserError(
                f"{path}: expected arrays 'sentences' (strings) and 'vectors' [n, d] ({error})"
            ) from None
        self.rows = {str(sentence): row for row, sentence in enumerate(sentences)}

    def encode(self, sentences: Sequence[str]) -> Float:
        """Vectors [n, d].

        Raises:
            UserError: a sentence has none.
        """
        missing = [sentence for sentence in sentences if sentence not in self.rows]
        if missing:
            raise UserError(
                f"{self.path}: no vector for {len(missing)} of {len(sentences)} sentences, "
                f"first {missing[0]!r}"
            )
        vectors: Float = self.vectors[[self.rows[sentence] for sentence in sentences]]
        return vectors
