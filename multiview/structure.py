"""Structure beside any encoder: who did what to whom, which averages of words and mean pooling do not see.

    from sentence_transformers import SentenceTransformer
    from multiview.structure import with_structure

    model = with_structure(SentenceTransformer("all-MiniLM-L6-v2"), structure=0.1)
    vectors = model.encode(["The lawyer praised the doctor.", "The doctor praised the lawyer."])

The structure comes from the parsers and the words of ``builtin``; nothing is downloaded. The cosine of two
vectors is (1 − λ) of the encoder's own plus λ of the structures', so it stays one inner product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from corpora.support.errors import UserError
from multiview.model import MultiViewEncoder, beside


class WithStructure:
    """An encoder whose vectors have a structure part; what else it has is the encoder's own.

    Args:
        model: anything with ``encode(list of str) -> [n, D]``.
        structure: λ, the share of structure in the cosine.
        source: the multi-view encoder that parses and has the words.
    """

    def __init__(self, model: Any, structure: float, source: MultiViewEncoder) -> None:
        if not 0 <= structure <= 1:
            raise UserError(f"structure={structure}: a share from 0 to 1")
        self.model, self.structure, self.source = model, structure, source

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def encode(self, sentences: str | Sequence[str], **options: Any) -> NDArray[np.float32] | torch.Tensor:
        """Vectors [D + S] of a sentence or [n, D + S] of a list; ``options`` are those of the model."""
        own = torch.atleast_2d(torch.as_tensor(self.model.encode(sentences, **options)).float())
        texts = [sentences] if isinstance(sentences, str) else list(sentences)
        bound = torch.from_numpy(self.source.structure_vectors(texts)).to(own.device)
        joined = beside(own, bound, self.structure)
        result = joined[0] if isinstance(sentences, str) else joined
        return result if options.get("convert_to_tensor") else result.cpu().numpy()

    def similarity(self, one: Any, other: Any) -> torch.Tensor:
        """Cosine of every vector of ``one`` with every vector of ``other``: [n, m]."""
        return self.source.similarity(one, other)

    def get_sentence_embedding_dimension(self) -> int:
        """D + S."""
        from multiview.encoders.binding import WIDTH

        return int(self.model.get_sentence_embedding_dimension()) + WIDTH


def with_structure(model: Any, structure: float = 0.1) -> WithStructure:
    """The encoder ``model`` with a structure part beside its vectors, weighed by ``structure``."""
    return WithStructure(model, structure, MultiViewEncoder.load("builtin"))
