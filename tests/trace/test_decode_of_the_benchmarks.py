"""benchmarks/attention_decode.py, traced: right, without a race, each key read once, and again with the same counts."""

import pytest
import torch

from benchmarks import attention_decode
from course_lib.tracing import trace
from course_lib.tracing.assertions import assert_launches_at_most, assert_no_faults


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


@pytest.mark.parametrize("page", [0, 16, 8])
@pytest.mark.parametrize("splits", [1, 3, 20])
@pytest.mark.parametrize("group", [1, 4])
def test_the_last_share_merges(page, splits, group):
    g = torch.Generator().manual_seed(splits)
    B, H, n, D = 2, 2, 200, 32
    lengths = torch.tensor([200, 37], dtype=torch.int32)
    q = torch.randn(B, H * group, D, generator=g)
    k, v = (torch.randn(B, H, n, D, generator=g) for _ in range(2))
    table = None
    given_k, given_v = k, v
    if page:
        order = torch.randperm(B * -(-n // page), generator=torch.Generator().manual_seed(1))
        given_k, given_v = (attention_decode.in_pages(padded(x, lengths, page), page, order) for x in (k, v))
        table = order.int().view(B, -1)
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
