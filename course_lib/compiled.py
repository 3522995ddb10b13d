"""What the Triton compiler makes of a kernel for a given GPU, found out without one.

The interpreter runs many things that a GPU would refuse. So each kernel is also compiled, and its PTX is read: how wide
its loads are, whether it uses tensor cores, whether it spills.
"""

from __future__ import annotations

import contextlib
import ctypes
import inspect
import json
import multiprocessing
import os
import re
import signal
import subprocess
import tempfile
import time
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.errors import PTXASError
from triton.runtime.jit import JITFunction, mangle_type

from course_lib.exercise import Compiled
from course_lib.gpu import SHARED_BYTES

PR_SET_PDEATHSIG = 1  # linux/prctl.h
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")

SPILL_BYTES = 16  # of a thread: a register or two set aside once costs nothing that could be measured
PYTHON_FUNCTION = r"Unsupported function referenced: .*?(?:method|function) (?:\w+\.)*(\w+)"

# The compiler speaks of itself; these say the same of the kernel. The first pattern that is found speaks.
READABLE = (
    (r"unsupported AST node type: (\w+)", r"`\1` is not part of Triton's language"),
    (
        r"Input shapes should have M >= (\d+), N >= (\d+) and K >= (\d+)",
        r"tl.dot needs blocks of at least M \1, N \2, K \3",
    ),
    (r"^(\w+) is not defined$", r"`\1` is not defined here on every path"),
    (
        r"Unsupported function referenced: .*?(?:method|function) (\w+)",
        r"`\1` is a Python function; a kernel calls tl's",
    ),
    (
        r"Cannot access global variable (\w+)",
        r"`\1` is a global; a kernel sees only tl.constexpr globals: write `\1 = tl.constexpr(...)`, or pass it",
    ),
)


def compile_for(kernel: Any, *args: Any, gpu: str = "sm_90", seconds: float | None = None, **kwargs: Any) -> Compiled:
    """Compile a kernel as a launch with these arguments would, for `gpu`; none needs to be present.

    kwargs may hold num_warps and num_stages. Of an autotuned kernel the first configuration is taken. With `seconds`
    the compiler is stopped after that time, and the result says too_slow.
    """
    if seconds is None:
        return _compile(*_resolve(kernel, args, kwargs), gpu)[0]
    return compile_all([(kernel, args, kwargs, gpu)], seconds)[0]


Job = tuple[Any, tuple, dict[str, Any], str]  # kernel, args, kwargs, gpu: what compile_for takes


def compile_all(jobs: Sequence[Job], seconds: float) -> list[Compiled]:
    """compile_for of each job, all within `seconds`, in forked children; a job that crashes costs itself.

    What is not compiled in time is too_slow: nothing is known of it.
    """
    found: list[Compiled] = []
    deadline = time.monotonic() + seconds
    while len(found) < len(jobs):
        found += _in_a_child(jobs[len(found) :], deadline)
    return found


@cache
def warm_up() -> None:
    """Load the compiler into this process, so that forked children find it there: 0.4 s once instead of in each."""
    _compile(*_resolve(_nothing, (0,), {}), "sm_90")


@triton.jit
def _nothing(n):
    tl.static_assert(True)


def ptx_for(kernel: Any, *args: Any, gpu: str = "sm_90", **kwargs: Any) -> str:
    """The PTX of the kernel, as text. ValueError with the compiler's complaint if it does not compile."""
    found, ptx = _compile(*_resolve(kernel, args, kwargs), gpu)
    if not ptx:
        raise ValueError(found.complaint)
    return ptx


# ----------------------------------------------------------------------------------------------------- arguments


