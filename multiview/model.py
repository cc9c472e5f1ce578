"""The encoder of sentences, which is the public API: load a model folder, and encode.

    from multiview.model import MultiViewEncoder
    encoder = MultiViewEncoder.load("runs/models/builtin-laptop")
    vectors = encoder.encode(["A cat sat down.", ["already", "tokenised"]])      # float32 [2, D]

Sentences are parsed by the parsers that the model was trained with, or their trees are read from a cache.
Every input gives one vector, in the order of the input; an input is never split into sentences.

Legend of dimension suffixes: n or N sentences, B sentences of a batch, D size of a vector, S of structure.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from runtime.process import loading, pause_collector

with pause_collector():
    import torch  # takes most of the time that importing this module takes

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from corpora.sentences import read_sentences
from multiview.encoders.batch_encoder import (
    ArrayOrTensor,
    annotations_of,
    encoder_of_views,
    unit_vectors,
    view_positions,
)
from multiview.encoders.meaning import Readout, sample_ranges
from multiview.encoders.registry import ViewStack, fields_of
from multiview.encoders.untrained import untrained_views
from multiview.folder.files import (
    Model,
    load_model,
    model_folder,
    model_record,
    refuse_other_content,
    save_model,
)
from multiview.folder.reading import MAX_LENGTH, SentenceReader, TextSource, Tokens
from multiview.inference.encoding import ENCODE_BATCH, EncodeOptions, EncodingJob, vectors_of
from multiview.model_config import InitRule, VectorKind
from multiview.structure.joining import check_share, check_structure_size, structure_vectors
from multiview.words.table import WordTable
from multiview.words.vectors import WordVectors, load_word_vectors
from parsing.names import absolute_name
from parsing.trees.batch import Batch
from runtime.device import pick_device, torch_threads, with_torch_defaults
from runtime.errors import UserError, check_count
from runtime.files import lock_folder, path_of
from runtime.products import ProductKind, products_in

if TYPE_CHECKING:
    from multiview.inference.matches import Explanation
    from parsing.trees.cache import TreeCache


class MultiViewEncoder:
    """Encodes sentences by the views of a model: as meanings, as features, or view by view.

        encoder = MultiViewEncoder.load("builtin")
        vectors = encoder.encode(["The doctor praised her.", "She was praised by the doctor."])
        cosines = encoder.similarity(vectors, vectors)

    Use :meth:`load` to make one. The constructor takes a model in memory, the encoder's ``name`` in messages,
    and arguments of :meth:`load`.
    """

    pretokenized = True
    """Sentences may be lists of tokens; :class:`multiview.names.opened.Encoder` reads this."""
    similarity_fn_name = "cosine"
    """The name by which sentence-transformers calls the function of :meth:`similarity`."""

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
        """λ, the share of structure in the cosines of :meth:`encode`."""
        self.structure_size = check_structure_size(structure_size)
        """S, the size of a structure vector."""
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
        """Load a model that ``python -m multiview.train`` wrote, or ``builtin``, the one in the package.

        Args:
            folder: the model folder, or ``builtin``.
            device: cpu, cuda, ...; by default a GPU if there is one.
            dep_model: the dependency parser that the model was trained with, if that is not the builtin one.
            const_model: the same for the constituency parser.
            structure: λ, the share of structure in the cosines of :meth:`encode`; by default the folder's.
            structure_size: the size of a structure vector, 128, 256, 512 or 1,024; by default the folder's.
            max_length: the number of words that are read of a text, also by a judge with this ``source``.
            products: how weights are multiplied on a CPU: ``float32`` (the default) or ``int8``.

        Raises UserError if a file is missing or damaged, or if an argument has none of the values above.
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
        encoder.reader.parser_names = {"dep": absolute_name(dep_model), "const": absolute_name(const_model)}
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
        init: InitRule = "xavier",
        relations: bool = False,
        seed: int = 0,
        device: str | torch.device | None = None,
    ) -> Self:
        """Return an encoder with random weights, the baseline that a trained model has to beat.

        Args:
            views: the names of the views, as a list or as ``"dep,const"``.
            dim: the size of each view's vector.
            word_dim: the size of the random vectors that words have, by their hash, without ``words``.
            words: a table of word vectors.
            init: the rule of initial weights; with ``bag`` the forget gates of trees are nearly open.
            relations: whether the view dep knows the role of each child.
            seed: the seed of all random numbers.
            device: cpu, cuda, ...; by default a GPU if there is one.

        Raises UserError if an argument has none of the values above.
        """
        dim = check_count(dim, "untrained: dim")
        network = untrained_views(views, words, word_dim, seed, dim=dim, init=init, relations=relations)
        return cls(Model(network), device=pick_device(device), name=f"random:{','.join(network.views)}")

    @property
    def device(self) -> torch.device:
        """The device of the weights, on which vectors are computed; ``encode(device=...)`` moves them."""
        return torch.device(self.reader.device)

    @property
    def network(self) -> ViewStack:
        """The views and their words."""
        return self.model.network

    @property
    def views(self) -> list[str]:
        """The names of the views, in the order of their vectors."""
        return list(self.network.views)

    @property
    def readout(self) -> Readout | None:
        """The linear map from all views to the meaning; None if none was fitted."""
        return self.network.readout

    @property
    def has_scale(self) -> bool:
        """Whether the model has a scale, by which :meth:`features` are centred and divided."""
        return self.network.scale is not None

    def encode(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        *,
        batch_size: int = ENCODE_BATCH,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        normalize_embeddings: bool = False,
        trees: TreeCache | None = None,
        truncate_dim: int | None = None,
        workers: int = 1,
        **library_options: object,
    ) -> NDArray[np.float32]:
        """Return the vectors by which to compare sentences: float32 [D] for a string, [n, D] for a list.

        A vector is the meaning of the sentence: K numbers at length 1 that are made for cosines or, if the
        model has no read-out, the views side by side. With a share λ of structure it is √(1−λ) times the
        meaning at length 1, followed by √λ times the S numbers of the structure vector; the cosine of two
        such vectors is (1−λ) times that of the meanings plus λ times that of the structures. λ and S are set
        when the model is loaded, or by :meth:`with_options`.

        Args:
            inputs: one sentence, or a list, tuple, array or table column of sentences, each a string or
                tokens. None encodes all sentences of ``trees`` in order.
            batch_size: sentences encoded at a time.
            show_progress_bar: None shows a bar in notebooks and commands alone.
            convert_to_tensor: return a tensor on the device, although the annotated type is an array.
            device: move the model to this device, for later calls as well.
            normalize_embeddings: scale every vector to length 1 (a zero vector stays zero).
            trees: a tree cache made with the model's parsers; sentences in it are not parsed again.
            truncate_dim: the number of leading numbers of the meaning that are kept, scaled to length 1 again
                if the model has a read-out.
            workers: processes that share the sentences if ``inputs`` are at least 4,096, on a CPU; the
                vectors are the same up to rounding.
            library_options: arguments of sentence-transformers' ``encode`` that change nothing here.

        Raises UserError if a parser is missing or has another version, if an argument of
        sentence-transformers means nothing here, if an input is no sentence, or if its vector is not finite.
        """
        options = EncodeOptions.of(
            {
                **library_options,
                "batch_size": batch_size,
                "show_progress_bar": show_progress_bar,
                "convert_to_tensor": convert_to_tensor,
                "device": device,
                "normalize_embeddings": normalize_embeddings,
                "trees": trees,
                "truncate_dim": truncate_dim,
                "workers": workers,
            }
        )
        return self._vectors(inputs, "meaning", None, options)

    def features(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        *,
        views: Sequence[str] | None = None,
        **options: Any,
    ) -> NDArray[np.float32]:
        """Return the vectors for classifiers, [F] or [n, F]: the views side by side, without structure.

        If the model has a scale, each number is centred and divided by its standard deviation; models of the
        preset ``paper`` have no scale. If it has a read-out, the numbers that the other ones predict best are
        left out. Options are those of :meth:`encode`; ``views`` are as in :meth:`view_vectors`.
        """
        return self._vectors(inputs, "features", views, EncodeOptions.of(options))

    def view_vectors(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        views: Sequence[str] | str | None = None,
        **options: Any,
    ) -> NDArray[np.float32]:
        """Return the raw numbers, which are the views side by side and not scaled: [D] or [n, D].

        ``views`` are names (``dep``), or positions and names (``0-dep``); None is all views. They are
        concatenated in the order of the model. Options are those of :meth:`encode`. Raises UserError if a
        name is unknown.
        """
        return self._vectors(inputs, "raw", views, EncodeOptions.of(options))

    @with_torch_defaults()
    def _vectors(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        kind: VectorKind,
        views: Sequence[str] | str | None,
        options: EncodeOptions,
    ) -> NDArray[np.float32]:
        """Return the vectors of one kind: raw numbers, features or meanings."""
        positions, texts = view_positions(self.views, views), None
        if inputs is not None:
            texts = read_sentences([inputs] if isinstance(inputs, str) else inputs, "encode")
        if options.device is not None:
            self.to(options.device)
        share, size = self.structure, self.structure_size
        job = EncodingJob(self.name, self.network, self.reader, kind, positions, options, share, size)
        vectors = vectors_of(job, texts)
        if options.normalize_embeddings:
            vectors = normalize(vectors, dim=1)
        if isinstance(inputs, str):
            vectors = vectors[0]
        return vectors if options.convert_to_tensor else vectors.cpu().numpy()  # type: ignore[return-value]

    # Libraries call these two; they are the same, because the model has no prompts for either.
    encode_query = encode
    encode_document = encode

    def get_sentence_embedding_dimension(self) -> int:
        """Return the size of the vectors of :meth:`encode`: K with a read-out, else D; + S with structure."""
        dim = self.readout.dim if self.readout else self.network.dim
        return dim + self.structure_size if self.structure else dim

    @with_torch_defaults()
    def similarity(self, first: ArrayOrTensor, second: ArrayOrTensor) -> Tensor:
        """Return the cosines of all vectors of ``first`` and of ``second``, [n, m]; [D] counts as [1, D]."""
        left, right = unit_vectors(first, second)
        return left @ right.T

    @with_torch_defaults()
    def similarity_pairwise(self, first: ArrayOrTensor, second: ArrayOrTensor) -> Tensor:
        """Return the cosine of each row of ``first`` and the same row of ``second``, [n]; [D] is one row."""
        left, right = unit_vectors(first, second)
        if 1 not in (len(left), len(right)) and len(left) != len(right):
            raise UserError(f"similarity_pairwise: {len(left)} and {len(right)} vectors make no pairs")
        return (left * right).sum(dim=1)

    def structure_vectors(self, inputs: Iterable[str | Tokens]) -> NDArray[np.float32]:
        """Return vectors of who did what to whom, float32 [n, S] of length 1; zero without content words."""
        texts = read_sentences(inputs, "structure_vectors")
        return structure_vectors(TextSource.of(self), texts)

    @with_torch_defaults()
    def vectors_of_batch(self, batch: Batch, views: Sequence[str] | None = None) -> Tensor:
        """Return the views of parsed sentences side by side, [B, D], with gradients if these are enabled."""
        return encoder_of_views(self.network, view_positions(self.views, views), None, None).encode(batch)

    @with_torch_defaults()
    @torch.inference_mode()
    def explain(
        self, a: str | Tokens, b: str | Tokens, *, view: str | None = None, top: int = 5
    ) -> Explanation:
        """Return the subtrees of two sentences that match best, by the cosine of their nodes' vectors.

        The result prints as text. It has at most ``top`` matches of each view with trees, or of one ``view``.
        Raises UserError if the view is unknown or has no trees, or if a sentence is too long for the parsers.
        """
        with loading():
            from multiview.inference.matches import explain_pair, nodes_of

        top = check_count(top, "explain: top")
        views = None if view is None else [view]
        with torch_threads(1), products_in(self.reader.products):
            sentences = [self.reader.tokens(text) for text in read_sentences([a, b], "explain")]
            batch = self.reader.parse(sentences, self.requires_of(views))
            nodes = list(nodes_of(batch, self.network, view_positions(self.views, views)))
            kind: VectorKind = "meaning" if views is None else "raw"
            options = EncodeOptions.of({"show_progress_bar": False})
            sentence_vectors = {"": self._vectors(sentences, kind, views, options)}
            if self.structure and views is None:
                meaning = self.with_options(structure=0)
                sentence_vectors["meaning"] = meaning.encode(sentences, show_progress_bar=False)
                sentence_vectors["structure"] = self.structure_vectors(sentences)
        return explain_pair(batch, self.reader.inventories(), nodes, sentence_vectors, top)

    def measure(self, trees: TreeCache) -> None:
        """Give the model a scale: the mean and deviation of each number of features in a sample of a text.

        Raises UserError if the trees lack what a view needs, or if other parsers made them.
        """
        requires = self.requires_of()
        self.reader.check_trees(trees, requires)
        fields, ranges = fields_of(requires), sample_ranges([(0, len(trees))])
        with torch_threads(1):
            self.network.measure((trees.read(*rows, fields) for rows in ranges), trees.folder.name)

    def requires_of(self, views: Sequence[str] | None = None) -> set[str]:
        """Return the annotations that views read (``tokens``, ``dep``, ``const``); None is all views."""
        return annotations_of(self.network, view_positions(self.views, views))

    def with_options(self, *, structure: float | None = None, structure_size: int | None = None) -> Self:
        """Return another encoder of the same weights and parsers, with another λ or S.

        Raises UserError if λ is not between 0 and 1, or if S is none of 128, 256, 512 and 1,024.
        """
        other = copy.copy(self)
        if structure is not None:
            other.structure = check_share(structure)
        if structure_size is not None:
            other.structure_size = check_structure_size(structure_size)
        return other

    def to(self, device: str | torch.device) -> Self:
        """Move weights and parsers to a device, for all later calls; return the encoder itself."""
        target = pick_device(device)
        if target != self.device:
            self.reader.move(target)
            self.network.to(target)
        return self

    @with_torch_defaults()
    @torch.inference_mode()
    def word_vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return the words' vectors, tables side by side: float32 [n, (tables, at least 1) x word size]."""
        texts = read_sentences(words, "word_vectors")
        spellings = [text for text in texts if isinstance(text, str)]
        if len(spellings) < len(texts):
            raise UserError("word_vectors: takes words, not lists of tokens")
        types, type_of_word = np.unique(np.array(spellings, np.str_), return_inverse=True)
        return self.network.words.vectors_of(types.tolist()).cpu().numpy()[type_of_word]

    def expand_vocabulary(self, vectors: Path | str | WordVectors) -> int:
        """Add words of a file (GloVe, word2vec, fastText) that the model was not trained on; return how many.

        Their vectors are mapped into each trained table by a linear map that is fitted by least squares
        (:class:`multiview.words.vectors.Expansion`). The rows of trained words stay, and words that neither
        the model nor the file has still go to hash buckets. Raises UserError if the vectors are malformed, or
        share too few words with the model.
        """
        if not isinstance(vectors, WordVectors):
            vectors = load_word_vectors(path_of(vectors, "word vectors"))
        return self.network.words.expand(vectors)

    def save(self, folder: Path | str) -> None:
        """Write the model with its added words. Raises UserError if the folder holds anything but a model."""
        folder = path_of(folder, "model")
        refuse_other_content(folder)
        with lock_folder(folder, option="folder"):
            self.write(folder)
        self.folder = folder.absolute()

    def write(self, folder: Path) -> None:
        """Write the model into a folder that is new or whose lock the caller holds."""
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
        """Return the encoder itself, because scikit-learn copies estimators, and this one is never fitted."""
        return self
