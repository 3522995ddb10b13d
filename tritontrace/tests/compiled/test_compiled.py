"""The compiler's view of a kernel, without a GPU."""

import importlib.util
import inspect
import os
import re
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from sentences import mentions, refusing, says
from triton import knobs
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import make_backend
from triton.tools.tensor_descriptor import TensorDescriptor

from tritontrace.compiled import _compile, assembly, compile_all, compile_for, ptx_for, sass_for, show
from tritontrace.compiled.complaints import refusal
from tritontrace.compiled.places import Places
from tritontrace.compiled.text import Text, module_of
from tritontrace.gpu import NAMES, SHARED_BYTES, datasheet
from tritontrace.messages import say
from tritontrace.replay.wire import from_tree, pack, to_tree, unpack
from tritontrace.results import Compiled
from tritontrace.ttir import printed
from tritontrace.ttir.frontend import front_of, specialise
from tritontrace.ttir.sources import code_of

pytestmark = pytest.mark.usefixtures("compile_every_time")


@triton.jit
def copy(x_ptr, o_ptr, n, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    tl.store(o_ptr + offs, tl.load(x_ptr + offs * STRIDE, mask=mask), mask=mask)


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, N, K, BM: tl.constexpr, BK: tl.constexpr, PRECISION: tl.constexpr = "tf32"):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BM + tl.arange(0, BM)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        a = tl.load(a_ptr + rm[:, None] * K + k + rk[None, :])
        b = tl.load(b_ptr + (k + rk)[:, None] * N + rn[None, :])
        acc = tl.dot(a, b, acc, input_precision=PRECISION)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc)


X, O = torch.zeros(4096), torch.zeros(4096)
HALF, FLOAT = torch.zeros(256, 256, dtype=torch.float16), torch.zeros(256, 256)


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"])
def test_a_copy_on_every_architecture(gpu):
    found = compile_for(copy, X, O, 4096, STRIDE=1, BLOCK=1024, gpu=gpu)
    assert found.accepted, found.complaint
    assert (found.kernel, found.gpu) == ("copy", gpu)
    assert (found.load_bits, found.store_bits) == (128, 128)
    assert not found.tensor_cores and not found.spills


@pytest.mark.parametrize(
    "x, n, stride, load_bits, store_bits",
    [
        (X, 4096, 2, 32, 128),  # neighbours are not adjacent
        (X, 4095, 1, 32, 32),  # the mask may end anywhere
        (X[1:], 4080, 1, 32, 128),  # starts 4 bytes past a boundary
        (X.half(), 4096, 1, 128, 128),
        (X.to(torch.int8), 4096, 1, 64, 128),  # eight elements per thread: 1024 / 128
    ],
)
def test_width_of_loads(x, n, stride, load_bits, store_bits):
    found = compile_for(copy, x, O, n, STRIDE=stride, BLOCK=1024)
    assert (found.load_bits, found.store_bits) == (load_bits, store_bits)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_matmul_uses_tensor_cores_and_shared_memory(gpu):
    found = compile_for(matmul, HALF, HALF, FLOAT, 256, 256, BM=64, BK=32, gpu=gpu, num_warps=4, num_stages=3)
    assert found.accepted and found.tensor_cores
    assert found.load_bits == 128  # cp.async copies 16 bytes per thread
    assert found.shared_bytes >= 2 * 2 * 64 * 32 * 2  # at least two stages of both tiles


def test_ieee_matmul_uses_no_tensor_cores():
    assert not compile_for(matmul, FLOAT, FLOAT, FLOAT, 256, 256, BM=32, BK=16, PRECISION="ieee").tensor_cores


@triton.jit
def hold_many_values(x_ptr, o_ptr, BLOCK: tl.constexpr):
    """Two matrices in registers at once, and each is needed again at the end."""
    offs = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    a = tl.load(x_ptr + offs)
    b = tl.load(x_ptr + offs + BLOCK * BLOCK)
    total = tl.sum(a * b)
    tl.store(o_ptr + offs, (a - total) * (b + total))


@pytest.mark.parametrize("block, spills", [(32, False), (128, True)])
def test_registers_and_spills(block, spills):
    found = compile_for(hold_many_values, FLOAT, FLOAT, BLOCK=block, num_warps=4)
    assert found.spills == spills
    if spills:  # two 128 x 128 blocks are 256 values per thread, and it has 255 registers
        assert found.registers == 255 and found.spill_bytes > 16
        assert f"Each thread keeps {found.spill_bytes:,} bytes in slow memory" in str(found)
    else:
        assert 16 <= found.registers < 64 and found.spill_bytes == 0


