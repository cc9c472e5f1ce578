"""The views by name, and :class:`ViewStack`, the network of a model's views. A view is one encoder class.

Views of other packages come from the entry-point group ``multiview.views``, or from a module that was
imported before (``--plugin``); docs/add-a-view.md has an example.

Legend of dimension suffixes: N tokens or nodes, U distinct words, E word-vector size, B sentences, D size of
a state.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import chain, count, zip_longest
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding, embedding_bag

from multiview.config import EncoderConfig, Pooling
from multiview.encoders.meaning import Readout, Scale
from multiview.engines.plan import Plan
from multiview.words.table import WordTable
from parsing.trees.batch import ANNOTATIONS, Batch
from runtime.errors import UserError, did_you_mean

BAG_SCALE = 0.2
"""Factor of the initial recurrent weights of trees that start as bags of words."""
BAG = "bag"
"""The view that is the mean of the words."""
ENGINES = ("native", "dgl")
"""``native``: kernels of our own for CPU and CUDA; ``dgl``: the reference."""
ENTRY_POINTS = "multiview.views"
"""Group of the entry points that name encoder classes of other packages: ``bow = "package.module:Class"``."""
_MODULE_OF_VIEW = {
    **dict.fromkeys(("seq", "dep", "const"), "multiview.encoders.recurrent"),
    **dict.fromkeys((BAG, "spelling"), "multiview.encoders.weightless"),
    **dict.fromkeys(("roles", "order"), "multiview.structure.binding"),
}
"""Where each view of this package is defined."""
_class_of_view: dict[str, type[ViewEncoder]] = {}
"""The views that are registered so far."""


class ViewEncoder(nn.Module, ABC):
    """One view: turns the word vectors and trees of a batch into one vector per sentence.

    Subclasses set ``requires`` and implement ``plan`` and ``states``. ``dim`` is D; the parameters are the
    same for all ``ENGINES``.
    """

    name: ClassVar[str]
    """Name under which the view is registered."""
    requires: ClassVar[frozenset[str]]
    """Annotations that ``plan`` reads, of ``tokens``, ``dep``, ``const``."""
    pooling: Pooling = "root"
    """How states become a sentence vector."""
    weightless: ClassVar[bool] = False
    """Whether the view has nothing to train; such views come after all others and are not pooled."""

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
        """Schedule the batch with numpy alone, since loader threads do it; ``.to(device)`` moves the plan."""

    def forward(self, x_UE: Tensor, plan: Plan, token_N: Tensor) -> Tensor:
        """Encode sentences to [B, width], in sentence order.

        ``x_UE`` are the vectors of distinct words and ``token_N``, int64, each token's word. The plan is from
        :meth:`plan`, on any device.
        """
        if len(x_UE) > len(token_N):  # words of other sentences of the step as well
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
        # One pass gathers and reduces; no other reduction over ranges has a fast backward pass on a CPU.
        pool = partial(embedding_bag, slots, h_ND, offsets, include_last_offset=True)
        if plan.sentences == 1 and not torch.is_grad_enabled():  # a quarter of the time
            pool = partial(_pool_all, h_ND)
        modes = re.split("[+,]", self.pooling)
        parts = [root_BD if mode == "root" else pool(mode=mode) for mode in modes]
        if self.pooling == "root+mean":
            return parts[0] + parts[1]
        # Divided by their number, because classifiers fit vectors of that length better.
        return torch.cat(parts, dim=1) / len(parts)

    @property
    def width(self) -> int:
        """The size of the sentence vectors."""
        return self.dim * (1 + self.pooling.count(","))

    def forward_nodes(self, x_UE: Tensor, plan: Plan, token_N: Tensor) -> Tensor:
        """Return the states of all nodes in sentence order, [N, D].

        The nodes of a dependency tree are its words; those of a constituency tree are its n words, then its
        n - 1 internal nodes. The arguments are those of :meth:`forward`.
        """
        plan = plan.to(x_UE.device)
        _, h_ND = self.states(x_UE, token_N, plan)
        return h_ND.index_select(0, plan.tensor("node_slot"))

    def use_relations(self) -> None:
        """Let the role of each child enter, if the view can."""

    @abstractmethod
    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the sentence vectors [B, D] and states of all nodes [N, D] in slot order.

        ``x_UE`` are the vectors of distinct words, so that what depends on words alone is computed once a
        word; ``nn.functional.embedding(token_N, x_UE)`` are the vectors of all tokens.
        """


def _pool_all(h_ND: Tensor, *, mode: str) -> Tensor:
    """Return the mean or the largest numbers of all states, [1, D]."""
    return h_ND.mean(0, keepdim=True) if mode == "mean" else h_ND.amax(0, keepdim=True)


def register_view(name: str) -> Callable[[type[ViewEncoder]], type[ViewEncoder]]:
    """Decorate a class, which makes the encoder available as view ``name``, an identifier."""
    if not name.isidentifier():
        raise ValueError(f"view {name!r}: the name must be an identifier")

    def register(view: type[ViewEncoder]) -> type[ViewEncoder]:
        previous = _class_of_view.get(name)
        if previous is not None:
            # The same class again is a notebook's cell or a module that runs once more.
            origins = {(each.__module__, each.__qualname__) for each in (previous, view)}
            if len(origins) > 1 or name in _MODULE_OF_VIEW:
                raise ValueError(f"view {name!r} is registered twice")
        view.name = name
        _class_of_view[name] = view
        return view

    return register


