"""A model folder as a sentence-transformers model.

    python -m multiview.export runs/models/dep-const-laptop        # writes modules.json into the folder
    SentenceTransformer("runs/models/dep-const-laptop", trust_remote_code=True).encode([...])

sentence-transformers asks for ``trust_remote_code`` because the module, this file, is outside its own
package. :func:`load` needs neither that nor the export.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import write_json
from multiview.folder.saving import save_encoder
from multiview.model import MultiViewEncoder

try:
    from sentence_transformers import SentenceTransformer, __version__
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
        texts = [str(text) for text in inputs]
        return {"texts": [prompt + text for text in texts] if prompt else texts}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add ``sentence_embedding`` [B, D]."""
        texts = features["texts"]
        device = next(self.networks.parameters()).device
        vectors: Tensor = self.encoder.encode(
            texts,
            batch_size=max(len(texts), 1),
            convert_to_tensor=True,
            device=device,
            show_progress_bar=False,
        )
        features["sentence_embedding"] = vectors
        return features

    def get_sentence_embedding_dimension(self) -> int:
        """D."""
        return self.encoder.get_sentence_embedding_dimension()

    def get_embedding_dimension(self) -> int:
        """D; sentence-transformers 6 calls it this."""
        return self.encoder.get_sentence_embedding_dimension()

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the model folder, without checkpoints and logs."""
        encoder = self.encoder
        save_encoder(
            encoder.members, Path(output_path), encoder.folder, normalize_parts=encoder.normalize_parts
        )


def load(folder: Path | str) -> SentenceTransformer:
    """A model folder, or ``builtin``, as a ``SentenceTransformer``, without ``trust_remote_code``."""
    return SentenceTransformer(modules=[MultiViewModule.load(str(folder))])


def export(folder: Path | str) -> None:
    """Make a model folder loadable by name: write ``modules.json`` and its configuration into it.

    Raises:
        UserError: no model there.
    """
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise UserError(f"{folder}: no model here (no config.json); train one with python -m multiview.train")
    module = {"idx": 0, "name": "0", "path": "", "type": "multiview.sentence_transformers.MultiViewModule"}
    config = {
        "__version__": {"sentence_transformers": __version__},
        "model_type": "SentenceTransformer",
        "similarity_fn_name": "cosine",
    }
    write_json(folder / "modules.json", [module])
    write_json(folder / "config_sentence_transformers.json", config)
