"""Trees of many shapes, and the values and gradients of an engine and of the recursive equations on them."""

from types import SimpleNamespace

import torch
from torch import Tensor

from multiview.encoders.registry import ViewEncoder, view_class
from tests.multiview.engines.trees import batch_of, chain_children, random_batch
from tests.oracles.tree_lstm import outputs_and_gradients, reference

WORD_DIM, HIDDEN = 5, 6
TREE_VIEWS = ("dep", "const")
CHAIN = [0, 1, 2, 3, 4, 5, 6]
STAR = [4, 4, 4, 0, 4, 4, 4]
SHAPES = {
    "single word": batch_of([[0]], [[]]),
    "single words": batch_of([[0], [0], [0]], [[], [], []]),
    "chain": batch_of([CHAIN], [chain_children(7)]),
    "star": batch_of([STAR], [chain_children(7)]),
    "mixed": batch_of([[0], CHAIN, [2, 0], STAR], [[], chain_children(7), [(0, 1)], chain_children(7)]),
    "120 words": random_batch([120], seed=3),
    "120-word chain": batch_of([list(range(120))], [chain_children(120)]),
    "random": random_batch([3, 1, 9, 14, 2, 1, 6], seed=4),
    **{f"random {seed}": random_batch([1, 4, 12, 7, 1, 2], seed=seed) for seed in range(5)},
}


def build(view: str, engine: str, dtype: torch.dtype = torch.float64, hidden: int = HIDDEN) -> ViewEncoder:
    """An encoder with random biases too, equal for every engine."""
    torch.manual_seed(7)
    encoder = view_class(view)(WORD_DIM, hidden, engine)
    for parameter in encoder.parameters():
        if parameter.dim() == 1:
            torch.nn.init.normal_(parameter, std=0.3)
    return encoder.to(dtype)


def words(batch: SimpleNamespace, dtype: torch.dtype = torch.float64) -> Tensor:
    count = int(batch.sentence_offsets[-1])
    return torch.randn(count, WORD_DIM, generator=torch.Generator().manual_seed(1), dtype=dtype)


def run(encoder: ViewEncoder, x: Tensor, batch: SimpleNamespace) -> list[Tensor]:
    plan = encoder.plan(batch)

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        token = torch.arange(len(x))
        h = encoder.forward_nodes(x, plan, token)
        return encoder(x, plan, token), h

    return outputs_and_gradients(encoder, x, both)


def expected(encoder: ViewEncoder, x: Tensor, batch: SimpleNamespace) -> list[Tensor]:
    return outputs_and_gradients(encoder, x, lambda x: reference(encoder, x, batch))


def assert_close(results: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    for a, b in zip(results, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance)