def _resolve(kernel: Any, args: tuple, kwargs: dict[str, Any]) -> tuple[JITFunction, dict[str, Any], dict[str, Any]]:
    """The function inside its decorators, its arguments by name, and the compiler's options."""
    names = kernel.arg_names
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    while not isinstance(kernel, JITFunction):
        if isinstance(kernel, Autotuner):
            given = {**kernel.configs[0].all_kwargs(), **given}
        elif isinstance(kernel, Heuristics):
            given |= {name: heuristic(given) for name, heuristic in kernel.values.items()}
        else:
            raise TypeError(
                "Expected a @triton.jit kernel that can be compiled. Is TRITON_INTERPRET set? Unset it first."
            )
        kernel = kernel.fn
    options = {name: given.pop(name) for name in OPTIONS if given.get(name) is not None and name not in names}
    bound = inspect.signature(kernel.fn).bind(**{name: given[name] for name in names if name in given})
    bound.apply_defaults()
    return kernel, bound.arguments, options


def _specialise(kernel: JITFunction, arguments: dict[str, Any]) -> tuple[dict, dict, dict]:
    """Types, constants and alignments, as a launch would find them: 1 becomes a constant, multiples of 16 are noted."""
    signature, constants, attributes = {}, {}, {}
    for parameter in kernel.params:
        name, value = parameter.name, arguments[parameter.name]
        value = value.value if isinstance(value, tl.constexpr) else value
        special = not parameter.do_not_specialize
        one = special and isinstance(value, int) and not isinstance(value, bool) and value == 1
        if parameter.is_constexpr or value is None or one:
            signature[name], constants[name] = "constexpr", value
            continue
        signature[name] = mangle_type(value)
        aligned = value.data_ptr() if hasattr(value, "data_ptr") else value
        if special and isinstance(aligned, int) and not isinstance(aligned, bool) and aligned % 16 == 0:
            attributes[(parameter.num,)] = [["tt.divisibility", 16]]
    return signature, constants, attributes


# ----------------------------------------------------------------------------------------------------- compiling


def _compile(kernel: JITFunction, arguments: dict, options: dict, gpu: str) -> tuple[Compiled, str]:
    name = kernel.fn.__name__
    signature, constants, attributes = _specialise(kernel, arguments)
    try:
        source = triton.compiler.ASTSource(fn=kernel, signature=signature, constexprs=constants, attrs=attributes)
        target = GPUTarget("cuda", int(gpu.removeprefix("sm_")), 32)
        with _quiet():
            built = triton.compile(source, target=target, options=options)
    except Exception as error:
        if str(kernel.hash).startswith("recursion:"):
            kernel.hash = None  # Triton forgets to, and would let the same kernel pass the next time
        return Compiled(name, gpu, accepted=False, complaint=_complaint(kernel, gpu, error)), ""
    ptx = built.asm["ptx"]
    found = Compiled(
        name,
        gpu,
        accepted=True,
        load_bits=max(_widths(r"ld\.global", ptx) + _copy_widths(ptx), default=0),
        store_bits=max(_widths(r"st\.global", ptx), default=0),
        tensor_cores=bool(re.search(r"\b(?:mma|wgmma|tcgen05)\.\w*mma|\bmma\.sync|\btcgen05\.mma", ptx)),
        shared_bytes=built.metadata.shared,
        spills=(_stack_bytes(built.asm["cubin"]) or 0) > SPILL_BYTES,
    )
    _, limit = SHARED_BYTES.get(gpu, (0, 0))
    if limit and found.shared_bytes > limit:
        found.accepted = False
        found.complaint = (
            f"kernel `{name}` needs {found.shared_bytes:,} bytes of shared memory, {gpu} offers {limit:,}. "
            "Use smaller blocks or a lower num_stages."
        )
    return found, ptx


def _widths(instruction: str, ptx: str) -> list[int]:
    """Bits that one thread moves: ld.global.v4.b32 moves 128."""
    found = re.findall(instruction + r"[.\w:]*?(?:\.v(\d))?\.[bufs](\d+)\b", ptx)
    return [int(vector or 1) * int(bits) for vector, bits in found]


