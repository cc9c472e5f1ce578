"""The public API: load a model folder and encode sentences.

    from multiview.model import MultiViewEncoder
    encoder = MultiViewEncoder.load("runs/models/dep-const-laptop")
    vectors = encoder.encode(["A cat sat down.", ["already", "tokenised"]])      # float32 [2, D]

Sentences are parsed on the fly by the parsers the model was trained with, or their trees come from a cache.
Every input gives one vector, in input order; an input is never split into sentences.

Legend of dimension suffixes: n sentences, B sentences of a batch, N tokens or nodes, E word-vector size, D
embedding size.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from runtime.surroundings import pause_collector

with pause_collector():
    import torch  # most of the time to import this module

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from corpora.sentences import read_sentences
from multiview.config import EncoderConfig, Start
from multiview.encoders.meaning import STRUCTURE_SIZES, Readout, check_share, sample_spans
from multiview.encoders.registry import ViewStack, fields_of, table_indices
from multiview.folder.files import Member, load_members, model_folder, refuse_other_content, save_model
from multiview.folder.reading import SentenceReader, Tokens
from multiview.outputs import (
    Output,
    Vectors,
    annotations_of,
    check_arguments,
    chosen_networks,
    fitted_readout,
    resolve_output,
    units,
    vectors_of_views,
)
from multiview.words.table import WordTable
from multiview.words.vectors import load_word_vectors
from parsing.trees.batch import Batch
from runtime.device import build_in_float32, chosen_threads, pick_device, torch_threads, with_torch_defaults
from runtime.errors import UserError
from runtime.files import lock_folder, path_of
from runtime.progress import progress

if TYPE_CHECKING:
    from multiview.comparison.matches import Explanation
    from parsing.trees.cache import TreeCache

FEW = 200
"""Fewer sentences are encoded by one thread."""
BATCH = 512
"""Sentences encoded at a time: the more, the more often they share words."""


class MultiViewEncoder:
    """Encodes sentences: the vectors of all views of its members, concatenated or read out as one."""

    pretokenized = True
    """Sentences may be given as token lists (SentEval's adapters ask)."""
    similarity_fn_name = "cosine"
    """The name that sentence-transformers gives it."""

    def __init__(
        self, members: Sequence[Member], *, device: str | torch.device = "cpu", name: str = ""
    ) -> None:
        self.members = list(members)
        self.name = name
        self.folder: Path | None = None
        self.device = torch.device(device)
        """Where the weights are and vectors are computed; ``encode(device=...)`` moves them."""
        self.reader = SentenceReader(self.members)
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
        structure: float | None = None,
        structure_size: int | None = None,
    ) -> Self:
        """Load a model folder, written by ``python -m multiview.train``, or ``builtin``, that in the package.

        The device is cpu, cuda, ...; without one, a GPU is taken if there is any. ``dep_model`` and
        ``const_model`` are the parsers the model was trained with, unless they are the builtin ones.
        ``structure`` is λ of :meth:`encode` where it is not given, ``structure_size`` the numbers of a
        structure vector, 128, 256, 512 or 1,024; by default both are the folder's. A UserError names the file
        that is missing or damaged, or the value that is none of these.
        """
        chosen, path = pick_device(device), model_folder(folder)
        with pause_collector():
            encoder = cls(load_members(path, chosen), device=chosen, name=Path(folder).name)
        encoder.folder = path
        if structure is not None:
            encoder.members[0].structure = check_share(structure)
        if structure_size is not None:
            if not isinstance(structure_size, Integral) or structure_size not in STRUCTURE_SIZES:
                sizes = ", ".join(map(str, STRUCTURE_SIZES))
                raise UserError(f"structure_size={structure_size!r:.40}: one of {sizes}")
            encoder.members[0].structure_size = int(structure_size)
        encoder.reader.specs = {"dep": dep_model, "const": const_model}
        return encoder

    @classmethod
    def untrained(
        cls,
        views: Sequence[str] | str,
        *,
        dim: int = 128,
        word_dim: int = 128,
        words: WordTable | None = None,
        start: Start = "xavier",
        relations: bool = False,
        seed: int = 0,
        device: str | torch.device | None = None,
    ) -> Self:
        """Return a model with random weights, the baseline that a trained model has to beat.

        Views are ``"dep,const"`` or a list, each of ``dim`` numbers. Without ``words``, these are hashed to
        vectors of ``word_dim`` numbers. With the start ``bag``, trees forget little; with ``relations``, dep
        knows the role of each child.
        """
        names = [v.strip() for v in views.split(",")] if isinstance(views, str) else list(views)
        with build_in_float32():
            words = words or WordTable.hashed(
                word_dim, views=1 + max(table_indices(names), default=0), seed=seed
            )
            torch.manual_seed(seed)
            config = EncoderConfig(dim=dim, start=start, relations=relations)
            member = Member(ViewStack(names, words, config))
        return cls([member], device=pick_device(device), name=f"random:{','.join(names)}")

    @property
    def views(self) -> list[str]:
        """Names the views, in the order of their vectors."""
        return [view for member in self.members for view in member.network.views]

    @property
    def structure(self) -> float:
        """Gives λ of :meth:`encode` where that gets none."""
        return self.members[0].structure

    @property
    def structure_size(self) -> int:
        """Gives S, the numbers of a structure vector."""
        return self.members[0].structure_size

    @property
    def readout(self) -> Readout | None:
        """Gives the map from all views to one vector made for cosine; None where none was fitted."""
        return fitted_readout(self.members)

    @property
    def scaled(self) -> bool:
        """Tells whether features have a scale of their own."""
        return all(member.network.scale is not None for member in self.members)

    def measure(self, trees: TreeCache) -> None:
        """Bring features to one scale over a text: mean and deviation of each number in a sample of it.

        Trees that lack what a view needs, or are of other parsers, are a UserError.
        """
        requires = self.requires_of()
        self.reader.check_trees(trees, requires)
        fields, spans = fields_of(requires), sample_spans([(0, len(trees))])
        for member in self.members:
            with torch_threads(1):
                member.network.measure((trees.read(*span, fields) for span in spans), trees.folder.name)

    def requires_of(self, views: Sequence[str] | None = None) -> set[str]:
        """Give the annotations that some views read, of ``tokens``, ``dep``, ``const``; None is all views."""
        return annotations_of(chosen_networks(self.members, views))

    def get_sentence_embedding_dimension(self) -> int:
        """Count what :meth:`encode` gives by default: K of a read-out, else D; with structure + S."""
        meaning = self.readout.dim if self.readout else sum(member.network.dim for member in self.members)
        return meaning + (self.structure_size if self.structure else 0)

    @with_torch_defaults()
    def encode(
        self,
        inputs: str | Iterable[str | Tokens] | None,
        *,
        batch_size: int = BATCH,
        show_progress_bar: bool | None = None,
        convert_to_tensor: bool = False,
        device: str | torch.device | None = None,
        normalize_embeddings: bool = False,
        views: Sequence[str] | None = None,
        trees: TreeCache | None = None,
        readout: Literal["meaning", "features", "raw"] | None = None,
        structure: float | None = None,
        truncate_dim: int | None = None,
        **others: object,
    ) -> NDArray[np.float32]:
        """Encode sentences in input order: float32 [D] for a string, [n, D] for a list.

        A UserError names an unknown view, a missing parser or one of another version, λ outside 0 to 1, a
        meaning where no read-out was fitted, an argument of sentence-transformers that means nothing here,
        and an input that is no sentence or whose vector is not finite.

        Args:
            inputs: one sentence, or a list, tuple, array or table column of sentences, each a string or
                tokens. None encodes all sentences of ``trees`` in order.
            batch_size: sentences encoded at a time.
            show_progress_bar: None shows a bar in terminals and notebooks, a line every 30 s in logs.
            convert_to_tensor: return a tensor on the device, which the type does not say.
            device: move the model there, for later calls as well.
            normalize_embeddings: scale every vector to length 1 (a zero vector stays zero).
            views: only these, by name (``dep``) or position (``0-dep``); the order is the model's.
            trees: cache made with the model's parsers; sentences found in it are not parsed again.
            readout: ``meaning``, [K], at length 1 and made for cosine, by default where a read-out was fitted
                and ``views`` are not given; ``raw``, the views side by side as they are, by default
                otherwise; or ``features``, [F], for classifiers: the views side by side, each number at one
                scale where the model has one (not of preset ``paper``), with a read-out without what the
                others tell.
            structure: λ, by default the model's (0 with ``views``, raw or features); above 0 the vectors are
                √(1−λ) of the meaning, at length 1, beside √λ of who did what to whom, + S numbers: the cosine
                is (1−λ) of the meanings' plus λ of the structures'.
            truncate_dim: keep so many numbers of the meaning, a fitted one at length 1 again.
            others: arguments of sentence-transformers' ``encode`` that ask for nothing (no prompt, float32).
        """
        flags = {"convert_to_tensor": convert_to_tensor, "normalize_embeddings": normalize_embeddings}
        numbers = {"batch_size": batch_size, "truncate_dim": 1 if truncate_dim is None else truncate_dim}
        check_arguments(numbers, trees, flags, others)
        output = resolve_output(self.members, self.name, views, readout, structure, truncate_dim)
        if device is not None:
            self._move(pick_device(device))
        listed = [inputs] if isinstance(inputs, str) else inputs
        texts = None if listed is None else read_sentences(listed, "encode")
        vectors = self._encode(texts, trees, output, batch_size, show_progress_bar)
        if normalize_embeddings:
            vectors = normalize(vectors, dim=1)
        result = vectors[0] if isinstance(inputs, str) else vectors
        return result if convert_to_tensor else result.cpu().numpy()  # type: ignore[return-value]

    # Queries and documents get the same vectors: the model has no prompts. Libraries ask for both names.
    encode_query = encode
    encode_document = encode

    @with_torch_defaults()
    def similarity(self, first: Vectors, second: Vectors) -> Tensor:
        """Compare each vector of ``first`` and each of ``second`` by cosine: [n, m]; [D] counts as [1, D]."""
        left, right = units(first, second)
        return left @ right.T

    @with_torch_defaults()
    def similarity_pairwise(self, first: Vectors, second: Vectors) -> Tensor:
        """Return the cosines of vectors ``first`` and ``second``, pair by pair: [n]; [D] counts as [1, D]."""
        left, right = units(first, second)
        if 1 not in (len(left), len(right)) and len(left) != len(right):
            raise UserError(f"similarity_pairwise: {len(left)} vectors and {len(right)} are no pairs")
        return (left * right).sum(dim=1)

    def save(self, folder: Path | str) -> None:
        """Write the model as it is now, expanded words too; a folder of something else is a UserError."""
        folder = path_of(folder, "model")
        refuse_other_content(folder)
        with lock_folder(folder, option="folder"):
            save_model(self.members, folder, self.folder)
        self.folder = folder

    def __repr__(self) -> str:
        networks = [member.network for member in self.members]
        views = [f"{view} {width}" for n in networks for view, width in zip(n.views, n.widths, strict=True)]
        words = [f"{len(n.words.vocabulary):,} {n.words.mode}, of size {n.words.dim}" for n in networks]
        parsers = [f"{need} {who.get('name', '?')}" for need, who in sorted(self.reader.identities.items())]
        wide = sum(network.dim for network in networks)
        meaning = f", read out as {self.readout.dim}" if self.readout else ""
        share = f"; structure {self.structure:g}" if self.structure else ""
        return (
            f"{type(self).__name__} {self.name} on {self.device}\n"
            f"  views    {' + '.join(views)} = {wide} dimensions{meaning}{share}\n"
            f"  words    {'; '.join(words)}\n"
            f"  parsers  {', '.join(parsers) or 'none on record'}"
        )

    def __sklearn_clone__(self) -> Self:
        """Return itself: scikit-learn copies estimators, but a model that nothing trains may be shared."""
        return self

    @with_torch_defaults()
    @torch.inference_mode()
    def word_vectors(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Give the words' input vectors, tables side by side: float32 [n, (tables or 1) x word size]."""
        types, inverse = np.unique([*map(str, read_sentences(words, "word_vectors"))], return_inverse=True)
        parts = [
            words.rows(table, words.vocabulary.lookup(types.tolist()))
            for words in (member.network.words for member in self.members)
            for table in range(max(len(words.tables), 1))
        ]
        vectors: NDArray[np.float32] = torch.cat(parts, dim=1).float().cpu().numpy()[inverse]
        return vectors

    def expand_vocabulary(self, vectors: Path | str) -> int:
        """Add words the model was not trained on, from a file (GloVe, word2vec, fastText); return how many.

        Every trained table gets its own map of the vectors, by least squares
        (:class:`multiview.words.vectors.Expansion`), and keeps its own rows; hash buckets still serve the
        words that neither the corpus nor the vectors know. Vectors that are malformed, or share too few words
        with the model, are a UserError.
        """
        loaded = load_word_vectors(vectors)
        return max((member.network.words.expand(loaded) for member in self.members), default=0)

    @with_torch_defaults()
    @torch.inference_mode()
    def structure_vectors(self, inputs: Iterable[str | Tokens]) -> NDArray[np.float32]:
        """Encode who did what to whom, at length 1: float32 [n, S], zero where nothing is bound."""
        from multiview.encoders.binding import structure_of  # here: it compiles

        texts, size = read_sentences(inputs, "structure_vectors"), self.structure_size
        bound = functools.partial(structure_of, words=self.members[0].network.words, size=size)
        output = Output({"tokens", "dep"}, size, bound)
        vectors: NDArray[np.float32] = self._encode(texts, None, output, BATCH, False).cpu().numpy()
        return vectors

    @with_torch_defaults()
    def vectors(self, batch: Batch, views: Sequence[str] | None = None) -> Tensor:
        """Encode parsed sentences to [B, D], as in :meth:`encode`; keeps gradients where enabled."""
        return vectors_of_views(chosen_networks(self.members, views), batch)

    @with_torch_defaults()
    @torch.inference_mode()
    def explain(
        self, a: str | Tokens, b: str | Tokens, *, view: str | None = None, top: int = 5
    ) -> Explanation:
        """Return the subtrees of two sentences that match best, by the cosine of their nodes' vectors.

        The object prints as text. Without a view it is of all, of which those with trees have matches, at
        most ``top`` each. An unknown view, one without trees, and a sentence too long for the parsers are a
        UserError.
        """
        from multiview.comparison.matches import explain_pair, nodes_of

        if not isinstance(top, Integral) or top < 1:
            raise UserError(f"explain: top={top!r:.40}: must be a whole number from 1")
        views = None if view is None else [view]
        with torch_threads(1):
            sentences = [self.reader.tokens(text) for text in read_sentences([a, b], "explain")]
            batch = self.reader.parse(sentences, self.requires_of(views))
            nodes = list(nodes_of(batch, chosen_networks(self.members, views)))
            wholes = {"": self.encode(sentences, views=views, show_progress_bar=False)}
            if self.structure and views is None:
                wholes["meaning"] = self.encode(sentences, structure=0, show_progress_bar=False)
                wholes["structure"] = self.structure_vectors(sentences)
        return explain_pair(batch, self.reader.inventories(), nodes, wholes, top)

    def _move(self, device: torch.device) -> None:
        if device != self.device:
            self.device = device
            self.reader.move(device)
            for member in self.members:
                member.network.to(device)

    def _encode(
        self,
        texts: Sequence[str | Tokens] | None,
        trees: TreeCache | None,
        output: Output,
        batch_size: int,
        show_progress_bar: bool | None,
    ) -> Tensor:
        """Return the vectors [n, width] of sentences, or of all those of ``trees``, in input order."""
        total = len(texts if texts is not None else trees or ())
        vectors = torch.zeros(total, output.width, device=self.device, dtype=torch.float32)
        dim = max(member.network.config.dim for member in self.members)
        threads = chosen_threads(batch_size, dim, self.device) if total >= FEW else 1
        batches = self.reader.batches(texts, output.requires, trees, batch_size)
        progress_bar = progress(total=total, description="encode", show=show_progress_bar)
        # The first sentence imports a tokenizer, parsers and compiled loops.
        paused = pause_collector() if total < FEW else contextlib.nullcontext()
        # Parsing takes one thread: it has no large products.
        with torch.inference_mode(), torch_threads(1), progress_bar as bar, paused:
            for places, batch in batches:
                with torch_threads(threads):
                    vectors_BD = output.of(batch)
                finite = torch.isfinite(vectors_BD).all(dim=1)
                if not finite.all():
                    row = int(finite.int().argmin())
                    where = f"sentence {int(places[row])}, {' '.join(list(batch.words())[row])[:60]!r}"
                    advice = "is not finite; the model's weights are unusable"
                    raise UserError(f"{self.name}: the vector of {where}, {advice}")
                vectors[torch.from_numpy(places).to(self.device)] = vectors_BD
                bar.update(len(places))
        return vectors