@triton.jit
def sines(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    tl.store(o_ptr + offs, tl.sin(x))


def test_a_table_in_local_memory_is_no_spill():
    assert ".local" in ptx_for(sines, X, O, BLOCK=512)  # libdevice reduces large angles with a table there
    found = compile_for(sines, X, O, BLOCK=512)
    assert found.spill_bytes == 0 and not found.spills
    assert found.loads == {"line 3: `x = tl.load(x_ptr + offs)`": 128}  # four floats a thread; the table is not counted


def test_registers_are_what_nvidias_tool_says(monkeypatch, tmp_path):
    """The tool itself is not asked, since a sandbox starts no further program."""
    file = tmp_path / "sines.cubin"
    file.write_bytes(_compile(sines, (X, O), {"BLOCK": 512}, "sm_90")[1].asm["cubin"])
    said = subprocess.run([knobs.nvidia.cuobjdump.path, "-res-usage", file], capture_output=True, check=True).stdout
    monkeypatch.setattr("subprocess.run", _without_cuobjdump(subprocess.run))
    found = compile_for(sines, X, O, BLOCK=512)
    assert [found.registers] == [int(n) for n in re.findall(rb"\bREG:(\d+)", said)]


def test_a_cubin_that_nobody_can_read_tells_nothing():
    for cubin in (b"", b"\x7fELF", bytes(200)):
        assert assembly.registers(cubin, "") == (None, None)
    assert "unknown: the machine code does not tell" in str(show.Shown("copy", "sm_90", True))


def _without_cuobjdump(real):
    def run(command, *args, **options):
        if "cuobjdump" in command[0] and "--version" not in command:
            raise FileNotFoundError(command[0])
        return real(command, *args, **options)

    return run


@triton.jit
def two_widths(x_ptr, y_ptr, o_ptr, stride, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs)
    y = tl.load(y_ptr + offs * stride)
    tl.store(o_ptr + offs, x + y)


def test_widths_by_line():
    found = compile_for(two_widths, X, X, O, 3, BLOCK=512)
    assert found.loads == {
        "line 3: `x = tl.load(x_ptr + offs)`": 128,
        "line 4: `y = tl.load(y_ptr + offs * stride)`": 32,
    }
    assert found.stores == {"line 5: `tl.store(o_ptr + offs, x + y)`": 128}


def test_too_much_shared_memory():
    found = compile_for(matmul, HALF, HALF, FLOAT, 256, 256, BM=128, BK=128, gpu="sm_86", num_stages=3, num_warps=8)
    assert not found.accepted and not found.too_slow
    facts = {"kernel": "matmul", "bytes": found.shared_bytes, "gpu": "sm_86"}
    assert says(found.complaint, "compiler.failure.shared_memory", **facts)


def test_shared_memory_stands_beside_its_limit():
    found = compile_for(matmul, HALF, HALF, FLOAT, 256, 256, BM=64, BK=32, gpu="sm_86")
    assert found.shared_limit == 99 * 1024
    assert f"{found.shared_bytes:,} of 101,376 bytes per program" in str(found)


# ----------------------------------------------------------------------------------------------------- dots


@triton.jit
def product(a, b, acc, PRECISION: tl.constexpr):
    return tl.dot(a, b, acc, input_precision=PRECISION)


@triton.jit
def many_dots(x_ptr, o_ptr, PRECISION: tl.constexpr = None):
    offs = tl.arange(0, 32)[:, None] * 32 + tl.arange(0, 32)[None, :]
    x = tl.load(x_ptr + offs)
    y = tl.dot(x, x, input_precision=PRECISION)
    y = product(x, x, y, PRECISION)
    y += tl.dot(x, x, input_precision="ieee")
    tl.store(o_ptr + offs, y)


IN_FULL = ["line 4: `y = tl.dot(x, x, input_precision=PRECISION)`"]
IN_A_HELPER = [
    "line 5: `y = product(x, x, y, PRECISION)`, in `product`, line 2: "
    "`return tl.dot(a, b, acc, input_precision=PRECISION)`"
]


@pytest.mark.parametrize(
    "gpu, x, precision, named",
    [
        ("sm_90", FLOAT, None, IN_FULL + IN_A_HELPER),  # the default is TF32
        ("sm_80", FLOAT, "tf32", IN_FULL + IN_A_HELPER),
        ("sm_100", FLOAT, None, IN_FULL + IN_A_HELPER),
        ("sm_90", FLOAT, "ieee", []),
        ("sm_90", FLOAT, "tf32x3", []),  # three products on tensor cores, with nearly all bits of fp32
        ("sm_90", HALF, None, []),  # fp16 has no more bits than TF32
        ("sm_75", FLOAT, None, []),  # no TF32 there
    ],
)
def test_dots_that_run_as_tf32(gpu, x, precision, named):
    found = compile_for(many_dots, x, FLOAT, PRECISION=precision, gpu=gpu)
    assert found.accepted, found.complaint
    assert found.dots == 3
    assert found.tf32_dots == named
    sentences = [line for line in str(found).splitlines() if "as TF32" in line]
    assert len(sentences) == len(named)
    for sentence, place in zip(sentences, named, strict=True):
        assert sentence.startswith(f"kernel `many_dots`, {place}: {gpu} multiplies these fp32 blocks as TF32")
        assert 'Write tl.dot(..., input_precision="ieee")' in sentence


def test_places_in_code_from_tritons_cache(tmp_path, monkeypatch):
    """Jupyter names the file of a cell anew in each session, and Triton's cache does not look at names of files."""
    monkeypatch.delenv("TRITON_ALWAYS_COMPILE")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    cells = "import triton\nimport triton.language as tl\n" + "".join(
        f"\n\n@triton.jit\n{kernel.src}" for kernel in (product, many_dots)
    )
    found = []
    for name in ("first", "second"):
        (tmp_path / f"{name}.py").write_text(cells)
        spec = importlib.util.spec_from_file_location("main", tmp_path / f"{name}.py")  # cells are of one module
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found.append(compile_for(module.many_dots, FLOAT, FLOAT))
        assert len(list((tmp_path / "cache").glob("*/*.ptx"))) == 1  # the second came from the cache
    assert found[0].tf32_dots == IN_FULL + IN_A_HELPER
    assert found[0].loads == {"line 3: `x = tl.load(x_ptr + offs)`": 128}
    assert found[1] == found[0]


def test_turing_says_how_its_dots_run():
    found = compile_for(many_dots, FLOAT, FLOAT, gpu="sm_75")
    assert not found.tensor_cores
    assert "none: tl.dot runs on ordinary cores" in str(found)
    assert "there is no TF32: fp32 dots are exact fp32" in str(found)
    assert "tensor cores" not in str(compile_for(copy, X, O, 4096, STRIDE=1, BLOCK=1024, gpu="sm_75"))


@pytest.mark.parametrize(
    "gpu, x, instruction",
    [
        ("sm_80", HALF, "mma.sync m16n8k16 f32.f16.f16.f32"),
        ("sm_80", FLOAT, "mma.sync m16n8k8 f32.tf32.tf32.f32"),
        ("sm_90", HALF, "wgmma.mma_async m64n64k16 f32.f16.f16"),
        ("sm_100", HALF, "tcgen05.mma m64n64k16 f16"),
        ("sm_100", FLOAT, "tcgen05.mma m64n64k8 tf32"),
    ],
)
def test_which_tensor_core_instruction(gpu, x, instruction):
    found = compile_for(matmul, x, x, FLOAT, 256, 256, BM=64, BK=32, gpu=gpu)
    assert found.tensor_instructions == [instruction]
    assert found.tensor_cores


def test_the_shape_of_a_tcgen05_instruction():
    """The descriptor of M = 128, N = 256: 8 in bits 24 to 28, 32 in bits 17 to 22."""
    ptx = "mov.b32 %r5, {};\n@%p1 tcgen05.mma.cta_group::1.kind::f16 [ %r4 + 0 ], %rd15, %rd16, %r5, %p50;"
    assert assembly.tensor_instructions(ptx.format(8 << 24 | 32 << 17)) == ["tcgen05.mma m128n256k16 f16"]
    assert assembly.tensor_instructions(ptx.replace("%r5, {}", "%r6, 1")) == ["tcgen05.mma f16"]  # not a constant


# ----------------------------------------------------------------------------------------------------- what is refused


@triton.jit
def breaks(x_ptr, n, BLOCK: tl.constexpr):
    for i in range(n):
        if i > 3:
            break
    tl.store(x_ptr, n)


@triton.jit
def returns_in_a_loop(x_ptr, n, BLOCK: tl.constexpr):
    for i in range(n):
        if i > 3:
            return
        tl.store(x_ptr + i, 1.0)


@triton.jit
def branches_on_a_block(x_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if offs < n:
        tl.store(x_ptr + offs, 1.0)


FACTOR = 3


@triton.jit
def uses_a_global(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0 * FACTOR)


@triton.jit
def defines_in_one_branch(x_ptr, n, BLOCK: tl.constexpr):
    if n > 3:
        y = 1.0
    tl.store(x_ptr, y)


@triton.jit
def differs_by_branch(x_ptr, n, BLOCK: tl.constexpr):
    if n > 3:
        y = 1.0
    else:
        y = tl.zeros((BLOCK,), tl.float32)
    tl.store(x_ptr + tl.arange(0, BLOCK), y)


@triton.jit
def changes_its_type(x_ptr, n, BLOCK: tl.constexpr):
    acc = 0
    for i in range(n):
        acc += tl.load(x_ptr + i)
    tl.store(x_ptr, acc)


@triton.jit
def changes_its_shape(x_ptr, n, BLOCK: tl.constexpr):
    acc = 0.0
    i = 0
    while i < n:
        acc += tl.load(x_ptr + tl.arange(0, BLOCK))
        i += 1
    tl.store(x_ptr + tl.arange(0, BLOCK), acc)


@triton.jit
def takes_a_size_at_run_time(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, n), 1.0)


@triton.jit
def makes_zeros_of_a_size_at_run_time(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, BLOCK), tl.zeros((n,), tl.float32))


