"""Activations that autograd keeps between forward and backward, in bytes: functions to ask about, live bytes, a deep model.

    fn, args = chain("three sigmoids", [100, 64])      something to differentiate, by name
    with Live() as live: ...                           bytes alive after each operation
    found = train_step(layers=24, segments=12)         one training step of a deep model, as a Timeline

Counted on a CPU, read from the allocator on a GPU. `measured("memory_timeline")` is one H200's. Needs torch alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.functional import dropout, gelu
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.checkpoint import checkpoint as torch_checkpoint

from tritontrace.tracing import Mode

# ------------------------------------------------------------------------------------------------ by name


def gelu_by_parts(x: torch.Tensor) -> torch.Tensor:
    """Compute GELU's tanh approximation, operation by operation."""
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def attention(x: torch.Tensor) -> torch.Tensor:
    """Compute attention in which x (tokens, d) is queries, keys and values."""
    return torch.softmax(x @ x.T, dim=-1) @ x


def twenty_sigmoids(x: torch.Tensor) -> torch.Tensor:
    """Compute a chain long enough that freed addresses are used again. Dispatch modes are disabled, since a check's holds on to tensors."""
    with _disable_current_modes():
        for _ in range(20):
            x = x.sigmoid()
    return x


def without_grad(x: torch.Tensor) -> torch.Tensor:
    """Compute two sigmoids without recording for autograd."""
    with torch.no_grad():
        return x.sigmoid().sigmoid()


FUNCTIONS: dict[str, tuple[Callable, Callable[..., list[tuple[int, ...]]]]] = {
    # name -> (function, sizes -> shapes of its arguments)
    "add": (torch.add, lambda m, n: [(m, n), (m, n)]),
    "multiply": (torch.mul, lambda m, n: [(m, n), (m, n)]),
    "relu": (torch.relu, lambda m, n: [(m, n)]),
    "three sigmoids": (lambda x: x.sigmoid().sigmoid().sigmoid(), lambda m, n: [(m, n)]),
    "one exponential, twice": (lambda x: (e := x.exp()) * e, lambda m, n: [(m, n)]),
    "gelu": (gelu, lambda m, n: [(m, n)]),
    "gelu by parts": (gelu_by_parts, lambda m, n: [(m, n)]),
    "gated gelu": (lambda x, gate: gelu(x) * gate, lambda m, n: [(m, n), (m, n)]),
    "a product of views": (lambda x, y: x.T @ y[:, 1:], lambda m, n: [(m, n), (m, n)]),
    "sigmoid in half precision": (lambda x: x.half().sigmoid(), lambda m, n: [(m, n)]),
    "a row for all": (lambda x, row: x * row.exp().expand(x.shape), lambda m, n: [(m, n), (1, n)]),
    "a product with half": (lambda x, y: x.mul(2)[:, : y.shape[1]] * y, lambda m, n: [(m, 2 * n), (m, n)]),
    "twenty sigmoids": (twenty_sigmoids, lambda m, n: [(m, n)]),
    "layer norm": (lambda x: torch.nn.functional.layer_norm(x, x.shape[1:]), lambda m, n: [(m, n)]),
    "attention": (attention, lambda m, n: [(m, n)]),
    "without grad": (without_grad, lambda m, n: [(m, n)]),
    "gelu of a product": (lambda x, w: gelu(x @ w), lambda m, n, k: [(m, n), (n, k)]),
    "mlp": (lambda x, w1, w2: gelu(x @ w1) @ w2, lambda m, n, k: [(m, n), (n, k), (k, n)]),
}


def chain(name: str, sizes: Sequence[int]) -> tuple[Callable, tuple[torch.Tensor, ...]]:
    """Return (fn, args) of a named chain of operations, args requiring gradients: call fn(*args). Raises ValueError for an unknown name."""
    if name not in FUNCTIONS:
        raise ValueError(f"no chain {name!r}; there are {', '.join(FUNCTIONS)}.")
    fn, shapes = FUNCTIONS[name]
    return fn, tuple(torch.randn(shape, requires_grad=True) for shape in shapes(*sizes))


