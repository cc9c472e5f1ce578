"""Every engine equals the recursive equations, values and gradients, whatever the shape of the trees."""

import doctest
from importlib.util import find_spec
from types import MethodType, SimpleNamespace
from typing import get_args

import numpy as np
import pytest
import torch
from torch import Tensor

from multiview.encoders.registry import view_class
from multiview.engines import plan
from multiview.engines.plan import plan_const, plan_dep
from multiview.model_config import Pooling
from parsing.trees.batch import Batch
from tests.multiview.engines.equations import (
    SHAPES,
    TREE_VIEWS,
    WORD_DIM,
    assert_close,
    build,
    expected,
    run,
    words,
)
from tests.multiview.engines.trees import batch_of
from tests.oracles.tree_lstm import outputs_and_gradients, reference

VIEWS = ("seq", *TREE_VIEWS)
NO_DGL = pytest.mark.skipif(find_spec("dgl") is None, reason="needs dgl, which stops at Python 3.11")
ENGINES = ("native", pytest.param("dgl", marks=NO_DGL))


def test_numbers_in_a_batch_are_those_of_the_example() -> None:
    assert doctest.testmod(plan) == (0, 1)


@pytest.mark.parametrize("shape", [*SHAPES, "zero vectors"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("view", VIEWS)
def test_engines_equal_the_equations(view: str, engine: str, shape: str) -> None:
    encoder, batch = build(view, engine), SHAPES.get(shape, SHAPES["random"])
    x = words(batch) * (shape != "zero vectors")
    if shape == "zero vectors":
        for parameter in encoder.parameters():
            parameter.data *= parameter.dim() > 1
    assert_close(run(encoder, x, batch), expected(encoder, x, batch), 1e-9)


def with_relations(batch: SimpleNamespace) -> SimpleNamespace:
    """The same trees with random relations and words."""
    tokens, random = int(batch.sentence_offsets[-1]), np.random.default_rng(2)
    relations, types = ("root", "nsubj", "obj", "obl", "case", "conj", "_"), ["by", "to", "Ann", "saw"]
    relation, token = (random.integers(len(names), size=tokens) for names in (relations, types))
    batch = SimpleNamespace(**vars(batch), relation=relation, relations=relations, token=token, types=types)
    batch.distinct_words = MethodType(Batch.distinct_words, batch)
    return batch


@pytest.mark.parametrize("shape", ["single words", "star", "mixed", "random"])
@pytest.mark.parametrize("engine", ENGINES)
def test_roles_of_children_enter_as_in_the_equations(engine: str, shape: str) -> None:
    encoder, batch = build("dep", engine), with_relations(SHAPES[shape])
    without = run(encoder, words(batch), batch)[0]
    encoder.use_relations()
    encoder.double()
    results = run(encoder, words(batch), batch)
    assert_close(results, expected(encoder, words(batch), batch), 1e-9)
    assert (shape == "single words") == torch.equal(results[0], without)


def pools(root: Tensor, nodes: Tensor, sizes: list[int], pooling: Pooling) -> Tensor:
    """The recursive states, pooled sentence by sentence."""
    parts = nodes.split(sizes)
    mean = torch.stack([part.sum(dim=0) / len(part) for part in parts])
    pool_of_name = {
        "root": root,
        "mean": mean,
        "max": torch.stack([part.max(dim=0).values for part in parts]),
    }
    if pooling == "root+mean":
        return root + mean
    names = pooling.split(",")
    return torch.cat([pool_of_name[name] / len(names) for name in names], dim=1)


@pytest.mark.parametrize("pooling", get_args(Pooling))
@pytest.mark.parametrize("distinct", [5, 60])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("view", VIEWS)
def test_pools_of_words_that_occur_more_than_once(view, engine: str, distinct: int, pooling: Pooling) -> None:
    """Values and gradients of the words themselves; of 60 words most are not in the batch."""
    encoder, batch = build(view, engine), SHAPES["random"]
    encoder.pooling = pooling
    random = torch.Generator().manual_seed(5)
    token = torch.randint(distinct, (int(batch.sentence_offsets[-1]),), generator=random)
    x = torch.randn(distinct, WORD_DIM, generator=random, dtype=torch.float64)
    plan = encoder.plan(batch)
    lengths = np.diff(batch.sentence_offsets)
    sizes = (2 * lengths - 1 if view == "const" else lengths).tolist()

    def by_word(x: Tensor) -> tuple[Tensor, Tensor]:
        return encoder(x, plan, token), encoder.forward_nodes(x, plan, token)

    def by_token(x: Tensor) -> tuple[Tensor, Tensor]:
        root, nodes = reference(encoder, x[token], batch)
        return pools(root, nodes, sizes, pooling), nodes

    results = outputs_and_gradients(encoder, x, by_word)
    assert_close(results, outputs_and_gradients(encoder, x, by_token), 1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("view", VIEWS)
def test_encoding_without_gradients_equals_the_equations(view: str, shape: str) -> None:
    """The sequence view then computes the inputs once a word, in a loop of its own."""
    encoder, batch = build(view, "native"), SHAPES[shape]
    encoder.pooling = "root,mean,max"
    count = int(batch.sentence_offsets[-1])
    token = torch.randint(3, (count,), generator=torch.Generator().manual_seed(count))
    x = torch.randn(3, WORD_DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.inference_mode():
        plan = encoder.plan(batch)
        states = [encoder(x, plan, token), encoder.forward_nodes(x, plan, token)]
    root, nodes = reference(encoder, x[token], batch)
    lengths = np.diff(batch.sentence_offsets)
    sizes = (2 * lengths - 1 if view == "const" else lengths).tolist()
    assert_close(states, [pools(root, nodes, sizes, encoder.pooling), nodes], 1e-9)


@pytest.mark.parametrize("shape", ["random", "star", "single words"])
@pytest.mark.parametrize("view", TREE_VIEWS)
def test_float32_follows_the_equations(view: str, shape: str) -> None:
    """What trains: the compiled kernels have tanh and σ of their own in float32."""
    batch = SHAPES[shape]
    single, double = (build(view, "native", dtype) for dtype in (torch.float32, torch.float64))
    double.load_state_dict(single.state_dict())
    results = run(single, words(batch).float(), batch)
    expected_results = expected(double, words(batch).float().double(), batch)
    assert_close([value.double() for value in results], expected_results, 5e-5)


@pytest.mark.parametrize("view", VIEWS)
def test_every_gate_matrix_has_its_own_xavier_bounds(view: str) -> None:
    torch.manual_seed(0)
    encoder = view_class(view)(40, 80)
    width = 40 if view == "seq" else 80
    for name, parameter in encoder.named_parameters():
        if parameter.dim() == 1:
            assert not parameter.any()
            continue
        columns = width if parameter.shape[1] % width == 0 else 40
        bound = (6 / (width + columns)) ** 0.5
        for rows in parameter.split(width):
            for block in rows.split(columns, 1):
                assert 0.95 * bound < block.abs().max() <= bound, name


@pytest.mark.parametrize(
    ("field", "index", "value"),
    [
        *(("left", 1, 0), ("const_height", 2, 1), ("right", 0, 9), ("const_height", 0, 0)),
        *(("head", 3, 0), ("head", 1, 2), ("head", 2, 9), ("head", 2, -1), ("dep_height", 1, 1)),
    ],
)
def test_what_is_no_tree_is_refused(field: str, index: int, value: int) -> None:
    batch = batch_of([[0], [0, 1, 2, 3]], [[], [(0, 1), (4, 2), (5, 3)]])
    getattr(batch, field)[index] = value
    with pytest.raises(ValueError, match=r"sentence 1 of the batch: .* are no (binary )?tree"):
        plan_const(batch)
        plan_dep(batch)


@pytest.mark.parametrize("view", TREE_VIEWS)
def test_bf16_autocast_keeps_float32_states_and_gradients(view: str) -> None:
    encoder, batch = build(view, "native", torch.float32, 16), SHAPES["random"]
    plan, x = encoder.plan(batch), words(batch, torch.float32).requires_grad_()
    token = torch.arange(len(x))
    exact = encoder(x, plan, token)
    (exact_gradient,) = torch.autograd.grad(exact.square().sum(), x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = encoder(x, plan, token)
        (rough_gradient,) = torch.autograd.grad(rough.square().sum(), x)
    assert rough.dtype == rough_gradient.dtype == torch.float32
    assert 0 < (rough - exact).abs().max() < 0.03
    torch.testing.assert_close(rough_gradient, exact_gradient, rtol=0.1, atol=0.03)
