"""research/attention_decode.py, traced, and attention_decode_registers.py, simulated: right, without a race, and twice the same."""

import pytest
import torch

from research import attention_decode, attention_decode_registers
from tritontrace.hopper.simulation import EveryOrder
from tritontrace.testing import as_on_a_gpu, assert_launches_at_most, assert_no_faults
from tritontrace.tracing import opened, trace


def right(q, k, v):
    """Attention of one text: q (Hq, D), k and v (Hkv, n, D)."""
    k, v = (x.double().repeat_interleave(q.shape[0] // k.shape[0], 0) for x in (k, v))
    return ((q.double()[:, None] @ k.mT * q.shape[1] ** -0.5).softmax(-1) @ v)[:, 0]


def padded(x, lengths, page):
    """The keys of (B, Hkv, n, D) as whole pages hold them; NaN where no key lies."""
    B, H, n, D = x.shape
    whole = torch.full((B, H, -(-n // page) * page, D), torch.nan, dtype=x.dtype)
    for b, length in enumerate(lengths.tolist()):
        whole[b, :, :length] = x[b, :, :length]
    return whole


def paged(k, v, lengths, page):
    """(k, v, table): as they are and None, or in pages."""
    if not page:
        return k, v, None
    order = torch.randperm(k.shape[0] * -(-k.shape[2] // page), generator=torch.Generator().manual_seed(1))
    k, v = (attention_decode.in_pages(padded(x, lengths, page), page, order) for x in (k, v))
    return k, v, order.int().view(len(lengths), -1)


@pytest.mark.parametrize("page", [0, 16, 8])
@pytest.mark.parametrize("splits", [1, 3, 20])
@pytest.mark.parametrize("group", [1, 4])
def test_the_last_share_merges(page, splits, group):
    g = torch.Generator().manual_seed(splits)
    B, H, n, D = 2, 2, 200, 32
    lengths = torch.tensor([200, 37], dtype=torch.int32)
    q = torch.randn(B, H * group, D, generator=g)
    k, v = (torch.randn(B, H, n, D, generator=g) for _ in range(2))
    given_k, given_v, table = paged(k, v, lengths, page)
    for _ in range(2):
        with trace() as t:
            o = attention_decode.launch(q, given_k, given_v, lengths, table, splits)
        assert_no_faults(t)
        assert_launches_at_most(t, 1)
        for b, length in enumerate(lengths.tolist()):
            assert torch.allclose(o[b].double(), right(q[b], k[b, :, :length], v[b, :, :length]), atol=1e-5)


def test_one_length_for_all_texts():
    q, k, v = torch.randn(2, 4, 32), torch.randn(2, 2, 200, 32), torch.randn(2, 2, 200, 32)
    with trace() as t:
        o = attention_decode.launch(q, k, v, 150, splits=3)
    assert_no_faults(t)
    assert torch.allclose(o[1].double(), right(q[1], k[1, :, :150], v[1, :, :150]), atol=1e-5)


@pytest.mark.parametrize(
    "page, splits, group, D, dtype",
    [
        (0, 1, 1, 64, torch.float16),
        (16, 3, 4, 128, torch.bfloat16),
        (32, 20, 5, 64, torch.float16),
        (48, 3, 8, 128, torch.float16),
    ],
)
def test_warps_states_and_shares_make_the_token(page, splits, group, D, dtype):
    g = torch.Generator().manual_seed(splits)
    lengths = torch.tensor([300, 37], dtype=torch.int32)
    q = 4 * torch.randn(2, 2 * group, D, generator=g).to(dtype)
    k, v = (torch.randn(2, 2, 300, D, generator=g).to(dtype) for _ in range(2))
    given = paged(k, v, lengths, page)
    for shares in (splits, splits, 2):  # what the states of more shares leave behind is not merged
        with as_on_a_gpu(), opened(EveryOrder(["lazy"])) as t:
            o = attention_decode_registers.launch(q, *given[:2], lengths, given[2], shares)
        assert_no_faults(t)
        for b, length in enumerate(lengths.tolist()):
            off = (o[b].double() - right(q[b], k[b, :, :length], v[b, :, :length])).abs().max()
            assert off < (2**-5 if dtype == torch.bfloat16 else 2**-8)


def test_what_the_registers_have_no_room_for():
    q, k = torch.randn(1, 32, 64).half(), torch.randn(1, 2, 64, 64).half()
    for args in [(q, k), (q[:, :4].float(), k.float()), (q[:, :4, :32], k[..., :32])]:
        with pytest.raises(ValueError, match="groups of up to 8 heads"):
            attention_decode_registers.launch(args[0], args[1], args[1], 64)
    with pytest.raises(ValueError, match="pages of 16"):
        attention_decode_registers.launch(q[:, :4], k[:, :, :8], k[:, :, :8], 64, torch.zeros(1, 8).int())
    with pytest.raises(ValueError, match="multiples of 16 bytes"):
        attention_decode_registers.launch(q[:, :4], *[torch.randn(1, 2, 64, 65).half()[..., :64]] * 2, 64)
