"""The views, by name, and the network of a model's views. A view is one encoder class.

Views of other packages come from the entry-point group ``multiview.views``, or from a module that was
imported before (``--plugin``); docs/add-a-view.md has an example.

Legend of dimension suffixes: N tokens or nodes, U distinct words, E word-vector size, B sentences, D hidden.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding, embedding_bag

from multiview.config import EncoderConfig, Pooling, parts_of_pooling
from multiview.encoders.meaning import Readout, Scale
from multiview.engines.plan import Plan
from multiview.words.table import WordTable
from parsing.trees.batch import Batch
from runtime.errors import UserError, did_you_mean

BAG_SCALE = 0.2
"""Of the initial recurrent weights of trees that start as bags of words."""
BAG = "bag"
"""The view that is the mean of the words."""
ENGINES = ("native", "dgl")
"""``native``: kernels of our own for CPU and CUDA; ``dgl``: the reference."""

FIELDS = {
    "tokens": ("token",),
    "dep": ("head", "relation", "dep_height"),
    "const": ("left", "right", "const_height"),
    "labels": ("label",),
}
"""Fields of a tree cache that belong to each annotation; encoders read all but the constituents' labels."""

ENTRY_POINTS = "multiview.views"
"""Group of the entry points that name encoder classes of other packages: ``bow = "package.module:Class"``."""
_BUILTIN = {
    **dict.fromkeys(("seq", "dep", "const"), "recurrent"),
    **dict.fromkeys((BAG, "spelling"), "weightless"),
    **dict.fromkeys(("roles", "order"), "binding"),
}
"""Module of each view of this package."""
_views: dict[str, type[ViewEncoder]] = {}


