"""Sentences in, vectors out: load a trained model folder and encode.

    from multiview.model import MultiViewEncoder
    encoder = MultiViewEncoder.load("runs/models/dep-const-laptop")
    vectors = encoder.encode(["A cat sat down.", ["already", "tokenised"]])      # float32 [2, D]

Trees come from the parsers the model was trained with, on the fly, or from a tree cache that holds the
sentences. Every input gives one vector, whatever its punctuation, in input order.

Legend of dimension suffixes: n sentences, B sentences of a batch, N tokens or nodes, E word-vector size, D
embedding size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from corpora.support.errors import UserError
from corpora.support.progress import progress
from multiview.config import EncoderConfig, TableConfig
from multiview.encoders.registry import Encoder
from multiview.encoders.stack import ViewStack
from multiview.folder.files import Member, load_members
from multiview.folder.reading import Reader, Tokens, select
from multiview.words.table import WordTable
from multiview.words.vectors import load_word_vectors
from multiview.words.vocabulary import Vocabulary
from parsing.cache.format import Batch
from parsing.networks.device import pick_device

if TYPE_CHECKING:
    from parsing.cache.reader import TreeCache

UNTRAINED_BUCKETS = 50_000


class MultiViewEncoder:
    """Trained encoders of several views behind one ``encode``.

    Args:
        members: networks whose vectors are concatenated, views in order within each.
        device: where to compute.
        name: for messages.
    """

    pretokenized = True
    """Evaluation may hand over token lists instead of strings."""

    def __init__(
        self, members: Sequence[Member], *, device: str | torch.device = "cpu", name: str = ""
    ) -> None:
        self.members = list(members)
        self.name = name
        self.device = torch.device(device)
        self.reader = Reader(self.members)
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
            folder: written by ``python -m multiview.train``.
            device: cpu, cuda, ...; None or auto takes a GPU if there is one.
            dep_model: where the dependency parser of the training lies, when it is not the builtin one.
            const_model: likewise the constituency parser.

        Raises:
            UserError: the folder is incomplete or damaged; the file is named.
        """
        chosen = pick_device(device)
        encoder = cls(load_members(Path(folder), chosen), device=chosen, name=Path(folder).name)
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
        forget_bias: float = 0.0,
        seed: int = 0,
        device: str | torch.device | None = None,
    ) -> Self:
        """Random weights, unit-scale word vectors: what a trained model has to beat.

        Args:
            views: ``"dep,const"`` or a list.
            dim: hidden size of each view.
            word_dim: word-vector size.
            like: take vocabulary, sizes, forget bias and parsers from this model; otherwise words are hashed.
            forget_bias: of the trees' forget gates, without ``like``.
            seed: of all weights.
            device: cpu, cuda, ...; None or auto takes a GPU if there is one.
        """
        names = [v.strip() for v in views.split(",")] if isinstance(views, str) else list(views)
        vocabulary = Vocabulary([], buckets=UNTRAINED_BUCKETS)
        parsers, corpus = {}, {}
        if like is not None:
            first = like.members[0]
            dim, forget_bias = first.network.config.dim, first.network.config.forget_bias
            word_dim, vocabulary = first.network.words.dim, first.network.words.vocabulary
            parsers, corpus = first.parsers, first.corpus
        words = WordTable(vocabulary, word_dim, views=len(names))
        words.initialise(TableConfig(init="unit", equal=True), seed=seed)
        config = EncoderConfig(dim=dim, forget_bias=forget_bias, recurrent_scale=1.0, equal_inputs=False)
        torch.manual_seed(seed)
        member = Member(ViewStack(names, words, config), parsers, corpus)
        return cls([member], device=pick_device(device), name=f"random:{','.join(names)}")

    @property
    def views(self) -> list[str]:
        """View names in the order of their vectors, over all members."""
        return [view for member in self.members for view in member.network.views]

    @property
    def requires(self) -> set[str]:
        """What the encoders read of a sentence: ``tokens``, ``dep``, ``const``."""
        return self._requires(self._chosen(None))

    def get_sentence_embedding_dimension(self) -> int:
        """D, the size of a full vector."""
        return sum(member.network.dim for member in self.members)

    @overload
    def encode(
        self,
        inputs: str | Sequence[str | Tokens] | None,
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
        inputs: str | Sequence[str | Tokens] | None,
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
        inputs: str | Sequence[str | Tokens] | None,
        *,
        batch_size: int = 32,
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
            inputs: one sentence, or a list of sentences, each a string or a list of tokens; None with
                ``trees``: all sentences of the cache in order.
            batch_size: sentences encoded at a time.
            show_progress_bar: None: when standard error is a terminal.
            convert_to_numpy: return an array; with both conversions off, a list of tensors.
            convert_to_tensor: return a tensor on the device; wins over ``convert_to_numpy``.
            device: compute here from now on.
            normalize_embeddings: scale every vector to length 1 (a zero vector stays).
            views: only these, by name (``dep``) or position (``0-dep``), in model order.
            trees: cache of a corpus parsed by the model's parsers; sentences it holds are not parsed.

        Returns:
            float32 [D] for a string, [n, D] for a list, in input order.

        Raises:
            UserError: unknown view, missing parser, or a parser of another version.
        """
        if device is not None:
            self._move(pick_device(device))
        single = isinstance(inputs, str)
        texts: list[str | Tokens] | None = None
        if inputs is not None:
            texts = [inputs] if isinstance(inputs, str) else list(inputs)
        chosen = self._chosen(views)
        vectors = self._encode_all(texts, chosen, max(batch_size, 1), show_progress_bar, trees)
        if normalize_embeddings:
            vectors = torch.nn.functional.normalize(vectors, dim=1)
        result = vectors[0] if single else vectors
        if convert_to_tensor:
            return result
        if convert_to_numpy or single:
            return result.cpu().numpy()
        return list(result)

    @torch.inference_mode()
    def word_vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Input vectors of words, every view's table side by side: float32 [n, views x word size]."""
        types, inverse = np.unique(list(words), return_inverse=True)
        parts = [
            words.rows(view, words.vocabulary.lookup(types.tolist()))
            for words, views in ((m.network.words, m.network.views) for m in self.members)
            for view in range(len(views))
        ]
        vectors: NDArray[np.float32] = torch.cat(parts, dim=1).float().cpu().numpy()[inverse]
        return vectors

    def similarity(self, one: NDArray[np.floating] | Tensor, other: NDArray[np.floating] | Tensor) -> Tensor:
        """Cosine of every vector of ``one`` [n, D] with every vector of ``other`` [m, D]: [n, m].

        Args:
            one: vectors [n, D], or a single one [D].
            other: vectors [m, D], or a single one [D].
        """
        left, right = (
            torch.nn.functional.normalize(torch.atleast_2d(torch.as_tensor(x)).float(), dim=1)
            for x in (one, other)
        )
        return left @ right.to(left.device).T

    def expand_vocabulary(
        self, vectors: Path | str, *, limit: int = 200_000, cache: Path = Path("runs/vectors")
    ) -> int:
        """Give words the model was not trained on a vector, by least squares from pre-trained ones.

        Every trained table gets its own map (Kiros et al. 2015, section 2.2). Existing rows keep their
        values; hash buckets still serve the words that neither the corpus nor the vectors know.

        Args:
            vectors: GloVe or word2vec file.
            limit: words to add at most, from the top of the file.
            cache: where the converted vectors are kept.

        Returns:
            Number of words added.

        Raises:
            UserError: the file is malformed, or shares too few words with the model.
        """
        loaded = load_word_vectors(Path(vectors), cache)
        return max((member.network.words.expand(loaded, limit) for member in self.members), default=0)

    def vectors(self, batch: Batch) -> Tensor:
        """Vectors [B, D] of parsed sentences, all views; with gradients where they are enabled."""
        return self._vectors(batch, self._chosen(None))

    def _move(self, device: torch.device) -> None:
        if device != self.device:
            self.device = device
            for member in self.members:
                member.network.to(device)

    def _chosen(self, views: Sequence[str] | None) -> list[list[int]]:
        """Positions of the wanted views per member."""
        wanted = None if views is None else [views] if isinstance(views, str) else list(views)
        chosen, known = [], set()
        for member in self.members:
            names = list(member.network.views)
            known |= {*names, *(f"{i}-{name}" for i, name in enumerate(names))}
            chosen.append(
                [i for i, n in enumerate(names) if wanted is None or n in wanted or f"{i}-{n}" in wanted]
            )
        for view in wanted or []:
            if view not in known:
                raise UserError(f"view {view!r}: this model has {', '.join(sorted(known))}")
        return chosen

    def _requires(self, chosen: list[list[int]]) -> set[str]:
        """What the chosen encoders read of a sentence."""
        encoders = [
            member.network.encoder_list[position]
            for member, positions in zip(self.members, chosen, strict=True)
            for position in positions
        ]
        return {need for encoder in encoders for need in encoder.requires}

    @torch.inference_mode()
    def _encode_all(
        self,
        texts: list[str | Tokens] | None,
        chosen: list[list[int]],
        batch_size: int,
        show_progress_bar: bool | None,
        trees: TreeCache | None,
    ) -> Tensor:
        """Vectors in input order, computed in order of length within a chunk."""
        requires = self._requires(chosen)
        dims = [len(p) * m.network.config.dim for m, p in zip(self.members, chosen, strict=True)]
        total = len(texts) if texts is not None else len(trees) if trees is not None else 0
        vectors = torch.zeros(total, sum(dims), device=self.device)
        shown: dict[str, Any] = {} if show_progress_bar is None else {"disable": not show_progress_bar}
        with progress(total=total, description="encode", **shown) as bar:
            for places, batch in self.reader.batches(texts, requires, trees):
                order = np.argsort(-np.diff(batch.sentence_offsets), kind="stable")
                for start in range(0, len(order), batch_size):
                    rows = order[start : start + batch_size]
                    where = torch.from_numpy(places[rows]).to(self.device)
                    vectors[where] = self._vectors(select(batch, rows), chosen)
                bar.update(len(order))
        return vectors

    @torch.inference_mode()
    def node_states(
        self, inputs: Sequence[str | Tokens], *, batch_size: int = 32, trees: TreeCache | None = None
    ) -> Iterator[tuple[NDArray[np.int64], list[tuple[Tensor, Tensor, Tensor, Tensor]]]]:
        """What the encoders know of every node, batch by batch.

        Args:
            inputs: sentences, as in :meth:`encode`.
            batch_size: sentences at a time.
            trees: cache of a corpus parsed by the model's parsers.

        Yields:
            Places of a batch's sentences in ``inputs``, and per view: sentence vectors [B, D], states [N, D],
            heights [N] and the sentence of each node [N], in sentence order.
        """
        chosen = self._chosen(None)
        for where, whole in self.reader.batches(list(inputs), self.requires, trees):
            order = np.argsort(-np.diff(whole.sentence_offsets), kind="stable")
            for start in range(0, len(order), batch_size):
                rows = order[start : start + batch_size]
                batch = select(whole, rows)
                words_B = torch.from_numpy(np.diff(batch.sentence_offsets)).to(self.device)
                views = []
                for encoder, x_NE in self._views(batch, chosen):
                    plan = encoder.plan(batch)
                    root_BD, (h_ND, height_N) = encoder(x_NE, plan), encoder.forward_nodes(x_NE, plan)
                    internal = len(h_ND) > len(x_NE)  # of a constituency tree: n - 1 more than words
                    count_B = 2 * words_B - 1 if internal else words_B
                    sentence_N = torch.repeat_interleave(count_B)
                    views.append((root_BD, h_ND, height_N, sentence_N))
                yield where[rows], views

    def _vectors(self, batch: Batch, chosen: list[list[int]]) -> Tensor:
        """Concatenated vectors [B, D] of parsed sentences."""
        parts = [encoder(x_NE, encoder.plan(batch)) for encoder, x_NE in self._views(batch, chosen)]
        return torch.cat(parts, dim=1).float()

    def _views(self, batch: Batch, chosen: list[list[int]]) -> Iterator[tuple[Encoder, Tensor]]:
        """Every chosen encoder with its word vectors [N, E]."""
        assert batch.types is not None
        used, inverse = np.unique(batch.token, return_inverse=True)
        types = [batch.types[index] for index in used]
        for member, positions in zip(self.members, chosen, strict=True):
            yield from member.network.inputs(positions, types, inverse.astype(np.int64))