@triton.jit
def takes_48(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, 48), 1.0)


@triton.jit
def takes_too_many(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.zeros((2048, 1024), tl.float32)
    tl.store(x_ptr, tl.sum(x))


@triton.jit
def makes_a_dict(x_ptr, n, BLOCK: tl.constexpr):
    sizes = {"a": 1}  # noqa: F841
    tl.store(x_ptr, 1.0)


@triton.jit
def grows_a_list(x_ptr, n, BLOCK: tl.constexpr):
    xs = []
    xs.append(n)
    tl.store(x_ptr, 1.0)


@triton.jit
def prints(x_ptr, n, BLOCK: tl.constexpr):
    print(f"n = {n}")
    tl.store(x_ptr, 1.0)


@triton.jit
def calls_torch_exp(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr)
    tl.store(x_ptr, torch.exp(x))


@triton.jit
def calls_numpy(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, np.exp(1.0))


def plain(x):
    return x * 2


@triton.jit
def calls_python(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, plain(tl.load(x_ptr)))


@triton.jit
def multiplies_too_small_blocks(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.zeros((8, 8), tl.float16)
    tl.store(x_ptr, tl.sum(tl.dot(x, x)))


@triton.jit
def multiplies_what_does_not_fit(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.zeros((32, 64), tl.float32)
    tl.store(x_ptr, tl.sum(tl.dot(x, x)))


@triton.jit
def multiplies_two_dtypes(x_ptr, n, BLOCK: tl.constexpr):
    x, y = tl.zeros((32, 32), tl.float32), tl.zeros((32, 32), tl.float16)
    tl.store(x_ptr, tl.sum(tl.dot(x, y)))


@triton.jit
def adds_what_does_not_fit(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 64)) + tl.load(x_ptr + tl.arange(0, 32))
    tl.store(x_ptr + tl.arange(0, 64), x)


@triton.jit
def stores_what_does_not_fit(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.arange(0, 64), tl.zeros((32,), tl.float32))


@triton.jit
def stores_a_block_to_one_address(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.zeros((32,), tl.float32))


@triton.jit
def loads_an_integer(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.load(n))


@triton.jit
def indexes_a_pointer(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, x_ptr[n])


@triton.jit
def takes_an_element(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, 64))
    tl.store(x_ptr, x[0])


@triton.jit
def raises_to_a_power(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.load(x_ptr) ** 2)


@triton.jit
def adds_a_float_to_a_pointer(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + tl.load(x_ptr), 1.0)


@triton.jit
def calls_what_tl_has_not(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, tl.softplus(1.0))


@triton.jit
def prints_a_number(x_ptr, n, BLOCK: tl.constexpr):
    print(n)
    tl.store(x_ptr, 1.0)


@triton.jit
def launches_another(x_ptr, n, BLOCK: tl.constexpr):
    breaks[(1,)](x_ptr, n, BLOCK)


@triton.jit
def returns_its_result(x_ptr, n, BLOCK: tl.constexpr):
    return tl.load(x_ptr)


@triton.jit
def helper(x_ptr):
    return tl.load(x_ptr) + missing  # noqa: F821


@triton.jit
def calls_a_broken_helper(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, helper(x_ptr))


@triton.jit
def leaves_out_an_argument(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr, helper())


@triton.jit
def names_in_passing(x_ptr, n, BLOCK: tl.constexpr):
    if (y := n + 1) > 2:
        tl.store(x_ptr, y)


@triton.jit
def imports(x_ptr, n, BLOCK: tl.constexpr):
    import math  # noqa: F401

    tl.store(x_ptr, n)


@triton.jit
def raises(x_ptr, n, BLOCK: tl.constexpr):
    raise ValueError


@triton.jit
def deletes(x_ptr, n, BLOCK: tl.constexpr):
    y = n + 1
    del y


@triton.jit
def widens_a_constant(x_ptr, n, BLOCK: tl.constexpr):
    tl.store(x_ptr + BLOCK.to(tl.int64), 0.0)


@triton.jit
def makes_a_class(x_ptr, n, BLOCK: tl.constexpr):
    class Nothing:
        pass


TRITON = tuple(map(int, triton.__version__.split(".")[:2]))
COMPLAINTS = [  # kernel, line, the id of what is held against it and some parameters
    (breaks, 4, "node", {"node": "`break`"}),
    (returns_in_a_loop, 3, "return_in_a_loop", {}),
    (branches_on_a_block, 3, "truth_of_a_choice", {}),
    (uses_a_global, 2, "global", {"name": "FACTOR"}),
    (defines_in_one_branch, 4, "undefined", {"name": "y"}),
    (differs_by_branch, 2, "branches_differ", {"name": "y", "one": "fp32", "other": "a block [64] of fp32"}),
    (changes_its_type, 3, "loop_changes_type", {"name": "acc", "before": "int32", "after": "fp32"}),
    (changes_its_shape, 4, "loop_changes_shape", {"name": "acc", "before": "fp32", "shape": "[64]"}),
    (takes_a_size_at_run_time, 2, "block_size_at_run_time", {}),
    (makes_zeros_of_a_size_at_run_time, 2, "block_size_at_run_time", {}),
    (takes_48, 2, "block_size", {}),
    (takes_too_many, 2, "block_too_large", {"elements": "2097152", "most": "1048576"}),
    (makes_a_dict, 2, "node", {"node": say("compiler.node.dict")}),
    *([] if TRITON >= (3, 8) else [(names_in_passing, 2, "node", {"node": "`:=`"})]),
    (imports, 2, "node", {"node": "`import`"}),
    (raises, 2, "node", {"node": "`raise`"}),
    (deletes, 3, "node", {"node": "`del`"}),
    (makes_a_class, 2, "node", {"node": say("compiler.node.class")}),
    (widens_a_constant, 2, "constant_lacks_to", {}),
    (grows_a_list, 3, ("lacks", "list_grows"), {}),
    (prints, 2, "f_string", {}),
    (prints_a_number, 2, "print", {}),
    (calls_torch_exp, 3, ("python_function", "numpy_function"), {}),
    (calls_numpy, 2, ("python_function", "numpy_function"), {}),
    (calls_python, 2, ("python_function", "global"), {"name": "plain"}),
    (multiplies_too_small_blocks, 3, "dot_of_small_blocks", {}),
    (multiplies_what_does_not_fit, 3, "dot_of_other_sizes", {}),
    (multiplies_two_dtypes, 3, "dot_of_two_dtypes", {"one": "fp32", "other": "fp16"}),
    (adds_what_does_not_fit, 2, "blocks_do_not_fit", {"one": "64", "other": "32"}),
    (stores_what_does_not_fit, 2, "blocks_do_not_fit", {"one": "64", "other": "32"}),
    (stores_a_block_to_one_address, 2, "block_at_one_address", {}),
    (loads_an_integer, 2, "no_pointer", {"function": "tl.load", "type": "int32"}),
    (indexes_a_pointer, 2, "pointer_or_method", {}),
    (takes_an_element, 3, "element_taken", {}),
    (raises_to_a_power, 2, "no_power", {}),
    (adds_a_float_to_a_pointer, 2, "no_operation", {"one": "a pointer to fp32", "other": "fp32"}),
    (calls_what_tl_has_not, 2, "tl_lacks", {"name": "softplus"}),
    (launches_another, 2, "nested", {}),
    (returns_its_result, 2, "returns", {}),
    (leaves_out_an_argument, 2, "argument_missing", {"name": "x_ptr"}),
]


@pytest.mark.parametrize(
    "kernel, line, problem, parameters", COMPLAINTS, ids=lambda value: getattr(value, "__name__", "")
)
def test_complaints(kernel, line, problem, parameters, capfd):
    """problem: of today's Triton, and of earlier ones"""
    found = compile_for(kernel, X, 7, BLOCK=64)
    assert not found.accepted and not found.too_slow
    place = f"line {line}: `{code_of(kernel.src.splitlines()[line - 1])}`"
    problems = (problem,) if isinstance(problem, str) else problem
    assert says(found.complaint, "compiler.refusal.of_a_gpu", gpu="sm_90"), found.complaint
    refusal = found.complaint.parameters["refusal"]
    assert says(refusal, "compiler.refusal.at", kernel=kernel.__name__, place=place), found.complaint
    problem = refusal.parameters["problem"]
    assert any(says(problem, f"compiler.problem.{id}", **parameters) for id in problems), (problem.id, problem)
    assert "\n" not in found.complaint and "?." not in found.complaint
    assert capfd.readouterr() == ("", "")  # who writes to stderr may be taken for failing


def test_a_complaint_about_a_helper():
    found = compile_for(calls_a_broken_helper, X, 7, BLOCK=64, seconds=30)  # and it comes out of the child whole
    place = "line 2: `tl.store(x_ptr, helper(x_ptr))`, in `helper`, line 2: `return tl.load(x_ptr) + missing`"
    assert mentions(found.complaint, "compiler.refusal.at", kernel="calls_a_broken_helper", place=place)
    assert mentions(found.complaint, "compiler.problem.undefined", name="missing")


@triton.jit
def says_its_size(x_ptr, BLOCK: tl.constexpr):
    tl.static_print("BLOCK is", BLOCK)
    tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)


