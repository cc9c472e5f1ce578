"""Opens a model folder as a sentence-transformers model.

    SentenceTransformer("runs/models/dep-const-laptop", trust_remote_code=True).encode([...])

Every model folder has the modules.json that sentence-transformers looks for. It asks for
``trust_remote_code`` because the module, this file, is outside its own package; :func:`load` does not.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from corpora.sentences import read_sentences
from multiview.encoders.meaning import check_share
from multiview.model import MultiViewEncoder
from multiview.pretrained import report_in_one_line
from runtime.cli import Share, config_from_json, config_to_json, configuration
from runtime.device import pick_device
from runtime.errors import MissingExtraError, UserError
from runtime.files import lock_folder, read_json, write_json
from runtime.folders import current_folder, model_card, replace_folder

try:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import InputModule
except ImportError:
    raise MissingExtraError("sentence-transformers", "burt") from None


CARD = "---\nlibrary_name: sentence-transformers\n---\n" + model_card(
    "Who did what to whom, beside another model",
    "    from sentence_transformers import SentenceTransformer  # and pip install multiview-embeddings",
    '    model = SentenceTransformer("FOLDER", trust_remote_code=True)',
    "The module is `multiview.sentence_transformers` of the package multiview-embeddings; nothing in this "
    "folder runs. The other model is in `model/`.",
)
"""README.md of a saved :class:`StructureModule`."""


class TextModule(InputModule):
    """What both modules share: texts go in, and vectors without gradients come out."""

    @classmethod
    def load(cls, model_name_or_path: str, *_: Any, backend: str = "torch", **options: Any) -> Self:
        """Load what :meth:`save` wrote; most of sentence-transformers' options are ignored."""
        if backend != "torch":
            raise UserError(f"backend={backend!r}: parsers and encoders run on torch alone")
        trusts_code = bool(options.get("trust_remote_code"))
        return cls.open(Path(model_name_or_path), trusts_code)  # type: ignore[attr-defined, no-any-return]

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Pass the texts on, with ``input_ids``, without which the library's trainer sees no batch."""
        texts = read_sentences(inputs, "encode, in a batch sorted by length")
        return {"texts": texts, "prompt": prompt, "input_ids": torch.zeros(len(texts), 1, dtype=torch.long)}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add ``sentence_embedding`` [B, D]."""
        if self.training and torch.is_grad_enabled():
            raise UserError(
                "sentence-transformers cannot train this model, whose vectors have no gradients; "
                "python -m multiview.train does, and multiview.readout fits one to a teacher"
            )
        features["sentence_embedding"] = self.vectors(features["texts"], features["prompt"])
        return features


class MultiViewModule(TextModule):
    """The whole model as one sentence-transformers module."""

    def __init__(self, encoder: MultiViewEncoder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.encoder = encoder
        # A module list, so that .to(device) and .parameters() reach the weights.
        self.networks = torch.nn.ModuleList(encoder.networks)

    @classmethod
    def open(cls, folder: Path, trusts_code: bool = False) -> Self:
        """Open a model folder, or ``builtin``."""
        return cls(MultiViewEncoder.load(folder, "cpu"))

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> Self:
        """Move weights to other devices; they stay float32, in which everything is computed."""

        def move(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.to(pick_device(fn(tensor.flatten()[:0]).device))

        super()._apply(move, recurse)  # type: ignore[no-untyped-call]
        return self

    def vectors(self, texts: list[str | tuple[str, ...]], prompt: str | None) -> torch.Tensor:
        """Return the vectors [B, D] of texts that begin with the prompt."""
        inputs = texts
        if prompt:
            inputs = [prompt + text if isinstance(text, str) else (*prompt.split(), *text) for text in texts]
        device = next(self.networks.parameters()).device
        return self.encoder.encode(inputs, convert_to_tensor=True, device=device, show_progress_bar=False)  # type: ignore[return-value]

    def get_embedding_dimension(self) -> int:
        """Return D, the size of a vector."""
        return self.encoder.get_sentence_embedding_dimension()

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write the model folder, without checkpoints and logs."""
        with lock_folder(Path(output_path), option="folder"):
            self.encoder.write(Path(output_path))


@configuration
class StructureRecord:
    """The content of structure.json."""

    structure: Share
    """λ, the share of structure in the cosine."""
    structure_size: int = 1024
    """Size of a structure vector."""


class StructureModule(TextModule):
    """Another model with structure beside its vectors, as :class:`multiview.structure.WithStructure`."""

    def __init__(
        self, model: SentenceTransformer, structure: float, source: MultiViewEncoder | None = None
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.model, self.structure = model, check_share(structure)
        self.source = source or MultiViewEncoder.load("builtin", "cpu")

    @classmethod
    def open(cls, folder: Path, trusts_code: bool = False) -> Self:
        """Load what :meth:`save` wrote; whoever trusts the code here trusts that of the model inside."""
        folder = current_folder(folder)
        path = folder / "structure.json"
        record = config_from_json(StructureRecord, read_json(path), where=path)
        source_folder = folder / "source"
        source_name = source_folder if source_folder.is_dir() else "builtin"
        source = MultiViewEncoder.load(source_name, "cpu", structure_size=record.structure_size)
        with report_in_one_line(f"{folder / 'model'}: cannot be loaded"):
            model = SentenceTransformer(str(folder / "model"), trust_remote_code=trusts_code)
        return cls(model, record.structure, source)

    def vectors(self, texts: list[str | tuple[str, ...]], prompt: str | None) -> torch.Tensor:
        """Return the vectors [B, D + S]; structure does not read the prompt."""
        meanings = self.model.encode(texts, prompt=prompt, convert_to_tensor=True, show_progress_bar=False)
        return self.source.add_structure(meanings, texts, self.structure)

    def get_embedding_dimension(self) -> int:
        """Return D + S, the size of a vector."""
        return int(self.model.get_embedding_dimension() or 0) + self.source.structure_size

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write λ, the other model, and the source if it is not ``builtin``, in one step."""
        folder = Path(output_path)
        with lock_folder(folder, option="folder"), replace_folder(folder) as new_folder:
            self.model.save(str(new_folder / "model"))
            if self.source.name != "builtin":
                self.source.write(new_folder / "source")
            record = StructureRecord(structure=self.structure, structure_size=self.source.structure_size)
            write_json(new_folder / "structure.json", config_to_json(record))


def load(folder: Path | str) -> SentenceTransformer:
    """Return a model folder, or ``builtin``, as a ``SentenceTransformer``, without ``trust_remote_code``."""
    return SentenceTransformer(modules=[MultiViewModule.open(Path(folder))]).eval()
