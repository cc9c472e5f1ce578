"""A model in memory: how it is loaded, made without training, described, changed and saved.

Legend of dimension suffixes: n sentences or words, D size of a vector, S of structure.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import torch
from numpy.typing import NDArray

from corpora.sentences import read_sentences
from multiview.config import EncoderConfig, InitRule
from multiview.encoders.batch_encoder import annotations_of, view_positions
from multiview.encoders.meaning import Readout, sample_ranges
from multiview.encoders.registry import ViewStack, fields_of, table_indices
from multiview.folder.files import (
    Model,
    load_model,
    model_folder,
    model_record,
    refuse_other_content,
    save_model,
)
from multiview.folder.reading import MAX_LENGTH, SentenceReader
from multiview.structure.joining import check_share, check_structure_size
from multiview.words.table import WordTable
from multiview.words.vectors import WordVectors, load_word_vectors
from parsing.names import absolute_name
from runtime.device import (
    ProductKind,
    build_in_float32,
    pick_device,
    products_in,
    torch_threads,
    with_torch_defaults,
)
from runtime.files import lock_folder, path_of
from runtime.process import loading, pause_collector

if TYPE_CHECKING:
    from parsing.trees.cache import TreeCache


class LoadedModel:
    """The views, words and parsers of a model, where they came from, and the share of structure."""

    def __init__(
        self,
        model: Model,
        *,
        device: str | torch.device = "cpu",
        name: str = "",
        structure: float = 0.0,
        structure_size: int = 1024,
        max_length: int = MAX_LENGTH,
    ) -> None:
        self.model = model
        self.name = name
        self.structure = check_share(structure)
        """λ, the share of structure in the cosines of :meth:`~multiview.model.MultiViewEncoder.encode`."""
        self.structure_size = check_structure_size(structure_size)
        """S, the numbers of a structure vector."""
        self.folder: Path | None = None
        self.reader = SentenceReader(model.parsers, max_length)
        self.reader.device = str(torch.device(device))
        self.network.to(self.device).eval()

    @classmethod
    @loading()
    def load(
        cls,
        folder: Path | str,
        device: str | torch.device | None = None,
        *,
        dep_model: str = "",
        const_model: str = "",
        structure: float | None = None,
        structure_size: int | None = None,
        max_length: int = MAX_LENGTH,
        products: ProductKind | None = None,
    ) -> Self:
        """Load a model folder, written by ``python -m multiview.train``, or ``builtin``, that in the package.

        The device is cpu, cuda, ...; without one, a GPU is taken if there is any. ``dep_model`` and
        ``const_model`` are the parsers the model was trained with, unless they are the builtin ones.
        ``structure`` is λ of :meth:`~multiview.model.MultiViewEncoder.encode`, ``structure_size`` the numbers
        of a structure vector, 128, 256, 512 or 1,024; by default both are the folder's. Of a text
        ``max_length`` words are read, by this encoder and by the judge and the structure that have it as
        their source. ``products`` are those of the weights on a CPU: ``float32`` (the default) or ``int8``. A
        UserError names the file that is missing or damaged, or the value that is none of these.
        """
        path = model_folder(folder)
        record = model_record(path)
        target = pick_device(device)
        with pause_collector(), products_in(products):
            encoder = cls(
                load_model(path, target, record),
                device=target,
                name=Path(folder).name,
                structure=record.structure if structure is None else structure,
                structure_size=record.structure_size if structure_size is None else structure_size,
                max_length=max_length,
            )
        encoder.folder = path.absolute()
        encoder.reader.specs = {"dep": absolute_name(dep_model), "const": absolute_name(const_model)}
        return encoder

    @classmethod
    @loading()
    def untrained(
        cls,
        views: Sequence[str] | str,
        *,
        dim: int = 128,
        word_dim: int = 128,
        words: WordTable | None = None,
        start: InitRule = "xavier",
        relations: bool = False,
        seed: int = 0,
        device: str | torch.device | None = None,
    ) -> Self:
        """Return a model with random weights, the baseline that a trained model has to beat.

        Views are ``"dep,const"`` or a list, each of ``dim`` numbers. Without ``words``, these are hashed to
        vectors of ``word_dim`` numbers. With the start ``bag``, trees forget little; with ``relations``, dep
        knows the role of each child.
        """
        names = [view.strip() for view in views.split(",")] if isinstance(views, str) else list(views)
        table_count = 1 + max(table_indices(names), default=0)
        with build_in_float32(seed):
            table = words or WordTable.hashed(word_dim, views=table_count, seed=seed)
            network = ViewStack(names, table, EncoderConfig(dim=dim, start=start, relations=relations))
        return cls(Model(network), device=pick_device(device), name=f"random:{','.join(names)}")

    @property
    def device(self) -> torch.device:
        """Where the weights are and vectors are computed; ``encode(device=...)`` moves them."""
        return torch.device(self.reader.device)

    @property
    def network(self) -> ViewStack:
        """The views and their words."""
        return self.model.network

    @property
    def views(self) -> list[str]:
        """Names of the views, in the order of their vectors."""
        return list(self.network.views)

    @property
    def readout(self) -> Readout | None:
        """The map from all views to one vector made for cosine; None where none was fitted."""
        return self.network.readout

    @property
    def has_scale(self) -> bool:
        """Whether features have a scale of their own."""
        return self.network.scale is not None

    def measure(self, trees: TreeCache) -> None:
        """Bring features to one scale over a text: mean and deviation of each number in a sample of it.

        Trees that lack what a view needs, or are of other parsers, are a UserError.
        """
        requires = self.requires_of()
        self.reader.check_trees(trees, requires)
        fields, ranges = fields_of(requires), sample_ranges([(0, len(trees))])
        with torch_threads(1):
            self.network.measure((trees.read(*rows, fields) for rows in ranges), trees.folder.name)

    def requires_of(self, views: Sequence[str] | None = None) -> set[str]:
        """Return the annotations that views read, of ``tokens``, ``dep``, ``const``; None is all views."""
        return annotations_of(self.network, view_positions(self.views, views))

    def with_options(self, *, structure: float | None = None, structure_size: int | None = None) -> Self:
        """Return another encoder over the same weights and parsers, with another λ or S.

        A UserError names a λ outside 0 to 1, or an S that is none of 128, 256, 512 and 1,024.
        """
        other = copy.copy(self)
        if structure is not None:
            other.structure = check_share(structure)
        if structure_size is not None:
            other.structure_size = check_structure_size(structure_size)
        return other

    def to(self, device: str | torch.device) -> Self:
        """Move weights and parsers to a device; later calls compute there, too."""
        target = pick_device(device)
        if target != self.device:
            self.reader.move(target)
            self.network.to(target)
        return self

    @with_torch_defaults()
    @torch.inference_mode()
    def word_vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the words' input vectors, tables side by side: float32 [n, (tables or 1) x word size]."""
        spellings = [str(word) for word in read_sentences(words, "word_vectors")]
        types, type_of_word = np.unique(spellings, return_inverse=True)
        table = self.network.words
        rows = table.vocabulary.lookup(types.tolist())
        blocks = [table.rows(view, rows) for view in range(max(len(table.tables), 1))]
        return torch.cat(blocks, dim=1).float().cpu().numpy()[type_of_word]

    def expand_vocabulary(self, vectors: Path | str | WordVectors) -> int:
        """Add words of a file (GloVe, word2vec, fastText) that the model was not trained on; return how many.

        Every trained table gets its own map of the vectors, by least squares
        (:class:`multiview.words.vectors.Expansion`), and keeps its own rows; hash buckets still serve the
        words that neither the corpus nor the vectors know. Vectors that are malformed, or share too few words
        with the model, are a UserError.
        """
        word_vectors = vectors if isinstance(vectors, WordVectors) else load_word_vectors(vectors)
        return self.network.words.expand(word_vectors)

    def save(self, folder: Path | str) -> None:
        """Write the model as it is now, with expanded words; refuse a folder that holds something else."""
        folder = path_of(folder, "model")
        refuse_other_content(folder)
        with lock_folder(folder, option="folder"):
            self.write(folder)
        self.folder = folder.absolute()

    def write(self, folder: Path) -> None:
        """Write the model into a folder that is new, or whose lock the caller holds."""
        share, size = self.structure, self.structure_size
        save_model(self.model, folder, self.folder, structure=share, structure_size=size)

    def __repr__(self) -> str:
        network, table = self.network, self.network.words
        views = [f"{view} {width}" for view, width in zip(network.views, network.widths, strict=True)]
        identities = sorted(self.reader.identities.items())
        parsers = [f"{kind} {identity.get('name', '?')}" for kind, identity in identities]
        meaning = f", read out as {self.readout.dim}" if self.readout else ""
        share = f"; structure {self.structure:g}" if self.structure else ""
        return (
            f"{type(self).__name__} {self.name} on {self.device}\n"
            f"  views    {' + '.join(views)} = {network.dim} dimensions{meaning}{share}\n"
            f"  words    {len(table.vocabulary):,} {table.mode}, of size {table.dim}\n"
            f"  parsers  {', '.join(parsers) or 'none on record'}"
        )

    def __sklearn_clone__(self) -> Self:
        """Return itself: scikit-learn copies estimators, but a model that nothing trains may be shared."""
        return self