def test_what_a_kernel_prints_while_it_is_compiled_is_printed(capsys):
    assert compile_for(says_its_size, X, BLOCK=64).accepted
    assert "BLOCK is" in capsys.readouterr().out


@pytest.mark.parametrize(
    "args, kwargs, id, parameters",
    [
        ((X, O, 4096, 1), {}, "missing", {"name": "BLOCK"}),
        ((X, O, 4096, 1), {"BLOK": 64}, "unknown_near", {"name": "BLOK", "near": "BLOCK"}),
        ((X, O, 4096, 1), {"QUITE_OTHER": 64}, "unknown", {"name": "QUITE_OTHER"}),
        ((X, O, 4096, 1, 64, 64), {}, "too_many", {"parameters": 5, "arguments": 6}),
        ((X, O, 4096, 1, 64), {"n": 7}, "twice", {"name": "n"}),
        (([1.0], O, 4096, 1, 64), {}, "no_type", {"name": "x_ptr", "type": "list"}),
        ((np.zeros(3), O, 4096, 1, 64), {}, "no_type", {"name": "x_ptr", "type": "ndarray"}),
    ],
)
def test_arguments_that_do_not_fit(args, kwargs, id, parameters):
    for seconds in (None, 30):
        found = compile_for(copy, *args, seconds=seconds, **kwargs)
        assert not found.accepted
        assert says(found.complaint, "launch.run.not_compiled", kernel="copy")
        assert says(found.complaint.parameters["reason"], f"launch.argument.{id}", **parameters)


