"""Whether a launch copies its inputs, by what it loads and stores."""

import pytest

from course_lib.criteria.copies import copied_by
from tritontrace.results import Access, Footprint, Launch


def launch(loads, stores, times=1):
    accesses = [
        Access(tensor, op, "x", line, elements=elements)
        for op, of in (("load", loads), ("store", stores))
        for line, (tensor, elements) in enumerate(of.items())
    ]
    footprints = [Footprint(t, 4 * n, 4 * n * times, 4 * n) for t, n in loads.items()]
    return Launch("k", (1, 1, 1), 1, accesses=accesses, footprints=footprints)


@pytest.mark.parametrize(
    "loads, stores, times, copied",
    [
        ({"q": 64}, {"buffer 1": 64}, 1, ["q"]),
        ({"q": 64, "k": 32}, {"buffer 1": 64, "buffer 2": 32}, 1, ["k", "q"]),
        ({"q": 64}, {"out": 64}, 1, []),
        ({"q": 64, "k": 32}, {"buffer 1": 64}, 1, []),
        ({"q": 64}, {"buffer 1": 8}, 1, []),
        ({"q": 64}, {"buffer 1": 64}, 2, []),
        ({"buffer 1": 64}, {"buffer 2": 64}, 1, []),
    ],
)
def test_a_copy_loads_each_element_once_and_stores_as_many(loads, stores, times, copied):
    assert copied_by(launch(loads, stores, times)) == copied
