"""The registry of views, each an encoder class, and :class:`ViewStack`, the network of a model's views.

A view of another package is found by the entry-point group ``multiview.views``, or it was registered by a
module that was imported before (``--plugin``). docs/add-a-view.md has an example.

Legend of dimension suffixes: N tokens or nodes, U distinct words, E word-vector size, B sentences, D size of
a state.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cache, partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import chain, count, zip_longest
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding, embedding_bag

from multiview.encoders.meaning import Readout, Scale
from multiview.engines.plan import Plan
from multiview.model_config import EncoderConfig, Pooling
from multiview.words.table import WordTable
from parsing.trees.batch import ANNOTATIONS, Batch
from runtime.errors import UserError, did_you_mean

BAG_SCALE = 0.2
"""The factor of the initial recurrent weights of trees that start as bags of words."""
BAG = "bag"
"""The name of the view that is the mean of the word vectors."""
ENGINES = ("native", "dgl")
"""``native`` is our own kernels for CPU and CUDA, ``dgl`` the reference."""
ENTRY_POINTS = "multiview.views"
"""The group of entry points that name encoder classes, such as ``bow = "package.module:Class"``."""
_MODULE_OF_VIEW = {
    **dict.fromkeys(("seq", "dep", "const"), "multiview.encoders.recurrent"),
    **dict.fromkeys((BAG, "spelling"), "multiview.encoders.weightless"),
    **dict.fromkeys(("roles", "order"), "multiview.structure.binding"),
}
"""The module that defines each view of this package."""
_class_of_view: dict[str, type[ViewEncoder]] = {}
"""The views that have been registered."""


class ViewEncoder(nn.Module, ABC):
    """A view: an encoder that reads the word vectors and trees of a batch, and returns a vector per sentence.

    Subclasses set ``requires`` and implement ``plan`` and ``states``. The parameters do not depend on the
    engine.

    Args:
        word_dim: the size of a word vector.
        dim: D, the size of the state of a node.
        engine: what computes the states, one of :data:`ENGINES`.
        forget_bias: the first value of the biases of forget gates.
    """

    name: ClassVar[str]
    """The name under which the view is registered."""
    requires: ClassVar[frozenset[str]]
    """The annotations that ``plan`` reads, of ``tokens``, ``dep`` and ``const``."""
    pooling: Pooling = "root"
    """How the vector of a sentence is computed from the states of its nodes."""
    weightless: ClassVar[bool] = False
    """Whether the view has no weights. Views without weights come after all others and are not pooled."""

    def __init__(self, word_dim: int, dim: int, engine: str = "native", *, forget_bias: float = 0.0) -> None:
        super().__init__()
        if engine not in ENGINES:
            raise UserError(f"engine {engine!r}: choose one of {', '.join(ENGINES)}")
        if word_dim < 1 or dim < 1:
            raise UserError(f"word_dim {word_dim} and dim {dim} must be positive")
        self.word_dim, self.dim = word_dim, dim
        self.engine, self.forget_bias = engine, forget_bias

    @abstractmethod
    def plan(self, batch: Batch) -> Plan:
        """Return the order in which the nodes of a batch are computed.

        It is computed with numpy, in the threads of the data loader; ``.to(device)`` moves it.
        """

    def forward(self, x_UE: Tensor, plan: Plan, token_N: Tensor) -> Tensor:
        """Return the vectors of sentences, [B, width].

        Args:
            x_UE: The vectors of distinct words, [U, E].
            plan: What :meth:`plan` returned, on any device.
            token_N: The index of each token's word in ``x_UE``, int64 [N].
        """
        if len(x_UE) > len(token_N):  # the words are those of several batches of a training step
            x_UE = embedding(token_N, x_UE)
            token_N = torch.arange(len(x_UE), device=x_UE.device)
        plan = plan.to(x_UE.device)
        root_BD, h_ND = self.states(x_UE, token_N, plan)
        is_pooled = self.pooling != "root" and not self.weightless
        shape = [plan.sentences, self.dim if is_pooled else self.width]
        if list(root_BD.shape) != shape:
            raise UserError(f"view {self.name!r}: its states give {list(root_BD.shape)} in place of {shape}")
        if not is_pooled:
            return root_BD
        if not plan.sentences:
            return root_BD.new_zeros(0, self.width)
        slots, offsets = plan.tensor("node_slot"), plan.tensor("node_offsets")
        # It gathers and reduces in one pass. Other reductions over ranges have a slow backward pass on a CPU.
        pool = partial(embedding_bag, slots, h_ND, offsets, include_last_offset=True)
        if plan.sentences == 1 and not torch.is_grad_enabled():  # takes a quarter of the time
            pool = partial(_pool_all, h_ND)
        modes = re.split("[+,]", self.pooling)
        parts = [root_BD if mode == "root" else pool(mode=mode) for mode in modes]
        if self.pooling == "root+mean":
            return parts[0] + parts[1]
        # Divided by the number of parts, because classifiers fit vectors of that length better.
        return torch.cat(parts, dim=1) / len(parts)

    @property
    def width(self) -> int:
        """The size of the sentence vectors."""
        return self.dim * (1 + self.pooling.count(","))

    def forward_nodes(self, x_UE: Tensor, plan: Plan, token_N: Tensor) -> Tensor:
        """Return the states of all nodes in sentence order, [N, D].

        The nodes of a dependency tree are its words; those of a constituency tree are its n words and then
        its n - 1 internal nodes. The arguments are those of :meth:`forward`.
        """
        plan = plan.to(x_UE.device)
        _, h_ND = self.states(x_UE, token_N, plan)
        return h_ND.index_select(0, plan.tensor("node_slot"))

    def use_relations(self) -> None:
        """Add parameters for the role of each child; only the view dep can have them."""

    @abstractmethod
    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the vectors of sentences, [B, D], and the states of all nodes, [N, D] in slot order.

        ``x_UE`` are the vectors of distinct words, so that what depends on words alone is computed once for
        each. ``nn.functional.embedding(token_N, x_UE)`` are the vectors of all tokens.
        """


