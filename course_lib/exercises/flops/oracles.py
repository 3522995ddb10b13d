"""Oracles of unit 03: results that are counted, played through, or known by a property."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.catalogue import say
from course_lib.words import in_words
from tritontrace.tracing import Mode

# ------------------------------------------------------------------------------------------------ oracles


def counted(fn: Callable[[], object]) -> int:
    """Count the FLOPs of matrix products in fn(), as torch's counter has them."""
    with FlopCounterMode(display=False) as counter:
        fn()
    return counter.get_total_flops()


def meta(*shape: int, grad: bool = False) -> torch.Tensor:
    """Make a tensor without data, on the meta device."""
    return torch.empty(shape, device="meta", requires_grad=grad)


class CountElements(Mode):
    """Dispatch mode that counts the elements that operations take in and give out: each operand once an operation."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        self.elements += sum(t.numel() for t in [*args, out] if isinstance(t, torch.Tensor))
        return out


class Cost(NamedTuple):
    """The cost of an operation: FLOPs, and bytes moved."""

    FLOPs: int
    bytes: int


class Use(NamedTuple):
    """Shares of the peak: model FLOPs utilisation and hardware FLOPs utilisation."""

    MFU: float
    HFU: float


class MemoryUse(NamedTuple):
    """Bytes that training one step takes, by what they hold."""

    parameters: int
    gradients: int
    state: int
    activations: int


def cost(fn: Callable[[], object], itemsize: int) -> Cost:
    """Count the cost (FLOPs, bytes) of fn()."""
    with CountElements() as moved:
        fn()
    return Cost(counted(fn), moved.elements * itemsize)


def product_cost(m: int, n: int, k: int, itemsize: int) -> Cost:
    """Count the cost of a matrix product (m, k) times (k, n)."""
    a, b = meta(m, k), meta(k, n)
    return cost(lambda: torch.mm(a, b), itemsize)


def attention(batch: int, heads: int, n_q: int, n_k: int, d: int, itemsize: int) -> Cost:
    """Count the cost of plain attention, with scores in memory."""
    q, k, v = (meta(batch * heads, n, d) for n in (n_q, n_k, n_k))
    k_t = k.mT
    return cost(lambda: torch.bmm(torch.softmax(torch.bmm(q, k_t), -1), v), itemsize)


def block_flops(batch: int, tokens: int, d_model: int, heads: int, kv_heads: int, d_ff: int) -> int:
    """Count the FLOPs of a transformer block, run on meta tensors: projections, grouped attention, two layers of an MLP."""
    d = d_model // heads
    w_q, w_k, w_v, w_o = (meta(d_model, h * d) for h in (heads, kv_heads, kv_heads, heads))
    up, down = meta(d_model, d_ff), meta(d_ff, d_model)
    x = meta(batch, tokens, d_model)

    def split(y: torch.Tensor, n: int) -> torch.Tensor:
        parts = y.view(batch, tokens, n, d).transpose(1, 2)
        return parts.repeat_interleave(heads // n, dim=1)

    def run() -> torch.Tensor:
        q, k, v = split(x @ w_q, heads), split(x @ w_k, kv_heads), split(x @ w_v, kv_heads)
        mixed = (torch.softmax(q @ k.mT, -1) @ v).transpose(1, 2).reshape(batch, tokens, d_model)
        y = x + mixed @ w_o.T
        return y + torch.nn.functional.gelu(y @ up) @ down

    return counted(run)


def two_layers_backward(batch: int, d_in: int, d_hidden: int, d_out: int, input_needs_grad: bool) -> int:
    """Count the FLOPs of the backward pass of two linear layers."""
    x = meta(batch, d_in, grad=input_needs_grad)
    w1, w2 = meta(d_in, d_hidden, grad=True), meta(d_hidden, d_out, grad=True)
    y = torch.relu(x @ w1) @ w2
    return counted(lambda: y.backward(torch.empty_like(y)))


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adagrad": lambda p: torch.optim.Adagrad(p),
    "adam": lambda p: torch.optim.Adam(p),
}


def trained_bytes(layers: int, width: int, batch: int, optimizer: str) -> MemoryUse:
    """Train a deep linear model for one step, and count the bytes that exist then."""
    weights = [torch.randn(width, width, requires_grad=True) for _ in range(layers)]
    own = {w.untyped_storage().data_ptr() for w in weights}
    kept: dict[int, int] = {}

    def keep(t: torch.Tensor) -> torch.Tensor:
        if t.untyped_storage().data_ptr() not in own:
            kept[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    step = OPTIMIZERS[optimizer](weights)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda t: t):
        x = torch.randn(batch, width)
        outputs = [x]
        for w in weights:
            outputs.append(outputs[-1] @ w)
        outputs[-1].sum().backward()
    step.step()
    state = sum(t.nbytes for s in step.state.values() for t in s.values() if torch.is_tensor(t) and t.dim())
    gradients = sum(w.grad.nbytes for w in weights if w.grad is not None)
    return MemoryUse(sum(w.nbytes for w in weights), gradients, state, sum(kept.values()))


# ------------------------------------------------------------------------------------------------ properties


def is_number(output: Any) -> bool:
    """Whether an output is a finite number."""
    return type(output) in (int, float) and math.isfinite(output)


def not_number(output: Any) -> str:
    """Return the message that an output is not a number."""
    return say("criteria.result.number", got=in_words(output))


def gives_back_the_flops(output: Any, cost: Sequence[float]) -> str:
    """Return "" if an intensity times the bytes gives the FLOPs, else a message."""
    if not is_number(output):
        return not_number(output)
    flops, nbytes = cost
    right = math.isclose(output * nbytes, flops, rel_tol=1e-9)
    would_be = say("flops.intensity.would_be", output=output, would_be=output * nbytes)
    return "" if right else say("flops.intensity.wrong", flops=flops, nbytes=nbytes, would_be=would_be)


def is_the_earliest(output: Any, cost: Sequence[float], flops_per_second: float, bytes_per_second: float) -> str:
    """Return "" if both the FLOPs and the bytes are done by this time, and one of them was not done a moment before; else a message."""
    if not is_number(output):
        return not_number(output)
    flops, nbytes = cost
    late, early = output * (1 + 1e-6), output * (1 - 1e-6)
    said = say(
        "flops.roofline_seconds.work",
        flops=flops,
        nbytes=nbytes,
        flops_per_second=flops_per_second,
        bytes_per_second=bytes_per_second,
    )
    if late * flops_per_second < flops:
        return say("flops.roofline_seconds.flops_not_done", given=said, seconds=output)
    if late * bytes_per_second < nbytes:
        return say("flops.roofline_seconds.bytes_not_moved", given=said, seconds=output)
    if early * flops_per_second > flops and early * bytes_per_second > nbytes:
        after = math.isclose(output, flops / flops_per_second + nbytes / bytes_per_second, rel_tol=1e-6)
        why = say("flops.roofline_seconds.one_after_the_other") if after else ""
        return say("flops.roofline_seconds.late", given=said, seconds=output, why=why)
    return ""


def within_a_percent(output: Any, **config: int) -> str:
    """Return "" if a count of FLOPs is within 1 % of torch's, else a message."""
    if not is_number(output):
        return not_number(output)
    expected = block_flops(**config)
    off = output / expected - 1
    shown = ", ".join(f"{name} = {value}" for name, value in config.items())
    return "" if abs(off) <= 0.01 else say("flops.block_cost.wrong", sizes=shown, got=output, right=expected, off=off)


