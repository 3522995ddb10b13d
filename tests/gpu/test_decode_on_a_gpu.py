"""The decode kernels: right for any group, lengths and pages, where memory held NaN before, and with the same bits each time."""

import pytest
import torch

from research import attention_decode, attention_decode_registers

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="it needs a GPU")]


IN_TILES, IN_REGISTERS = attention_decode.launch, attention_decode_registers.launch
SHAPES = [
    (IN_TILES, 64, torch.float16),
    (IN_TILES, 128, torch.bfloat16),
    (IN_TILES, 128, torch.float32),
    (IN_REGISTERS, 64, torch.float16),
    (IN_REGISTERS, 128, torch.bfloat16),
]


@pytest.mark.parametrize("page", [0, 16, 64])
@pytest.mark.parametrize("group", [1, 4, 5])
@pytest.mark.parametrize("launch, d, dtype", SHAPES)
def test_the_token_is_right(launch, d, dtype, group, page):
    H, n, lengths = 3, 4096, torch.tensor([1, 63, 1000, 4096], dtype=torch.int32, device="cuda")
    g = torch.Generator("cuda").manual_seed(group)
    q = torch.randn(4, H * group, d, generator=g, device="cuda").to(dtype) * 4
    k, v = (torch.randn(4, H, n, d, generator=g, device="cuda").to(dtype) for _ in range(2))
    given, table = (k, v), None
    if page:
        order = torch.randperm(4 * n // page, generator=g, device="cuda")
        behind = torch.arange(n, device="cuda") >= lengths[:, None]  # no key lies there
        given = [x.masked_fill(behind[:, None, :, None], torch.nan) for x in (k, v)]
        given, table = [attention_decode.in_pages(x, page, order) for x in given], order.int().view(4, -1)
    for splits in (None, 1, 7, 100):
        torch.full((1 << 26,), torch.nan, device="cuda")  # freed at once: what is not stored shows
        o, again = (launch(q, *given, lengths, table, splits) for _ in range(2))
        assert torch.equal(o, again)
        for b, length in enumerate(lengths.tolist()):
            keys, values = (x[b, :, :length].double().repeat_interleave(group, 0) for x in (k, v))
            right = ((q[b].double()[:, None] @ keys.mT * d**-0.5).softmax(-1) @ values)[:, 0]
            most = 2.0**-5 if dtype == torch.bfloat16 else 2.0**-8 if dtype == torch.float16 else 2.0**-16
            assert (o[b].double() - right).abs().max() < most


@pytest.mark.parametrize("launch", [IN_TILES, IN_REGISTERS])
def test_one_length_for_all_texts(launch):
    q = torch.randn(4, 12, 128, device="cuda").bfloat16()
    k, v = (torch.randn(4, 3, 1024, 128, device="cuda").bfloat16() for _ in range(2))
    lengths = torch.full((4,), 1000, dtype=torch.int32, device="cuda")
    assert torch.equal(launch(q, k, v, 1000), launch(q, k, v, lengths))
    with pytest.raises(ValueError, match="lie alike"):
        launch(q, k, v.mT.contiguous().mT, 1000)


@pytest.mark.parametrize("scale", [1e4, 1e-4])
def test_extreme_scores_are_no_nan(scale):
    g = torch.Generator("cuda").manual_seed(0)
    q = scale * torch.randn(1, 8, 128, generator=g, device="cuda").bfloat16()
    k, v = (torch.randn(1, 2, 1000, 128, generator=g, device="cuda").bfloat16() for _ in range(2))
    right = ((q[0].double()[:, None] @ k[0].double().repeat_interleave(4, 0).mT * 128**-0.5).softmax(-1)) @ v[
        0
    ].double().repeat_interleave(4, 0)
    assert (IN_REGISTERS(q, k, v, 1000)[0].double() - right[:, 0]).abs().max() < 2**-5
