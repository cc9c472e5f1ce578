"""Structure beside any encoder: who did what to whom, which averages of words and of states hardly show.

    from sentence_transformers import SentenceTransformer
    from multiview.structure import with_structure

    model = with_structure(SentenceTransformer("all-MiniLM-L6-v2"), structure=0.15)
    vectors = model.encode(["The lawyer praised the doctor.", "The doctor praised the lawyer."])

The structure comes from the parsers and the words of ``builtin``; nothing is downloaded. The cosine of two
vectors is (1 − λ) of the encoder's own plus λ of the structures', so it stays one inner product.
"""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from corpora.sentences import read_sentences
from multiview.encoders.batch_encoder import Vectors, unit_vectors
from multiview.folder.reading import TextSource
from multiview.libraries.arrays import check_encoder, check_vectors
from multiview.structure.joining import check_share, check_structure_size, put_beside
from runtime.device import with_torch_defaults
from runtime.errors import UserError


class WithStructure:
    """An encoder whose vectors have a structure part; its other attributes are those of the model.

    ``model`` is anything with ``encode(list of str) -> [n, D]``; ``structure`` is λ, the share of structure
    in the cosine, from 0 to 1. ``source``, ``builtin`` by default, parses the sentences and has the words.
    """

    def __init__(self, model: Any, structure: float, source: Any = None) -> None:
        check_encoder(model, "with_structure")
        self.model, self.structure = model, check_share(structure)
        self.source = TextSource.of(source, "with_structure")

    def __getattr__(self, name: str) -> Any:
        if name == "model" or name.startswith("__"):  # copying asks before there is a model
            raise AttributeError(name)
        return getattr(self.model, name)

    def encode(self, sentences: str | Sequence[str], **options: Any) -> NDArray[np.float32] | torch.Tensor:
        """Encode a sentence to [D + S], a list to [n, D + S]; ``options`` are those of the model.

        An input that is no sentence, and vectors of the model that are not finite [n, D], are a UserError.
        """
        texts = read_sentences([sentences] if isinstance(sentences, str) else sentences, "encode")
        if not texts:
            return self.encode(["."], **options)[:0]
        output = self.model.encode(texts, **options)
        meanings = torch.from_numpy(check_vectors(output, texts, type(self.model).__name__)[0])
        vectors = put_beside(meanings, self.source, texts, self.structure)
        if isinstance(sentences, str):
            vectors = vectors[0]
        if options.get("convert_to_tensor"):
            return vectors.to(getattr(output, "device", "cpu"))
        return vectors.numpy()

    @with_torch_defaults()
    def similarity(self, first: Vectors, second: Vectors) -> torch.Tensor:
        """Compare each vector of ``first`` and each of ``second`` by cosine: [n, m]; [D] counts as [1, D]."""
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
    """Return ``model`` with a structure part beside its vectors; see :class:`WithStructure`.

    If it is a ``SentenceTransformer``, so is the result, which can be saved and loaded. A ``source`` is a
    :class:`~multiview.model.MultiViewEncoder`. Without one, structure has ``structure_size`` numbers: 128,
    256, 512 or 1,024.
    """
    if structure_size is not None:
        if source is not None:
            raise UserError("with_structure: the size of structure is the source's; give one of the two")
        source = TextSource.load("builtin", structure_size=check_structure_size(structure_size))
    library = sys.modules.get("sentence_transformers")
    if library is not None and isinstance(model, library.SentenceTransformer):
        from multiview.structure.sentence_transformers import CARD, StructureModule

        transformer = library.SentenceTransformer(modules=[StructureModule(model, structure, source)])
        transformer._model_card_text = CARD  # the library's own names neither this package nor the option
        return transformer
    return WithStructure(model, structure, source)
