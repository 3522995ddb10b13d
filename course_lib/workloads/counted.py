"""Work by name, for exercises whose input is a function: a process can send names and numbers to another, never functions.

fn, args = workload("mlp", [8, 16, 32])     small tensors on the CPU
gpu = SimulatedGPU(cold=900, hot=400)       a GPU with a clock, a queue and a cache; times in microseconds
gpu = RealGPU()                             the same three methods on the GPU of this machine
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch

# ------------------------------------------------------------------------------------------------------- by name


def mlp(x: torch.Tensor, w1: torch.Tensor, b1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Compute two layers with a ReLU between them, the first with a bias: x (rows, d_in) -> (rows, d_out)."""
    return torch.relu(torch.nn.functional.linear(x, w1, b1)) @ w2


def mlp_step(x: torch.Tensor, *weights: torch.Tensor) -> list[torch.Tensor]:
    """Run forward and backward, and return the gradients of the weights."""
    with torch.enable_grad():
        leaves = [w.detach().requires_grad_() for w in weights]
        return list(torch.autograd.grad(mlp(x, *leaves).square().sum(), leaves))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Compute attention: q, k, v (heads, tokens, d) -> (heads, tokens, d)."""
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1) @ v


def recurrent(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """Compute a recurrent net, a product for each step: x (steps, rows, d), w (d, d)."""
    state = torch.zeros_like(x[0])
    for step in x:
        state = torch.tanh(step + state @ w)
    return state


WORKLOADS: dict[str, tuple[Callable, Callable[..., list[tuple[int, ...]]]]] = {
    # name -> (function, sizes -> shapes of its arguments)
    "matmul": (torch.matmul, lambda m, n, k: [(m, k), (k, n)]),
    "batched": (torch.matmul, lambda b, m, n, k: [(b, m, k), (b, k, n)]),
    "added": (torch.addmm, lambda m, n, k: [(m, n), (m, k), (k, n)]),
    "added batches": (torch.baddbmm, lambda b, m, n, k: [(b, m, n), (b, m, k), (b, k, n)]),
    "transposed": (lambda x: x.T @ x, lambda m, n: [(m, n)]),
    "elementwise": (lambda x, y: torch.relu(x * y) + x.sum(), lambda n: [(n,), (n,)]),
    "mlp": (mlp, lambda rows, d, hidden: [(rows, d), (hidden, d), (hidden,), (hidden, d)]),
    "mlp_step": (mlp_step, lambda rows, d, hidden: [(rows, d), (hidden, d), (hidden,), (hidden, d)]),
    "attention": (attention, lambda heads, tokens, d: [(heads, tokens, d)] * 3),
    "recurrent": (recurrent, lambda steps, rows, d: [(steps, rows, d), (d, d)]),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b), lambda b, m, n, k: [(b, m, k), (b, n, k)]),
}


def workload(name: str, sizes: Sequence[int]) -> tuple[Callable, tuple[torch.Tensor, ...]]:
    """Return (fn, args) of a named workload: call fn(*args). Raises ValueError with the names if there is none of that name."""
    if name not in WORKLOADS:
        raise ValueError(f"no workload {name!r}; there are {', '.join(WORKLOADS)}.")
    fn, shapes = WORKLOADS[name]
    return fn, tuple(torch.randn(shape) for shape in shapes(*sizes))


# ----------------------------------------------------------------------------------------------------------- GPUs


class SimulatedGPU:
    """A simulated GPU with a clock. Calls queue work and return at once; time passes only in synchronize().

    cold, hot    microseconds that the work takes when its data is in memory, and when it is still in the cache
    slow_start   first runs that take ten times as long (loading, clocks)
    stamina      runs after which each takes twice as long (the chip is warm, its clock goes down); 0: for ever
    noise        every 5th run takes eight times as long (another process), and every 7th three quarters (a higher clock)
    """

    LAUNCH, FLUSH = 5.0, 300.0  # microseconds: the host queues a piece of work; the device overwrites its cache

    def __init__(
        self, cold: float, hot: float | None = None, slow_start: int = 0, noise: bool = False, stamina: int = 0
    ):
        self._cold, self._hot = cold, cold if hot is None else hot
        self._slow_start, self._noise, self._stamina = slow_start, noise, stamina
        self._now = self._free = (
            0.0  # microseconds: the host's clock; when the device will have done all that is queued
        )
        self._cached, self._runs = False, 0

    def clock(self) -> float:
        """Return the time on the host's clock, in seconds."""
        return self._now / 1e6

    def synchronize(self) -> None:
        """Wait until the device has done everything that is queued."""
        self._now = max(self._now, self._free)

    def flush(self) -> None:
        """Queue work that overwrites the cache."""
        self._queue(self.FLUSH)
        self._cached = False

    def work(self) -> None:
        """Queue the work that is to be timed."""
        took = self._hot if self._cached else self._cold
        self._runs += 1
        if self._runs <= self._slow_start:
            took *= 10
        elif self._stamina and self._runs > self._stamina:
            took *= 2
        elif self._noise:
            took *= 8 if self._runs % 5 == 0 else 0.75 if self._runs % 7 == 0 else 1
        self._queue(took)
        self._cached = True

    def _queue(self, microseconds: float) -> None:
        self._now += self.LAUNCH
        self._free = max(self._free, self._now) + microseconds


class RealGPU:
    """This machine's GPU with the interface of SimulatedGPU."""

    def __init__(self):
        self._flush = torch.empty(1 << 26, dtype=torch.int32, device="cuda")  # 256 MiB, larger than any L2

    clock = staticmethod(time.perf_counter)

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def flush(self) -> None:
        self._flush.zero_()
