"""A model folder as a sentence-transformers model.

    SentenceTransformer("runs/models/dep-const-laptop", trust_remote_code=True).encode([...])

Every model folder has the modules.json that sentence-transformers looks for. It asks for
``trust_remote_code`` because the module, this file, is outside its own package; :func:`load` does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from corpora.sentences import read_sentences
from corpora.support.cli import Share, config_from_json, configuration
from corpora.support.errors import MissingExtraError, UserError
from corpora.support.files import locked, read_json, write_json
from corpora.support.folders import current, replaced
from multiview.encoders.binding import WIDTH
from multiview.encoders.readout import beside, share_of
from multiview.folder.files import save_model
from multiview.model import MultiViewEncoder
from parsing.networks.device import pick_device

try:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import InputModule
except ImportError:
    raise MissingExtraError("sentence-transformers", "burt") from None


CARD = """---
library_name: sentence-transformers
---
# Who did what to whom, beside another model

    from sentence_transformers import SentenceTransformer  # and pip install multiview-embeddings

    model = SentenceTransformer("FOLDER", trust_remote_code=True)

The module is `multiview.sentence_transformers` of the package multiview-embeddings; nothing in this folder
runs. The other model is in `model/`.
"""
"""README.md of a saved :class:`StructureModule`."""
DOOR = "encode, in a batch sorted by length"
"""Of what sentence-transformers hands on."""


class MultiViewModule(InputModule):
    """The whole model as one sentence-transformers module."""

    def __init__(self, encoder: MultiViewEncoder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.encoder = encoder
        # A module list, so that .to(device) and .parameters() reach the weights.
        self.networks = torch.nn.ModuleList(member.network for member in encoder.members)

    @classmethod
    def load(cls, model_name_or_path: str, *_: Any, backend: str = "torch", **__: Any) -> MultiViewModule:
        """Load a model folder; sentence-transformers' other options are ignored."""
        check_backend(backend)
        return cls(MultiViewEncoder.load(model_name_or_path, "cpu"))

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> MultiViewModule:
        """Weights go to other devices; they stay float32, in which all is computed."""

        def moved(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(pick_device(fn(tensor.flatten()[:0]).device))

        super()._apply(moved, recurse)  # type: ignore[no-untyped-call]
        return self

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Pass the texts on; :meth:`forward` parses them."""
        texts, before = read_sentences(inputs, DOOR), prompt or ""
        return features_of([before + t if isinstance(t, str) else (*before.split(), *t) for t in texts])

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add ``sentence_embedding`` [B, D]."""
        refuse_training(self)
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
        with locked(Path(output_path), option="folder"):
            save_model(self.encoder.members, Path(output_path), self.encoder.folder)


@configuration
class StructureRecord:
    """structure.json."""

    structure: Share
    """λ, the share of structure in the cosine."""


class StructureModule(InputModule):
    """Another sentence-transformers model with a structure part beside its vectors.

    Args:
        model: the other model.
        structure: λ, the share of structure in the cosine.
        source: the multi-view encoder that parses and has the words; ``builtin`` by default.
    """

    def __init__(
        self, model: SentenceTransformer, structure: float, source: MultiViewEncoder | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.model, self.structure = model, share_of(structure)
        self.source = source or MultiViewEncoder.load("builtin", "cpu")

    @classmethod
    def load(
        cls,
        model_name_or_path: str,
        *_: Any,
        trust_remote_code: bool = False,
        backend: str = "torch",
        **__: Any,
    ) -> StructureModule:
        """Load what :meth:`save` wrote; a model that was trusted may trust the one in it."""
        check_backend(backend)
        folder = current(Path(model_name_or_path))
        path, source = folder / "structure.json", folder / "source"
        record = config_from_json(StructureRecord, read_json(path), where=path)
        encoder = MultiViewEncoder.load(source, "cpu") if source.is_dir() else None
        model = SentenceTransformer(str(folder / "model"), trust_remote_code=trust_remote_code)
        return cls(model, record.structure, encoder)

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Pass the texts on; structure does not read the prompt."""
        return {**features_of(read_sentences(inputs, DOOR)), "prompt": prompt}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add ``sentence_embedding`` [B, D + S]."""
        refuse_training(self)
        texts = features["texts"]
        own = self.model.encode(
            texts, prompt=features["prompt"], convert_to_tensor=True, show_progress_bar=False
        )
        bound = torch.from_numpy(self.source.structure_vectors(texts)).to(own)
        features["sentence_embedding"] = beside(own, bound, self.structure)
        return features

    def get_embedding_dimension(self) -> int:
        """D + S."""
        return int(self.model.get_embedding_dimension() or 0) + WIDTH

    get_sentence_embedding_dimension = get_embedding_dimension

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write λ, the other model, and the source if it is not ``builtin``, in one step."""
        folder = Path(output_path)
        with locked(folder, option="folder"), replaced(folder) as new:
            self.model.save(str(new / "model"))
            if self.source.name != "builtin":
                save_model(self.source.members, new / "source", self.source.folder)
            write_json(new / "structure.json", {"structure": self.structure})


def check_backend(backend: str) -> None:
    """Refuse a backend that sentence-transformers would have to export the model for."""
    if backend != "torch":
        raise UserError(f"backend={backend!r}: parsers and encoders run on torch alone")


def features_of(texts: list[str | tuple[str, ...]]) -> dict[str, Any]:
    """Texts as a batch; sentence-transformers' trainer takes for one what has ``input_ids``."""
    return {"texts": texts, "input_ids": torch.zeros(len(texts), 1, dtype=torch.long)}


def refuse_training(module: torch.nn.Module) -> None:
    """Raise a UserError where gradients are asked for."""
    if module.training and torch.is_grad_enabled():
        raise UserError(
            "sentence-transformers cannot train this model, which gives vectors without gradients; "
            "python -m multiview.train does, and multiview.readout fits one to a teacher"
        )


def load(folder: Path | str) -> SentenceTransformer:
    """A model folder, or ``builtin``, as a ``SentenceTransformer``, without ``trust_remote_code``."""
    return SentenceTransformer(modules=[MultiViewModule.load(str(folder))]).eval()
