"""Score encoders of this project with MTEB.

    mteb.evaluate(MtebEncoder(open_model("runs/models/mine"), "mine"), tasks)

To score a sentence-transformers model here, give its name (docs/senteval.md). To use a multi-view model in
sentence-transformers, see :mod:`multiview.sentence_transformers`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from corpora.sentences import describe_value, read_sentences
from multiview.model import MultiViewEncoder
from multiview.names.opened import Encoder, as_encoder
from runtime.errors import UserError, extra
from senteval_runner.protocol.features import Float


class MtebEncoder:
    """An encoder with the methods that mteb 2 calls.

    ``encoder`` is an encoder of this project, or any object whose ``encode`` takes raw texts. ``name`` is the
    model's name in results, ``organisation/name``; without an organisation it is ``multiview/name``.
    ``revision`` is the version of the model, such as its digest.
    """

    def __init__(self, encoder: Encoder, name: str, revision: str = "local") -> None:
        self.encoder = as_encoder(encoder)
        self.name = name if "/" in name else f"multiview/{name}"
        self.revision = revision

    @property
    def mteb_model_meta(self) -> Any:
        """MTEB's record of the model, in which only the name and the revision are filled in."""
        with extra("bench"):
            from mteb.models.model_meta import ModelMeta
        return ModelMeta.create_empty({"name": self.name, "revision": self.revision})

    def encode(self, inputs: Iterable[dict[str, Any]], **_: Any) -> Float:
        """Return the embeddings [n, d] of all texts in batches ``{"text": [...]}``.

        MTEB's other arguments are ignored. Raises UserError if a batch has no key ``text``.
        """
        texts: list[str | tuple[str, ...]] = []
        for batch in inputs if isinstance(inputs, Iterable) else [inputs]:
            if not isinstance(batch, Mapping) or "text" not in batch:
                raise UserError(f"encode: {describe_value(batch)} is no batch of MTEB's, with the key text")
            texts += read_sentences(batch["text"], "encode")
        return self.encoder.encode(texts)

    similarity = MultiViewEncoder.similarity
    similarity_pairwise = MultiViewEncoder.similarity_pairwise
