"""The product in Gluon, which only a Hopper GPU can run: right on any size and strides, where memory held NaN before."""

import pytest
import torch

from course_lib.exercises.tiling import EXERCISES
from research import matmul_persistent

HOPPER = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] == 9
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HOPPER, reason="it is written for sm_90")]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("a_t", [False, True])
@pytest.mark.parametrize("b_t", [False, True])
@pytest.mark.parametrize("size", [(128, 256, 64), (1, 1, 1), (2048, 1536, 512), (1000, 1001, 999), (333, 4097, 65)])
def test_the_product_is_right(size, a_t, b_t, dtype):
    M, N, K = size
    g = torch.Generator("cuda").manual_seed(M)
    a = torch.randn(*((K, M) if a_t else (M, K)), generator=g, device="cuda").to(dtype) * 30
    b = torch.randn(*((N, K) if b_t else (K, N)), generator=g, device="cuda").to(dtype) / 30
    a, b = a.T if a_t else a, b.T if b_t else b
    torch.full((1 << 25,), torch.nan, device="cuda")  # freed at once: what is not stored shows
    got, right = matmul_persistent.product(a, b), a.double() @ b.double()
    assert got.is_contiguous() and got.shape == (M, N)
    assert ((got.double() - right).abs() <= EXERCISES["tiling.matmul"].budget(right, dtype, {"a": a, "b": b})).all()


@pytest.mark.parametrize("left", [1, 2, 7, 66, 67, 131])
@pytest.mark.parametrize("K", [2047, 2048, 4099])
def test_a_product_with_a_last_round_is_right_and_the_same_twice(left, K):
    """left: tiles of the last round, which are shared if they are at most half as many as programs."""
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    M, N = 128 * (programs + left) - 5, 256
    g = torch.Generator("cuda").manual_seed(left)
    a, b = (torch.randn(*shape, generator=g, device="cuda").bfloat16() for shape in ((M, K), (K, N)))
    torch.full((1 << 25,), torch.nan, device="cuda")
    got, right = matmul_persistent.product(a, b), a.double() @ b.double()
    budget = EXERCISES["tiling.matmul"].budget(right, torch.bfloat16, {"a": a, "b": b})
    assert ((got.double() - right).abs() <= budget).all()
    for _ in range(5):
        assert torch.equal(got, matmul_persistent.product(a, b))


@pytest.mark.parametrize("K", [1, 63, 64, 65, 128, 129, 192, 193, 256])
def test_products_of_few_steps_are_right(K):
    """Products of few steps: a tile is stored beneath the second and the third step of the next one, so there are three at least."""
    programs = torch.cuda.get_device_properties(0).multi_processor_count
    M, N = 128 * (3 * programs + 70) - 5, 256 + 8
    g = torch.Generator("cuda").manual_seed(K)
    a, b = (torch.randn(*shape, generator=g, device="cuda").bfloat16() for shape in ((M, K), (K, N)))
    torch.full((1 << 26,), torch.nan, device="cuda")
    got, right = matmul_persistent.product(a, b), a.double() @ b.double()
    assert (
        (got.double() - right).abs() <= EXERCISES["tiling.matmul"].budget(right, torch.bfloat16, {"a": a, "b": b})
    ).all()


@pytest.mark.parametrize("size", [(128, 256, 128), (16, 16, 16), (2048, 1536, 512), (1000, 1008, 992)])
def test_the_product_of_8_bits_is_right(size):
    M, N, K = size
    g = torch.Generator("cuda").manual_seed(M)
    a = torch.randn(M, K, generator=g, device="cuda").to(torch.float8_e4m3fn)
    b = torch.randn(N, K, generator=g, device="cuda").to(torch.float8_e4m3fn).T
    a_scales, b_scales = (torch.randn(n, generator=g, device="cuda").exp() for n in (M, N))
    torch.full((1 << 25,), torch.nan, device="cuda")
    got, right = matmul_persistent.scaled_product(a, b, a_scales, b_scales).double(), a.double() @ b.double()
    scale = (a.double().norm(dim=1)[:, None] * b.double().norm(dim=0) * 2**-10).clamp(min=1e-30)  # sums of 14 bits
    off = got / a_scales[:, None].double() / b_scales.double() - right
    assert (off.abs() <= scale + 2**-8 * right.abs()).all()


@pytest.mark.parametrize("shape", [(1, 1), (5, 9), (4097, 4097), (33, 4096)])
def test_a_copy_is_the_matrix(shape):
    x = torch.randn(*shape, device="cuda").bfloat16()
    for y in (x, x.T, x[:, ::2]):
        found = matmul_persistent.aligned_copy(y)
        assert matmul_persistent.aligned(found) and torch.equal(found, y)