def test_a_gpu_is_named_by_its_card_or_its_architecture():
    assert compile_for(copy, X, O, 4096, STRIDE=1, BLOCK=64, gpu="A10G").gpu == "sm_86"
    assert {datasheet(name).architecture for name in NAMES} == set(SHARED_BYTES)


@pytest.mark.parametrize("gpu", ["H100", "sm_90a", "sm_60", 90])
def test_an_unknown_architecture(gpu):
    with refusing("compiler.asked.gpu", gpu=repr(gpu), names=list(NAMES)):
        compile_for(copy, X, O, 4096, STRIDE=1, BLOCK=64, gpu=gpu)


def test_what_the_assembler_does_not_know():
    complaint = compile_for(copy, X, O, 4096, STRIDE=1, BLOCK=64, gpu="sm_999").complaint
    assert mentions(complaint, "compiler.problem.assembler") and "Value 'sm_999" in complaint
    assert "/" not in complaint  # no path


@pytest.mark.parametrize("seconds", [None, 30])
def test_only_kernels_are_compiled(seconds):
    for wrong in (plain, copy[(1,)]):
        with refusing("compiler.asked.no_kernel", TypeError, type="function"):
            compile_for(wrong, X, seconds=seconds)


def test_who_asks_again_is_told_again():
    for kernel in (calls_python, breaks):
        assert compile_for(kernel, X, 7, BLOCK=64) == compile_for(kernel, X, 7, BLOCK=64)
        assert not compile_for(kernel, X, 7, BLOCK=64).accepted


