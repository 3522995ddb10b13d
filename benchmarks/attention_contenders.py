"""Contenders of the benchmarks of attention, and the clock that times them in turns.

A contender makes of (q, k, v, causal), or of (q, k, v, do, causal) for a backward pass, a function to time.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import attention_backward_overlapped
import attention_overlapped
import peers
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from grader.published import published
from tritontrace.profiling import bench

FA2, CUDNN, FA4, FA3 = "FlashAttention-2", "cuDNN", peers.FA4.name, peers.FA3.name
Work = Callable[[], Any]
BACKENDS = {FA2: SDPBackend.FLASH_ATTENTION, CUDNN: SDPBackend.CUDNN_ATTENTION, "naive": SDPBackend.MATH}


def torchs(name: str) -> Callable[..., Work]:
    """torch's attention through one of its backends."""

    def make(q, k, v, causal: bool) -> Work:
        def run() -> torch.Tensor:
            with sdpa_kernel(BACKENDS[name]):
                return scaled_dot_product_attention(q, k, v, is_causal=causal)

        return run

    return make


def flex(q, k, v, causal: bool) -> Work:
    """flex_attention, compiled for this shape."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    torch._dynamo.reset()
    compiled, mask = torch.compile(flex_attention, dynamic=False), None
    if causal:
        n = q.shape[-2]
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, n, n, device=q.device)
    return lambda: compiled(q, k, v, block_mask=mask)


def flash_4(q, k, v, causal: bool) -> Work:
    """FlashAttention-4 on the same memory; its axes are batch, length, heads, D."""
    from flash_attn.cute import flash_attn_func

    def run() -> torch.Tensor:
        out = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return run


def flash_3(q, k, v, causal: bool) -> Work:
    """FlashAttention-3 on the same memory, with the axes of FlashAttention-4."""
    from fa3_fwd_interface import flash_attn_func

    def run() -> torch.Tensor:
        out = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal)
        return (out[0] if isinstance(out, tuple) else out).transpose(1, 2)

    return run


def cudnn_front(q, k, v, causal: bool) -> Work:
    """cuDNN's attention as its own front end builds it; torch's backend may choose another of its engines."""
    import cudnn

    handle = cudnn.create_handle()
    graph = cudnn.pygraph(
        handle=handle,
        io_data_type=cudnn.data_type.BFLOAT16,
        intermediate_data_type=cudnn.data_type.FLOAT,
        compute_data_type=cudnn.data_type.FLOAT,
    )
    given, o = [graph.tensor_like(x) for x in (q, k, v)], torch.empty_like(q)
    names = dict(zip("qkv", given, strict=True))
    made, _ = graph.sdpa(**names, generate_stats=False, attn_scale=q.shape[-1] ** -0.5, use_causal_mask=causal)
    made.set_output(True).set_dim(list(o.shape)).set_stride(list(o.stride()))
    graph.build([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
    workspace = torch.empty(graph.get_workspace_size(), dtype=torch.uint8, device=q.device)
    memory = dict(zip(given, (q, k, v), strict=True)) | {made: o}

    def run() -> torch.Tensor:
        graph.execute(memory, workspace, handle=handle)
        return o

    return run


@cache
def solution(exercise_id: str) -> Callable:
    """The published solution of an exercise."""
    return published(exercise_id, on_the_cpu=False)


def own_both(q, k, v, causal: bool) -> Work:
    attention = solution("flash_backward.flash_attention")
    return lambda: attention.apply(q, k, v, causal)


def own_overlapped(q, k, v, do, causal: bool, deterministic: bool = False) -> Work:
    """The backward pass in Gluon, on what the forward pass in Gluon has left."""
    o, lse = attention_overlapped.launch(q, k, v, causal)
    return lambda: attention_backward_overlapped.launch(q, k, v, o, lse, do, causal, deterministic)


def backward_of(make: Callable[..., Work]) -> Callable[..., Work]:
    """The backward pass alone of what autograd can differentiate."""

    def made(q, k, v, do, causal: bool) -> Work:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        out = make(*leaves, causal)()
        return lambda: torch.autograd.grad(out, leaves, do, retain_graph=True)

    return made


PEERS: dict[str, Callable[..., Work]] = {
    FA2: torchs(FA2),
    CUDNN: torchs(CUDNN),
    FA4: flash_4,
    FA3: flash_3,
    peers.CUDNN_FRONT.name: cudnn_front,
    "flex_attention": flex,
    "naive": torchs("naive"),
}

INSTALLED = (peers.FA4, peers.FA3, peers.CUDNN_FRONT)  # those that are not torch's
FORWARD_ONLY = {peer.name for peer in (peers.FA3, peers.CUDNN_FRONT)}


def flops(q: torch.Tensor, causal: bool) -> float:
    """FLOPs of the two products of a forward pass; half of them if causal. A backward pass has 2.5 times as many."""
    *lead, n, d = q.shape
    return 4 * math.prod(lead) * n * n * d / (2 if causal else 1)


def in_turns(works: Mapping[str, Work], rounds: int = 9, budget_ms: float = 1200.0) -> dict[str, float]:
    """Milliseconds of each, the median of as many rounds as fit the budget; in each round every one has its turn.

    As in tritontrace.profiling.bench, memory is written before each turn: L2 is cold, and the host queues its launches meanwhile.
    """
    flush = torch.empty(bench.FLUSH_BYTES, dtype=torch.int8, device="cuda")
    times: dict[str, list[float]] = {name: [] for name in works}
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for work in works.values():
        work()
    spent, done = 0.0, 0
    while done < 3 or (done < rounds and spent < budget_ms):
        for name, work in works.items():
            torch.cuda.synchronize()
            for _ in range(bench.FLUSHES):
                flush.zero_()
            start.record()
            work()
            end.record()
            torch.cuda.synchronize()
            times[name].append(start.elapsed_time(end))
            spent += times[name][-1]
        done += 1
    return {name: statistics.median(found) for name, found in times.items()}
