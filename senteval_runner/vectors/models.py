"""Models by name, loaded on first use; their vectors are kept.

    encoder = open_model("runs/models/mine+glove.txt")
    encoder([["A", "sentence", "."]])         # token lists, as evaluations have them
    encoder.encode(["A sentence."])           # raw texts

:mod:`multiview.names.sources` says what a name may be.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from multiview.names.grammar import split_parts
from multiview.names.sources import STRINGS, Source, find_source
from senteval_runner.vectors.embed import Part, StoredEncoder, VectorStore
from senteval_runner.vectors.evaluation_trees import EvaluationTrees


def open_model(
    spec: str,
    *,
    cache: Path | None = None,
    seed: int = 0,
    project: int | None = None,
    device: str | None = None,
    trees: EvaluationTrees | None = None,
) -> StoredEncoder:
    """The model a name means; it is loaded for the first sentence without a vector.

    Args:
        spec: the name; ``A+B`` concatenates.
        cache: folder of stores, one subfolder per part; None keeps vectors in memory.
        seed: of random encoders and of the projection.
        project: dimensions of a random projection; None does not project.
        device: of the models; None is a GPU if there is one.
        trees: of a tree encoder's sentences, by default those that are in ``runs/trees``.

    Raises:
        UserError: the name cannot mean any model.
    """
    stored_trees = trees or EvaluationTrees()
    sources = [find_source(part, seed=seed) for part in split_parts(spec)]
    name = "+".join(source.name for source in sources)

    def stored(sources: Sequence[Source]) -> StoredEncoder:
        parts = [
            Part(
                functools.partial(source.load, device=device, trees=stored_trees.of),
                tokens=source.kind not in STRINGS,
                name=source.name,
                store=VectorStore(cache and cache / source.key),
                source=source,
            )
            for source in sources
        ]
        keys, reading = (
            [source.key for source in sources],
            " + ".join(s.reading for s in sources if s.reading),
        )
        return StoredEncoder(
            *parts, name=name, spec=spec, project=project, seed=seed, identity=keys, reading=reading
        )

    features = [source.for_classifiers() for source in sources]
    encoder = stored(sources if len(sources) == 1 else features)
    if len(sources) == 1 and features != sources:
        encoder.features = stored(features)
    return encoder