# ----------------------------------------------------------------------------------------------------- other GPUs
# The front end writes for an sm_90. The text for another GPU is the one that it would write for that GPU.


@triton.jit
def takes_it(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(tl.float32))


@triton.jit
def casts_to_it(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i).to(tl.float8e4nv).to(tl.float32))


@triton.jit
def points_to_it(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x_ptr = o_ptr.to(tl.pointer_type(tl.float8e4nv))
    tl.store(x_ptr + i, 1.0)


@triton.jit
def rounded(x):
    return x.to(tl.float8e4nv).to(x.dtype)


@triton.jit
def has_a_helper(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    tl.store(o_ptr + i, rounded(x))


EIGHT = torch.zeros(4096, dtype=torch.float8_e4m3fn)


@pytest.mark.parametrize(
    "kernel, x, place",
    [
        (takes_it, EIGHT, "line 1: `def takes_it(x_ptr, o_ptr, BLOCK: tl.constexpr):`"),
        (casts_to_it, X, "line 3: `tl.store(o_ptr + i, tl.load(x_ptr + i).to(tl.float8e4nv).to(tl.float32))`"),
        (points_to_it, X, "line 3: `x_ptr = o_ptr.to(tl.pointer_type(tl.float8e4nv))`"),
        (
            has_a_helper,
            X,
            "line 4: `tl.store(o_ptr + i, rounded(x))`, in `rounded`, line 2: `return x.to(tl.float8e4nv).to(x.dtype)`",
        ),
    ],
)
def test_fp8_is_refused_for_gpus_without_it(kernel, x, place):
    for gpu in ("sm_75", "sm_80", "sm_86"):
        for to_the_end in (True, False):
            (found,) = compile_all([(kernel, (x, O), {"BLOCK": 128}, gpu, to_the_end)], 60)
            assert says(found.complaint, "compiler.refusal.of_a_gpu", gpu=gpu)
            assert mentions(found.complaint, "compiler.refusal.at", kernel=kernel.__name__, place=place)
            facts = {"type": "fp8e4nv", "supported": "('fp8e4b15', 'fp8e5')"}
            assert mentions(found.complaint, "compiler.problem.gpu_lacks_type", **facts)
    for gpu in ("sm_89", "sm_90"):
        assert compile_for(kernel, x, O, BLOCK=128, gpu=gpu).accepted


def written(kernel, arguments, gpu, attributes):
    """The text that the front end writes for that GPU, and the one that is compiled instead."""
    target, context = GPUTarget("cuda", gpu, 32), ir.context()
    ir.load_dialects(context)
    make_backend(target).load_dialects(context)
    signature, constants = specialise(kernel, arguments)
    anew = printed.make_module(kernel, signature, constants, attributes, {}, target)
    text = Text(front_of(kernel, arguments, {}), arguments, target)
    return [str(module_of(one, context)) for one in (anew, text.text)]


@pytest.mark.parametrize("dtype", [torch.float8_e5m2, torch.float8_e4m3fn, torch.float16, torch.float32])
@pytest.mark.parametrize("gpu", [75, 80, 89, 90, 100, 120])
def test_products_are_written_as_for_that_gpu(gpu, dtype):
    if gpu < 89 and dtype == torch.float8_e4m3fn:
        return  # refused
    x = torch.zeros(256, 256, dtype=dtype)
    arguments = dict(zip(matmul.arg_names, (x, x, FLOAT, 256, 256, 64, 32, "tf32"), strict=True))
    aligned = {(i,): [["tt.divisibility", 16]] for i in range(5)}
    expected, got = written(matmul, arguments, gpu, aligned)
    assert got == expected
    assert ("maxNumImpreciseAcc" in got) == (gpu == 90 and dtype.itemsize == 1)


@triton.jit(do_not_specialize=["n"], do_not_specialize_on_alignment=["m"])
def of_all_kinds(x_ptr, pair, n, m, k, one, x, o, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(pair[0] + at) + pair[1] + n + m + k + one)
    o.store([0], x.load([0]))


def test_what_is_known_of_arguments_is_noted_as_for_a_launch():
    x = TensorDescriptor.from_tensor(X, [64])
    arguments = dict(
        zip(of_all_kinds.arg_names, (X[1:], (O, 32, X[4:], 7, None, 1), 16, 16, -48, 1, x, x, 64), strict=True)
    )
    aligned = {at: [["tt.divisibility", 16]] for at in ((1, 0), (1, 1), (1, 2), (4,))}
    expected, got = written(of_all_kinds, arguments, 90, aligned)
    assert got == expected


def test_options_reach_the_compiler():
    _, built = _compile(
        copy, (X, O, 4096), {"STRIDE": 1, "BLOCK": 512, "num_warps": 2, "num_stages": 5, "maxnreg": 64}, "sm_90"
    )
    metadata = built.metadata
    assert (metadata.name, metadata.num_warps, metadata.num_stages, metadata.maxnreg) == ("copy", 2, 5, 64)
    assert metadata.target == GPUTarget("cuda", 90, 32) and metadata.shared == 0
    in_pairs = dict(STRIDE=1, BLOCK=512, num_ctas=2)
    assert compile_for(copy, X, O, 4096, **in_pairs).accepted
    assert "num_ctas > 1 requires NVIDIA SM90+" in compile_for(copy, X, O, 4096, gpu="sm_80", **in_pairs).complaint


# ----------------------------------------------------------------------------------------------------- the rest


def test_a_slow_compile_is_stopped():
    began = time.monotonic()
    found = compile_for(
        matmul, FLOAT, FLOAT, FLOAT, 256, 256, BM=256, BK=64, PRECISION="ieee", gpu="sm_80", seconds=0.5
    )
    assert found.too_slow and not found.accepted
    assert says(found.complaint, "compiler.failure.too_slow", kernel="matmul", gpu="sm_80", seconds=0.5)
    assert time.monotonic() - began < 10  # the compiler itself would need more


def test_a_quick_compile_is_the_same_with_a_limit():
    arguments = dict(STRIDE=1, BLOCK=256, num_warps=2)
    assert compile_for(copy, X, O, 4096, seconds=30, **arguments) == compile_for(copy, X, O, 4096, **arguments)


@triton.autotune([triton.Config({"BLOCK": 64}, num_warps=1), triton.Config({"BLOCK": 128})], key=["n"])
@triton.heuristics({"EVEN": lambda arguments: arguments["n"] % arguments["BLOCK"] == 0})
@triton.jit
def decorated(x_ptr, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    if EVEN:
        tl.store(x_ptr + offs, 1.0)
    else:
        tl.store(x_ptr + offs, 2.0, mask=offs < n)


def test_autotuned_kernels_and_heuristics():
    assert ".reqntid 32" in ptx_for(decorated, X, 128).replace(".maxntid", ".reqntid")
    assert "0f3F800000" in ptx_for(decorated, X, 128) or "1065353216" in ptx_for(decorated, X, 128)
    assert compile_for(decorated, X, 100).accepted


def test_ptx():
    ptx = ptx_for(copy, X, O, 4096, STRIDE=1, BLOCK=1024, gpu="sm_80")
    assert ".target sm_80" in ptx and "ld.global.v4" in ptx
    with pytest.raises(ValueError, match="`break`"):
        ptx_for(breaks, X, 7, BLOCK=64)


@pytest.mark.parametrize("gpu", ["sm_80", "sm_100"])
def test_sass(gpu, capfd):
    sass = sass_for(two_widths, X, X, O, 3, BLOCK=512, gpu=gpu)
    assert "LDG.E.128" in sass and "STG.E.128" in sass and "EXIT;" in sass
    assert "    EXIT;" in sass.splitlines()  # without the columns of scheduling bits
    assert capfd.readouterr() == ("", "")  # nvdisasm warns on stderr
    with pytest.raises(ValueError, match="`break`"):
        sass_for(breaks, X, 7, BLOCK=64)


def test_sass_without_nvidias_tools(monkeypatch):
    monkeypatch.setattr("subprocess.check_output", _without_cuobjdump(subprocess.check_output))
    with refusing("compiler.asked.sass"):
        sass_for(two_widths, X, X, O, 5, BLOCK=512)


@triton.jit
def by_descriptor(x, o, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    o.store([i, 0], x.load([i, 0]))


def test_host_descriptors():
    x, o = (TensorDescriptor.from_tensor(FLOAT, [32, 64]) for _ in range(2))
    found = compile_for(by_descriptor, x, o, BLOCK=32)
    assert found.accepted, found.complaint
    assert found.load_bits == 128
    assert found.loads == {"line 3: `o.store([i, 0], x.load([i, 0]))`": 128}
    assert found.stores == {"line 3: `o.store([i, 0], x.load([i, 0]))`": 128}


# ----------------------------------------------------------------------------------------------------- display


FOUND = Compiled(
    "k",
    "sm_90",
    True,
    load_bits=128,
    store_bits=128,
    tensor_cores=True,
    shared_bytes=40960,
    spills=True,
    shared_limit=232448,
    registers=255,
    spill_bytes=1400,
    loads={"line 2: `x = tl.load(x_ptr < 3)`": 32},
    stores={"line 4: `tl.store(o_ptr, x)`": 128},
    tensor_instructions=["wgmma.mma_async m64n64k8 f32.tf32.tf32"],
    dots=1,
    tf32_dots=["line 3: `x = tl.dot(x, x)`"],
)


def test_as_text():
    assert show.text(FOUND).splitlines() == [
        "k for sm_90: accepted",
        "    load           32 bits per thread, line 2: `x = tl.load(x_ptr < 3)`",
        "    store          128 bits per thread, line 4: `tl.store(o_ptr, x)`",
        "    tensor cores   wgmma.mma_async m64n64k8 f32.tf32.tf32",
        "    shared memory  40,960 of 232,448 bytes per program",
        "    registers      255 of 255 per thread",
        "    spills         1,400 bytes per thread",
        "kernel `k`, line 3: `x = tl.dot(x, x)`: sm_90 multiplies these fp32 blocks as TF32, which keeps 10 of the 23 bits "
        'after the point. Write tl.dot(..., input_precision="ieee") for fp32.',
        "Each thread keeps 1,400 bytes in slow memory, as its registers do not suffice. Use smaller blocks, or more warps.",
    ]
    quiet = replace(FOUND, spills=False, spill_bytes=0, tf32_dots=[], loads={}, stores={})
    assert "    load           128 bits per thread" in show.text(quiet).splitlines()  # no line information
    assert "    spills         none" in show.text(quiet).splitlines()
    assert len(show.text(quiet).splitlines()) == 7


def test_a_refusal_as_text():
    assert show.text(Compiled("k", "sm_90", False, "kernel `k`: no.")).splitlines() == [
        "k for sm_90: refused",
        "kernel `k`: no.",
    ]
    late = Compiled("k", "sm_90", False, "kernel `k`: too slow.", too_slow=True)
    assert show.text(late).splitlines()[0] == "k for sm_90: not compiled in time"


def test_as_html():
    page = show.html(FOUND)
    assert "<code>x = tl.load(x_ptr &lt; 3)</code>" in page and "x_ptr < 3" not in page
    assert "40,960 of 232,448 bytes per program" in page and "as TF32" in page
    assert "color: inherit" in page and "#" not in page  # colours of the page: dark themes


def test_what_compile_for_found_shows_itself():
    found = show.Shown(**vars(FOUND))
    assert (str(found), found._repr_html_()) == (show.text(FOUND), show.html(FOUND))
    assert str(compile_for(block_pointer_in_while, X, 4096, BLOCK=64)).startswith("block_pointer_in_while for sm_90: ")


def test_it_travels():
    assert from_tree(Compiled, unpack(pack(to_tree(FOUND)))) == FOUND
    unknown = Compiled("k", "sm_90", True)
    assert from_tree(Compiled, unpack(pack(to_tree(unknown)))) == unknown


@triton.jit
def block_pointer_in_while(x_ptr, n, BLOCK: tl.constexpr):
    pointer = tl.make_block_ptr(x_ptr, (n,), (1,), (0,), (BLOCK,), (0,))
    i = 0
    while i < n:
        tl.store(pointer, tl.zeros((BLOCK,), tl.float32), boundary_check=(0,))
        pointer = tl.advance(pointer, (BLOCK,))
        i += BLOCK


@pytest.mark.skipif(TRITON >= (3, 8), reason="a newer Triton carries a block pointer, or has none")
@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("whole", [True, False])
def test_what_the_compiler_says_it_does_not_do_is_the_reason(whole):
    (found,) = compile_all([(block_pointer_in_while, (), {"x_ptr": X, "n": 4096, "BLOCK": 64}, "sm_90", whole)], 60)
    assert mentions(found.complaint, "compiler.problem.block_pointer_in_while") and not found.crashed
    assert mentions(found.complaint, "compiler.refusal.at", place="line 4: `while i < n:`")


def test_what_is_printed_of_every_failure_is_no_reason():
    own = inspect.getsourcefile(block_pointer_in_while.fn)
    diagnostics = f"{own}:1:0: error: Failures have been detected while processing an MLIR pass pipeline\n"
    places = Places(block_pointer_in_while, {})
    said = refusal(places, RuntimeError("PassManager::run failed"), diagnostics)
    assert says(said, "compiler.refusal.anywhere", kernel="block_pointer_in_while")
    assert mentions(said, "compiler.problem.no_reason")
    line = block_pointer_in_while.starting_line_number + 5
    said = refusal(
        places, RuntimeError("PassManager::run failed"), f"{diagnostics}{own}:{line}:8: error: no such thing\n"
    )
    assert said.endswith(": no such thing") and "line 5" in said


ASSERTION = (
    "python3: /project/lib/Dialect/TritonGPU/Transforms/OptimizeThreadLocality.cpp:71: void run(): "
    'Assertion `rank == 2 && "expected"\' failed.\n'
)


@pytest.mark.parametrize(
    "printed, crashed", [(ASSERTION, True), (f"#loc1 = {ASSERTION}", False), (f"  {ASSERTION}", False), ("", False)]
)
def test_an_assertion_of_the_compiler_is_its_own_failure(monkeypatch, printed, crashed):
    def fails(*args, **options):
        os.write(2, printed.encode())
        raise RuntimeError("PassManager::run failed")

    monkeypatch.setattr(triton, "compile", fails)
    found = compile_for(copy, X, O, 4096, 1, 64)
    assert (found.accepted, found.crashed) == (False, crashed)
    assert says(found.complaint, "compiler.failure.own", part="OptimizeThreadLocality") == crashed
    assert says(found.complaint, "compiler.refusal.of_a_gpu", gpu="sm_90") != crashed
    assert ("the compiler failed" in str(found)) == crashed
