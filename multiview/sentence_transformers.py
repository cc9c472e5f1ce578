"""A model folder as a sentence-transformers model.

    SentenceTransformer("runs/models/builtin-laptop", trust_remote_code=True).encode([...])

Every model folder has a file modules.json, by which sentence-transformers finds :class:`MultiViewModule`. The
library requires ``trust_remote_code``, because the class is not its own; :func:`load` does not.
:mod:`multiview.structure.sentence_transformers` adds structure to the vectors of another model.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import torch

from multiview.model import MultiViewEncoder
from multiview.structure.sentence_transformers import SentenceTransformer, TextModule
from runtime.device import pick_device
from runtime.files import lock_folder


class MultiViewModule(TextModule):
    """The whole model as one sentence-transformers module."""

    def __init__(self, encoder: MultiViewEncoder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.encoder = encoder
        self.network = encoder.network  # registered as a submodule, so that .to(device) moves its weights

    @classmethod
    def open(cls, folder: Path, trusts_code: bool = False) -> Self:
        """Open a model folder, or ``builtin``."""
        return cls(MultiViewEncoder.load(folder, "cpu"))

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Move the weights to the device to which ``fn`` moves a tensor; they stay float32 for any dtype."""

        def move(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(pick_device(fn(tensor.flatten()[:0]).device))

        super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        return self

    def vectors(self, texts: list[str | tuple[str, ...]], prompt: str | None) -> torch.Tensor:
        """Return the vectors [B, D] of texts, each with the prompt put before it."""
        inputs = texts
        if prompt:
            inputs = [prompt + text if isinstance(text, str) else (*prompt.split(), *text) for text in texts]
        device = next(self.network.parameters()).device
        return self.encoder.encode(inputs, convert_to_tensor=True, device=device, show_progress_bar=False)  # type: ignore[return-value]

    def get_embedding_dimension(self) -> int:
        """Return D, the size of a vector."""
        return self.encoder.get_sentence_embedding_dimension()

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the model to a folder."""
        with lock_folder(Path(output_path), option="folder"):
            self.encoder.write(Path(output_path))


def load(folder: Path | str) -> SentenceTransformer:
    """Return a model folder, or ``builtin``, as a ``SentenceTransformer``, without ``trust_remote_code``."""
    return SentenceTransformer(modules=[MultiViewModule.open(Path(folder))]).eval()