def fields_of(requires: Collection[str]) -> tuple[str, ...]:
    """Return the cache fields that encoders read of annotations; tokens are always included."""
    groups = [each.view_fields for name, each in ANNOTATIONS.items() if name in requires]
    return ("token", *chain.from_iterable(groups))


def view_class(name: str) -> type[ViewEncoder]:
    """Return the encoder class of a view, of this package, of an installed one or of a plugin."""
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
    """Return which word table each view reads: its own, or the first where it has nothing to train."""
    numbers = count()
    return [0 if view_class(view).weightless else next(numbers) for view in views]


def plugin_modules(views: Collection[str]) -> list[str]:
    """Return the modules of other packages that define these views and that no entry point names."""
    known_views = {*_MODULE_OF_VIEW, *_entries_by_view()}
    return sorted({view_class(view).__module__ for view in views if view not in known_views})


def _entries_by_view() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


class ViewStack(nn.Module):
    """Encoders and word vectors of all views; weights are drawn from torch's global generator.

    ``encoders`` are those of the first views, where there are some already; None makes a new one.
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
        forget_bias = 2.0 if config.start == "bag" else 0.0  # a tree that starts as a bag forgets little
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
        """Which of the word tables each view reads."""
        self.readout: Readout | None = None
        """The map from all views to one vector made for cosine, where one was fitted."""
        self.scale: Scale | None = None
        """The scale of all views' numbers over a text, for features; without, these are as they are."""

    @property
    def encoder_list(self) -> list[ViewEncoder]:
        """The encoders in the order of the views."""
        return list(self.encoders)  # type: ignore[arg-type]

    @property
    def dim(self) -> int:
        """The size of all views' vectors side by side."""
        return sum(self.widths)

    @property
    def widths(self) -> list[int]:
        """The size of each view's vectors."""
        return [encoder.width for encoder in self.encoder_list]

    @torch.no_grad()
    def start_as_bags(self) -> None:
        """Make new trees weighted bags of words, alike in all views, if the configuration says so.

        The weights that act on children are scaled down, and the input weights of i, o, u are those of the
        first tree view: with different random projections the views would start at cosine 0.
        """
        if self.config.start != "bag":
            return
        weights_of_views = [dict(encoder.named_parameters()) for encoder in self.encoder_list]
        weights_of_trees = [weights for weights in weights_of_views if "recurrent_weight" in weights]
        for weights in weights_of_trees:
            weights["recurrent_weight"].mul_(BAG_SCALE)
            weights["input_weight"].copy_(weights_of_trees[0]["input_weight"])

    def with_bag(self) -> ViewStack:
        """Return the same encoders and words, with the mean of the words as one more view."""
        return ViewStack([*self.views, BAG], self.words, self.config, self.encoder_list)

    def encode(self, tokens: Sequence[Tensor], plans: Sequence[Plan], rows: Sequence[Tensor]) -> list[Tensor]:
        """Return the sentence vectors [B, width] of each view.

        Each token's word among ``rows``, int64 [N], is given for each view, or once for all; word vectors
        [U, E] for each table, or once (fixed vectors).
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
        """Yield the encoders of some views, each with the vectors [U, E] of ``types``, and ``token``, [N]."""
        table_rows = self.words.vocabulary.lookup(types)
        encoders, rows_of_table = self.encoder_list, dict[int, Tensor]()
        for position in positions:
            table = self.table_indices[position] if self.words.mode == "trained" else 0
            if table not in rows_of_table:
                rows_of_table[table] = self.words.rows(table, table_rows)
            rows_UE = rows_of_table[table]
            yield encoders[position], rows_UE, torch.from_numpy(token).to(rows_UE.device)

    def vectors(self, batch: Batch, positions: Sequence[int] | None = None) -> Tensor:
        """Return the vectors [B, D] of parsed sentences, the views one after the other."""
        positions = range(len(self.views)) if positions is None else positions
        inputs = self.encoder_inputs(positions, *batch.distinct_words())
        parts = [encoder(x_UE, encoder.plan(batch), token_N) for encoder, x_UE, token_N in inputs]
        return torch.cat(parts, dim=1).float()

    @torch.no_grad()
    def measure(self, batches: Iterable[Batch], origin: str) -> None:
        """Measure mean and deviation of each number on parsed sentences; left-out numbers stay left out."""
        self.scale = Scale.measure(map(self.vectors, batches), origin, previous=self.scale)

    def scale_of(self, positions: Sequence[int]) -> Scale:
        """Return the scale of some views' numbers, where there is one."""
        assert self.scale is not None
        indices_of_views = torch.arange(self.dim).split(self.widths)
        indices = torch.cat([indices_of_views[position] for position in positions])
        return Scale(self.scale.mean.cpu()[indices], self.scale.deviation.cpu()[indices])

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that a model folder keeps: encoders, words, read-out and scale, on the CPU."""
        weights = {}
        for name, value in self.state_dict().items():
            if name.startswith(("encoders.", "words.", "readout.", "scale.")):
                # A network that computes in half precision is stored in float32 as well.
                weights[name] = (value.float() if value.is_floating_point() else value).cpu().contiguous()
        return weights
