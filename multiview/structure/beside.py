"""Adds structure to any encoder: who did what to whom, which averages of vectors hardly show.

    from sentence_transformers import SentenceTransformer
    from multiview.structure import with_structure

    model = with_structure(SentenceTransformer("all-MiniLM-L6-v2"), structure=0.15)
    vectors = model.encode(["The lawyer praised the doctor.", "The doctor praised the lawyer."])

The parsers and word vectors of ``builtin`` make the structure, so nothing is downloaded. The cosine of two
new vectors is 1 − λ times the encoder's own cosine plus λ times that of the structures; λ is ``structure``.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from corpora.sentences import read_sentences
from multiview.encoders.batch_encoder import ArrayOrTensor, unit_vectors
from multiview.folder.reading import TextSource
from multiview.libraries.arrays import check_encoder, check_vectors
from multiview.structure.joining import append_structure, check_share, check_structure_size
from runtime.device import with_torch_defaults
from runtime.errors import UserError


class WithStructure:
    """An encoder that returns a model's vectors with structure concatenated to them.

    All other attributes are those of the model.

    Args:
        model: An object with ``encode(list of str) -> [n, D]``.
        structure: λ, the share of structure in the cosine, from 0 to 1.
        source: The encoder whose parsers and word vectors make the structure; by default ``builtin``.
    """

    def __init__(self, model: Any, structure: float, source: Any = None) -> None:
        check_encoder(model, "with_structure")
        self.model, self.structure = model, check_share(structure)
        self.source = TextSource.of(source, "with_structure")

    def __getattr__(self, name: str) -> Any:
        if name == "model" or name.startswith("__"):  # copy() asks for attributes before ``model`` is set
            raise AttributeError(name)
        return getattr(self.model, name)

    def encode(self, sentences: str | Sequence[str], **options: Any) -> NDArray[np.float32] | torch.Tensor:
        """Return the vector [D + S] of a string, or the vectors [n, D + S] of a list of strings.

        ``options`` are passed to ``model.encode``. Raises UserError if an input is no string, or if the model
        does not return finite vectors [n, D].
        """
        texts = read_sentences([sentences] if isinstance(sentences, str) else sentences, "encode")
        if not texts:
            return self.encode(["."], **options)[:0]
        output = self.model.encode(texts, **options)
        meanings = torch.from_numpy(check_vectors(output, texts, type(self.model).__name__)[0])
        vectors = append_structure(meanings, self.source, texts, self.structure)
        if isinstance(sentences, str):
            vectors = vectors[0]
        if options.get("convert_to_tensor"):
            return vectors.to(getattr(output, "device", "cpu"))
        return vectors.numpy()

    @with_torch_defaults()
    def similarity(self, first: ArrayOrTensor, second: ArrayOrTensor) -> torch.Tensor:
        """Return the cosines of all vectors of ``first`` and of ``second``, [n, m]; [D] counts as [1, D]."""
        left, right = unit_vectors(first, second)
        return left @ right.T

    def get_sentence_embedding_dimension(self) -> int:
        """Return D + S, the size of a vector."""
        return int(self.model.get_sentence_embedding_dimension()) + self.source.structure_size


def with_structure(
    model: Any,
    structure: float = 0.15,
    source: Any = None,
    *,
    structure_size: int | None = None,
) -> Any:
    """Return an encoder with the vectors of ``model`` and structure concatenated to them.

    The result is a ``SentenceTransformer``, which can be saved and loaded, if the model is one, and a
    :class:`WithStructure` otherwise.

    Args:
        model: An object with ``encode(list of str) -> [n, D]``.
        structure: λ, the share of structure in the cosine, from 0 to 1.
        source: The :class:`~multiview.model.MultiViewEncoder` whose parsers and word vectors make the
            structure; by default ``builtin``.
        structure_size: The size of structure if ``source`` is None: 128, 256, 512 or, by default, 1,024.

    Raises UserError if an argument has a wrong type or value.
    """
    if structure_size is not None:
        if source is not None:
            raise UserError("with_structure: the size of structure is the source's; give one of the two")
        source = TextSource.load("builtin", structure_size=check_structure_size(structure_size))
    library = sys.modules.get("sentence_transformers")
    if library is not None and isinstance(model, library.SentenceTransformer):
        from multiview.structure.sentence_transformers import CARD, StructureModule

        transformer = library.SentenceTransformer(modules=[StructureModule(model, structure, source)])
        transformer._model_card_text = CARD  # because the card of the library would not name this package
        return transformer
    return WithStructure(model, structure, source)
