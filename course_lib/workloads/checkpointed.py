"""A run that stops, and goes on in another process: unit 11's checkpoints.

    judge ──state──▶ process: save ──file──▶ judge ──file──▶ another process: load ──state──▶ judge, which trains on

A state is the text of all bytes that the next step depends on, so a process that saves knows no seed to make them from, and one that
loads has nothing but the file. What comes back is trained by whoever judges, and no process reports a loss.
"""

from __future__ import annotations

import os
import resource
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from course_lib.workloads.gpt import GPT
from course_lib.workloads.rehearsals import SMALL, apart

FRESH = 1 << 40  # the seed of the run into which a file is loaded: no case has it
ROOM = 0.5  # of the size of its own file, where the disk is full


class Positions:
    """A data loader: windows of a text in an order that is shuffled in each epoch. Its state is two numbers."""

    def __init__(self, seed: int, windows: int = 12, context: int = 8, batch: int = 4) -> None:
        self.seed, self.windows, self.context, self.batch = seed, windows, context, batch
        self.text = np.random.default_rng(seed).integers(0, SMALL.vocab, windows * context + 1)
        self.epoch = self.at = 0

    def next(self) -> torch.Tensor:
        """Return the next (batch, context + 1) tokens."""
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


class TrainingRun:
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
        """Train this many steps, and return their losses."""
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


PARTS = (WEIGHTS, PLACE, TORCHS, OWN) = (
    "the weights",
    "the loader's place",
    "torch's random state",
    "the state of run.generator",
)
"""What the first loss after loading depends on."""


def run_straight(*, before: int, after: int, seed: int) -> list[float]:
    """Return the losses of an uninterrupted run."""
    with apart(seed):
        return TrainingRun(seed).train(before + after)


def first_loss_without(missing: Sequence[str], *, before: int, after: int, seed: int) -> float:
    """Return the first loss of a run that was loaded without some of its parts: the weights, the loader's place, torch's random state, the
    state of run.generator. All else is as in a run loaded from a file."""
    state = stopped_state(before=before, seed=seed)
    with apart(seed):
        other = _fresh()
        theirs = torch.get_rng_state()
        run = run_of(state)
        drawn = torch.get_rng_state()
        restore: dict[str, Callable[[], Any]] = {
            WEIGHTS: lambda: other.model.load_state_dict(run.model.state_dict()),
            PLACE: lambda: other.loader.load_state_dict(run.loader.state_dict()),
            TORCHS: lambda: torch.set_rng_state(drawn),
            OWN: lambda: other.generator.set_state(run.generator.get_state()),
        }
        torch.set_rng_state(theirs)
        for part in PARTS:
            if part not in missing:
                restore[part]()
        return other.train(1)[0]


# ------------------------------------------------------------------------------------------------------- states


def _tensors(run: TrainingRun) -> list[torch.Tensor]:
    """All that the next step depends on, in one order; random states are bytes."""
    moments = run.optimizer.state_dict()["state"]
    averages = [moments[i][name] for i in sorted(moments) for name in ("step", "exp_avg", "exp_avg_sq")]
    numbers = torch.tensor([run.step, *run.loader.state_dict().values()], dtype=torch.int64)
    return [*run.model.state_dict().values(), *averages, numbers, torch.get_rng_state(), run.generator.get_state()]


def state_of(run: TrainingRun) -> str:
    """Serialise the state of a training run, torch's random state included, as text."""
    parts = [part.detach().contiguous().numpy().tobytes() for part in _tensors(run)]
    return b64encode(b"".join(parts)).decode()