def _pool_all(h_ND: Tensor, *, mode: str) -> Tensor:
    """Return the mean or the maximum over all states, [1, D]."""
    return h_ND.mean(0, keepdim=True) if mode == "mean" else h_ND.amax(0, keepdim=True)


def register_view(name: str) -> Callable[[type[ViewEncoder]], type[ViewEncoder]]:
    """Return a decorator that registers an encoder class as the view ``name``.

    Raises ValueError if the name is no identifier, or if another class has it.
    """
    if not name.isidentifier():
        raise ValueError(f"view {name!r}: the name must be an identifier")

    def register(view: type[ViewEncoder]) -> type[ViewEncoder]:
        if _MODULE_OF_VIEW.get(name, view.__module__) != view.__module__:
            raise ValueError(f"view {name!r}: this package has a view of that name; choose another")
        if unknown := sorted(set(view.requires) - {"tokens", *ANNOTATIONS}):
            raise ValueError(
                f"view {name!r}: requires {unknown[0]!r}, not tokens, {' or '.join(ANNOTATIONS)}"
            )
        previous = _class_of_view.get(name)
        if previous is not None:
            # The same class is registered again if a notebook's cell or a module runs a second time.
            origins = {(each.__module__, each.__qualname__) for each in (previous, view)}
            if len(origins) > 1 or name in _MODULE_OF_VIEW:
                raise ValueError(f"view {name!r} is registered twice")
        view.name = name
        _class_of_view[name] = view
        return view

    return register


def fields_of(requires: Collection[str]) -> tuple[str, ...]:
    """Return the fields of a tree cache that hold these annotations; ``token`` is always one of them."""
    groups = [each.view_fields for name, each in ANNOTATIONS.items() if name in requires]
    return ("token", *chain.from_iterable(groups))


def view_class(name: str) -> type[ViewEncoder]:
    """Return the encoder class of a view. Raises UserError if no package or plugin has the view."""
    if name in _MODULE_OF_VIEW:
        import_module(_MODULE_OF_VIEW[name])
    if name in _class_of_view:
        return _class_of_view[name]
    entries = _entries_by_view()
    if name in entries:
        try:
            return register_view(name)(entries[name].load())
        except (ImportError, AttributeError) as error:
            raise UserError(f"view {name!r}: cannot be imported ({error})") from None
    names = sorted({*_MODULE_OF_VIEW, *_class_of_view, *entries})
    raise UserError(
        f"view {name!r}: {did_you_mean(name, names)}choose one of {', '.join(names)}; a view of your own "
        "needs --plugin MODULE (in Python: import MODULE before)"
    )


def trained_views(views: Sequence[str]) -> list[str]:
    """Return the views that have weights."""
    return [view for view in views if not view_class(view).weightless]


def table_indices(views: Sequence[str]) -> list[int]:
    """Return the index of the word table that each view reads: its own, or 0 if the view has no weights."""
    numbers = count()
    return [0 if view_class(view).weightless else next(numbers) for view in views]


def plugin_modules(views: Collection[str]) -> list[str]:
    """Return the modules of these views, without those of this package and of entry points."""
    known_views = {*_MODULE_OF_VIEW, *_entries_by_view()}
    return sorted({view_class(view).__module__ for view in views if view not in known_views})


@cache
def _entries_by_view() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