def delivers(output: Any, parameters: float, tokens: float, gpus: int, peak_flops: float, mfu: float) -> str:
    """Return "" if these GPUs deliver in this many days the FLOPs of the training, 6 for each parameter and token; else a message."""
    if not is_number(output):
        return not_number(output)
    delivered, wanted = output * 24 * 3600 * gpus * peak_flops * mfu, 6 * parameters * tokens
    right = math.isclose(delivered, wanted, rel_tol=1e-6)
    cluster = say("flops.training_days.cluster", gpus=gpus, peak_flops=peak_flops, mfu=mfu)
    return (
        ""
        if right
        else say("flops.training_days.wrong", days=output, cluster=cluster, delivered=delivered, wanted=wanted)
    )


def just_fits(output: Any, gpus: int, memory_bytes: int, bytes_per_parameter: int = 16) -> str:
    """Return "" if this many parameters fit in the memory and one more does not, else a message."""
    if type(output) is not int:
        return say("flops.largest_model.no_number", got=in_words(output))
    room, each = gpus * memory_bytes, say("flops.largest_model.each", bytes_per_parameter=bytes_per_parameter)
    if output * bytes_per_parameter > room:
        return say(
            "flops.largest_model.too_large", parameters=output, each=each, bytes=output * bytes_per_parameter, room=room
        )
    if (output + 1) * bytes_per_parameter <= room:
        return say("flops.largest_model.too_small", parameters=output, each=each, room=room)
    return ""


def keeps_one_layer(output: Any, fan_in: int) -> str:
    """Return "" if a scale of weights keeps the variance through one layer, else a message."""
    return _keeps(output, fan_in, layers=1, low=0.93, high=1.07)


def keeps_twelve_layers(output: Any, fan_in: int) -> str:
    """Return "" if a scale of weights keeps the variance through twelve layers, else a message."""
    return _keeps(output, fan_in, layers=12, low=0.5, high=2.0)


def _keeps(output: Any, fan_in: int, layers: int, low: float, high: float) -> str:
    if not is_number(output):
        return not_number(output)
    generator = torch.Generator().manual_seed(fan_in)
    x = torch.randn(256, fan_in, generator=generator)
    for _ in range(layers):
        x = x @ (torch.randn(fan_in, fan_in, generator=generator) * output)
    spread = float(x.std())
    return "" if low <= spread <= high else say("flops.init_scale.spread", width=fan_in, layers=layers, spread=spread)


def near_the_truth(output: Any, cold: float, **_: Any) -> str:
    """Return "" if a time is within 3 % of what the simulated work takes from a cold cache, else a message."""
    if not is_number(output):
        return not_number(output)
    off = output * 1e6 / cold - 1
    return "" if abs(off) <= 0.03 else say("flops.measure.wrong", cold=cold, got=output * 1e6, off=off)
