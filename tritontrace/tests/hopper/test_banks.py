"""Bank conflicts against hand counts, and against Triton's own count where that can be asked."""

import itertools

import pytest
import triton
from sentences import refusing

from tritontrace.hopper import bank_conflicts
from tritontrace.hopper.banks import _builder, _by_bits, _linear, offsets_in_shared
from tritontrace.hopper.language import gl

VERSION = tuple(map(int, triton.__version__.split(".")[:2]))

ROW = gl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0])
COLUMN = gl.BlockedLayout([1, 1], [32, 1], [1, 4], [0, 1])
WIDE = gl.BlockedLayout([1, 4], [4, 8], [4, 1], [1, 0])
PLAIN = gl.SwizzledSharedLayout(1, 1, 1, [1, 0])
SWIZZLED = gl.SwizzledSharedLayout(1, 1, 32, [1, 0])
BY_4 = gl.SwizzledSharedLayout(4, 1, 8, [1, 0])
NVMMA = gl.NVMMASharedLayout(128, 32, 2)
PADDED = gl.PaddedSharedLayout.with_identity_for([[32, 1]], [32, 32], [1, 0])


@pytest.mark.parametrize(
    "registers, shared, conflicts",
    [
        (ROW, PLAIN, 0),
        (COLUMN, PLAIN, 31),  # a column of 32 words lies in one bank
        (ROW, SWIZZLED, 0),
        (COLUMN, SWIZZLED, 0),
        (COLUMN, BY_4, 3),  # 8 phases for 32 rows
        (COLUMN, NVMMA, 3),
        (ROW, PADDED, 0),
        (COLUMN, PADDED, 0),  # each row begins a bank further
        (WIDE, PLAIN, 0),  # 16 bytes for each lane, 8 lanes at a time
    ],
)
def test_hand_counts(registers, shared, conflicts):
    assert bank_conflicts(registers, shared, (32, 32), 4).conflicts == conflicts


def test_triton_counts_the_same():
    """Triton is asked where its own count does not end the process."""
    builder, _ = _builder()
    for registers, shared in itertools.product((ROW, COLUMN, WIDE), (PLAIN, SWIZZLED, BY_4, NVMMA)):
        counted = builder.get_shared_bank_conflicts(registers._to_ir(builder), shared._to_ir(builder), [32, 32], 32)
        assert bank_conflicts(registers, shared, (32, 32), 4).conflicts == counted, (registers, shared)


@pytest.mark.skipif(VERSION < (3, 7), reason="Triton's answer ends the process")
@pytest.mark.parametrize(
    "layout",
    [
        *(gl.NVMMASharedLayout(w, bits, 2, t) for w in (0, 32, 64, 128) for bits in (16, 32) for t in (False, True)),
        PLAIN, SWIZZLED, BY_4, gl.SwizzledSharedLayout(8, 2, 4, [1, 0]), gl.SwizzledSharedLayout(8, 2, 4, [0, 1]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("shape", [(64, 64), (128, 64), (64, 128)])
def test_triton_puts_elements_in_the_same_places(layout, shape):
    assert (offsets_in_shared(layout, shape) == _by_bits(_linear(layout, shape).offset_bases, shape)).all()


def test_the_accumulator_of_wgmma_wants_a_swizzle():
    acc = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, 64, 16])
    found = {
        width: bank_conflicts(acc, gl.NVMMASharedLayout(width, 16, 2), (64, 64), 2).conflicts
        for width in (0, 32, 64, 128)
    }
    assert found[0] > found[128] == 0


def test_where_padding_puts_elements():
    offsets = offsets_in_shared(PADDED, (32, 32))
    assert (offsets[0, 31], offsets[1, 0], offsets[31, 31]) == (31, 33, 32 * 32 - 1 + 31)


def test_what_does_not_fit_is_said():
    with refusing("asked.banks.elements", elements=1024):
        bank_conflicts(COLUMN, PADDED, (64, 32), 4)
    with refusing("asked.banks.itemsize", itemsize=3):
        bank_conflicts(ROW, PLAIN, (32, 32), 3)
