"""What a launch returns and raises is what Triton's would: host code keeps it, asks it, launches it again, and catches it."""

import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions
from triton.language.extra import libdevice

from tritontrace.compiled import compile_for
from tritontrace.tracing import KernelError, trace


@triton.jit
def scale(x_ptr, o_ptr, n, factor, BLOCK: tl.constexpr, TWICE: tl.constexpr = False):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0) * factor
    tl.store(o_ptr + offs, x / tl.sum(x) if TWICE else x, mask=offs < n)


@triton.autotune([triton.Config({"BLOCK": block}) for block in (16, 64, 128)], key=["n"])
@triton.jit
def tuned(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 64)
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + offs, tl.load(x_ptr + offs, mask=offs < n, other=0.0), mask=offs < n)


@triton.autotune([triton.Config({"BLOCK": block}) for block in (16, 32)], key=["n"])
@triton.jit
def never(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK >= 64)
    tl.store(o_ptr, n)


@triton.jit
def of_no_triton(x_ptr):
    try:
        tl.store(x_ptr, 1)
    finally:
        pass


def test_what_a_launch_returns_is_launched_again_with_the_same_constants():
    x, o = torch.arange(100.0), torch.zeros(100)
    with trace() as t:
        compiled = scale[(2,)](x, o, 100, 2.0, BLOCK=64, num_warps=8)
        compiled[(2,)](x, o, 100, 3.0)  # without the constants
        compiled[2, 1](x, o, 100, 3.0, 64, False)
    assert o.equal(3 * x) and [launch.grid for launch in t.launches] == [(2, 1, 1)] * 3
    assert all(front.options["num_warps"] == 8 for front in t.fronts) and t.faults == []


def test_what_a_launch_returns_is_launched_where_launches_go_by_then():
    x, o = torch.arange(100.0), torch.zeros(100)
    with trace() as earlier:
        compiled = scale[(2,)](x, o, 100, 2.0, BLOCK=64)
        ready = scale.warmup(x, o, 100, 2.0, BLOCK=64, grid=(1,))
    with trace() as t:
        compiled[(2,)](x, o, 100, 3.0)
        ready[(2,)](x, o, 100, 4.0)
    assert o.equal(4 * x) and (len(earlier.launches), len(t.launches)) == (1, 2)


def test_what_a_launch_returns_knows_what_the_compiler_does():
    x, o = torch.arange(100.0), torch.zeros(100)
    with trace():
        compiled = scale[(2,)](x, o, 100, 2.0, BLOCK=64, TWICE=True)
        ready = scale.warmup(x, o, 100, 2.0, BLOCK=64, TWICE=True, grid=(1,))
    whole = compile_for(scale, x, o, 100, 2.0, BLOCK=64, TWICE=True)
    for one in (compiled, ready):
        assert (one.n_regs, one.n_spills, one.metadata.shared) == (whole.registers, 0, whole.shared_bytes)
        assert one.metadata.shared > 0 and one.name == "scale" and one.metadata.num_warps == 4
        assert ".visible .entry scale" in one.asm["ptx"] and "tt.load" in one.asm["ttir"]


def test_the_first_configuration_that_compiles_is_the_best():
    x, o = torch.arange(100.0), torch.zeros(100)
    with trace() as t:
        tuned[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, o, 100)
    assert tuned.best_config.kwargs == {"BLOCK": 64}
    assert o.equal(x) and [launch.grid for launch in t.launches] == [(2, 1, 1)]
    with trace(), pytest.raises(triton.CompilationError) as refused:
        never[(1,)](x, o, 100)
    assert mentions(refused.value, "compiler.problem.static_assert") and str(refused.value) == refused.value.message


@pytest.mark.parametrize(
    "kernel, error",
    [
        (never, triton.compiler.errors.CompileTimeAssertionFailure),
        (of_no_triton, triton.compiler.errors.UnsupportedLanguageConstruct),
    ],
)
def test_what_the_compiler_refuses_is_tritons_error_and_ours(kernel, error):
    for kind in (error, triton.CompilationError, KernelError):
        with trace() as t, pytest.raises(kind):
            kernel[(1,)](*[torch.zeros(1)] * (2 if kernel is never else 1), *([1] if kernel is never else []))
        assert t.launches == []


@triton.jit
def power(x_ptr, y_ptr, o_ptr):
    i = tl.arange(0, 16)
    tl.store(o_ptr + i, libdevice.pow(tl.load(x_ptr + i), tl.load(y_ptr + i)))


def test_types_that_a_library_s_function_does_not_take_are_named():
    with trace(), pytest.raises(triton.CompilationError) as refused:
        power[(1,)](torch.ones(16), torch.ones(16).half(), torch.empty(16))
    assert mentions(refused.value, "compiler.problem.no_version", types="(fp32, fp16)")
