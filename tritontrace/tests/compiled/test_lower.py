"""Asked only whether the compiler accepts a kernel, it says what it says when it compiles to the end."""

from functools import partial

import pytest
import torch
import triton
import triton.language as tl
from sentences import refusing, says
from test_compiled import COMPLAINTS, FLOAT, HALF, O, X, copy, matmul

from tritontrace.compiled import compile_all, compile_for, fits, lower
from tritontrace.compiled.warmed import warmed
from tritontrace.replay.replaying import ToCompile, compile_every, compile_launched
from tritontrace.results import Compiled
from tritontrace.ttir.frontend import front_of
from tritontrace.ttir.launching import KernelError

pytestmark = pytest.mark.usefixtures("compile_every_time")


@triton.jit
def transpose(x_ptr, o_ptr, BLOCK: tl.constexpr):
    i, j = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    tl.store(o_ptr + j * BLOCK + i, tl.load(x_ptr + i * BLOCK + j))


@triton.jit
def count(o_ptr):
    tl.atomic_add(o_ptr, 1.0)


@triton.jit
def multiply_integers(x_ptr, o_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)[:, None] * BLOCK + tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + offsets)
    tl.store(o_ptr + offsets, tl.dot(x, x))


def accepted(kernel, gpu, **arguments):
    """The facts, without those of the machine code."""
    (found,) = compile_all([(kernel, (), arguments, gpu, False)], 60)
    return found


def launched(kernel, arguments, **options):
    """What a replay makes of a launch."""
    return ToCompile("k", front_of(kernel, arguments, options), arguments, "a case")


def test_this_triton_is_asked_so():
    assert lower.available()


@pytest.mark.parametrize("kernel", [kernel for kernel, *_ in COMPLAINTS], ids=lambda kernel: kernel.__name__)
def test_what_is_refused_is_refused_in_the_same_words(kernel):
    names = dict(zip(kernel.arg_names, (X, 7), strict=False))
    (found,) = compile_all([(kernel, (), names | {"BLOCK": 64}, "sm_90", False)], 60)
    assert not found.accepted
    assert found.complaint == compile_for(kernel, X, 7, BLOCK=64).complaint


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("BLOCK", [16, 64, 128])
def test_shared_memory_is_the_same(gpu, BLOCK):
    whole = compile_for(transpose, FLOAT, FLOAT, BLOCK=BLOCK, num_warps=8, gpu=gpu)
    found = accepted(transpose, gpu, x_ptr=FLOAT, o_ptr=FLOAT, BLOCK=BLOCK, num_warps=8)
    assert found.accepted and found.shared_bytes == whole.shared_bytes and found.shared_limit == whole.shared_limit
    assert found.registers is None and not found.loads  # not compiled to the end
    assert BLOCK == 16 or found.shared_bytes > 0


@pytest.mark.parametrize("BLOCK", [16, 64, 128])
def test_what_an_old_gpu_accepts_a_new_one_does(BLOCK):
    found = [
        accepted(transpose, gpu, x_ptr=FLOAT, o_ptr=FLOAT, BLOCK=BLOCK, num_warps=8)
        for gpu in ("sm_80", "sm_90", "sm_100")
    ]
    assert len({facts.shared_bytes for facts in found}) == 1 and not any(facts.to_the_end for facts in found)
    limits = [facts.shared_limit for facts in found]
    assert limits == sorted(limits)


def test_too_much_shared_memory_is_refused(monkeypatch):
    monkeypatch.setitem(compile_for.__globals__["SHARED_BYTES"], "sm_86", (0, 1024))
    found = accepted(transpose, "sm_86", x_ptr=FLOAT, o_ptr=FLOAT, BLOCK=64)
    assert not found.accepted and says(found.complaint, "compiler.failure.shared_memory", gpu="sm_86", limit=1024)
    assert compile_for(transpose, FLOAT, FLOAT, BLOCK=64, gpu="sm_86").complaint == found.complaint


