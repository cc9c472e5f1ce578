"""Models by name, as evaluations open them: the trees of their sentences are found or kept."""

from __future__ import annotations

from pathlib import Path

from multiview.names.opened import OpenedEncoder, open_encoder
from senteval_runner.vectors.evaluation_trees import EvaluationTrees


def open_model(
    spec: str,
    *,
    cache: Path | None = None,
    seed: int = 0,
    project: int | None = None,
    device: str | None = None,
    trees: EvaluationTrees | None = None,
) -> OpenedEncoder:
    """Return the encoder a name means, see :func:`multiview.names.opened.open_encoder`.

    ``trees`` are those of a tree encoder's sentences, by default those that are in ``runs/trees``.
    """
    find_trees = (trees or EvaluationTrees()).of
    return open_encoder(spec, cache=cache, seed=seed, project=project, device=device, trees=find_trees)
