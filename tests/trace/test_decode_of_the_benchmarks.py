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


def in_pages(x, lengths, page, g):
    """(pages, table): the keys of (B, Hkv, n, D) in pages in any order; NaN where no key lies."""
    B, H, n, D = x.shape
    per_text = -(-n // page)
    padded = torch.full((B, H, per_text * page, D), torch.nan, dtype=x.dtype)
    for b, length in enumerate(lengths.tolist()):
        padded[b, :, :length] = x[b, :, :length]
    pages = padded.view(B, H, per_text, page, D).transpose(1, 2).reshape(B * per_text, H, page, D)
    order = torch.randperm(len(pages), generator=g)
    shuffled = torch.empty_like(pages)
    shuffled[order] = pages
    return shuffled, order.int().view(B, per_text)


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
        (given_k, table), (given_v, _) = (in_pages(x, lengths, page, torch.Generator().manual_seed(1)) for x in (k, v))
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
