"""A model folder as a sentence-transformers model.

    SentenceTransformer("runs/models/dep-const-laptop", trust_remote_code=True).encode([...])

Every model folder has the modules.json that sentence-transformers looks for. It asks for
``trust_remote_code`` because the module, this file, is outside its own package; :func:`load` does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from corpora.support.errors import MissingExtraError
from multiview.folder.files import save_model
from multiview.model import MultiViewEncoder

try:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import InputModule
except ImportError:
    raise MissingExtraError("sentence-transformers", "burt") from None


class MultiViewModule(InputModule):
    """The whole model as one sentence-transformers module."""

    def __init__(self, encoder: MultiViewEncoder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.encoder = encoder
        # A module list, so that .to(device) and .parameters() reach the weights.
        self.networks = torch.nn.ModuleList(member.network for member in encoder.members)

    @classmethod
    def load(cls, model_name_or_path: str, *_: Any, **__: Any) -> MultiViewModule:
        """Load a model folder; sentence-transformers' loading options are ignored."""
        return cls(MultiViewEncoder.load(model_name_or_path, "cpu"))

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Pass the texts on; :meth:`forward` parses them."""
        return {"texts": [(prompt or "") + str(text) for text in inputs]}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add ``sentence_embedding`` [B, D]."""
        features["sentence_embedding"] = self.encoder.encode(
            features["texts"],
            convert_to_tensor=True,
            device=next(self.networks.parameters()).device,
            show_progress_bar=False,
        )
        return features

    def get_embedding_dimension(self) -> int:
        """D."""
        return self.encoder.get_sentence_embedding_dimension()

    get_sentence_embedding_dimension = get_embedding_dimension  # what sentence-transformers 5 calls it

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the model folder, without checkpoints and logs."""
        save_model(self.encoder.members, Path(output_path), self.encoder.folder)


def load(folder: Path | str) -> SentenceTransformer:
    """A model folder, or ``builtin``, as a ``SentenceTransformer``, without ``trust_remote_code``."""
    return SentenceTransformer(modules=[MultiViewModule.load(str(folder))])
