"""Every registered view, alone and beside others: it trains, is saved and loaded, and encodes the same."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from multiview.encoders import registry
from multiview.encoders.registry import ViewEncoder, table_indices, view_class
from multiview.encoders.weightless import WeightlessView
from multiview.engines.plan import Plan, plan_words
from multiview.model import MultiViewEncoder
from multiview.train import main, open_trainer
from multiview.training.data import open_trees
from runtime.errors import UserError
from tests.fixtures.models import load
from tests.fixtures.trees import TINY, changed

OWN = ("shout", "length")
VIEWS = ("seq", "dep", "const", "bag", "spelling", "roles", "order", *OWN)
TRAINED = ("seq", "dep", "const", "shout")


def plan_of_words(view: ViewEncoder, batch) -> Plan:
    """Reads the words as they are written, as a view of another package may."""
    assert batch.types is not None and len(batch.types) > int(batch.token.max())
    return plan_words(batch)


class Length(WeightlessView):
    """The number of words and its logarithm."""

    plan = plan_of_words

    @property
    def width(self) -> int:
        return 2

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        lengths = plan.to(x_UE.device).tensor("node_offsets").diff().float()[:, None]
        return torch.cat([lengths, lengths.log1p()], dim=1), x_UE[token_N][:, :2]


class Shout(ViewEncoder):
    """The mean of words through a layer."""

    requires = frozenset({"tokens"})
    plan = plan_of_words

    def __init__(self, word_dim: int, dim: int, engine: str = "native", *, forget_bias: float = 0) -> None:
        super().__init__(word_dim, dim, engine, forget_bias=forget_bias)
        self.layer = nn.Linear(word_dim, dim)

    def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
        words_ND = nn.functional.embedding(token_N, torch.tanh(self.layer(x_UE)))
        offsets = plan.tensor("node_offsets")
        return torch.segment_reduce(words_ND, "mean", offsets=offsets), words_ND


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two views of another package."""
    for view in (Length, Shout):
        view.name = view.__name__.lower()
        monkeypatch.setitem(registry._class_of_view, view.name, view)


def test_these_are_all_views_and_each_knows_its_table() -> None:
    assert {*VIEWS} == {*registry._MODULE_OF_VIEW, *OWN}
    assert [view for view in VIEWS if not view_class(view).weightless] == [*TRAINED]
    assert table_indices(["roles", "seq", "bag", "bag", "dep", "const"]) == [0, 0, 0, 0, 1, 2]


@pytest.mark.parametrize("views", [*VIEWS, ",".join(VIEWS), "roles,seq,bag,dep", "bag,order,seq,seq"])
def test_an_untrained_view_is_saved_and_encodes_the_same(views: str, toy_trees: Path, tmp_path: Path) -> None:
    encoder = MultiViewEncoder.untrained(views, dim=4, word_dim=6, seed=3, device="cpu")
    cache = open_trees(toy_trees)
    vectors = encoder.encode(None, trees=cache)
    encoder.save(tmp_path / "m")
    loaded = MultiViewEncoder.load(tmp_path / "m", "cpu")
    np.testing.assert_array_equal(loaded.encode(None, trees=cache), vectors)
    assert loaded.views == views.split(",")
    place = 0
    network = loaded.network
    for position, (view, width) in enumerate(zip(loaded.views, network.widths, strict=True)):
        part = loaded.view_vectors(None, [f"{position}-{view}"], trees=cache)
        np.testing.assert_allclose(part, vectors[:, place : place + width], atol=1e-6)
        place += width
    assert len(network.words.tables) == max(1, sum(view in TRAINED for view in loaded.views))


@pytest.mark.parametrize("words", ["trained", "fixed"])
@pytest.mark.parametrize(
    "views",
    [
        *("seq,dep", "const,const", "shout,dep", "seq,dep,roles"),
        ",".join(("const", "seq", *(view for view in VIEWS if view not in TRAINED), "bag")),
    ],
)
def test_a_view_encodes_what_it_was_trained_as(views, words, toy_trees, tmp_path, toy_glove: Path) -> None:
    """What a step encodes of a sentence is what the saved model gives of it."""
    config = changed(
        TINY,
        trees=toy_trees,
        output=tmp_path,
        name="m",
        views=views,
        words=words,
        vectors=toy_glove.name if words == "fixed" else "none",
        loop={"max_steps": 2, "validation": 0, "micro_batch": 7},
    )
    assert main(config) == 0
    encoder, cache = load(tmp_path / "m"), open_trees(toy_trees)
    trainer = open_trainer(config)
    trainer.network.load_state_dict(
        {**trainer.network.state_dict(), **encoder.network.weights()}, strict=True
    )
    span = (100, 120)
    step = trainer.program.text.source.prepare([span])
    (segment,) = step.segments
    with torch.no_grad():
        leaves = step.leaves(trainer.network.words)
        parts = [trainer.network.encode(batch.tokens, batch.plans, leaves) for batch in segment.micro_batches]
    features = torch.cat([torch.cat(list(view)) for view in zip(*parts, strict=True)], dim=1)
    np.testing.assert_allclose(encoder.encode(None, trees=cache)[slice(*span)], features, atol=1e-5)


def test_a_view_with_a_name_or_a_need_that_cannot_be_is_refused() -> None:
    class View(ViewEncoder):
        requires = frozenset({"nothing"})

    with pytest.raises(ValueError, match="'dep': this package has a view of that name"):
        registry.register_view("dep")(View)
    with pytest.raises(ValueError, match="'mine': requires 'nothing', not tokens, dep or const"):
        registry.register_view("mine")(View)


@pytest.mark.parametrize("weightless", [False, True])
def test_a_view_of_the_wrong_width_is_named(weightless: bool, toy_trees, tmp_path: Path, monkeypatch) -> None:
    class Wide(WeightlessView):
        name = "wide"

        def states(self, x_UE: Tensor, token_N: Tensor, plan: Plan) -> tuple[Tensor, Tensor]:
            return x_UE.new_zeros(plan.sentences, self.dim + 1), x_UE[token_N]

    Wide.weightless = weightless
    monkeypatch.setitem(registry._class_of_view, "wide", Wide)
    cache = open_trees(toy_trees)
    encoder = MultiViewEncoder.untrained("wide,seq", dim=4, word_dim=6, device="cpu")
    with pytest.raises(UserError, match=r"view 'wide': its states give \[\d+, 5\] in place of \[\d+, 4\]"):
        encoder.encode(None, trees=cache)
    monkeypatch.setattr(Wide, "width", property(lambda self: self.dim + 1))
    assert encoder.encode(None, trees=cache).shape[1] == 9
    config = changed(TINY, trees=toy_trees, output=tmp_path, name="m", views="seq,wide")
    if not weightless:
        with pytest.raises(
            UserError, match=r"view 'wide': has 9 numbers, and the views .* have 8; give views of one width"
        ):
            main(config)
