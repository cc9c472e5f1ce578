"""Each library's products against float64, and which library is chosen when."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from runtime import products
from runtime.errors import UserError
from runtime.products import (
    ONEDNN_ROWS,
    AutocastProducts,
    Int8Products,
    OneDnnProducts,
    Products,
    TorchProducts,
    products_for,
    products_in,
    sum_by_word,
)

TOLERANCE = {TorchProducts: 1e-5, OneDnnProducts: 1e-5, AutocastProducts: 0.3, Int8Products: 1.0}
SIZES = [(1, 5, 3), (ONEDNN_ROWS - 1, 64, 20), (ONEDNN_ROWS, 64, 20), (600, 50, 7), (0, 6, 4)]


@pytest.fixture(params=TOLERANCE, ids=lambda kind: kind.__name__)
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Products]:
    """Products of each class; oneDNN's have blocks of 256 rows."""
    monkeypatch.setattr(products, "BLOCK_BYTES", 1)
    if request.param is OneDnnProducts and not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        pytest.skip("torch without oneDNN")
    arguments = [torch.bfloat16] if request.param is AutocastProducts else []
    with torch.inference_mode():
        yield request.param(*arguments)


def close(result: Tensor, expected: Tensor, backend: Products) -> None:
    assert result.dtype == torch.float32 and result.shape == expected.shape
    torch.testing.assert_close(result.double(), expected, rtol=0, atol=TOLERANCE[type(backend)])


@pytest.mark.parametrize(("n", "k", "m"), SIZES)
def test_products_are_those_of_float64(backend: Products, n: int, k: int, m: int) -> None:
    a, weight, bias = torch.randn(n, k), torch.randn(m, k), torch.randn(m)
    factor, expected = backend.factor(weight), a.double() @ weight.double().t()
    close(backend.mm(a, factor, torch.empty(n, m)), expected, backend)
    close(backend.addmm(a, factor, torch.ones(n, m)), expected + 1, backend)
    close(backend.new_mm(a, factor), expected, backend)
    if n:
        close(backend.linear(a[:, None], weight, bias), (expected + bias)[:, None], backend)
        token, out = torch.randint(0, n, (2 * n,)), torch.empty(2 * n, m)
        backend.multiply_words(a, token, weight, torch.empty(n, m), out)
        close(out, expected[token], backend)


@pytest.mark.parametrize(("n", "k", "m"), SIZES)
def test_the_gradient_of_a_weight_is_the_sum_over_rows(backend: Products, n: int, k: int, m: int) -> None:
    if isinstance(backend, TorchProducts):
        rows, inputs = torch.randn(n, m), torch.randn(n, k)
        expected = rows.double().t() @ inputs.double()
        torch.testing.assert_close(backend.gradient(rows, inputs).double(), expected, rtol=0.03, atol=0.5)


def test_gradients_of_tokens_are_summed_by_word() -> None:
    gradient, token = torch.randn(9, 4), torch.tensor([0, 2, 2, 0, 3, 3, 3, 0, 2])
    expected = torch.stack([gradient[token == word].sum(0) for word in range(5)])
    torch.testing.assert_close(sum_by_word(gradient, token, 5), expected)


@pytest.mark.parametrize("has_avx512", [False, True])
def test_the_choice_follows_processor_type_and_mode(monkeypatch, has_avx512: bool) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512" if has_avx512 else "AVX2")
    monkeypatch.setattr(products, "_onednn_is_faster", products._onednn_is_faster.__wrapped__)
    x, plain = torch.randn(3, 64), OneDnnProducts if has_avx512 else TorchProducts
    assert type(products_for(x)) is plain and type(products_for(x.double())) is TorchProducts
    assert type(products_for(x.to("meta"))) is TorchProducts
    with torch.autocast("cpu", torch.bfloat16):
        chosen = products_for(x)
        assert isinstance(chosen, AutocastProducts) and chosen.dtype == torch.bfloat16
        assert type(products_for(x.double())) is TorchProducts
    with products_in("int8"):
        assert type(products_for(x)) is plain
        with torch.inference_mode():
            assert type(products_for(x)) is Int8Products and type(products_for(x.double())) is TorchProducts
            with products_in("float32"):
                assert type(products_for(x)) is plain
    with torch.inference_mode():
        assert type(products_for(x)) is plain
    with pytest.raises(UserError, match=r"^products='int4': must be int8 or float32$"), products_in("int4"):
        pass
