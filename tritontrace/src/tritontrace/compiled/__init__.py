"""Facts about the code that the Triton compiler makes of a kernel for a given GPU, found out without one.

A trace evaluates what the front end made of a kernel, which a GPU may still refuse. So that text is also compiled, and what
comes out is read: how wide its loads are, whether it uses tensor cores and in which precision, whether its registers spill.

    launch.py       the arguments, as a launch would find them
    text.py         the front end's text, which is compiled: the very one that a trace evaluates
    places.py       the compiler's lines -> "line 3: `x = tl.load(...)`" of the kernel
    assembly.py     Triton's intermediate code, PTX and machine code -> facts
    ptx.py          PTX, run for some threads as far as addresses go
    warps.py        what they load and store -> requests, sectors, bank conflicts
    complaints.py   the compiler's errors -> one sentence
    lower.py        as far as a kernel can be refused
    fits.py         whether it is sure to fit into shared memory, by looking
    hinted.py       whether the compiler makes use of a false promise
    warmed.py       what `kernel.warmup(...)` and a launch return without a GPU
    remembered.py   what was said of equal kernels, in a process that compiles its own
    limit.py        compiling in a child that can be stopped
    show.py         the facts as text and as HTML
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache
from itertools import chain, starmap
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget

from tritontrace import no_triton
from tritontrace.compiled import assembly, lower, ptx, remembered, warps
from tritontrace.compiled.complaints import complaint, own_failure, refused
from tritontrace.compiled.launch import resolve, undecorated
from tritontrace.compiled.limit import Job, answers, in_a_child
from tritontrace.compiled.places import Places
from tritontrace.compiled.show import Shown, ShownWarps, remarks
from tritontrace.compiled.text import NotThere, Text
from tritontrace.gpu import NAMES, SHARED_BYTES, datasheet
from tritontrace.messages import say
from tritontrace.results import Compiled, Requests, Warps
from tritontrace.ttir.frontend import ALIGNED, OPTIONS, Front, NotAnArgument, flat_values, front_of
from tritontrace.ttir.launching import grid_of, is_descriptor, plain

__all__ = [
    "OPTIONS",
    "compile_all",
    "compile_for",
    "compile_here",
    "ptx_for",
    "remarks",
    "sass_for",
    "warm_up",
    "warps_all",
    "warps_for",
]

OLDEST = 70  # Triton compiles for Volta and newer; the assembler would take older ones too
PROGRAMS, TOGETHER = 4, 32  # programs of a launch whose threads are looked at, and of these at a time
SPILL_BYTES = 16  # of a thread: a register or two set aside once costs nothing that could be measured


def compile_for(kernel: Any, *args: Any, gpu: str = "sm_90", seconds: float | None = None, **kwargs: Any) -> Shown:
    """Compile a kernel as a launch with these arguments would, for `gpu`; none needs to be present.

    kwargs    may hold num_warps and num_stages. Of an autotuned kernel the first configuration is taken
    seconds   after these the compiler is stopped, and the result says too_slow

    Returns a Compiled, which shows itself: widths in bits, sizes in bytes, registers of a thread. What the compiler refuses comes back
    as a complaint. Raises TypeError if `kernel` is not a kernel, ValueError if `gpu` is neither an architecture nor a GPU
    (tritontrace.gpu.NAMES).

    >>> found = compile_for(copy, x, y, 1000, BLOCK=256, num_warps=4)
    >>> found.accepted, found.load_bits, found.shared_bytes, found.spills  # two elements of 4 bytes for a thread, one by one
    (True, 32, 0, False)
    >>> compile_for(copy, x, y, 1000, BLOCK=250).complaint
    '...'
    >>> compile_for(copy, x, y, 1000, BLOCK=256, gpu="sm_1")
    Traceback (most recent call last):
        ...
    ValueError: gpu='sm_1' is neither a GPU nor an architecture that is known here. ...
    """
    undecorated(kernel)
    gpu = _architecture(gpu)
    if seconds is None:
        found = _compile(kernel, args, kwargs, gpu)[0]
    else:
        (found,) = compile_all([(kernel, args, kwargs, gpu)], seconds)
    return Shown(**vars(found))


def compile_all(jobs: Sequence[Job], seconds: float) -> list[Compiled]:
    """Compile each job as compile_for does, all within `seconds`, in forked children. A job that crashes costs only itself.

    What is not compiled in time is too_slow: nothing is known of it. A fifth element, False, asks of a job no more than
    whether the compiler accepts it, which takes a fifth of the time.

    >>> jobs = [(copy, (x, y, 1000), {"BLOCK": size}, "sm_90") for size in (128, 250)]
    >>> [found.accepted for found in compile_all(jobs, seconds=60)]
    [True, False]
    """
    known = list(starmap(_known, jobs))
    asked = [job for job, fact in zip(jobs, known, strict=True) if fact is None]
    found: list[Compiled] = []
    deadline = time.monotonic() + seconds
    while len(found) < len(asked):
        found += in_a_child(lambda *job: _compile(*job)[0], asked[len(found) :], deadline, seconds)
    given = iter(found)
    return [fact or next(given) for fact in known]


def compile_here(jobs: Sequence[Job], seconds: float) -> list[Compiled]:
    """Compile as compile_all does, without limits and in this very process, which a kernel may crash: this is for one's own. Of evaluated
    kernels that are equal to those which the compiler has accepted here, compile_all asks it no more, in this process and its forks.

    >>> jobs = [(copy, (x, y, 1000), {"BLOCK": 128}, "sm_90", False)]
    >>> [found.accepted for found in compile_here(jobs, seconds=60)]
    [True]
    """
    found = [fact for fact, _ in starmap(_compile, jobs)]
    for fact, (kernel, _, kwargs, gpu, *_) in zip(found, jobs, strict=True):
        if isinstance(kernel, Front):
            remembered.remember(fact, kernel, kwargs, _target(gpu))
    return found


def _known(kernel: Any, args: tuple, kwargs: dict[str, Any], gpu: str, to_the_end: bool = True) -> Compiled | None:
    """The facts of an evaluated kernel, if they are known without asking."""
    if not isinstance(kernel, Front):
        return None
    try:
        return remembered.known(kernel, kwargs, _target(gpu), to_the_end=to_the_end)
    except Exception:  # of many kinds: the compiler has more to say about this one
        return None


def _target(gpu: str) -> GPUTarget:
    return GPUTarget("cuda", int(gpu.removeprefix("sm_")), 32)


@cache
def warm_up() -> None:
    """Load the compiler into this process, so that forked children inherit it: 0.4 s once instead of in each.

    >>> warm_up()
    """
    if not no_triton.is_missing():
        _compile(_nothing, (0,), {}, "sm_90")
        lower.available()


@triton.jit
def _nothing(n):
    tl.static_assert(True)


def ptx_for(kernel: Any, *args: Any, gpu: str = "sm_90", **kwargs: Any) -> str:
    """Compile a kernel to PTX, NVIDIA's portable assembly. Raises ValueError with the compiler's complaint if it does not compile.

    >>> "ld.global" in ptx_for(copy, x, y, 1000, BLOCK=256)
    True
    """
    return _assembled(kernel, args, kwargs, gpu).asm["ptx"]


def sass_for(kernel: Any, *args: Any, gpu: str = "sm_90", **kwargs: Any) -> str:
    """Compile a kernel to SASS, the machine code of that GPU. Raises ValueError if it does not compile, or without NVIDIA's tools.

    >>> "LDG" in sass_for(copy, x, y, 1000, BLOCK=256, gpu="A100 80GB")
    True
    """
    built = _assembled(kernel, args, kwargs, gpu)
    try:
        with quiet():
            return assembly.sass(built)
    except assembly.TOOL_FAILED as error:
        raise ValueError(say("compiler.asked.sass")) from error


def warps_for(
    kernel: Any, *args: Any, grid: Any = (1,), gpu: str = "sm_90", programs: int | None = PROGRAMS, **kwargs: Any
) -> ShownWarps:
    """Count the requests, sectors and bank conflicts of warps, as the compiler lays their lanes out for `gpu`; none needs to be present.

    grid       as at the launch;  programs  how many of it are looked at: the first, the last, and others between. None: all
    kwargs     as compile_for takes them

    The compiler's PTX is run for these programs' threads as far as addresses go, with these arguments, and with the indices that
    stand in the tensors now. Returns a Warps, which shows itself. What the compiler refuses comes back as a complaint. Raises TypeError if
    `kernel` is not a kernel, ValueError if `gpu` is neither an architecture nor a GPU.

    >>> found = warps_for(copy, x, y, 1000, BLOCK=1024)  # 1,000 is no multiple of 16, so that lanes move one element at a time
    >>> load = found.requests[0]
    >>> load.line, load.lane_bytes, load.beside_bytes, load.requests, load.sectors, load.needed
    ('line 3: `x = tl.load(x_ptr + i, mask=i < n)`', 4, 16, 32, 500, 128)
    """
    undecorated(kernel)
    return ShownWarps(**vars(_warps(kernel, args, kwargs, _architecture(gpu), grid, programs)))


def warps_all(jobs: Sequence[tuple[Any, tuple, dict[str, Any], str, Any]], seconds: float) -> list[Warps]:
    """Count for each job (kernel, args, kwargs, gpu, grid) as warps_for does, all within `seconds`, in forked children. A job that
    crashes costs only itself.

    >>> jobs = [(copy, (x, y, n), {"BLOCK": 1024}, "sm_90", (1,)) for n in (1000, 1024)]
    >>> [found.requests[0].lane_bytes for found in warps_all(jobs, seconds=60)]
    [4, 16]
    """
    counted: list[Warps] = []
    jobs = [(kernel, args, kwargs, _architecture(gpu), grid) for kernel, args, kwargs, gpu, grid in jobs]
    deadline = time.monotonic() + seconds
    while len(counted) < len(jobs):
        todo = jobs[len(counted) :]
        counted += map(warps.from_data, answers(lambda *job: asdict(_warps(*job)), todo, deadline))
        if len(counted) < len(jobs):
            kernel, _, _, gpu, _ = jobs[len(counted)]
            why = (
                "the compiler crashed on it" if time.monotonic() < deadline else f"too slow, the limit is {seconds:g} s"
            )
            name = undecorated(kernel).fn.__name__
            counted.append(Warps(name, gpu, 0, f"kernel `{name}`: {why}."))
    return counted


def _warps(
    kernel: Any, args: tuple, kwargs: dict[str, Any], gpu: str, grid: Any, programs: int | None = PROGRAMS
) -> Warps:
    facts, built = _compile(kernel, args, kwargs, gpu)
    if built is None:
        return Warps(facts.kernel, gpu, 0, facts.complaint)
    function, arguments, options = resolve(kernel, args, kwargs)
    front = kernel if isinstance(kernel, Front) else front_of(function, arguments, options)
    named, code = list(numbers_of(front, arguments)), ptx.parse(built.asm["ptx"])
    values = [value for _, value in named]
    sizes = grid_of(facts.kernel, grid, arguments)
    chosen = warps.programs_of(sizes, programs)
    batches = [chosen[first : first + TOGETHER] for first in range(0, len(chosen), TOGETHER)]
    memory = ptx.Contents(_contents(front, arguments))
    threads = [ptx.Threads(code, values, batch, sizes, memory) for batch in batches]
    accesses = chain.from_iterable(each.run() for each in threads)
    requests, passes = warps.counted(Places(function, arguments), accesses)
    unaligned = list(dict.fromkeys(name for name, value in named if value is not None and value % ALIGNED))
    whole = all(each.whole for each in threads)
    if unaligned and (thin := [each for each in requests if each.line and each.thin]):
        options = {name: value for name, value in front.options.items() if name in OPTIONS}
        _ask_how_wide(thin, function, {**arguments, **_aligned(arguments, unaligned)}, options, gpu)
    return Warps(facts.kernel, gpu, len(chosen), "", requests, passes, unaligned, whole)


def _ask_how_wide(
    thin: Sequence[Requests], function: Any, arguments: dict[str, Any], options: dict[str, Any], gpu: str
) -> None:
    """Note how much lanes would move of these requests if the kernel were given these arguments."""
    found, _ = _compile(function, (), {**options, **arguments}, gpu)
    for each in thin:
        bits = (found.loads if each.op == "load" else found.stores).get(each.line, 0)
        each.aligned_bytes = bits // 8


def _aligned(arguments: dict[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Arguments that stand in for others, so that the compiler sees multiples of 16."""
    given = {name: arguments[name] for name in names}
    return {
        name: ALIGNED * (value // ALIGNED + 1) if isinstance(value, int) else torch.empty(1, dtype=value.dtype)
        for name, value in given.items()
        if isinstance(value, (int, torch.Tensor))
    }


def numbers_of(front: Front, arguments: dict[str, Any]) -> Iterator[tuple[str, int | None]]:
    """Yield the kernel's arguments, (name, value) in order; None for what is neither a whole number nor an address."""
    for name, value in flat_values(front, arguments):
        if is_descriptor(value):
            yield from ((name, None), *((name, int(each)) for each in (*value.shape, *value.strides)))
        elif hasattr(value, "data_ptr"):
            yield name, value.data_ptr()
        else:
            yield name, int(value) if isinstance(value, int) else None


def _contents(front: Front, arguments: dict[str, Any]) -> Iterator[tuple[int, np.ndarray]]:
    """The address and the bytes of each tensor's storage that lies in this machine's memory."""
    for _, value in flat_values(front, arguments):
        if hasattr(value, "data_ptr") and (storage := plain(value).untyped_storage()).device.type == "cpu":
            yield storage.data_ptr(), torch.empty(0, dtype=torch.uint8).set_(storage).numpy()


def _assembled(kernel: Any, args: tuple, kwargs: dict[str, Any], gpu: str) -> Any:
    """Triton's compiled kernel. Raises ValueError with the compiler's complaint if there is none."""
    undecorated(kernel)
    gpu = _architecture(gpu)
    found, built = _compile(kernel, args, kwargs, gpu)
    if built is None:
        raise ValueError(found.complaint)
    return built


# ----------------------------------------------------------------------------------------------------- compiling


def _compile(
    kernel: Any, args: tuple, kwargs: dict[str, Any], gpu: str, to_the_end: bool = True
) -> tuple[Compiled, Any]:
    """The facts, and Triton's compiled kernel: None if refused, or if it was not to be compiled to the end.

    Of a Front, kwargs are the launch's arguments by name; the front end is not asked again.
    """
    name = undecorated(kernel).fn.__name__

    def not_accepted(sentence: str) -> tuple[Compiled, None]:
        return Compiled(name, gpu, accepted=False, complaint=sentence), None

    try:
        function, arguments, options = resolve(kernel, args, kwargs)
    except NotAnArgument as error:
        return not_accepted(say("launch.run.not_compiled", kernel=name, reason=error.message))
    places = Places(function, arguments)
    diagnostics: list[str] = []
    try:
        target = _target(gpu)
        with quiet(diagnostics):
            front = kernel if isinstance(kernel, Front) else front_of(function, arguments, options)
            text = Text(front, arguments, target)
            if not to_the_end:
                with contextlib.suppress(lower.ToTheEnd):
                    shared = lower.shared_bytes(text, target, front.options)
                    return _within_limits(Compiled(name, gpu, True, shared_bytes=shared, to_the_end=False)), None
            built = triton.compile(text, target=target, options=front.options)
    except NotThere as error:
        of_the_type = refused(places, places.of_lines(error.frames), error.message)
        return not_accepted(say("compiler.refusal.of_a_gpu", refusal=of_the_type, gpu=gpu))
    except Exception as error:  # the compiler's, of many kinds
        if sentence := own_failure(name, "".join(diagnostics)):
            return Compiled(name, gpu, accepted=False, complaint=sentence, crashed=True), None
        return not_accepted(complaint(places, gpu, error, *diagnostics))
    return _facts(places, gpu, built), built


def _facts(places: Places, gpu: str, built: Any) -> Compiled:
    ptx, ttir = built.asm["ptx"], built.asm.get("ttir", "")
    moves = list(assembly.moves(ptx))
    registers, spill_bytes = assembly.registers(built.asm["cubin"], ptx)
    tensor_instructions = assembly.tensor_instructions(ptx)
    dots = list(assembly.dots(ttir))
    as_tf32 = [dot for dot in dots if dot.tf32] if any("tf32" in text for text in tensor_instructions) else []
    found = Compiled(
        places.kernel.name,
        gpu,
        accepted=True,
        load_bits=max((move.bits for move in moves if move.op == "load"), default=0),
        store_bits=max((move.bits for move in moves if move.op == "store"), default=0),
        tensor_cores=bool(tensor_instructions),
        shared_bytes=built.metadata.shared,
        spills=(spill_bytes or 0) > SPILL_BYTES,
        registers=registers,
        spill_bytes=spill_bytes,
        loads=_narrowest(places, [move for move in moves if move.op == "load"]),
        stores=_narrowest(places, [move for move in moves if move.op == "store"]),
        tensor_instructions=tensor_instructions,
        copies=assembly.copies(ptx),
        dots=len(dots),
        tf32_dots=list(dict.fromkeys(filter(None, (places.of_lines(dot.frames) for dot in as_tf32)))),
    )
    return _within_limits(found)


def _within_limits(found: Compiled) -> Compiled:
    """The same facts, but refused if a program needs more shared memory than the GPU has."""
    _, found.shared_limit = SHARED_BYTES.get(found.gpu, (0, 0))
    if found.shared_bytes > found.shared_limit > 0:
        found.accepted = False
        facts = {"kernel": found.kernel, "gpu": found.gpu, "bytes": found.shared_bytes, "limit": found.shared_limit}
        found.complaint = say("compiler.failure.shared_memory", **facts)
    return found


def _narrowest(places: Places, moves: Sequence[assembly.Move]) -> dict[str, int]:
    """The bits that the narrowest instruction at each place moves (the one that could be wider), in the order of lines."""
    narrowest: dict[str, int] = {}
    for move in moves:
        place = places.of_lines(move.frames)
        if place:
            narrowest[place] = min(move.bits, narrowest.get(place, move.bits))
    return {place: narrowest[place] for place in sorted(narrowest, key=Places.line)}


def _architecture(gpu: str) -> str:
    """ "sm_90" for that, or for a GPU that has it, such as "H200". Raises ValueError with the names if it is neither."""
    if isinstance(gpu, str):
        found = datasheet(gpu).architecture if gpu in NAMES else gpu
        number = re.fullmatch(r"sm_(\d+)", found)
        if number and int(number[1]) >= OLDEST:
            return found
    raise ValueError(say("compiler.asked.gpu", gpu=repr(gpu), names=list(NAMES)))


@contextlib.contextmanager
def quiet(heard: list[str] | None = None) -> Iterator[None]:
    """Silence the compiler, which prints its intermediate code when a pass fails: to stderr below Python, and to Python's stdout.

    What went to stderr below Python is added to `heard`. What a kernel prints (tl.static_print) is printed if all is well.
    """
    printed = io.StringIO()
    saved = os.dup(2)
    with tempfile.TemporaryFile() as sink:
        try:
            os.dup2(sink.fileno(), 2)
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
                yield
        finally:
            os.dup2(saved, 2)
            os.close(saved)
            if heard is not None:
                sink.seek(0)
                heard.append(sink.read().decode(errors="replace"))
    sys.stdout.write(printed.getvalue())