def test_where_the_assembler_decides_it_is_asked():
    assert accepted(count, "sm_90", o_ptr=torch.zeros(1, dtype=torch.bfloat16)).registers
    assert accepted(count, "sm_90", o_ptr=torch.zeros(1)).registers is None
    arguments = dict(zip(matmul.arg_names, (HALF, HALF, FLOAT, 256, 256, 64, 32), strict=False))
    assert accepted(matmul, "sm_100", **arguments).tensor_cores  # compiled to the end


@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_products_need_the_same_shared_memory(gpu, dtype):
    x, out = torch.zeros(256, 256, dtype=dtype), torch.zeros(256, 256)
    arguments = dict(zip(matmul.arg_names, (x, x, out, 256, 256, 64, 32), strict=False))
    found, whole = accepted(matmul, gpu, **arguments), compile_for(matmul, x, x, out, 256, 256, 64, 32, gpu=gpu)
    assert found.accepted and not found.to_the_end and whole.accepted
    assert found.shared_bytes == whole.shared_bytes > 0


def test_products_of_other_types_and_bfloat16_atomics_are_left_to_the_assembler():
    eight = torch.zeros(256, 256, dtype=torch.int8)
    sums = torch.zeros(256, 256, dtype=torch.int32)
    arguments = dict(zip(multiply_integers.arg_names, (eight, sums, 64), strict=True))
    assert accepted(multiply_integers, "sm_90", **arguments).to_the_end
    assert accepted(count, "sm_90", o_ptr=torch.zeros(1, dtype=torch.bfloat16)).to_the_end


def test_a_digest_is_no_type():
    assert lower.YOUNG_TYPES.search("tensor<64x32xf8E4M3FN>") and lower.YOUNG_TYPES.search("!tt.ptr<f8E5M2>")
    assert not lower.YOUNG_TYPES.search('loc("<kernel load_rows f8d8ccea6fcc921d>":3:24)')


def test_large_blocks_are_compiled_to_the_end_for_registers_run_out():
    assert accepted(transpose, "sm_90", x_ptr=FLOAT, o_ptr=FLOAT, BLOCK=128, num_warps=1).to_the_end  # 512 a thread
    few = accepted(transpose, "sm_90", x_ptr=FLOAT, o_ptr=FLOAT, BLOCK=128)  # 128
    assert few.accepted and not few.to_the_end
    assert compile_for(transpose, FLOAT, FLOAT, BLOCK=128).spill_bytes == 0


def test_newer_gpus_are_asked_where_the_assembler_or_the_shared_memory_decides(monkeypatch):
    asked = []

    def compile_nothing(jobs, seconds):
        asked.extend((job[2]["BLOCK"], job[3]) for job in jobs)
        return [
            Compiled("copy", job[3], True, "", shared_bytes=job[2]["BLOCK"], shared_limit=1024, to_the_end=BLOCK == 128)
            for job in jobs
            for BLOCK in [job[2]["BLOCK"]]
        ]

    monkeypatch.setattr(fits, "surely", lambda front, gpu: False)
    launches = [
        launched(copy, {"x_ptr": X, "o_ptr": O, "n": 8, "STRIDE": 1, "BLOCK": BLOCK}) for BLOCK in (64, 128, 512)
    ]
    (found,) = compile_every([launches], ["sm_80", "sm_90"], 60, compiler=compile_nothing)
    assert asked == [(64, "sm_80"), (128, "sm_80"), (512, "sm_80"), (128, "sm_90"), (512, "sm_90")]
    assert [(facts.gpu, facts.to_the_end) for facts in found if facts.accepted] == [
        ("sm_80", False),
        ("sm_80", True),
        ("sm_80", False),
        ("sm_90", False),
        ("sm_90", True),
        ("sm_90", False),
    ]


def test_whose_report_is_asked_for_is_compiled_to_the_end_for_the_newest_gpu():
    launches = [launched(copy, {"x_ptr": X, "o_ptr": O, "n": 8, "STRIDE": 1, "BLOCK": BLOCK}) for BLOCK in (64, 128)]
    other, told = compile_every([launches, launches], ["sm_80", "sm_90"], 60, reported=[1])
    assert not any(fact.registers for fact in other)
    assert [(fact.gpu, bool(fact.registers)) for fact in told] == 2 * [("sm_80", False)] + 2 * [("sm_90", True)]


