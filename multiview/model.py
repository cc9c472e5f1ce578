"""The public API: load a model folder and encode sentences.

    from multiview.model import MultiViewEncoder
    encoder = MultiViewEncoder.load("runs/models/dep-const-laptop")
    vectors = encoder.encode(["A cat sat down.", ["already", "tokenised"]])      # float32 [2, D]

Sentences are parsed on the fly by the parsers the model was trained with, or their trees are read from a
tree cache. Every input gives one vector, in input order; an input is never split into sentences.

Legend of dimension suffixes: n sentences, B sentences of a batch, N tokens or nodes, E word-vector size, D
embedding size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.support.errors import UserError
from corpora.support.progress import progress
from multiview.config import EncoderConfig
from multiview.encoders.registry import Encoder
from multiview.encoders.stack import ViewStack
from multiview.folder.files import Member, load_members, normalizes_parts
from multiview.folder.names import chosen_views, model_folder
from multiview.folder.reading import Reader, Tokens, as_texts
from multiview.folder.saving import describe, refuse_foreign, save_encoder
from multiview.nodes.states import NodeBatch, node_batch
from multiview.similarity import CosineSimilarity
from multiview.words.table import WordTable
from multiview.words.vectors import DEFAULT_WORDS, load_word_vectors
from parsing.cache.format import Batch
from parsing.networks.device import pick_device
from parsing.networks.threads import chosen_threads, torch_threads

if TYPE_CHECKING:
    from multiview.nodes.explanation import Explanation
    from parsing.cache.reader import TreeCache

FEW = 200
"""Fewer sentences are encoded by one thread."""


class MultiViewEncoder(CosineSimilarity):
    """Sentence encoder: the vectors of all views, concatenated.

    Args:
        members: networks whose vectors are concatenated, in this order.
        device: where to compute.
        name: for messages.
        normalize_parts: scale the vectors of each network to length 1 before they are joined.
    """

    pretokenized = True
    """Sentences may be given as token lists (SentEval's adapters ask)."""

    def __init__(
        self,
        members: Sequence[Member],
        *,
        device: str | torch.device = "cpu",
        name: str = "",
        normalize_parts: bool = False,
    ) -> None:
        self.members = list(members)
        self.name = name
        self.normalize_parts = normalize_parts
        self.folder: Path | None = None
        self.device = torch.device(device)
        """Where the weights are and vectors are computed; ``encode(device=...)`` moves them."""
        self.reader = Reader(self.members)
        self.reader.device = str(self.device)
        for member in self.members:
            member.network.to(self.device).eval()

    @classmethod
    def load(
        cls,
        folder: Path | str,
        device: str | torch.device | None = None,
        *,
        dep_model: str = "",
        const_model: str = "",
    ) -> Self:
        """Load a model folder.

        Args:
            folder: written by ``python -m multiview.train``, or ``builtin``, the encoder of the installation.
            device: cpu, cuda, ...; None or auto takes a GPU if there is one.
            dep_model: the dependency parser the model was trained with, unless it is the builtin one.
            const_model: the same for the constituency parser.

        Raises:
            UserError: the folder is incomplete or damaged; the file is named.
        """
        chosen, path = pick_device(device), model_folder(folder)
        encoder = cls(
            load_members(path, chosen),
            device=chosen,
            name=Path(folder).name,
            normalize_parts=normalizes_parts(path),
        )
        encoder.folder = path
        encoder.reader.specs = {"dep": dep_model, "const": const_model}
        return encoder

    @classmethod
    def untrained(
        cls,
        views: Sequence[str] | str,
        *,
        dim: int = 128,
        word_dim: int = 128,
        like: MultiViewEncoder | None = None,
        words: WordTable | None = None,
        start: Literal["xavier", "bag"] = "xavier",
        seed: int = 0,
        device: str | torch.device | None = None,
    ) -> Self:
        """A model with random weights, the baseline that a trained model has to beat.

        Args:
            views: ``"dep,const"`` or a list.
            dim: hidden size of each view.
            word_dim: word-vector size.
            like: take vocabulary, sizes, start and parsers from this model.
            words: take these fixed vectors; without ``like`` and ``words``, words are hashed.
            start: with ``bag``, trees forget little; ignored with ``like``.
            seed: of the weights.
            device: cpu, cuda, ...; None or auto takes a GPU if there is one.
        """
        names = [v.strip() for v in views.split(",")] if isinstance(views, str) else list(views)
        parsers, corpus = {}, {}
        if like is not None:
            first = like.members[0]
            dim, start = first.network.config.dim, first.network.config.start
            listed = first.network.words
            words = WordTable.random(listed.vocabulary, listed.dim, views=len(names), seed=seed)
            parsers, corpus = first.parsers, first.corpus
        elif words is None:
            words = WordTable.hashed(word_dim, views=len(names), seed=seed)
        config = EncoderConfig(dim=dim, start=start)
        torch.manual_seed(seed)
        member = Member(ViewStack(names, words, config), parsers, corpus)
        return cls([member], device=pick_device(device), name=f"random:{','.join(names)}")

    @property
    def views(self) -> list[str]:
        """Names of the views, in the order of their vectors."""
        return [view for member in self.members for view in member.network.views]

    @property
    def requires(self) -> set[str]:
        """Annotations that the encoders read: of ``tokens``, ``dep``, ``const``."""
        return self._requires(self._chosen(None))

    def get_sentence_embedding_dimension(self) -> int:
        """D, the size of a full vector."""
        return sum(member.network.dim for member in self.members)

    @overload
    def encode(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        *,
        batch_size: int = ...,
        show_progress_bar: bool | None = ...,
        convert_to_numpy: bool = ...,
        convert_to_tensor: Literal[False] = ...,
        device: str | torch.device | None = ...,
        normalize_embeddings: bool = ...,
        views: Sequence[str] | None = ...,
        trees: TreeCache | None = ...,
    ) -> NDArray[np.float32]: ...
    @overload
    def encode(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        *,
        batch_size: int = ...,
        show_progress_bar: bool | None = ...,
        convert_to_numpy: bool = ...,
        convert_to_tensor: Literal[True],
        device: str | torch.device | None = ...,
        normalize_embeddings: bool = ...,
        views: Sequence[str] | None = ...,
        trees: TreeCache | None = ...,
    ) -> Tensor: ...
    def encode(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        *,
        batch_size: int = 512,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        normalize_embeddings: bool = False,
        views: Sequence[str] | None = None,
        trees: TreeCache | None = None,
    ) -> NDArray[np.float32] | Tensor | list[Tensor]:
        """Vectors of sentences.

        Args:
            inputs: one sentence, or a list, tuple, array or table column of sentences, each a string or
                tokens. None encodes all sentences of ``trees`` in order.
            batch_size: sentences encoded at a time: the more, the more often they share words.
            show_progress_bar: None shows a bar in terminals and notebooks, a line every 30 s in logs.
            convert_to_numpy: return an array; with both conversions off, a list of tensors.
            convert_to_tensor: return a tensor on the device; wins over ``convert_to_numpy``.
            device: move the model to this device, for later calls as well.
            normalize_embeddings: scale every vector to length 1 (a zero vector stays zero).
            views: only these, by name (``dep``) or position (``0-dep``); the order is the model's.
            trees: cache made with the model's parsers; sentences found in it are not parsed again.

        Returns:
            float32 [D] for a string, [n, D] for a list, in input order.

        Raises:
            UserError: unknown view, missing parser, a parser of another version, an input that is no
                sentence, or one (it is named) whose vector is not finite.
        """
        if device is not None:
            self._move(pick_device(device))
        single = isinstance(inputs, str)
        texts: list[str | Tokens] | None = None
        if inputs is not None:
            texts = [inputs] if isinstance(inputs, str) else as_texts(inputs)
        chosen = self._chosen(views)
        threads = self._threads(batch_size, texts, trees)
        with torch_threads(1):  # parsing has no large products
            vectors = self._encode_all(texts, chosen, max(batch_size, 1), show_progress_bar, trees, threads)
        if normalize_embeddings:
            vectors = torch.nn.functional.normalize(vectors, dim=1)
        result = vectors[0] if single else vectors
        if convert_to_tensor:
            return result
        if convert_to_numpy or single:
            return result.cpu().numpy()
        return list(result)

    # Queries and documents get the same vectors: the model has no prompts. Libraries ask for both names.
    encode_query = encode
    encode_document = encode

    def save(self, folder: Path | str) -> None:
        """Write the model as it is now, an expanded vocabulary included; :meth:`load` reads it.

        Raises:
            UserError: the folder holds something else.
        """
        refuse_foreign(Path(folder))
        save_encoder(self.members, Path(folder), self.folder, normalize_parts=self.normalize_parts)
        self.folder = Path(folder)

    def __repr__(self) -> str:
        parsers = {need: str(identity.get("name", "?")) for need, identity in self.reader.identities.items()}
        return f"{type(self).__name__} {self.name} on {self.device}\n{describe(self.members, parsers)}"

    def __sklearn_clone__(self) -> Self:
        """Scikit-learn copies an estimator's parameters; a model that nothing trains may be shared."""
        return self

    @torch.inference_mode()
    def word_vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Input vectors of words, trained tables side by side: float32 [n, (tables or 1) x word size]."""
        types, inverse = np.unique(list(words), return_inverse=True)
        parts = [
            words.rows(table, words.vocabulary.lookup(types.tolist()))
            for words in (member.network.words for member in self.members)
            for table in range(max(len(words.tables), 1))
        ]
        vectors: NDArray[np.float32] = torch.cat(parts, dim=1).float().cpu().numpy()[inverse]
        return vectors

    def expand_vocabulary(
        self, vectors: Path | str, *, words: int = DEFAULT_WORDS, cache: Path = Path("runs/vectors")
    ) -> int:
        """Add words the model was not trained on, mapped from pre-trained vectors by least squares.

        Every trained table gets its own map (:class:`multiview.words.expansion.Expansion`) and keeps its own
        rows; hash buckets still serve the words that neither the corpus nor the vectors know.

        Args:
            vectors: a file (GloVe, word2vec, fastText text) or a model2vec folder.
            words: of the vectors to read at most, from the top.
            cache: where the converted vectors are kept.

        Returns:
            Number of words added.

        Raises:
            UserError: the vectors are malformed, or share too few words with the model.
        """
        loaded = load_word_vectors(vectors, cache, words)
        return max((member.network.words.expand(loaded) for member in self.members), default=0)

    def vectors(self, batch: Batch) -> Tensor:
        """Vectors [B, D] of parsed sentences, all views; keeps gradients where they are enabled."""
        return self._vectors(batch, self._chosen(None))

    def _move(self, device: torch.device) -> None:
        if device != self.device:
            self.device = device
            self.reader.move(device)
            for member in self.members:
                member.network.to(device)

    def _chosen(self, views: Sequence[str] | None) -> list[list[int]]:
        """Positions of the wanted views per member."""
        wanted = [views] if isinstance(views, str) else views
        return chosen_views([member.network.views for member in self.members], wanted)

    def _requires(self, chosen: list[list[int]]) -> set[str]:
        """Annotations that the chosen encoders read."""
        encoders = [
            member.network.encoder_list[position]
            for member, positions in zip(self.members, chosen, strict=True)
            for position in positions
        ]
        return {need for encoder in encoders for need in encoder.requires}

    def _threads(self, together: int, texts: Sequence[str | Tokens] | None, trees: TreeCache | None) -> int:
        """Threads for the views; one for few sentences, done before the cores have been watched."""
        total = len(texts if texts is not None else trees or ())
        dim = max(member.network.config.dim for member in self.members)
        return chosen_threads(together, dim, self.device) if total >= FEW else 1

    @torch.inference_mode()
    def _encode_all(
        self,
        texts: list[str | Tokens] | None,
        chosen: list[list[int]],
        batch_size: int,
        show_progress_bar: bool | None,
        trees: TreeCache | None,
        threads: int,
    ) -> Tensor:
        """Vectors [n, D] in input order."""
        requires = self._requires(chosen)
        dims = self._dims(chosen)
        total = len(texts) if texts is not None else len(trees) if trees is not None else 0
        vectors = torch.zeros(total, sum(dims), device=self.device)
        with progress(total=total, description="encode", show=show_progress_bar) as bar:
            for places, batch in self.reader.batches(texts, requires, trees, batch_size):
                with torch_threads(threads):
                    found = self._vectors(batch, chosen)
                finite = torch.isfinite(found).all(dim=1)
                if not finite.all():
                    row = int(finite.int().argmin())
                    text = " ".join(list(batch.words())[row])
                    raise UserError(
                        f"{self.name}: the vector of sentence {int(places[row])}, {text[:60]!r}, is not "
                        "finite; the model's weights are unusable"
                    )
                vectors[torch.from_numpy(places).to(self.device)] = found
                bar.update(len(places))
        return vectors

    @torch.inference_mode()
    def node_states(
        self,
        inputs: Iterable[str | Tokens] | None,
        *,
        batch_size: int = 256,
        views: Sequence[str] | None = None,
        trees: TreeCache | None = None,
    ) -> Iterator[NodeBatch]:
        """The state of every tree node, batch by batch.

        Args:
            inputs: sentences, as in :meth:`encode`.
            batch_size: sentences at a time.
            views: only these, as in :meth:`encode`.
            trees: cache made with the model's parsers; sentences found in it are not parsed again.
        """
        chosen = self._chosen(views)
        texts = None if inputs is None else as_texts(inputs)
        requires = self._requires(chosen)
        if "const" in requires:
            requires |= {"labels"}
        for places, batch in self.reader.batches(texts, requires, trees, batch_size):
            planned = [
                (encoder, encoder.plan(batch), words) for encoder, *words in self._views(batch, chosen)
            ]
            states = (
                (encoder, plan, *encoder.forward_nodes(x_UE, plan, token_N))
                for encoder, plan, (x_UE, token_N) in planned
            )
            yield node_batch(places, batch, states)

    @torch.inference_mode()
    def explain(
        self, a: str | Tokens, b: str | Tokens, *, view: str | None = None, top: int = 5
    ) -> Explanation:
        """The subtrees of two sentences that match best, by the cosine of their nodes' vectors.

        Args:
            a: a sentence, a string or tokens.
            b: another one.
            view: only this one; by default all views, of which those with trees have matches.
            top: matches for each view at most.

        Returns:
            An object that prints as text, shows pictures in a notebook, and writes a page (``to_html()``).

        Raises:
            UserError: unknown view, a view or model without trees, or a sentence too long for the parsers.
        """
        from multiview.nodes.explanation import explain_pair  # it imports what draws

        views = None if view is None else [view]
        with torch_threads(1):
            (nodes,) = self.node_states([a, b], views=views)
            vectors_BD = self._vectors(nodes.batch, self._chosen(views))
        return explain_pair(nodes, vectors_BD, self.reader.inventories(), top)

    def _vectors(self, batch: Batch, chosen: list[list[int]]) -> Tensor:
        """Concatenated vectors [B, D] of parsed sentences."""
        views = [
            encoder(x_UE, encoder.plan(batch), token_N)
            for encoder, x_UE, token_N in self._views(batch, chosen)
        ]
        scales = [m.network.scales[place] for m, of in zip(self.members, chosen, strict=True) for place in of]
        vectors = torch.cat([view * s for view, s in zip(views, scales, strict=True)], dim=1).float()
        if not self.normalize_parts:
            return vectors
        parts = vectors.split(self._dims(chosen), dim=1)
        return torch.cat([torch.nn.functional.normalize(part, dim=1) for part in parts], dim=1)

    def _dims(self, chosen: list[list[int]]) -> list[int]:
        """Size of each member's part of a vector."""
        widths = [member.network.widths for member in self.members]
        return [sum(w[place] for place in places) for w, places in zip(widths, chosen, strict=True)]

    def _views(self, batch: Batch, chosen: list[list[int]]) -> Iterator[tuple[Encoder, Tensor, Tensor]]:
        """Every chosen encoder with the batch's distinct words [U, E] and each token's word, int64 [N]."""
        assert batch.types is not None
        used, inverse = np.unique(batch.token, return_inverse=True)
        types = [batch.types[index] for index in used]
        for member, positions in zip(self.members, chosen, strict=True):
            yield from member.network.inputs(positions, types, inverse.astype(np.int64))