def run_of(state: str) -> TrainingRun:
    """Restore a run from its state, torch's random state included. Raises ValueError if it is malformed."""
    run = _fresh()
    parts, data = _tensors(run), b64decode(state, validate=True)
    if len(data) != sum(part.nbytes for part in parts):
        raise ValueError("a state has other bytes than this run's")
    found, at = [], 0
    for part in parts:
        numbers = np.frombuffer(data, part.numpy().dtype, part.numel(), at)
        found.append(torch.from_numpy(numbers.copy()).view(part.shape))
        at += part.nbytes
    *both, numbers, everybodys, own_generator = found
    weights = run.model.state_dict()
    run.model.load_state_dict(dict(zip(weights, both, strict=False)))
    moments = run.optimizer.state_dict()
    names = [(i, name) for i in sorted(moments["state"]) for name in ("step", "exp_avg", "exp_avg_sq")]
    for (i, name), value in zip(names, both[len(weights) :], strict=True):
        moments["state"][i][name] = value
    run.optimizer.load_state_dict(moments)
    run.step, epoch, at = numbers.tolist()
    if not (0 <= at < run.loader.windows and 0 <= epoch < 1 << 32):
        raise ValueError("a loader stands at no place")
    run.loader.load_state_dict({"epoch": epoch, "at": at})
    try:
        run.generator.set_state(own_generator)
        torch.set_rng_state(everybodys)
    except RuntimeError as error:
        raise ValueError(f"a random state is none: {error}") from None
    return run


def _fresh() -> TrainingRun:
    """A run that has begun with other numbers than every case's."""
    run = TrainingRun(FRESH)
    run.train(1)
    torch.manual_seed(FRESH + 1)
    return run


@lru_cache(maxsize=64)
def stopped_state(*, before: int, seed: int, **_: Any) -> str:
    """Return the state of a run after its first steps."""
    with apart(seed):
        run = TrainingRun(seed)
        run.train(before)
        return state_of(run)


@lru_cache(maxsize=256)
def losses_from(state: str, after: int) -> tuple[float, ...]:
    """Return the losses of `after` steps from a state; () if it is malformed."""
    with apart(0), suppress(ValueError):
        return tuple(run_of(state).train(after))
    return ()


@lru_cache(maxsize=64)
def step_of(state: str) -> int | None:
    """Return the step of a state; None if it is malformed."""
    with apart(0), suppress(ValueError):
        return run_of(state).step
    return None


@lru_cache(maxsize=1)
def bytes_held() -> int:
    """Count the bytes of weights and moments."""
    with apart(0):
        return sum(part.nbytes for part in _tensors(_fresh())[:-3])


# ------------------------------------------------------------------------------------------------------- in processes of their own


def save_apart(checkpoint: Any, *, state: str) -> dict[str, Any] | None:
    """Call checkpoint.save(path, run) for a run of this state, and again on a disk that has no room. Return None if it writes no file.

    file    its bytes, as text;  after  the state of the run that was saved;  kept  the file's bytes after the save that had no room
    """
    with apart(0), tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "run.pt")
        checkpoint.save(path, run := run_of(state))
        if not os.path.exists(path):
            return None
        file, after = _read(path), state_of(run)
        with suppress(Exception), room(int(ROOM * os.path.getsize(path))):  # torch's writer raises RuntimeError
            checkpoint.save(path, run_of(state))
        return {"file": file, "after": after, "kept": _read(path)}


def load_apart(checkpoint: Any, *, file: str, kept: str) -> dict[str, Any]:
    """Call checkpoint.load(path, another run) for each of these files, and return the states.

    loaded    the state of the run that was loaded;  whole  that of one loaded from what was left after a save that failed
    """
    with apart(0), tempfile.TemporaryDirectory() as folder:
        loaded = _loaded(checkpoint, os.path.join(folder, "moved.pt"), file)
        whole = loaded
        if kept != file:
            whole = ""
            with suppress(Exception):
                whole = _loaded(checkpoint, os.path.join(folder, "kept.pt"), kept)
        return {"loaded": loaded, "whole": whole}


def _loaded(checkpoint: Any, path: str, content: str) -> str:
    with open(path, "wb") as file:
        file.write(b64decode(content))
    checkpoint.load(path, run := _fresh())
    return state_of(run)


def _read(path: str) -> str:
    with suppress(OSError), open(path, "rb") as file:
        return b64encode(file.read()).decode()
    return ""


@contextmanager
def room(nbytes: int) -> Iterator[None]:
    """Limit the size of files that this process writes, so that writing more fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, hard))  # Python ignores the signal that comes with it
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