def test_a_check_compiles_the_last_launch_and_asks_about_the_largest():
    launches = [
        launched(transpose, {"x_ptr": FLOAT, "o_ptr": FLOAT, "BLOCK": BLOCK}, num_warps=8) for BLOCK in (16, 256, 64)
    ]
    refused = [facts for facts in compile_launched(launches, ["sm_80", "sm_90"], 60) if not facts.accepted]
    assert [(facts.gpu, facts.shared_bytes > facts.shared_limit) for facts in refused] == [("sm_80", True)]
    accepted_both = compile_launched(launches[:1], ["sm_80", "sm_90"], 60)
    assert [(facts.gpu, facts.to_the_end) for facts in accepted_both] == [("sm_80", False), ("sm_90", True)]


def test_of_a_check_the_newest_gpu_is_asked_first_and_told_last(monkeypatch):
    asked = []

    def compile_one_in_time(jobs, seconds):
        asked.extend((job[3], job[4]) for job in jobs)
        late = [Compiled("copy", gpu, False, too_slow=True) for *_, gpu, _ in jobs[1:]]
        return [Compiled("copy", jobs[0][3], True), *late]

    asking = partial(compile_launched.__globals__["_compiled"], compiler=compile_one_in_time)
    monkeypatch.setitem(compile_launched.__globals__, "_compiled", asking)
    monkeypatch.setattr(fits, "surely", lambda front, gpu: False)
    launches = [launched(copy, {"x_ptr": X, "o_ptr": O, "n": 8, "STRIDE": 1, "BLOCK": BLOCK}) for BLOCK in (128, 64)]
    found = compile_launched(launches, ["sm_80", "sm_90"], 60)
    assert asked == [("sm_90", True), ("sm_80", False), ("sm_80", False)]
    assert [(fact.gpu, fact.too_slow) for fact in found] == [("sm_80", True), ("sm_90", False)]


@pytest.mark.parametrize("options", [{}, {"num_warps": 8}, {"num_warps": 16, "num_stages": 2}], ids=str)
@pytest.mark.parametrize(
    "kernel, arguments",
    [(transpose, (FLOAT, FLOAT, 64)), (matmul, (HALF, HALF, FLOAT, 256, 256, 64, 32))],
    ids=["transpose", "matmul"],
)
def test_what_warmup_returns_says_what_the_compiler_does(kernel, arguments, options):
    ready = warmed(kernel, arguments, options, launch=lambda *args, **named: (args, named))
    whole = compile_for(kernel, *arguments, **options)
    assert ready.metadata.shared == whole.shared_bytes > 0 and ready.name == kernel.__name__
    assert whole.registers <= ready.n_regs and 65536 // (ready.n_regs * 32 * ready.metadata.num_warps) >= 1
    assert ready[3, 4](*arguments) == (arguments, options | {"grid": (3, 4)})


@triton.jit
def staged(x_ptr, num_stages: tl.constexpr):
    for i in tl.range(0, 4, num_stages=num_stages):
        tl.store(x_ptr + i, 0.0)


def test_an_option_that_is_a_parameter_comes_with_the_launch_of_what_warmup_returns():
    options = {"num_stages": 2, "num_warps": 8}
    ready = warmed(staged, (FLOAT,), options, launch=lambda *args, **named: (args, named))
    assert ready.metadata.num_stages == 2
    assert ready[(3,)](FLOAT, 2) == ((FLOAT, 2), {"num_warps": 8, "grid": (3,)})


def test_what_cannot_be_warmed_up_is_told_in_the_words_of_the_compiler():
    kernel = COMPLAINTS[0][0]
    with refusing("compiler.refusal.of_a_gpu", KernelError, gpu="sm_90"):
        warmed(kernel, tuple((X, 7, 64)[: len(kernel.arg_names)]), {}, print)
