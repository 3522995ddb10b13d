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
import torch.nn.functional as F
from torch.utils._python_dispatch import _disable_current_modes

from course_lib.workloads.activations import Live
from course_lib.workloads.gpt import GPT, TORCH, Config, Ops
from course_lib.workloads.launched import ALL, Kernels, scaled

SMALL = Config(vocab=11, layers=1, width=16, heads=4, kv_heads=2, hidden=24, context=32)


@contextmanager
def apart(seed: int) -> Iterator[None]:
    """Autograd, and torch's random numbers from a seed; the observer looks away, and the random state is put back."""
    with _disable_current_modes(), torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def digits(tensors: Sequence[torch.Tensor | None]) -> list[list[float]]:
    """The numbers of each tensor, to ten digits after the point; none for None."""
    return [[] if t is None else [round(v, 10) + 0.0 for v in t.detach().flatten().tolist()] for t in tensors]


# ------------------------------------------------------------------------------------------------------- data


def bytes_read() -> int:
    """Bytes that this process has had from read() until now, as Linux counts them; 0 where the system does not say."""
    with suppress(OSError), open("/proc/self/io") as counters:
        return next((int(line.split()[1]) for line in counters if line.startswith("rchar")), 0)
    return 0


def run_batches(
    get_batch: Callable, *, tokens: int, split: str, batch: int, context: int, draws: int, seed: int, times: int = 1
) -> dict[str, Any] | None:
    """Ask get_batch(path, split, batch, context, generator) for `draws` batches of a file of the numbers 0, 1, 2 ...

    times: how often each number stands there, one behind the other. None where there is no batch.

    rows, targets   of all batches;  shape, dtype  of the tokens
    again           the rows of one more batch, drawn from the state that the first one was drawn from
    global_state    whether torch's own generator is where it was
    read            bytes of memory that a batch took, or that read() gave for all: for whoever wants to know, since this process says it
    """
    with apart(seed), tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tokens.bin")
        with open(path, "wb") as file:
            for part in np.array_split(np.arange(tokens, dtype=np.uint16), 16):  # so that writing takes little memory
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