class ViewEncoder(nn.Module, ABC):
    """One view: turns the word vectors and trees of a batch into one vector per sentence.

    Subclasses set ``requires`` and implement ``plan`` and ``states``. ``hidden`` is D; the parameters are the
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

    def __init__(
        self, word_dim: int, hidden: int, engine: str = "native", *, forget_bias: float = 0.0
    ) -> None:
        super().__init__()
        if engine not in ENGINES:
            raise UserError(f"engine {engine!r}: choose one of {', '.join(ENGINES)}")
        if word_dim < 1 or hidden < 1:
            raise UserError(f"word_dim {word_dim} and hidden {hidden} must be positive")
        self.word_dim, self.dim, self.engine, self.forget_bias = word_dim, hidden, engine, forget_bias

    @abstractmethod
    def plan(self, batch: Batch) -> Plan:
        """Schedule the batch with numpy alone, since loader threads do it; ``.to(device)`` moves the plan."""

    def forward(self, x_UE: Tensor, plan: Plan, token_N: Tensor | None = None) -> Tensor:
        """Encode sentences to [B, width], in sentence order.

        ``x_UE`` are the vectors of distinct words and ``token_N``, int64, each token's word; without it, they
        are those of all tokens of the batch in order. The plan is from :meth:`plan`, on any device.
        """
        if token_N is None or len(x_UE) > len(token_N):  # words of other sentences of the step as well
            x_UE = x_UE if token_N is None else embedding(token_N, x_UE)
            token_N = torch.arange(len(x_UE), device=x_UE.device)
        root_BD, h_ND = self.states(x_UE, token_N, plan)
        pools = self.pooling != "root" and not self.weightless
        wanted = [plan.sentences, self.dim if pools else self.width]
        if list(root_BD.shape) != wanted:
            raise UserError(f"view {self.name!r}: its states give {list(root_BD.shape)} in place of {wanted}")
        if not pools:
            return root_BD
        if not plan.sentences:
            return root_BD.new_zeros(0, self.width)
        plan = plan.to(x_UE.device)
        # One pass gathers and reduces; no other reduction over ranges has a fast backward pass on a CPU.
        slot, offsets = plan.tensor("node_slot"), plan.tensor("node_offsets")
        pool = partial(embedding_bag, slot, h_ND, offsets, include_last_offset=True)
        names = re.split("[+,]", self.pooling)
        pooled = [root_BD if name == "root" else pool(mode=name) for name in names]
        if self.pooling == "root+mean":
            return pooled[0] + pooled[1]
        # Divided by their number, because classifiers fit vectors of that length better.
        return torch.cat(pooled, dim=1) / len(pooled)

    @property
    def width(self) -> int:
        """Gives the size of the sentence vectors."""
        return self.dim * parts_of_pooling(self.pooling)

    def forward_nodes(self, x_UE: Tensor, plan: Plan, token_N: Tensor | None = None) -> Tensor:
        """Return the states of all nodes in sentence order, [N, D].

        The nodes of a dependency tree are its words; those of a constituency tree are its n words, then its
        n - 1 internal nodes. The arguments are those of :meth:`forward`.
        """
        plan = plan.to(x_UE.device)
        token_N = torch.arange(len(x_UE), device=x_UE.device) if token_N is None else token_N
        h_ND = self.states(x_UE, token_N, plan)[1]
        return h_ND.index_select(0, plan.tensor("node_slot"))

    def use_relations(self) -> None:
        """Let the role of each child enter, if the view can."""

    @abstractmethod
    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        """Return the sentence vectors [B, D] and states of all nodes [N, D] in slot order.

        ``x_UE`` are the vectors of distinct words, so that what depends on words alone is computed once a
        word; ``nn.functional.embedding(token_N, x_UE)`` are the vectors of all tokens.
        """


def register_view(name: str) -> Callable[[type[ViewEncoder]], type[ViewEncoder]]:
    """Decorate a class, which makes the encoder available as view ``name``, an identifier."""
    if not name.isidentifier():
        raise ValueError(f"view {name!r}: the name must be an identifier")

    def register(view: type[ViewEncoder]) -> type[ViewEncoder]:
        # The same class again is a notebook's cell or a module that runs once more.
        same = {(known.__module__, known.__qualname__) for known in (_views.get(name, view), view)}
        if len(same) > 1 or (name in _views and name in _BUILTIN):
            raise ValueError(f"view {name!r} is registered twice")
        view.name = name
        _views[name] = view
        return view

    return register


def fields_of(requires: Collection[str]) -> tuple[str, ...]:
    """Return the cache fields of annotations (the keys of ``FIELDS``); tokens are always included."""
    return tuple(name for need in FIELDS if need in {"tokens", *requires} for name in FIELDS[need])


def view_class(name: str) -> type[ViewEncoder]:
    """Return the encoder class of a view, of this package, of an installed one or of a plugin."""
    if name in _BUILTIN:
        import_module(f"multiview.encoders.{_BUILTIN[name]}")
    if name in _views:
        return _views[name]
    installed = _installed()
    if name in installed:
        try:
            return register_view(name)(installed[name].load())
        except (ImportError, AttributeError) as error:
            raise UserError(f"view {name!r}: cannot be imported ({error})") from None
    known = sorted({*_BUILTIN, *_views, *installed})
    raise UserError(
        f"view {name!r}: {did_you_mean(name, known)}choose one of {', '.join(known)}; a view of your own "
        "needs --plugin MODULE (in Python: import MODULE before)"
    )


def trained_views(views: Sequence[str]) -> list[str]:
    """Choose those of these views that have weights."""
    return [view for view in views if not view_class(view).weightless]


def tables_of(views: Sequence[str]) -> list[int]:
    """Number the word table that each view reads: its own, or the first where it has nothing to train."""
    own = [not view_class(view).weightless for view in views]
    return [sum(own[:place]) if trained else 0 for place, trained in enumerate(own)]


def plugins_of(views: Collection[str]) -> list[str]:
    """Return the modules of other packages that define these views, without those that entry points find."""
    own = {view for view in views if view not in _BUILTIN}
    return sorted({view_class(view).__module__ for view in own - (_installed().keys() if own else set())})


def _installed() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


class ViewStack(nn.Module):
    """Encoders and word vectors of all views; weights are drawn from torch's global generator.

    ``encoders`` are those of the first views, where there are some already.
    """

    def __init__(
        self,
        views: Sequence[str],
        words: WordTable,
        config: EncoderConfig,
        encoders: Sequence[ViewEncoder] = (),
    ) -> None:
        super().__init__()
        self.views = tuple(views)
        self.config = config
        drawn = [
            view_class(view)(words.dim, config.dim, config.engine, forget_bias=config.forget_bias)
            for view in views[len(encoders) :]
        ]
        for encoder in drawn:
            encoder.pooling = config.pooling
            if config.relations:
                encoder.use_relations()
        self.encoders = nn.ModuleList([*encoders, *drawn])
        self.words = words
        self.tables_of_views = tables_of(views)
        """Which of ``tables`` each view reads."""
        self.readout: Readout | None = None
        """From all views to one vector made for cosine, where one was fitted."""
        self.scale: Scale | None = None
        """Of all views' numbers over a text, for features; without, these are as they are."""

    @property
    def encoder_list(self) -> list[ViewEncoder]:
        """List the encoders in the order of the views."""
        return list(self.encoders)  # type: ignore[arg-type]

    @property
    def tables(self) -> nn.ParameterList:
        """Gives the trained word tables [W, E], one per trained view; none with fixed vectors."""
        return self.words.tables

    @property
    def dim(self) -> int:
        """Gives the size of all views' vectors side by side."""
        return sum(self.widths)

    @property
    def widths(self) -> list[int]:
        """Gives the size of each view's vectors."""
        return [encoder.width for encoder in self.encoder_list]

    @torch.no_grad()
    def scale_and_equalise(self) -> None:
        """Make new trees weighted bags of words, alike in all views, if the configuration says so.

        The weights that act on children are scaled down, and the input weights of i, o, u are those of the
        first tree view: with different random projections the views would start at cosine 0.
        """
        if self.config.start != "bag":
            return
        weights = [dict(encoder.named_parameters()) for encoder in self.encoder_list]
        trees = [named for named in weights if "recurrent_weight" in named]
        for named in trees:
            named["recurrent_weight"].mul_(BAG_SCALE)
            named["input_weight"].copy_(trees[0]["input_weight"])

    def beside_words(self) -> ViewStack:
        """Return the same encoders and words, with the mean of the words as one more view."""
        return ViewStack([*self.views, BAG], self.words, self.config, self.encoder_list)

    def encode(self, tokens: Sequence[Tensor], plans: Sequence[Plan], rows: Sequence[Tensor]) -> list[Tensor]:
        """Return the sentence vectors [B, width] of each view.

        Each token's word among ``rows``, int64 [N], is given for each view, or once for all; word vectors
        [U, E] for each table, or once (fixed vectors).
        """
        return [
            encoder(rows[table % len(rows)], plan, tokens[position % len(tokens)])
            for position, (encoder, table, plan) in enumerate(
                zip(self.encoders, self.tables_of_views, plans, strict=True)
            )
        ]

    def inputs(
        self, positions: Sequence[int], types: list[str], token: NDArray[np.int64]
    ) -> Iterator[tuple[ViewEncoder, Tensor, Tensor]]:
        """Yield the encoders of some views, each with the vectors [U, E] of ``types``, and ``token``, [N]."""
        table_rows = self.words.vocabulary.lookup(types)
        encoders = self.encoder_list
        for position in positions:
            rows_UE = self.words.rows(self.tables_of_views[position], table_rows)
            yield encoders[position], rows_UE, torch.from_numpy(token).to(rows_UE.device)

    def vectors(self, batch: Batch, positions: Sequence[int] | None = None) -> Tensor:
        """Return the vectors [B, D] of parsed sentences, the views one after the other."""
        chosen = range(len(self.views)) if positions is None else positions
        read = self.inputs(chosen, *batch.distinct_words())
        parts = [encoder(x_UE, encoder.plan(batch), token_N) for encoder, x_UE, token_N in read]
        return torch.cat(parts, dim=1).float()

    @torch.no_grad()
    def measure(self, batches: Iterable[Batch], origin: str) -> None:
        """Take mean and deviation of each number from parsed sentences; what is left out stays out."""
        self.scale = Scale.measured(map(self.vectors, batches), origin, like=self.scale)

    def scale_of(self, positions: Sequence[int]) -> Scale:
        """Return the scale of some views' numbers, where there is one."""
        assert self.scale is not None
        numbers = torch.arange(self.dim).split(self.widths)
        chosen = torch.cat([numbers[position] for position in positions])
        return Scale(self.scale.mean.cpu()[chosen], self.scale.deviation.cpu()[chosen])

    def weights(self) -> dict[str, Tensor]:
        """Return the weights that a model folder keeps: encoders, words, read-out and scale, on the CPU."""
        weights = {}
        for name, value in self.state_dict().items():
            if name.startswith(("encoders.", "words.", "readout.", "scale.")):
                # A network that computes in half precision is stored in float32 as well.
                weights[name] = (value.float() if value.is_floating_point() else value).cpu().contiguous()
        return weights
