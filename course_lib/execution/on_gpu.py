"""Run the cases of an answer on a GPU: are the results of the compiled kernels right, too?

    logs, inputs ──▶ process with the GPU (card.py) ──▶ the bytes of each result ──▶ criteria.RightOnGPU

What fails for the machine (no memory, a busy card, a compiler's own error) is not held against the answer: nothing ran then.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal

import torch
from triton import set_allocator

from course_lib.evidence import GPURun
from course_lib.execution import gpu_lock
from course_lib.exercise import Exercise, Trial
from tritontrace.profiling import bench
from tritontrace.replay import Tape, wire

SECONDS = 40.0  # for the process, whose start and compiling take most of it
Step = dict[str, Any]


def can_run(exercise: Exercise) -> bool:
    """Whether this machine has a GPU that runs the exercise's kernels; those in Gluon need a Hopper GPU."""
    if exercise.kind != "kernel" or not bench.has_gpu():
        return False
    return exercise.language != "Gluon" or torch.cuda.get_device_capability()[0] == 9


def run(
    exercise: Exercise, logs: Sequence[Mapping[str, Any]], trials: Sequence[Trial], runner: gpu_lock.Runner
) -> None:
    """Run the log of each trial on the GPU, on the trial's own inputs, and store the outcome in its evidence.

    Nothing runs where a trial had a fault, or did not come to its end: what leaves its tensors can stop a GPU for others.
    """
    if any(t.evidence.faults or t.evidence.hazards or t.evidence.error or t.evidence.refused for t in trials):
        return
    more = {"allows": sorted(exercise.allows), "language": exercise.language}
    inputs = [list(trial.inputs) for trial in trials]
    message = wire.pack({"asked": "run", "logs": [dict(log) for log in logs], "inputs": inputs, **more})
    try:
        written = runner(message, SECONDS).stdout
    except subprocess.TimeoutExpired as late:
        written = late.stdout or b""
    except gpu_lock.Busy as busy:
        return note(trials, "busy", waiting=busy.waiting)
    gpu = ""
    unended: int | None = None
    for step in steps(written):
        match step:
            case {"gpu": str(name)}:
                gpu = name
            case {"launched": int(index)}:
                unended = index
            case {"case": int(index), "outputs": list(outputs)}:
                trials[index].evidence.on_gpu, unended = GPURun(gpu, outputs), None
            case {"case": int(index), "stopped": str(said)}:
                trials[index].evidence.on_gpu, unended = GPURun(gpu, error="stopped", said=said), None
            case {"case": int(index), "not_run": "memory" | "compiler" | "failed" as why, "said": str(said)}:
                trials[index].evidence.on_gpu, unended = GPURun(gpu, not_run=why, said=said), None
    if unended is not None:
        trials[unended].evidence.on_gpu = GPURun(gpu, error="endless")
    elif not any(trial.evidence.on_gpu for trial in trials):
        note(trials, "failed")


def note(trials: Sequence[Trial], why: Literal["busy", "failed"], said: str = "", waiting: int = 0) -> None:
    """Store in each trial's evidence that nothing ran on the GPU, through no fault of the kernels."""
    for trial in trials:
        trial.evidence.on_gpu = GPURun("", not_run=why, said=said, waiting=waiting)


def steps(written: bytes) -> Iterator[Step]:
    """Yield the complete messages in the bytes that the GPU process wrote."""
    at = 0
    while at + gpu_lock.LENGTH.size <= len(written):
        (length,) = gpu_lock.LENGTH.unpack_from(written, at)
        at += gpu_lock.LENGTH.size
        if at + length > len(written):
            return
        yield wire.unpack(written[at : at + length])
        at += length


# ------------------------------------------------------------------------------------------- in the process that has the GPU


def run_here(
    answer: BinaryIO, logs: Sequence[Mapping[str, Any]], inputs: Sequence[Any], allows: Sequence[str], language: str
) -> None:
    """Run each log on its inputs, moved to the GPU, and write each step as soon as it is done, since the reader may stop waiting."""

    def tell(step: Step) -> None:
        answer.write(gpu_lock.framed(wire.pack(step)))
        answer.flush()

    try:
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
    except RuntimeError as error:  # of the machine: no kernel of anybody's has run yet
        return tell({"case": 0, "not_run": "failed", "said": _first_line(error)})
    tell({"gpu": torch.cuda.get_device_name()})
    let_kernels_allocate()
    for index, (log, calls) in enumerate(zip(logs, inputs, strict=True)):
        try:
            results = []
            tape = Tape(log, device="cuda", allows=allows, language=language)
            for call, arguments in enumerate(calls):
                tape.bind(call, moved(arguments))
                results.append(tape.run(call))
            tell({"launched": index})
            torch.cuda.synchronize()
            tell({"case": index, "outputs": [moved_back(result) for result in results]})
        except torch.OutOfMemoryError as error:
            tell({"case": index, "not_run": "memory", "said": _first_line(error)})
        except torch.AcceleratorError as error:  # no GPU work runs in this process any more
            return tell({"case": index, "stopped": bench.stopped(error)})
        except Exception as error:  # of the compiler, or a card with less shared memory than the kernel asks for
            tell({"case": index, "not_run": "compiler", "said": f"{type(error).__name__}: {_first_line(error)}"})


# trap: a tensor descriptor that a kernel makes takes memory, which the author's host code, absent here, had to provide
def let_kernels_allocate() -> None:
    """Set Triton's allocator, which kernels with device-side tensor descriptors need."""
    set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [""])[0][:200]


def moved(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Copy arguments to the GPU: whole storages, so that strides stay, and views of one tensor stay views of one."""
    storages: dict[int, Any] = {}

    def there(value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return type(value)(map(there, value)) if type(value) in (list, tuple) else value
        if not isinstance(value, torch.Tensor):
            return value
        storage = value.untyped_storage()
        if storage._cdata not in storages:
            storages[storage._cdata] = storage.cuda()
        return wire.view(storages[storage._cdata], wire.layout(value))

    return {name: there(value) for name, value in arguments.items()}


def moved_back(result: Any) -> Any:
    """Copy a result to this machine's memory; a tuple becomes a list."""
    if isinstance(result, (list, tuple)):
        return [moved_back(part) for part in result]
    return result.detach().cpu().contiguous() if isinstance(result, torch.Tensor) else result