def micro_batches(rows: int, length: int, parts: int, padded: bool) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """(tokens, targets) of each of `parts` micro-batches; padded: half of the rows have two targets, and -100 behind them."""
    tokens, targets = torch.randint(0, SMALL.vocab, (2, rows, length)).unbind()
    if padded:
        targets = targets.clone()
        targets[: rows // 2, 2:] = -100
    return list(zip(tokens.chunk(parts), targets.chunk(parts), strict=True))


def there(report: dict[str, Any] | None) -> dict[str, Any]:
    """The report of a run of the course's own, which gives something."""
    assert report is not None
    return report


def run_accumulate(
    accumulate: Callable, *, rows: int, length: int, parts: int, padded: bool, seed: int
) -> dict[str, Any] | None:
    """Call accumulate(model, batches) twice in a row. None where it gives nothing.

    loss, gradients   of the first call;  again  the gradients after the second;  peak  bytes alive at once in the first
    """
    with apart(seed):
        model = GPT(SMALL).double()
        batches = micro_batches(rows, length, parts, padded)
        with Live() as live:
            loss = accumulate(model, batches)
        if loss is None:
            return None
        first = digits([p.grad for p in model.parameters()])
        accumulate(model, batches)
        again = digits([p.grad for p in model.parameters()])
        number = loss if type(loss) in (int, float) else float(loss) if isinstance(loss, torch.Tensor) else None
        return {"loss": number, "gradients": first, "again": again, "peak": max(live.bytes, default=0)}


def rehearse_accumulate(
    accumulate: Callable, mark: Callable[[str], Any], *, rows: int, length: int, parts: int, padded: bool, seed: int
) -> None:
    """The first of these calls, for whoever sees torch's operations. All of it is one half."""
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = GPT(SMALL).double()
        batches = micro_batches(rows, length, parts, padded)
        mark("begin")
        accumulate(model, batches)
        mark("backward")
        mark("end")


def run_clip(clip: Callable, *, sizes: list[int], scale: float, largest: float, seed: int) -> dict[str, Any] | None:
    """Call clip(gradients, largest) on tensors of these sizes. None where it gives nothing.

    norm       what it returns;  gradients  what has become of them
    """
    with apart(seed):
        gradients = [torch.randn(size, dtype=torch.float64) * scale for size in sizes]
        norm = clip(gradients, largest)
        if norm is None:
            return None
        return {"norm": float(norm), "gradients": digits(gradients)}


# ------------------------------------------------------------------------------------------------------- a run that stops


class Positions:
    """A loader: windows of a text in an order that is drawn anew in each epoch. Where it stands is two numbers."""

    def __init__(self, seed: int, windows: int = 12, context: int = 8, batch: int = 4) -> None:
        self.seed, self.windows, self.context, self.batch = seed, windows, context, batch
        self.text = np.random.default_rng(seed).integers(0, SMALL.vocab, windows * context + 1)
        self.epoch = self.at = 0

    def next(self) -> torch.Tensor:
        """(batch, context + 1) tokens."""
        order = np.random.default_rng((self.seed, self.epoch)).permutation(self.windows)
        starts = order[self.at : self.at + self.batch, None] * self.context
        self.at += self.batch
        if self.at >= self.windows:
            self.epoch, self.at = self.epoch + 1, 0
        return torch.from_numpy(self.text[starts + np.arange(self.context + 1)])

    def state_dict(self) -> dict[str, int]:
        return {"epoch": self.epoch, "at": self.at}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epoch, self.at = state["epoch"], state["at"]


def _dropped(module: torch.nn.Module, given: Any, out: torch.Tensor) -> torch.Tensor:
    return F.dropout(out, 0.1)


class Run:
    """A training run: model, optimizer, loader, step, and a generator of its own that draws which tokens are hidden.

    Dropout on the embedding draws from torch's own generator. The rate depends on the step.
    """

    def __init__(self, seed: int) -> None:
        torch.manual_seed(seed)
        self.model = GPT(SMALL).double()
        self.optimizer = self.model.optimizer(1e-2)
        self.loader = Positions(seed=7)
        self.generator = torch.Generator().manual_seed(seed)
        self.step = 0
        self.model.embedding.register_forward_hook(_dropped)

    def train(self, steps: int) -> list[float]:
        """Train so many steps, and return their losses."""
        losses = []
        for _ in range(steps):
            for group in self.optimizer.param_groups:
                group["lr"] = 1e-2 * min(1, (self.step + 1) / 8)
            both = self.loader.next()
            tokens, targets = both[:, :-1], both[:, 1:].clone()
            targets[torch.rand(targets.shape, generator=self.generator) < 0.2] = -100
            loss = self.model(tokens, targets)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            losses.append(loss.item())
        return losses

    def held(self) -> int:
        """Count the bytes of weights and moments."""
        moments = [t for state in self.optimizer.state.values() for t in state.values() if isinstance(t, torch.Tensor)]
        return sum(t.nbytes for t in [*self.model.state_dict().values(), *moments])


PARTS = (WEIGHTS, PLACE, TORCHS, OWN) = (
    "the weights",
    "the loader's place",
    "torch's random state",
    "the state of run.generator",
)
"""What the first loss after loading depends on."""


def run_straight(*, before: int, after: int, seed: int) -> list[float]:
    """The losses of a run that nobody stops."""
    with apart(seed):
        return Run(seed).train(before + after)


def first_loss_without(missing: Sequence[str], *, before: int, after: int, seed: int) -> float:
    """The first loss of a run that was loaded, without these of its parts: the weights, the loader's place, torch's random state, the
    state of run.generator. All else is as in run_through_a_checkpoint."""
    with apart(seed):
        run = Run(seed)
        run.train(before)
        drawn = torch.get_rng_state()
        other = Run(seed + 1)
        other.train(1)
        Run(seed + 2)
        restore: dict[str, Callable[[], Any]] = {
            WEIGHTS: lambda: other.model.load_state_dict(run.model.state_dict()),
            PLACE: lambda: other.loader.load_state_dict(run.loader.state_dict()),
            TORCHS: lambda: torch.set_rng_state(drawn),
            OWN: lambda: other.generator.set_state(run.generator.get_state()),
        }
        for part in PARTS:
            if part not in missing:
                restore[part]()
        return other.train(1)[0]


def run_through_a_checkpoint(checkpoint: Any, *, before: int, after: int, seed: int) -> dict[str, Any] | None:
    """Train, checkpoint.save(path, run), train on; checkpoint.load(path, another run), begun with other numbers, and train that. None
    where no file comes of it.

    went_on   losses of the first run, all of them;  resumed  losses of the other one after loading;  step  its step
    whole     whether, after a save that fails half way, the file from before is still there
    small     whether the file is too small for weights and moments: then they are kept in the process, which will not be there
    """
    with apart(seed), tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.pt")
        run = Run(seed)
        losses = run.train(before)
        checkpoint.save(path, run)
        if not os.path.exists(path):
            return None
        found: dict[str, Any] = {"went_on": losses + run.train(after)}
        with open(path, "rb") as file:
            saved = file.read()
        other, elsewhere = Run(seed + 1), os.path.join(folder, "moved.pt")
        other.train(1)
        os.replace(path, elsewhere)
        checkpoint.save(
            path, Run(seed + 2)
        )  # all that is known of the first run is in its file, under another name by now
        checkpoint.load(elsewhere, other)
        found |= {"step": other.step, "resumed": other.train(after)}
        found |= {"small": len(saved) < run.held() / 2}
        os.replace(elsewhere, path)
        return found | {"whole": saved == _after_a_failure(checkpoint, path, run)}


def _after_a_failure(checkpoint: Any, path: str, run: Run) -> bytes:
    """The file's bytes after a save for which the disk had no room."""
    original = torch.save

    def broken(value: Any, file: Any, *_: Any, **__: Any) -> None:
        if isinstance(file, (str, os.PathLike)):
            with open(file, "wb") as half:
                half.write(b"half of it")
        raise OSError("no space left on the device")

    torch.save = broken
    try:
        with suppress(OSError):
            checkpoint.save(path, run)
    finally:
        torch.save = original
    with suppress(FileNotFoundError), open(path, "rb") as file:
        return file.read()
    return b""


# ------------------------------------------------------------------------------------------------------- a model with kernels


def run_swapped(
    swap_in: Callable,
    *,
    layers: int,
    width: int,
    heads: int,
    kv_heads: int,
    rows: int,
    length: int,
    steps: int,
    seed: int,
    factor: float = 1.0,
) -> dict[str, Any] | None:
    """Train a model after swap_in(model, kernels), in float64, with torch's AdamW. None if the model is as it was, and nothing came
    back. The kernels' results are `factor` times the right ones.

    returned    whether something came back;  losses  of each step;  gradients  of each parameter in the first, by name
    launches    in the first step, by kernel;  kept  bytes between its halves
    """
    with apart(seed):
        model, kernels = model_and_kernels(layers, width, heads, kv_heads, length, factor)
        returned = swap_in(
            model, SimpleNamespace(**{name: getattr(kernels, name) for name in ALL})
        )  # the counts stay here
        if model.ops is TORCH and returned is None:
            return None
        optimizer = model.ops.optimizer(model, 1e-2)
        found: dict[str, Any] = {"returned": returned is not None, "losses": []}
        for step in range(steps):
            tokens, targets = torch.randint(0, model.c.vocab, (2, rows, length)).unbind()
            with Live() as live:  # whoever holds it: what ctx.anything keeps is kept, too
                loss = model(tokens, targets)
                kept = live.now()
            optimizer.zero_grad()
            loss.backward()
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
    layers: int,
    width: int,
    heads: int,
    kv_heads: int,
    rows: int,
    length: int,
    steps: int,
    seed: int,
    factor: float = 1.0,
) -> None:
    """The first step after swap_in, for whoever sees torch's operations, those of the kernels among them."""
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, kernels = model_and_kernels(layers, width, heads, kv_heads, length, factor)
        swap_in(model, SimpleNamespace(**{name: getattr(kernels, name) for name in ALL}))
        if model.ops is TORCH:
            return
        tokens, targets = torch.randint(0, model.c.vocab, (2, rows, length)).unbind()
        mark("begin")
        loss = model(tokens, targets)
        mark("backward")
        loss.backward()
        mark("end")


def model_and_kernels(
    layers: int, width: int, heads: int, kv_heads: int, length: int, factor: float
) -> tuple[GPT, Kernels]:
    """Make what these two train, in float64, and what they put into it."""
    model = GPT(Config(11, layers, width, heads, kv_heads, 2 * width, length)).double()
    return model, Kernels(**(scaled(factor) if factor != 1 else {}))


def leave_as_it_is(model: GPT, kernels: Kernels) -> None:
    """Put nothing into a model but other names for what is there."""
    model.ops = Ops()
