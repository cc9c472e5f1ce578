"""Our encoders behind MTEB's interface.

    mteb.evaluate(MtebEncoder(open_model("runs/models/mine"), "mine"), tasks)

sentence-transformers models come in by name (multiview.names.sources); the way out is
:mod:`multiview.sentence_transformers`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from corpora.sentences import read_sentences
from corpora.support.errors import MissingExtraError
from senteval_runner.protocol.correlation import Scores, cosines
from senteval_runner.protocol.features import Float, unit
from senteval_runner.vectors.embed import Encoder, as_vectors


class MtebEncoder:
    """MTEB's encoder protocol (mteb 2).

    Args:
        encoder: any encoder of ours, or one whose ``encode`` takes raw texts.
        name: its name in results, ``organisation/name``; the organisation defaults to ``multiview``.
        revision: version of the model, e.g. its digest.
    """

    def __init__(self, encoder: Encoder, name: str, revision: str = "local") -> None:
        self.encoder = as_vectors(encoder)
        self.name = name if "/" in name else f"multiview/{name}"
        self.revision = revision

    @property
    def mteb_model_meta(self) -> Any:
        """MTEB's record of the model, with name and revision only."""
        try:
            from mteb.models.model_meta import ModelMeta
        except ImportError:
            raise MissingExtraError("mteb", "bench") from None
        return ModelMeta.create_empty({"name": self.name, "revision": self.revision})

    def encode(self, inputs: Iterable[dict[str, Any]], **_: Any) -> Float:
        """Vectors [n, d] of batches ``{"text": [...]}`` of raw text; task, split and prompt are ignored."""
        return self.encoder.encode([t for batch in inputs for t in read_sentences(batch["text"], "encode")])

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Float:
        """Cosines [n, m] of every vector of [n, d] with every vector of [m, d]."""
        one, other = (unit(np.atleast_2d(np.float32(vectors))) for vectors in (embeddings1, embeddings2))
        return one @ other.T

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Scores:
        """Cosines [n] of the vectors of [n, d] and [n, d], pair by pair."""
        return cosines(np.asarray(embeddings1), np.asarray(embeddings2))
