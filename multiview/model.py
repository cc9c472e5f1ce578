"""Loads a model folder and encodes sentences: the public API.

    from multiview.model import MultiViewEncoder
    encoder = MultiViewEncoder.load("runs/models/builtin-laptop")
    vectors = encoder.encode(["A cat sat down.", ["already", "tokenised"]])      # float32 [2, D]

Sentences are parsed on the fly by the parsers the model was trained with, or their trees come from a cache.
Every input gives one vector, in input order; an input is never split into sentences.

Legend of dimension suffixes: n or N sentences, B sentences of a batch, D size of a vector, S of structure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from runtime.process import loading, pause_collector

with pause_collector():
    import torch  # most of the time to import this module

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from corpora.sentences import read_sentences
from multiview.encoders.batch_encoder import Vectors, encoder_of_views, unit_vectors, view_positions
from multiview.folder.reading import TextSource, Tokens
from multiview.inference.encoding import (
    BATCH,
    MIN_SENTENCES_FOR_WORKERS,
    EncodeOptions,
    EncodingJob,
    VectorKind,
    encode_by_processes,
    encode_here,
)
from multiview.loaded import LoadedModel
from multiview.structure.joining import structure_vectors
from parsing.trees.batch import Batch
from runtime.device import products_in, torch_threads, with_torch_defaults
from runtime.errors import UserError, check_count

if TYPE_CHECKING:
    from multiview.inference.matches import Explanation
    from parsing.trees.cache import TreeCache


class MultiViewEncoder(LoadedModel):
    """Encodes sentences by all views of a model, side by side or as one vector computed from them."""

    pretokenized = True
    """Sentences may be token lists, which is what :class:`multiview.names.opened.Encoder` looks for."""
    similarity_fn_name = "cosine"
    """The name of :meth:`similarity` in sentence-transformers."""

    def encode(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        *,
        batch_size: int = BATCH,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        normalize_embeddings: bool = False,
        trees: TreeCache | None = None,
        truncate_dim: int | None = None,
        workers: int = 1,
        **library_options: object,
    ) -> NDArray[np.float32]:
        """Encode sentences in input order, to compare them: float32 [D] for a string, [n, D] for a list.

        The vectors are the meaning, K numbers at length 1 that are made for cosine or, where no read-out was
        fitted, the views side by side. With a share λ of structure they are √(1−λ) of that, at length 1,
        beside √λ of who did what to whom, + S numbers: the cosine is (1−λ) of the meanings' plus λ of the
        structures'. λ and S are fixed when the model is loaded, or by :meth:`with_options`.

        A UserError names a missing parser or one of another version, an argument of sentence-transformers
        that means nothing here, and an input that is no sentence or whose vector is not finite.

        Args:
            inputs: one sentence, or a list, tuple, array or table column of sentences, each a string or
                tokens. None encodes all sentences of ``trees`` in order.
            batch_size: sentences encoded at a time.
            show_progress_bar: None shows a bar in notebooks and commands alone.
            convert_to_tensor: return a tensor on the device, which the type does not say.
            device: move the model there, for later calls as well.
            normalize_embeddings: scale every vector to length 1 (a zero vector stays zero).
            trees: cache made with the model's parsers; sentences found in it are not parsed again.
            truncate_dim: keep so many numbers of the meaning, a fitted one at length 1 again.
            workers: processes that share the sentences, on a CPU and from 4,096 sentences that are not all
                of ``trees`` on; they give the same vectors but for the last digits.
            library_options: arguments of sentence-transformers' ``encode`` that change nothing here.
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
        """Encode sentences for classifiers: [F] or [n, F], the views side by side without structure.

        Each number is at one scale where the model has one (not of preset ``paper``); with a read-out,
        numbers that the others tell are left out. Options are those of :meth:`encode`; ``views`` are as in
        :meth:`view_vectors`.
        """
        return self._vectors(inputs, "features", views, EncodeOptions.of(options))

    def view_vectors(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        views: Sequence[str] | str | None = None,
        **options: Any,
    ) -> NDArray[np.float32]:
        """Encode sentences to views side by side as they are: [D] or [n, D].

        ``views`` are names (``dep``) or positions (``0-dep``), None is all; the order is the model's. Another
        name is a UserError. Options are those of :meth:`encode`.
        """
        return self._vectors(inputs, "views", views, EncodeOptions.of(options))

    @with_torch_defaults()
    def _vectors(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        kind: VectorKind,
        views: Sequence[str] | str | None,
        options: EncodeOptions,
    ) -> NDArray[np.float32]:
        view_positions(self.views, views)  # refuses other names
        texts = None
        if inputs is not None:
            texts = read_sentences([inputs] if isinstance(inputs, str) else inputs, "encode")
        if options.device is not None:
            self.to(options.device)
        is_long = texts is not None and len(texts) >= MIN_SENTENCES_FOR_WORKERS
        if options.workers > 1 and is_long and texts is not None and self.device.type == "cpu":
            vectors = torch.from_numpy(encode_by_processes(EncodingJob(self, kind, views, options), texts))
        else:
            vectors = encode_here(self, kind, views, texts, options)
        if options.normalize_embeddings:
            vectors = normalize(vectors, dim=1)
        if isinstance(inputs, str):
            vectors = vectors[0]
        return vectors if options.convert_to_tensor else vectors.cpu().numpy()  # type: ignore[return-value]

    # Queries and documents get the same vectors: the model has no prompts. Libraries ask for both names.
    encode_query = encode
    encode_document = encode

    def get_sentence_embedding_dimension(self) -> int:
        """Return the size of default vectors: K of a read-out, else D; with structure + S."""
        dim = self.readout.dim if self.readout else self.network.dim
        return dim + self.structure_size if self.structure else dim

    @with_torch_defaults()
    def similarity(self, first: Vectors, second: Vectors) -> Tensor:
        """Compare each vector of ``first`` and each of ``second`` by cosine: [n, m]; [D] counts as [1, D]."""
        left, right = unit_vectors(first, second)
        return left @ right.T

    @with_torch_defaults()
    def similarity_pairwise(self, first: Vectors, second: Vectors) -> Tensor:
        """Return the cosines of vectors ``first`` and ``second``, pair by pair: [n]; [D] counts as [1, D]."""
        left, right = unit_vectors(first, second)
        if 1 not in (len(left), len(right)) and len(left) != len(right):
            raise UserError(f"similarity_pairwise: {len(left)} vectors and {len(right)} are no pairs")
        return (left * right).sum(dim=1)

    def structure_vectors(self, inputs: Iterable[str | Tokens]) -> NDArray[np.float32]:
        """Encode who did what to whom, at length 1: float32 [n, S], zero where nothing is bound."""
        texts = read_sentences(inputs, "structure_vectors")
        return structure_vectors(TextSource.of(self), texts)

    @with_torch_defaults()
    def vectors(self, batch: Batch, views: Sequence[str] | None = None) -> Tensor:
        """Encode parsed sentences as in :meth:`view_vectors`, [B, D]; keeps gradients where enabled."""
        return encoder_of_views(self.network, view_positions(self.views, views), None, None).encode(batch)

    @with_torch_defaults()
    @torch.inference_mode()
    def explain(
        self, a: str | Tokens, b: str | Tokens, *, view: str | None = None, top: int = 5
    ) -> Explanation:
        """Return the subtrees of two sentences that match best, by the cosine of their nodes' vectors.

        The result prints as text. Each view with trees has at most ``top`` matches; without a ``view`` all
        have. An unknown view, one without trees, and a sentence too long for the parsers are a UserError.
        """
        with loading():
            from multiview.inference.matches import explain_pair, nodes_of

        top = check_count(top, "explain: top")
        views = None if view is None else [view]
        with torch_threads(1), products_in(self.reader.products):
            sentences = [self.reader.tokens(text) for text in read_sentences([a, b], "explain")]
            batch = self.reader.parse(sentences, self.requires_of(views))
            nodes = list(nodes_of(batch, self.network, view_positions(self.views, views)))
            without_bar = {"show_progress_bar": False}
            if views is not None:
                sentence_vectors = {"": self.view_vectors(sentences, views, **without_bar)}
            else:
                sentence_vectors = {"": self.encode(sentences, show_progress_bar=False)}
            if self.structure and views is None:
                meaning = self.with_options(structure=0)
                sentence_vectors["meaning"] = meaning.encode(sentences, show_progress_bar=False)
                sentence_vectors["structure"] = self.structure_vectors(sentences)
        return explain_pair(batch, self.reader.inventories(), nodes, sentence_vectors, top)
