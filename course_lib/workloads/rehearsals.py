"""Training on a small scale, in which a check calls a student's function and reports numbers: unit 11.

Each function here trains, or reads a file, in float64 and within a second, and gives plain data. A check compares it with what
the same function reports of torch's own way, or with a straight run. The state of torch's random numbers is put back.
"""

from __future__ import annotations

import os
import resource
import tempfile
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes

from course_lib.workloads.activations import Live
from course_lib.workloads.gpt import GPT, TORCH, Config, Ops
from course_lib.workloads.launched import ALL, Kernels, scaled

SMALL = Config(vocab=11, layers=1, width=16, heads=4, kv_heads=2, hidden=24, context=32)


@contextmanager
def apart(seed: int) -> Iterator[None]:
    """Run the block with autograd, and with torch's random numbers from a seed; modes are off, and the random state is restored."""
    with _disable_current_modes(), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def digits(tensors: Sequence[torch.Tensor | None]) -> list[list[float]]:
    """Convert each tensor to numbers with ten digits after the point; [] for None."""
    return [[] if t is None else [round(v, 10) + 0.0 for v in t.detach().flatten().tolist()] for t in tensors]


# ------------------------------------------------------------------------------------------------------- data


def bytes_read() -> int:
    """Count the bytes that this process has had from read() until now, as Linux counts them; 0 where the system does not say."""
    with suppress(OSError), open("/proc/self/io") as counters:
        return next((int(line.split()[1]) for line in counters if line.startswith("rchar")), 0)
    return 0


def text(tokens: int, seed: int) -> np.ndarray:
    """Return the numbers below `tokens`, uint16, shuffled by a secret seed: each tells the place where it stands."""
    return np.random.default_rng(seed).permutation(tokens).astype(np.uint16)


def run_batches(
    get_batch: Callable, *, tokens: int, split: str, batch: int, context: int, draws: int, seed: int, times: int = 1
) -> dict[str, Any] | None:
    """Call get_batch(path, split, batch, context, generator) for `draws` batches of a file of `text(tokens, seed)`; report them.

    times: how often each number stands there, one behind the other. None where there is no batch.

    rows, targets   of all batches;  shape, dtype  of the tokens
    again           the rows of one more batch, drawn from the state that the first one was drawn from
    global_state    whether torch's own generator is where it was
    read            bytes of memory that a batch took, or that read() gave for all: for whoever wants to know, since this process says it
    """
    with apart(seed), tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokens.bin")
        with open(path, "wb") as file:
            for part in np.array_split(text(tokens, seed), 16):  # so that writing takes little memory
                np.repeat(part, times).tofile(file)
        g = torch.Generator().manual_seed(seed)
        before, most = torch.get_rng_state(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        tracing, already = tracemalloc.is_tracing(), bytes_read()
        tracemalloc.start()
        state, first = g.get_state(), get_batch(path, split, batch, context, g)
        taken = tracemalloc.get_traced_memory()[1]
        if not tracing:
            tracemalloc.stop()
        if first is None:
            return None
        found = [first] + [get_batch(path, split, batch, context, g) for _ in range(draws - 1)]
        grown = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most)
        given = bytes_read() - already
        g.set_state(state)
        again = get_batch(path, split, batch, context, g)
        return {
            "rows": [row for x, _ in found for row in x.tolist()],
            "targets": [row for _, y in found for row in y.tolist()],
            "shape": [list(t.shape) for t in first],
            "dtype": [str(t.dtype).removeprefix("torch.") for t in first],
            "again": again[0].tolist(),
            "global_state": torch.equal(before, torch.get_rng_state()),
            "read": max(taken, grown, given),
        }


# ------------------------------------------------------------------------------------------------------- gradients


def micro_batches(
    rows: int, length: int, parts: int, padded: bool, empty: bool = False
) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Make (tokens, targets) of each of `parts` micro-batches; padded: half of the rows have two targets, and -100 behind them;
    empty: the first micro-batch has no target."""
    tokens, targets = torch.randint(0, SMALL.vocab, (2, rows, length)).unbind()
    if padded:
        targets = targets.clone()
        targets[: rows // 2, 2:] = -100
    if empty:
        targets = targets.clone()
        targets[: rows // parts] = -100
    return list(zip(tokens.chunk(parts), targets.chunk(parts), strict=True))


def there(report: dict[str, Any] | None) -> dict[str, Any]:
    """Return the report of a run of the course's own code, which is never None."""
    assert report is not None
    return report