class ViewStack(nn.Module):
    """The encoders and word vectors of all views of a model.

    Args:
        views: The names of the views.
        words: The table of word vectors.
        config: The configuration of new encoders; torch's global generator draws their weights.
        encoders: Existing encoders of the first views; None in their place makes a new one.
    """

    def __init__(
        self,
        views: Sequence[str],
        words: WordTable,
        config: EncoderConfig,
        encoders: Sequence[ViewEncoder | None] = (),
    ) -> None:
        super().__init__()
        self.views = tuple(views)
        self.config = config
        # A tree that starts as a bag of words must forget little.
        forget_bias = 2.0 if config.init == "bag" else 0.0
        self.encoders = nn.ModuleList()
        for view, given_encoder in zip_longest(views, encoders):
            encoder = given_encoder
            if encoder is None:
                encoder = view_class(view)(words.dim, config.dim, config.engine, forget_bias=forget_bias)
                encoder.pooling = config.pooling
                if config.relations:
                    encoder.use_relations()
            self.encoders.append(encoder)
        self.words = words
        self.table_indices = table_indices(views)
        """The index of the word table that each view reads."""
        self.readout: Readout | None = None
        """The map from all views to a meaning; None if none was fitted."""
        self.scale: Scale | None = None
        """The scale of the numbers of all views; None leaves features as raw numbers."""

    @property
    def encoder_list(self) -> list[ViewEncoder]:
        """The encoders in the order of the views."""
        return list(self.encoders)  # type: ignore[arg-type]

    @property
    def dim(self) -> int:
        """The size of the concatenated vectors of all views."""
        return sum(self.widths)

    @property
    def widths(self) -> list[int]:
        """The size of the vectors of each view."""
        return [encoder.width for encoder in self.encoder_list]

    @torch.no_grad()
    def start_as_bags(self) -> None:
        """Change new tree views so that they begin as bags of words, if the configuration says so.

        The weights of children are scaled down. The input weights of i, o and u are those of the first tree
        view, because with different random projections the cosine of two views would begin at 0.
        """
        if self.config.init != "bag":
            return
        weights_of_views = [dict(encoder.named_parameters()) for encoder in self.encoder_list]
        weights_of_trees = [weights for weights in weights_of_views if "recurrent_weight" in weights]
        for weights in weights_of_trees:
            weights["recurrent_weight"].mul_(BAG_SCALE)
            weights["input_weight"].copy_(weights_of_trees[0]["input_weight"])

    def with_bag(self) -> ViewStack:
        """Return a network of the same encoders and words, with the view bag at the end."""
        return ViewStack([*self.views, BAG], self.words, self.config, self.encoder_list)

    def encode(self, tokens: Sequence[Tensor], plans: Sequence[Plan], rows: Sequence[Tensor]) -> list[Tensor]:
        """Return the vectors of sentences, [B, width], of each view.

        Args:
            tokens: The index of each token's word, int64 [N], for each view, or once for all views.
            plans: The plan of each view.
            rows: Word vectors [U, E], for each table, or once if all views read the same fixed vectors.
        """
        vectors = []
        for position, (encoder, plan) in enumerate(zip(self.encoder_list, plans, strict=True)):
            token_N = tokens[position] if len(tokens) > 1 else tokens[0]
            rows_UE = rows[self.table_indices[position]] if len(rows) > 1 else rows[0]
            vectors.append(encoder(rows_UE, plan, token_N))
        return vectors

    def encoder_inputs(
        self, positions: Sequence[int], types: list[str], token: NDArray[np.int64]
    ) -> Iterator[tuple[ViewEncoder, Tensor, Tensor]]:
        """Yield the encoders of some views, each with the vectors [U, E] of ``types``, and ``token`` [N]."""
        table_rows = self.words.vocabulary.lookup(types)
        encoders, rows_of_table = self.encoder_list, dict[int, Tensor]()
        for position in positions:
            table = self.table_indices[position] if self.words.mode == "trained" else 0
            if table not in rows_of_table:
                rows_of_table[table] = self.words.rows(table, table_rows)
            rows_UE = rows_of_table[table]
            yield encoders[position], rows_UE, torch.from_numpy(token).to(rows_UE.device)

    def vectors(self, batch: Batch, positions: Sequence[int] | None = None) -> Tensor:
        """Return the concatenated vectors of some views, by default all, of parsed sentences: [B, D]."""
        positions = range(len(self.views)) if positions is None else positions
        inputs = self.encoder_inputs(positions, *batch.distinct_words())
        parts = [encoder(x_UE, encoder.plan(batch), token_N) for encoder, x_UE, token_N in inputs]
        return torch.cat(parts, dim=1).float()

    @torch.no_grad()
    def measure(self, batches: Iterable[Batch], origin: str) -> None:
        """Set the scale to that of parsed sentences; numbers that the old scale leaves out stay out."""
        self.scale = Scale.measure(map(self.vectors, batches), origin, previous=self.scale)

    def scale_of(self, positions: Sequence[int]) -> Scale:
        """Return the part of the scale that belongs to some views; the network must have a scale."""
        assert self.scale is not None
        indices_of_views = torch.arange(self.dim).split(self.widths)
        indices = torch.cat([indices_of_views[position] for position in positions])
        return Scale(self.scale.mean.cpu()[indices], self.scale.deviation.cpu()[indices])

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that a model folder stores, on the CPU: encoders, words, read-out and scale."""
        weights = {}
        for name, value in self.state_dict().items():
            if name.startswith(("encoders.", "words.", "readout.", "scale.")):
                # A network that computes in half precision is stored in float32 as well.
                weights[name] = (value.float() if value.is_floating_point() else value).cpu().contiguous()
        return weights