# ------------------------------------------------------------------------------------------------ live bytes


class Live(Mode):
    """Dispatch mode that records the bytes alive after each torch operation, of the storages that were made inside.

    bytes   one number for each operation so far; none if not `each`, which takes a third of the time: then `now` tells of the end
    """

    def __init__(self, each: bool = True) -> None:
        super().__init__()
        self.each = each
        self.bytes: list[int] = []
        self._made: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        given = {tensor.untyped_storage()._cdata for tensor in tensors_in((args, *kwargs.values()))}
        out = function(*args, **kwargs)
        for tensor in tensors_in(out):
            storage = tensor.untyped_storage()
            if storage._cdata not in given:
                self._made.setdefault(storage._cdata, (StorageWeakRef(storage), storage.nbytes()))
        if self.each:
            self.bytes.append(self.now())
        return out

    def now(self) -> int:
        is_gone = torch.UntypedStorage._expired  # StorageWeakRef.expired, without two calls on the way
        self._made = {key: made for key, made in self._made.items() if not is_gone(made[0].cdata)}
        return sum(nbytes for _, nbytes in self._made.values())


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors among the arguments or results of a torch operation, in lists, too."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)


class Allocated(Live):
    """Like Live, for this GPU, from torch's allocator: rounded up to 512 bytes, workspaces of libraries included."""

    def __init__(self) -> None:
        super().__init__()
        self._before = torch.cuda.memory_allocated()

    def now(self) -> int:
        return torch.cuda.memory_allocated() - self._before


# ------------------------------------------------------------------------------------------------ a deep model


@dataclass(frozen=True)
class MemoryTimeline:
    """Bytes alive after each operation of one training step, of all but weights, their gradients and the input.

    forward    operations of the forward pass
    boundary   bytes of what passes from one layer to the next;  inside: bytes that one layer keeps, its input among them
    """

    bytes: list[int]
    forward: int
    boundary: int
    inside: int

    @property
    def peak(self) -> int:
        return max(self.bytes)


