"""PTX, run for some threads: addresses that are worked out by hand."""

import numpy as np
import pytest

from tritontrace.compiled import ptx

HEAD = """
.visible .entry k(
	.param .u64 .ptr .global .align 1 k_param_0,
	.param .u32 k_param_1
)
.reqntid 64
{
	.loc	1 3 0                           // k.py:3:0
	ld.param.b64 	%rd1, [k_param_0];
	ld.param.b32 	%r1, [k_param_1];
	mov.u32 	%r2, %tid.x;
	cvt.u64.u32 	%rd2, %r2;
"""
LANE = np.arange(64)


def run(body, values=(4096, 5), programs=((0, 0, 0),), grid=(1, 1, 1), memory=()):
    threads = ptx.Threads(
        ptx.parse(HEAD + body + "\tret;\n}\n"), values, np.array(programs), grid, ptx.Contents(memory)
    )
    return list(threads.run()), threads


def addresses(body, **more):
    (access,), _ = run(body, **more)
    return access.addresses.reshape(-1) - 4096


@pytest.mark.parametrize(
    "compute, expected",
    [
        ("shl.b32 %r3, %r2, 2;", LANE * 4),
        ("mad.lo.s32 %r3, %r2, %r1, 8;", LANE * 5 + 8),
        ("mul.lo.s32 %r3, %r2, -3; neg.s32 %r3, %r3;", LANE * 3),
        ("bfe.u32 %r3, %r2, 1, 3;", LANE // 2 % 8),
        ("bfe.s32 %r3, %r2, 0, 1; and.b32 %r3, %r3, 144;", LANE % 2 * 144),
        ("bfi.b32 %r3, %r2, 7, 2, 30;", LANE * 4 + 3),
        ("lop3.b32 %r3, %r2, 12, 5, 0x6a;", (LANE & 12) ^ 5),  # 0x6a is (a & b) ^ c
        ("xor.b32 %r3, %r2, 21;", LANE ^ 21),
        ("not.b32 %r4, %r2; and.b32 %r3, %r4, 63;", 63 - LANE),
        ("div.s32 %r3, %r2, %r1;", LANE // 5),
        ("rem.u32 %r3, %r2, %r1;", LANE % 5),
        ("sub.s32 %r4, %r2, 70; rem.s32 %r4, %r4, 5; neg.s32 %r3, %r4;", (70 - LANE) % 5),  # towards zero
        ("min.s32 %r3, %r2, 7; max.u32 %r3, %r3, 3;", np.clip(LANE, 3, 7)),
        ("shr.u32 %r4, -1, 28; add.s32 %r3, %r4, %r2;", LANE + 15),
        ("sub.s32 %r4, %r2, 40; shr.s32 %r4, %r4, 31; and.b32 %r3, %r4, 8;", (LANE < 40) * 8),
        ("setp.lt.u32 %p1, %r2, 3; selp.b32 %r3, 100, %r2, %p1;", np.where(LANE < 3, 100, LANE)),
        ("setp.ge.s32 %p2, %r2, 9; setp.lt.and.s32 %p1, %r2, 12, %p2; selp.b32 %r3, 1, 0, %p1;", (LANE >= 9) & (LANE < 12)),
        ("setp.eq.s32 %p2, %r2, 9; not.pred %p1, %p2; selp.b32 %r3, 1, 0, %p1;", LANE != 9),
        ("mov.b32 {%rs1, %rs2}, %r2; mov.b32 %r3, {%rs1, %rs1}; and.b32 %r3, %r3, 65535;", LANE),
        ("shr.u32 %r4, %r2, 5; shfl.sync.idx.b32 %r3, %r4, 0, 31, -1;", LANE // 32),
        ("mov.u32 %r3, 3; setp.gt.s32 %p1, %r2, 50; @%p1 mov.u32 %r3, 7;", np.where(LANE > 50, 7, 3)),
        ("mul.hi.u32 %r4, %r2, 1073741824; add.s32 %r3, %r4, 0;", LANE >> 2),
    ],
)  # fmt: skip
def test_whole_numbers(compute, expected):
    body = f"\t{compute}\n\tcvt.u64.u32 %rd3, %r3;\n\tadd.s64 %rd4, %rd1, %rd3;\n\tst.global.b8 [ %rd4 + 0 ], {{ %rs9 }};\n"
    assert addresses(body).tolist() == np.broadcast_to(expected, 64).astype(int).tolist()


def test_wide_products_have_a_sign():
    body = "sub.s32 %r3, %r2, 8; mad.wide.s32 %rd3, %r3, 4, %rd1; ld.global.v2.b32 {%r8, %r9}, [%rd3+-4];\n"
    (access,), _ = run(body)
    assert access.bytes == 8 and (access.addresses.reshape(-1) - 4096 == 4 * LANE - 36).all()


def test_programs_have_places_of_their_own():
    body = "mov.u32 %r3, %ctaid.y; mad.lo.s32 %r4, %r3, 1000, %r2; mad.wide.u32 %rd3, %r4, 1, %rd1; st.global.b8 [%rd3], %rs1;"
    found = addresses(body, programs=((0, 0, 0), (1, 2, 0)), grid=(2, 3, 1))
    assert found.tolist() == [*LANE, *(LANE + 2000)]


def test_a_loop_goes_round_as_often_as_its_numbers_say_and_no_longer_than_is_looked():
    loop = """
	mov.b32 %r5, 0;
$L__BB0_1:
	st.global.b32 [%rd1], %r2;
	add.s32 %r5, %r5, 1;
	setp.lt.s32 %p1, %r5, %r1;
	@%p1 bra $L__BB0_1;
	st.global.b64 [%rd1], %rd2;
"""
    found, threads = run(loop)
    assert [access.bytes for access in found] == [4] * 5 + [8] and threads.whole
    found, threads = run(loop, values=(4096, 1 << 30))
    assert found[-1].bytes == 8 and len(found) <= ptx.MOST and not threads.whole


def test_threads_that_part_ways_meet_again():
    body = """
	setp.gt.u32 %p1, %r2, 9;
	@%p1 bra $L__BB0_2;
	mov.b32 %r3, 1;
	st.global.b32 [%rd1], %r2;
	bra.uni $L__BB0_3;
$L__BB0_2:
	mov.b32 %r3, 2;
$L__BB0_3:
	mad.wide.u32 %rd3, %r3, 4, %rd1;
	st.global.b64 [%rd3], %rd2;
"""
    (few, every), _ = run(body)
    assert few.active.reshape(-1).tolist() == (LANE < 10).tolist() and every.active.all()
    assert (every.addresses.reshape(-1) - 4096).tolist() == np.where(LANE < 10, 4, 8).tolist()


LOADED = """
	ld.global.b32 %r3, [%rd1];
	setp.eq.b32 %p1, %r3, 0;
	@%p1 bra $L__BB0_1;
	mad.wide.s32 %rd3, %r3, 4, %rd1;
	@!%p1 st.global.b32 [%rd3], %r2;
$L__BB0_1:
	add.f32 %f1, %f1, %f1;
	cvt.rzi.s32.f32 %r4, %f1;
	st.global.b32 [%rd1], %r4;
"""


def test_what_was_loaded_from_elsewhere_is_unknown_and_so_is_what_it_makes():
    found, _ = run(LOADED)
    assert [access.addresses is None for access in found] == [False, True, False]
    assert all(access.active.all() for access in found)


def test_what_stands_in_a_tensor_is_known():
    for first, ends in ((0, [4096]), (-5, [4096 - 20, 4096]), (9, [4096 + 36, 4096])):
        (_, *stores), _ = run(
            LOADED, memory=[(0, np.zeros(8, np.uint8)), (4096, np.array([first], np.int32).view(np.uint8))]
        )
        assert [int(access.addresses[0, 0]) for access in stores] == ends


def test_lanes_that_load_nothing_keep_what_they_have():
    body = """
	setp.lt.u32 %p1, %r2, 4;
	mul.wide.u32 %rd3, %r2, 2;
	add.s64 %rd3, %rd3, %rd1;
	mov.u32 %r3, 0x3;
	@%p1 ld.global.v2.b8 {%r4, %r3}, [%rd3];
	mad.wide.u32 %rd4, %r3, 1, %rd1;
	st.global.b8 [%rd4], %r2;
"""
    (_, store), _ = run(body, memory=[(4096, np.arange(8, dtype=np.uint8) + 10)])
    assert (store.addresses.reshape(-1) - 4096).tolist() == [11, 13, 15, 17, *[3] * 60]


def test_copies_and_matrices():
    body = """
	mov.b32 %r3, global_smem;
	shl.b32 %r4, %r2, 4;
	add.s32 %r5, %r3, %r4;
	setp.lt.s32 %p1, %r2, 8;
	selp.b32 %r6, 16, 0, %p1;
	cp.async.cg.shared.global [ %r5 + 0 ], [ %rd1 + 0 ], 0x10, %r6;
	cp.async.commit_group;
	ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r7, %r8}, [%r5];
	stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5], {%r7, %r7, %r7, %r7};
	atom.global.gpu.acq_rel.add.noftz.f16x2 %r9, [%rd1], %r7;
"""
    found, _ = run(body)
    assert [(each.op, each.space, each.bytes, int(each.active.sum())) for each in found] == [
        ("load", "global", 16, 8),
        ("store", "shared", 16, 64),
        ("load", "shared", 16, 32),
        ("store", "shared", 16, 64),
        ("atomic", "global", 4, 64),
    ]


def test_what_no_address_depends_on_is_left_out():
    code = ptx.parse(HEAD + "\tadd.s32 %r8, %r2, 1;\n\tst.global.b32 [%rd1], %r8;\n\tret;\n}\n")
    assert [each.name for each in code.instructions] == ["ld.param.b64", "st.global.b32", "ret"]
    assert code.threads == 64 and code.instructions[1].frames == (("k.py", 3),)