def run_accumulate(accumulate: Callable, *, seed: int, **sizes: Any) -> dict[str, Any] | None:
    """Call accumulate(model, batches) twice in a row, and report both. None if it returns None. sizes: those of micro_batches.

    loss, gradients   of the first call;  again  the gradients after the second;  peak  bytes alive at once in the first
    """
    with apart(seed):
        model = GPT(SMALL).double()
        batches = micro_batches(**sizes)
        with Live() as live:
            loss = accumulate(model, batches)
        if loss is None:
            return None
        first = digits([p.grad for p in model.parameters()])
        accumulate(model, batches)
        again = digits([p.grad for p in model.parameters()])
        number = loss if type(loss) in (int, float) else float(loss) if isinstance(loss, torch.Tensor) else None
        return {"loss": number, "gradients": first, "again": again, "peak": max(live.bytes, default=0)}


def rehearse_accumulate(accumulate: Callable, mark: Callable[[str], Any], *, seed: int, **sizes: Any) -> None:
    """Run the first of these calls in view of a dispatch mode. All of it is one half."""
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(SMALL).double()
        batches = micro_batches(**sizes)
        mark("begin")
        accumulate(model, batches)
        mark("backward")
        mark("end")


def run_clip(clip: Callable, *, sizes: list[int], scale: float, largest: float, seed: int) -> dict[str, Any] | None:
    """Call clip(gradients, largest) on tensors of these sizes, and report the results. None if it returns None.

    norm       what it returns;  gradients  what has become of them
    """
    with apart(seed):
        gradients = [torch.randn(size, dtype=torch.float64) * scale for size in sizes]
        norm = clip(gradients, largest)
        if norm is None:
            return None
        return {"norm": float(norm), "gradients": digits(gradients)}


# ------------------------------------------------------------------------------------------------------- a model with kernels


def run_swapped(
    swap_in: Callable, *, rows: int, length: int, steps: int, seed: int, share: float = 1.0, **sizes: Any
) -> dict[str, Any] | None:
    """Train a model after swap_in(model, kernels), in float64, with torch's AdamW. None if the model is as it was, and nothing came
    back. `share` of the loss goes back. sizes: those of model_and_kernels.

    returned    whether something came back;  losses  of each step;  gradients  of each parameter in the first, by name
    launches    in the first step, by kernel;  kept  bytes between its halves
    """
    with apart(seed):
        model, kernels = model_and_kernels(length=length, **sizes)
        returned = swap_in(
            model, SimpleNamespace(**{name: getattr(kernels, name) for name in ALL})
        )  # the counts stay here
        if model.ops is TORCH and returned is None:
            return None
        optimizer = model.ops.optimizer(model, 1e-2)
        found: dict[str, Any] = {"returned": returned is not None, "losses": []}
        for step in range(steps):
            tokens, targets = torch.randint(0, model.c.vocab, (2, rows, length)).unbind()
            with Live(each=False) as live:  # whoever holds it: what ctx.anything keeps is kept, too
                loss = model(tokens, targets)
                kept = live.now()
            optimizer.zero_grad()
            (share * loss).backward()
            if step == 0:
                gradients = digits([p.grad for p in model.parameters()])
                names = [name for name, _ in model.named_parameters()]
                found |= {"gradients": dict(zip(names, gradients, strict=True))}
                found |= {"launches": dict(kernels.launches), "kept": kept}
            optimizer.step()
            found["losses"].append(round(loss.item(), 10))
        return found


def rehearse_swapped(
    swap_in: Callable,
    mark: Callable[[str], Any],
    *,
    rows: int,
    length: int,
    steps: int,
    seed: int,
    share: float = 1.0,
    **sizes: Any,
) -> None:
    """Run the first step after swap_in in view of a dispatch mode, the kernels' own operations included."""
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, kernels = model_and_kernels(length=length, **sizes)
        swap_in(model, SimpleNamespace(**{name: getattr(kernels, name) for name in ALL}))
        if model.ops is TORCH:
            return
        tokens, targets = torch.randint(0, model.c.vocab, (2, rows, length)).unbind()
        mark("begin")
        loss = model(tokens, targets)
        mark("backward")
        (share * loss).backward()
        mark("end")


def model_and_kernels(
    layers: int, width: int, heads: int, kv_heads: int, length: int, factor: float = 1.0
) -> tuple[GPT, Kernels]:
    """Make a model, in float64, and the kernels that are swapped in: their results are `factor` times the right ones."""
    model = GPT(Config(11, layers, width, heads, kv_heads, 2 * width, length)).double()
    return model, Kernels(**(scaled(factor) if factor != 1 else {}))


def leave_as_it_is(model: GPT, kernels: Kernels) -> None:
    """Replace a model's operations by equal ones, and swap in no kernel."""
    model.ops = Ops()
