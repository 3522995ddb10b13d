"""The pattern of an access equals a count lane by lane, whatever its strides, mask, item and place: one at a time and many at once."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tritontrace.tracing import pattern
from tritontrace.tracing.pattern import LAST_OF_EQUALS, Shape, Shapes, count_each
from tritontrace.tracing.sums import Sum

AXES = st.lists(st.sampled_from([1, 2, 4, 8, 16, 64]), min_size=0, max_size=3).map(tuple)
STRIDES = st.lists(st.sampled_from([0, 1, 1, 2, 3, 8, 33, -1]), min_size=3, max_size=3)


@st.composite
def accesses(draw):
    """(bytes of each lane from an origin, which are active, itemsize, axes)."""
    axes = draw(AXES.filter(lambda axes: math.prod(axes) <= 256))
    itemsize = draw(st.sampled_from([1, 2, 4, 8]))
    strides = draw(STRIDES)
    index = np.indices(axes).reshape(len(axes), math.prod(axes))
    items = sum((index[axis] * strides[axis] for axis in range(len(axes))), np.zeros(math.prod(axes), np.int64))
    mask = np.array(draw(st.lists(st.booleans(), min_size=items.size, max_size=items.size)))
    mask[draw(st.integers(0, items.size - 1))] = True
    return items * itemsize, draw(st.sampled_from([None, mask])), itemsize, axes


def by_hand(lanes, mask, itemsize, axes):
    """(elements, requests, sectors, distinct sectors, useful bytes), of addresses as lists, lane by lane."""
    block = lanes.reshape(axes)
    steps = [block.take(1, axis).flat[0] - block.flat[0] if axes[axis] > 1 else 0 for axis in range(len(axes))]
    of_equals = range(len(axes))[:: 1 if LAST_OF_EQUALS else -1]  # tests/compiled/test_lanes.py asks the compiler
    order = sorted(of_equals, key=lambda axis: axes[axis] if steps[axis] == itemsize else 1)
    active = np.ones(lanes.shape, bool) if mask is None else mask
    flat, on = (values.reshape(axes).transpose(order).ravel().tolist() for values in (lanes, active))
    requests = [
        [a for a, there in zip(flat[i : i + 32], on[i : i + 32], strict=True) if there] for i in range(0, len(flat), 32)
    ]
    touched = [address for request in requests for address in request]
    return (
        len(touched),
        sum(bool(request) for request in requests),
        sum(len({address // 32 for address in request}) for request in requests),
        len({address // 32 for address in touched}),
        sum(len(set(request)) for request in requests) * itemsize,
    ), requests


@settings(max_examples=300, deadline=None)
@given(accesses(), st.integers(0, 40))
@example((np.arange(64) * 4, None, 4, (64,)), 8)
@example((np.arange(1) * 4, None, 4, ()), 7)
@example((np.add.outer(np.arange(2), 33 * np.arange(64)).ravel() * 4, None, 4, (2, 64)), 0)  # a pair of neighbours
def test_one_access(access, items):
    lanes, mask, itemsize, axes = access
    active = lanes if mask is None else lanes[mask]
    start = 4096 + items * itemsize
    shape = Shape(lanes, mask, itemsize, axes)
    pattern = shape.at(start)
    lanes = lanes - active.min() + start
    counted, requests = by_hand(lanes, mask, itemsize, axes)
    assert counted == (
        pattern.elements,
        pattern.requests,
        pattern.sectors,
        pattern.distinct_sectors,
        pattern.useful_bytes,
    )
    touched = sorted(address for request in requests for address in request)
    assert pattern.duplicates == (len(set(touched)) < len(touched))
    assert pattern.contiguous == (touched == list(range(start, start + len(touched) * itemsize, itemsize)))
    assert shape.extent == touched[-1] + itemsize - start
    widest = (pattern.widest + start).tolist()
    assert widest in requests
    assert len({a // 32 for a in widest}) == max(len({a // 32 for a in request}) for request in requests)
    begins, ends = (edges + start for edges in shape.ranges)
    covered = sorted(a for b, e in zip(begins, ends, strict=True) for a in range(b, e, itemsize))
    assert covered == touched, "each lane lies in one range"
    assert len(begins) == 1 or not pattern.contiguous
    assert sorted(pattern.offsets * itemsize + start) == touched
    for further in (0, itemsize, 64):
        expected = sorted({(address + further) // 64 for address in touched})
        assert pattern.units(start + further, 64).tolist() == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(accesses(), min_size=1, max_size=4), st.lists(st.integers(0, 40), min_size=4, max_size=4))
@example([(np.add.outer(np.arange(64), 99 * np.arange(4)).ravel() * 4, None, 4, (64, 4))], [0] * 4)  # columns
def test_many_accesses_that_have_nothing_in_common(several, items):
    _, _, itemsize, axes = several[0]
    rows = [(lanes, mask) for lanes, mask, size, shape in several if (size, shape) == (itemsize, axes)]
    addresses = np.stack([lanes - lanes.min() + items[i] * itemsize for i, (lanes, _) in enumerate(rows)])
    masks = np.stack([np.ones(len(addresses[0]), bool) if mask is None else mask for _, mask in rows])
    for mask in (masks, None):
        counted, duplicates = count_each(addresses, mask, itemsize, axes)
        expected = [by_hand(row, None if mask is None else mask[i], itemsize, axes) for i, row in enumerate(addresses)]
        assert list(zip(*(counter.tolist() for counter in counted), strict=True)) == [
            numbers for numbers, _ in expected
        ]
        touched = [[a for request in requests for a in request] for _, requests in expected]
        assert duplicates == any(len(set(row)) < len(row) for row in touched)


@pytest.mark.parametrize("along, sectors", [(None, 128), (1, 128), (0, 1024)])
def test_lanes_lie_along_the_axis_that_a_layout_chooses(along, sectors):
    lanes = 4 * np.arange(1024)  # 32 rows of 32 floats
    assert Shape(lanes, None, 4, (32, 32), along).at(0).sectors == sectors
    counted, _ = count_each(lanes[None], None, 4, (32, 32), along)
    assert counted.sectors.tolist() == [sectors]
    assert Shapes().of("a", lanes[None], None, 4, (32, 32), along).along == along


@pytest.mark.parametrize(
    "offsets, mask, axes, expected",
    [
        (np.arange(8), None, (8,), 8),  # all lanes in one run
        (np.array([0, 1, 8, 9]), None, (2, 2), 2),  # a row is a run
        (np.array([0, 2, 4, 6]), None, (4,), 1),
        (np.array([0, 1, 2, 7]), None, (4,), 1),
        (np.array([0, 1, 5, 6, 7, 12, 13, 14]), None, (2, 4), 1),  # as many steps of one item, at other places
        (np.arange(8), np.arange(8) < 7, (8,), 1),  # masked
        (np.array([0]), None, (), 1),
        (np.array([0, 1]), None, (2,), 2),
        (np.array([0, 9, 1, 10]), None, (4, 1), 1),
    ],
)
def test_runs(offsets, mask, axes, expected):
    assert Shape(offsets * 4, mask, 4, axes).run == expected


def test_a_shape_is_known_again_wherever_it_lies_and_no_other_is_taken_for_it():
    shapes, lanes, half = Shapes(), np.arange(8) * 4, np.arange(8) < 4
    first = shapes.of("a", lanes[None], None, 4, (8,))
    assert shapes.of("a", (lanes + 400)[None], None, 4, (8,)) is first, "at the same place"
    assert shapes.of("b", (lanes + 800)[None], None, 4, (8,)) is first, "at another place"
    masked = shapes.of("a", lanes[None], half, 4, (8,))
    assert masked is not first and masked.active.size == 4
    assert shapes.of("a", lanes[None], ~half, 4, (8,)).mask.tolist() == [False] * 4 + [True] * 4
    assert shapes.of("a", lanes[None], half, 4, (8,)).mask.tolist() == half.tolist()
    assert shapes.of("b", (lanes * 2)[None], None, 4, (8,)).extent == 60
    assert shapes.of("c", lanes[None], None, 4, (2, 4)).axes == (2, 4)
    assert shapes.of("d", lanes[None], None, 2, (8,)).itemsize == 2


def test_shapes_are_forgotten_when_their_lanes_are_many(monkeypatch):
    """At most 64 lanes are remembered, and one shape more: the third one is alone, and the fifth one comes to 63."""
    monkeypatch.setattr(pattern, "MAX_LANES", 64)
    monkeypatch.setattr(pattern, "_seen", {})
    monkeypatch.setattr(Shapes, "lanes", 0)
    shapes, remembered = Shapes(), []
    for number, lanes in enumerate((32, 32, 32, 31, 5)):
        shapes.of(number, (np.arange(lanes) * 4 * (number + 1))[None], None, 4, (lanes,))
        remembered.append(len(pattern._seen))
    assert remembered == [1, 2, 1, 2, 3]


@pytest.mark.parametrize("lanes, aligned", [([0, 4, 8], True), ([0, 4, 6], False)])
def test_lanes_that_lie_askew(lanes, aligned):
    assert Shape(np.array(lanes) + 2, None, 4, (3,)).aligned == aligned


def test_sums_of_rows_and_columns_are_known_again_by_their_parts():
    shapes, rows, columns = Shapes(), np.arange(64).reshape(1, 64, 1) * 1024, np.arange(128).reshape(1, 1, 128) * 4
    programs = np.array([0, 70_000]).reshape(2, 1, 1)

    def tile(rows, columns):
        return Sum([rows + programs, columns], np.dtype(np.int64))

    def of(lanes, mask=None):
        return shapes.of("a", lanes, mask, 4, (64, 128))

    first = of(tile(rows, columns))
    assert of(tile(rows + 77, columns + 400)) is first and of(tile(rows, columns).whole.reshape(2, -1)) is first
    backwards = of(tile(rows, columns[..., ::-1]))
    assert backwards is not first and backwards.relative[:2].tolist() == [508, 504]
    assert of(tile(rows, columns)) is first
    assert of(tile(rows * (1 + (programs > 0)), columns)) is None
    for _ in range(2):  # by turns, which says nothing of one that lies like the other
        assert of(tile(rows, columns[..., ::-1])) is backwards and of(tile(rows, columns)) is first
    half = np.arange(64 * 128) < 4096
    assert of(tile(rows, columns), half).active.size == 4096 and of(tile(rows, columns)) is first


def test_programs_alike():
    shape = Shape(np.array([8, 4]), None, 4, (2,))
    assert shape.same_lanes(np.array([[8, 4], [108, 104]]))
    assert not shape.same_lanes(np.array([[8, 4], [108, 112]]))
    assert shape.same_lanes(np.array([[8, 4]]))
    masked = Shape(np.array([4, 8, 4]), np.array([False, True, True]), 4, (3,))
    assert masked.lane == 2, "the lowest active one"
