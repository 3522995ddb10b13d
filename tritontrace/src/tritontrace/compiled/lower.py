"""The part of Triton's compiler that can refuse a kernel, without the part that takes the time.

    the front end's text ──▶ the IR of a GPU: layouts, pipelines, shared memory │ LLVM ──▶ PTX ──▶ the assembler
                  what a kernel does wrong is found before and here             │ four fifths of the time

Right of the bar, too, an operation can turn out to be missing, or to exist for some dtypes on some GPUs; and it is there
that registers run out. So only kernels are spared the end that consist of operations every GPU has had for long (blocks and
their shapes, loads and stores, sums, and Python's arithmetic, in no dtype younger than they), on blocks that leave each thread
few elements. From Ampere to Hopper that includes bfloat16, but for its atomics, and products of 16- or 32-bit floats.
What an older GPU accepts of these, a newer one accepts, if it has the shared memory.
"""

from __future__ import annotations

import os
import re
from functools import cache
from math import prod
from typing import Any

from triton._C.libtriton import ir, nvidia, passes
from triton.backends.compiler import GPUTarget, Language
from triton.backends.nvidia.compiler import get_ptx_version_from_options
from triton.compiler import make_backend

from tritontrace.compiled.text import Text, module_of

# trap: these are the compiler's own passes, from triton._C.libtriton; under a Triton that has others, kernels are
# compiled to the end, which takes five times as long

OPERATIONS = """
    func return get_program_id get_num_programs make_range splat broadcast expand_dims reshape trans join split
    addptr load store atomic_rmw reduce reduce.return bitcast call
"""
ATTRIBUTES = "ptr divisibility contiguity constancy pointer_range noinline num_stages loop_unroll_factor"
OLD = {*OPERATIONS.split(), *ATTRIBUTES.split()}
YOUNG_TYPES = re.compile(r"f8E\d")  # no digest in a kernel's place has a capital letter
BF16, ATOMIC = re.compile(r"bf16\b"), re.compile(r"\btt\.atomic_")
DOT = re.compile(r"\btt\.dot\b[^\n]*: tensor<\w+?x(f16|bf16|f32)> \* tensor<\w+?x\1> -> tensor<\w+?x(?:f16|f32)>")
FEW = 256  # elements of a block for each thread, which has 255 registers: more would spill, and take minutes to compile
RESULT = re.compile(r"tt\.func public [^\n]*\) -> ")  # a kernel returns nothing


class ToTheEnd(Exception):
    """Raised for a kernel that only the assembler can accept or refuse."""


def shared_bytes(source: Text, target: GPUTarget, options: dict[str, Any]) -> int:
    """Return the shared memory of a program in bytes. Raises the compiler's own exceptions if it refuses the kernel, and ToTheEnd."""
    if not available() or source.language != Language.TRITON:
        raise ToTheEnd
    return shared_bytes_of(source.text, target, options, accepted=True)


@cache
def _backend(target: GPUTarget, process: int) -> tuple[Any, Any]:
    """Make Triton's backend for the GPU and a context, where modules live, once for each process: a context may hold threads of
    LLVM's, which a forked child does not have."""
    backend, context = make_backend(target), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return backend, context


def shared_bytes_of(text: str, target: GPUTarget, options: dict[str, Any], *, accepted: bool = False) -> int:
    """Return the same for a module as text; accepted: raise ToTheEnd where the assembler may refuse it."""
    backend, context = _backend(target, os.getpid())
    parsed, capability = backend.parse_options(dict(options)), int(target.arch)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, parsed, Language.TRITON)
    module = stages["ttir"](module_of(text, context), {})
    if accepted and not spared(str(module), threads=32 * parsed.num_warps, capability=capability):
        raise ToTheEnd
    module = stages["ttgir"](module, {})
    manager = ir.pass_manager(context)  # how make_llir begins
    passes.ttgpuir.add_combine_tensor_select_and_if(manager)
    passes.ttgpuir.add_allocate_warp_groups(manager)
    passes.convert.add_scf_to_cf(manager)
    passes.gluon.add_inliner(manager)
    version = get_ptx_version_from_options(parsed, capability)
    nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, capability, version)
    manager.run(module, "shared memory")
    return module.get_int_attr("ttg.shared")


def spared(ttir: str, threads: int, capability: int) -> bool:
    """Whether no later pass can refuse a kernel of this TTIR, with this many threads for each program, on a GPU of this compute capability
    (80 for an sm_80)."""
    operations = set(re.findall(r"\btt\.([a-z_]\w*(?:\.return)?)", ttir))
    if 80 <= capability < 100:
        brain_is_young = ATOMIC.search(ttir)
        if ttir.count("tt.dot ") == len(DOT.findall(ttir)):
            operations.discard("dot")
    else:
        brain_is_young = True
    if YOUNG_TYPES.search(ttir) or (brain_is_young and BF16.search(ttir)):
        return False
    largest = max(
        (prod(map(int, shape.split("x")[:-1])) for shape in set(re.findall(r"tensor<((?:\d+x)+)", ttir))), default=1
    )
    return operations <= OLD and largest <= FEW * threads and not RESULT.search(ttir)


SOMETHING = """
module {
  tt.func public @something(%x_ptr: !tt.ptr<f32>) {
    %x = arith.constant 1.000000e+00 : f32
    tt.store %x_ptr, %x : !tt.ptr<f32>
    tt.return
  }
}
"""


@cache
def available() -> bool:
    """Whether this Triton's passes can be called separately; else every kernel is compiled to the end."""
    try:
        return shared_bytes_of(SOMETHING, GPUTarget("cuda", 90, 32), {}) == 0
    except Exception:  # whatever another version says
        return False