def _copy_widths(ptx: str) -> list[int]:
    """cp.async copies 4, 8 or 16 bytes to shared memory; a bulk copy (TMA) always whole tiles, as wide as can be."""
    copies = re.findall(r"cp\.async\.c[ag]\.shared\.global[^;]*?\],[^;]*?\], (?:0x)?(\d+)", ptx)
    widths = [8 * (int(size, 16) if size == "10" else int(size)) for size in copies]
    return widths + ([128] if "cp.async.bulk.tensor" in ptx else [])


def _stack_bytes(cubin: bytes) -> int | None:
    """Bytes of slow memory that each thread uses in place of registers; None where the tool that tells does not run.

    The PTX cannot tell: the assembler decides.
    """
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        tool = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        try:
            usage = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return None
    return max((int(size) for size in re.findall(r"STACK:(\d+)", usage)), default=None)


def _complaint(kernel: JITFunction, gpu: str, error: BaseException) -> str:
    """One sentence: the line, its text, and what the compiler holds against it."""
    where, message = f"kernel `{kernel.fn.__name__}`", ""
    sources: list[str] = []  # of the functions that the error went through: the kernel, then helpers
    while error is not None:
        if isinstance(error, CompilationError):
            message = error.error_message or message
            line = getattr(error.node, "lineno", None)
            if error.src and line and error.src not in sources:
                sources.append(error.src)
                name = re.search(r"def\s+(\w+)", error.src).group(1)
                place = f"line {line}: `{error.src.splitlines()[line - 1].strip()}`"
                where += f", {place}" if error.src == kernel.src else f", in `{name}`, {place}"
        elif isinstance(error, PTXASError):
            message = f"the assembler refused it: {error}"
        else:
            message = str(error) or type(error).__name__
        error = error.__cause__
    message = " ".join(message.split())
    if not sources and (call := re.search(PYTHON_FUNCTION, message)):  # found before compiling, without a place
        lines = enumerate(kernel.src.splitlines(), start=1)
        where += next((f", line {n}: `{text.strip()}`" for n, text in lines if f"{call.group(1)}(" in text), "")
    message = re.sub(r"""^\w+Error\(['"](.*)['"]\)$""", r"\1", message)
    for pattern, readable in READABLE:
        found = re.search(pattern, message)
        if found:
            message = found.expand(readable)
            break
    return f"{where}: {message[:300].rstrip('.')}. {gpu} cannot run this."


@contextlib.contextmanager
def _quiet():
    """The compiler prints its intermediate code to stderr, below Python, when a pass fails."""
    saved, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)


# ----------------------------------------------------------------------------------------------------- time limit


def _in_a_child(jobs: Sequence[Job], deadline: float) -> list[Compiled]:
    """The results of the first jobs, up to the first that crashes, that one included; of all, if time runs out.

    LLVM holds Python's lock, so nothing inside this process could stop it: the compiler runs in a forked child.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child():
        os.setsid()  # a group of its own, so that the assembler it starts is stopped with it
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # and it goes when its parent is killed
        for kernel, args, kwargs, gpu in jobs:
            sender.send_bytes(json.dumps(asdict(_compile(*_resolve(kernel, args, kwargs), gpu)[0])).encode())

    process = context.Process(target=child)
    with warnings.catch_warnings():
        # Python warns of forks beside threads, on stderr, and nbgrader gives 0 to a cell that writes there.
        warnings.simplefilter("ignore", DeprecationWarning)
        process.start()
    sender.close()
    found = []
    try:
        for kernel, _, _, gpu in jobs:
            name = _resolved_name(kernel)
            if not receiver.poll(max(0.0, deadline - time.monotonic())):
                found.append(Compiled(name, gpu, False, f"kernel `{name}` was not compiled: too slow", too_slow=True))
                continue
            try:
                found.append(Compiled(**json.loads(receiver.recv_bytes())))
            except EOFError:
                return [*found, Compiled(name, gpu, False, f"kernel `{name}`: the compiler crashed on it.")]
        return found
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        receiver.close()


def _resolved_name(kernel: Any) -> str:
    while not isinstance(kernel, JITFunction):
        kernel = kernel.fn
    return kernel.fn.__name__
