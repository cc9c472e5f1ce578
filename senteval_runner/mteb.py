"""Give our encoders MTEB's interface.

    mteb.evaluate(MtebEncoder(open_model("runs/models/mine"), "mine"), tasks)

sentence-transformers models come in by name (docs/senteval.md); the way out is
:mod:`multiview.sentence_transformers`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from corpora.sentences import describe_value, read_sentences
from multiview.model import MultiViewEncoder
from multiview.names.opened import Encoder, as_encoder
from runtime.errors import UserError, extra
from senteval_runner.protocol.features import Float


class MtebEncoder:
    """MTEB's encoder protocol (mteb 2) around any encoder of ours, or one whose ``encode`` takes raw texts.

    ``name`` is its name in results, ``organisation/name``, or a name for the organisation ``multiview``;
    ``revision`` is the version of the model, e.g. its digest.
    """

    def __init__(self, encoder: Encoder, name: str, revision: str = "local") -> None:
        self.encoder = as_encoder(encoder)
        self.name = name if "/" in name else f"multiview/{name}"
        self.revision = revision

    @property
    def mteb_model_meta(self) -> Any:
        """MTEB's record of the model, with name and revision only."""
        with extra("bench"):
            from mteb.models.model_meta import ModelMeta
        return ModelMeta.create_empty({"name": self.name, "revision": self.revision})

    def encode(self, inputs: Iterable[dict[str, Any]], **_: Any) -> Float:
        """Return the vectors [n, d] of batches ``{"text": [...]}`` of raw text; other options are ignored."""
        texts: list[str | tuple[str, ...]] = []
        for batch in inputs if isinstance(inputs, Iterable) else [inputs]:
            if not isinstance(batch, Mapping) or "text" not in batch:
                raise UserError(f"encode: {describe_value(batch)} is no batch of MTEB's, with the key text")
            texts += read_sentences(batch["text"], "encode")
        return self.encoder.encode(texts)

    similarity = MultiViewEncoder.similarity
    similarity_pairwise = MultiViewEncoder.similarity_pairwise