def layer(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
    """Compute an MLP with a residual: x (tokens, d), w1 (d, 4 d), w2 (4 d, d) -> (tokens, d). Autograd saves x, x @ w1, their GELU: 9 d."""
    return x + gelu(x @ w1) @ w2


def several_layers(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    """Compute layers one after another, each with two of the weights."""
    for w1, w2 in zip(weights[::2], weights[1::2], strict=True):
        x = layer(x, w1, w2)
    return x


def split_evenly(layers: int, segments: int) -> list[int]:
    """Return the lengths of `segments` segments that differ by at most one, the longest last."""
    short, longer = divmod(layers, segments)
    return [short] * (segments - longer) + [short + 1] * longer


def checkpoint_of_torch(fn: Callable, *args: Any) -> Any:
    """Run fn under torch's own checkpoint."""
    return torch_checkpoint(fn, *args, use_reentrant=False)


def deep_model(layers: int, tokens: int, width: int, device: str, dtype: torch.dtype) -> list[torch.Tensor]:
    """Make x (tokens, width) and the weights of all layers, with zeroed gradients, as in any step but the first."""
    made: dict[str, Any] = dict(device=device, dtype=dtype)
    shapes = [(width, 4 * width), (4 * width, width)] * layers
    tensors = [torch.randn(tokens, width, **made)] + [torch.randn(s, **made) * width**-0.5 / 4 for s in shapes]
    for tensor in tensors:
        tensor.requires_grad_().grad = torch.zeros_like(tensor)
    return tensors


def forward_pass(
    model: Sequence[torch.Tensor], segments: int, checkpoint: Callable = checkpoint_of_torch
) -> torch.Tensor:
    """Compute the loss of a deep model, each of `segments` segments of layers through checkpoint(fn, *args); 0: no checkpoints.

    Raises ValueError if there are more segments than layers.
    """
    y, *weights = model
    layers = len(weights) // 2
    if not 0 <= segments <= layers:
        raise ValueError(f"{layers} layers make 0 to {layers} segments, not {segments}.")
    for length in split_evenly(layers, segments) if segments else [layers]:
        own, weights = weights[: 2 * length], weights[2 * length :]
        y = checkpoint(several_layers, y, *own) if segments else several_layers(y, *own)
    return y.sum()


def train_step(
    layers: int = 24,
    segments: int = 0,
    *,
    tokens: int = 512,
    width: int = 32,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    checkpoint: Callable = checkpoint_of_torch,
) -> MemoryTimeline:
    """Run forward and backward of a deep model, and return its MemoryTimeline. segments, checkpoint: see forward_pass."""
    model = deep_model(layers, tokens, width, device, dtype)
    with _disable_current_modes(), torch.enable_grad(), Allocated() if device == "cuda" else Live() as live:
        loss = forward_pass(model, segments, checkpoint)
        forward = len(live.bytes)
        loss.backward()
    return MemoryTimeline(live.bytes, forward, model[0].nbytes, 9 * model[0].nbytes)


# ------------------------------------------------------------------------------------------------ a student's checkpoint


def run_checkpoint(
    checkpoint: Callable, *, rows: int, width: int, p: float, calls: int, frozen: bool, seed: int
) -> Any:
    """Run checkpoint(fn, x, w1, w2, p) `calls` times in a row, with dropout inside, and report the results, as below; None if there are
    none.

    out, gradients   every number, rounded to nine digits after the point;  gradients of x and, unless `frozen`, the weights
    kept             bytes alive before backward, besides the arguments and the result
    left             the same after backward, gradients left out, too
    draws            for each run of fn what dropout left over, as a number: the forward runs in order, then the others
    after            a random number drawn after backward
    """
    draws: list[int] = []

    def fn(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, p: float) -> torch.Tensor:
        h = dropout(gelu(x @ w1), p)
        draws.append(int.from_bytes(hashlib.sha256(h.detach().numpy().tobytes()).digest()[:6], "big"))
        return x + h @ w2

    with _disable_current_modes(), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        g = torch.Generator().manual_seed(seed)
        x, w1, w2, dy = (
            torch.randn(shape, generator=g, dtype=torch.float64)
            for shape in ((rows, width), (width, 4 * width), (4 * width, width), (rows, width))
        )
        leaves = [x] if frozen else [x, w1, w2]
        for leaf in leaves:
            leaf.requires_grad_()
        torch.manual_seed(seed)
        out = x
        with Live() as live:
            for _ in range(calls):
                out = checkpoint(fn, out, w1, w2, p)
                if not isinstance(out, torch.Tensor):
                    return None
            kept = live.now() - out.nbytes
            torch.rand(3)  # the random state moves on between forward and backward
            out.backward(dy)
            left = live.now() - out.nbytes - sum(leaf.grad.nbytes for leaf in leaves if leaf.grad is not None)
        after = float(torch.rand(()))
    return {
        "out": _digits(out),
        "gradients": [[] if leaf.grad is None else _digits(leaf.grad) for leaf in leaves],
        "kept": kept,
        "left": left,
        "draws": draws,
        "after": after,
    }


def rehearse_checkpoint(
    checkpoint: Callable,
    mark: Callable[[str], None],
    *,
    rows: int,
    width: int,
    p: float,
    calls: int,
    frozen: bool,
    seed: int,
) -> None:
    """Run the same step in view of a dispatch mode, with mark() called where it begins, where backward begins and where it ends."""

    def fn(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, p: float) -> torch.Tensor:
        return x + dropout(gelu(x @ w1), p) @ w2

    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        shapes = ((rows, width), (width, 4 * width), (4 * width, width), (rows, width))
        x, w1, w2, dy = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
        for leaf in [x] if frozen else [x, w1, w2]:
            leaf.requires_grad_()
        mark("begin")
        out = x
        for _ in range(calls):
            out = checkpoint(fn, out, w1, w2, p)
            if not isinstance(out, torch.Tensor):
                return
        torch.rand(3)  # the random state moves on between forward and backward
        mark("backward")
        out.backward(dy)
        mark("end")


def _digits(tensor: torch.Tensor) -> list[float]:
    return [round(v, 9) + 0.0 for v in tensor.detach().flatten().tolist()]
