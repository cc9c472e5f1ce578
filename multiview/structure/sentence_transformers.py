"""Concatenates structure to any model's vectors, in a module of sentence-transformers that can be saved.

:mod:`multiview.sentence_transformers` has the module of a model folder of this package; both modules derive
from :class:`TextModule`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import torch

from corpora.sentences import read_sentences
from multiview.folder.files import model_folder, save_model
from multiview.folder.reading import TextSource
from multiview.libraries.arrays import report_in_one_line
from multiview.model_config import BUILTIN
from multiview.structure.joining import append_structure, check_share, check_structure_size
from runtime.cli import Share, config_from_json, config_to_json, configuration
from runtime.errors import UserError, extra
from runtime.files import lock_folder, read_json, write_json
from runtime.folders import current_folder, readme_text, replace_folder

with extra("burt", "sentence-transformers"):
    from sentence_transformers import SentenceTransformer as SentenceTransformer
    from sentence_transformers.base.modules import InputModule


CARD = "---\nlibrary_name: sentence-transformers\n---\n" + readme_text(
    "Who did what to whom, beside another model",
    "    from sentence_transformers import SentenceTransformer  # where multiview-embeddings is installed",
    '    model = SentenceTransformer("FOLDER", trust_remote_code=True)',
    "The module is `multiview.structure.sentence_transformers` of the package multiview-embeddings; nothing "
    "in this folder runs. The other model is in `model/`.",
)
"""The README.md of a saved :class:`StructureModule`."""


class TextModule(InputModule):
    """A module of sentence-transformers that encodes texts to vectors without gradients."""

    @classmethod
    def load(cls, model_name_or_path: str, *_: Any, backend: str = "torch", **options: Any) -> Self:
        """Load what :meth:`save` wrote; most options of sentence-transformers are ignored."""
        if backend != "torch":
            raise UserError(f"backend={backend!r}: parsers and encoders run on torch alone")
        trusts_code = bool(options.get("trust_remote_code"))
        return cls.open(Path(model_name_or_path), trusts_code)  # type: ignore[attr-defined, no-any-return]

    def preprocess(self, inputs: Sequence[Any], prompt: str | None = None, **_: Any) -> dict[str, Any]:
        """Return the texts, with ``input_ids``, a key by which the library's trainer finds a batch."""
        texts = read_sentences(inputs, "encode, in a batch sorted by length")
        return {"texts": texts, "prompt": prompt, "input_ids": torch.zeros(len(texts), 1, dtype=torch.long)}

    def forward(self, features: dict[str, Any], **_: Any) -> dict[str, Any]:
        """Add the vectors of ``features["texts"]`` as ``sentence_embedding`` [B, D]."""
        if self.training and torch.is_grad_enabled():
            raise UserError(
                "sentence-transformers cannot train this model, whose vectors have no gradients; "
                "python -m multiview.train does, and multiview.readout fits one to a teacher"
            )
        features["sentence_embedding"] = self.vectors(features["texts"], features["prompt"])
        return features


@configuration
class StructureRecord:
    """The content of structure.json."""

    structure: Share
    """λ, the share of structure in the cosine."""
    structure_size: int = 1024
    """The size of structure."""
    has_source: bool
    """Whether the folder has the model whose parsers and words are used, instead of ``builtin``."""


class StructureModule(TextModule):
    """Another model with structure concatenated to its vectors; ``with_structure`` makes it."""

    def __init__(self, model: SentenceTransformer, structure: float, source: Any = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.model, self.structure = model, check_share(structure)
        self.source = TextSource.of(source, "with_structure", "cpu")

    @classmethod
    def open(cls, folder: Path, trusts_code: bool = False) -> Self:
        """Load what :meth:`save` wrote; ``trusts_code`` holds for the code of the other model as well."""
        folder = current_folder(folder)
        path = folder / "structure.json"
        record = config_from_json(StructureRecord, read_json(path), where=path)
        source_name = folder / "source" if record.has_source else BUILTIN
        source = TextSource.load(source_name, "cpu", check_structure_size(record.structure_size))
        with report_in_one_line(f"{folder / 'model'}: cannot be loaded"):
            model = SentenceTransformer(str(folder / "model"), trust_remote_code=trusts_code)
        return cls(model, record.structure, source)

    def vectors(self, texts: list[str | tuple[str, ...]], prompt: str | None) -> torch.Tensor:
        """Return the vectors [B, D + S]; structure is that of the texts without the prompt."""
        meanings = self.model.encode(texts, prompt=prompt, convert_to_tensor=True, show_progress_bar=False)
        return append_structure(meanings, self.source, texts, self.structure)

    def get_embedding_dimension(self) -> int:
        """Return D + S, the size of a vector."""
        return int(self.model.get_embedding_dimension() or 0) + self.source.structure_size

    def save(self, output_path: str, *_: Any, **__: Any) -> None:
        """Write λ, the other model, and the source if it is not ``builtin``, in one step."""
        folder = Path(output_path)
        with lock_folder(folder, option="folder"), replace_folder(folder) as new_folder:
            self.model.save(str(new_folder / "model"))
            size, has_source = (
                self.source.structure_size,
                self.source.folder != model_folder(BUILTIN).absolute(),
            )
            if has_source:
                save_model(self.source.model, new_folder / "source", self.source.folder, structure_size=size)
            record = StructureRecord(structure=self.structure, structure_size=size, has_source=has_source)
            write_json(new_folder / "structure.json", config_to_json(record))
