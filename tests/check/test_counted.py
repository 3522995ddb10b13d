"""The criteria that count bytes, programs and time, on evidence made by hand."""

import pytest
import torch

from course_lib import criteria
from course_lib.criteria import Coalesced, Programs, Speed, Traffic
from course_lib.exercise import Access, Case, Evidence, Exercise, Footprint, Launch, Timing, Trial

X = torch.zeros(1024)
EXERCISE = Exercise("unit.copy", "copy", "copy(x)", 1, 1, 1, [], lambda x: x.double())


def trial(*accesses, group="performance", output=X, footprints=(), programs=1, **evidence):
    launches = [Launch("k", (programs, 1, 1), programs, list(accesses), list(footprints))]
    found = Evidence("a case", **({"outputs": [output], "launches": launches} | evidence))
    return Trial(Case("a case", group, None), [{"x": X}], found)


def load(tensor="x", useful=4096, sectors=128, single=0, op="load", line=3):
    return Access(
        tensor, op, line, f"line {line}", bytes=useful, useful_bytes=useful, sectors=sectors, single_bytes=single
    )


# ------------------------------------------------------------------------------------------------ coalesced


@pytest.mark.parametrize(
    "accesses, passed",
    [
        ([load()], True),
        ([load(sectors=134)], True),  # 1.047
        ([load(sectors=135)], False),  # 1.055
        ([load(sectors=1024)], False),
        ([load(), load("y", sectors=1024)], False),
        ([load(useful=1 << 20, sectors=1 << 15), load("y", useful=32768, sectors=2048)], False),  # one of many
        ([load(useful=1 << 20, sectors=1 << 15), load("y", sectors=256)], True),  # less than 2 % of the bytes
        ([load(useful=32768, sectors=2048), load(line=4, useful=1 << 20, sectors=1 << 15)], False),  # not diluted
        ([load(line=3), load(line=4, sectors=1024)], False),
        ([load(op="store", sectors=1024)], True),  # stores are another criterion
        ([load(op="atomic", sectors=1024)], False),  # an atomic reads what it changes
        ([], True),
        ([load(line=n, useful=128, sectors=32) for n in range(64)], False),  # each line less than 2 % of the bytes
        # an index or a length, read one element at a time beside much more
        ([load(useful=1 << 16, sectors=1 << 11), load("n", useful=8, sectors=1, single=8)], True),
        ([load(useful=1 << 16, sectors=1 << 11), load("n", useful=1024, sectors=256, single=1024)], True),
        # a tensor moved one element at a time is no index
        ([load(useful=4096, sectors=1024, single=4096)], False),
        ([load(), load("y", useful=4096, sectors=1024, single=4096)], False),
    ],
)
def test_dense_loads(accesses, passed):
    finding = Coalesced("load", 2).judge(EXERCISE, [trial(*accesses)])
    assert (finding.passed, finding.points) == (passed, 2 if passed else 0)


@pytest.mark.parametrize("op", ["store", "atomic"])
def test_dense_stores(op):
    assert Coalesced("store", 1).judge(EXERCISE, [trial(load(op=op))]).passed
    assert not Coalesced("store", 1).judge(EXERCISE, [trial(load(op=op, sectors=1024))]).passed
    assert Coalesced("store", 1).judge(EXERCISE, [trial(load(sectors=1024))]).passed


def test_the_wasteful_line_is_named():
    finding = Coalesced("load", 2).judge(EXERCISE, [trial(load(line=3), load("y", sectors=1024, line=7))])
    assert finding.detail == "line 7 uses 4 of every 32 bytes it touches of `y`: `line 7` (on a case)"
    assert finding.seen == "1,152 sectors, 256 needed"


def test_one_wasteful_case_is_enough():
    assert not Coalesced("load", 2).judge(EXERCISE, [trial(load()), trial(load(sectors=1024))]).passed
    assert Coalesced("load", 2).judge(EXERCISE, [trial(load()), trial(load(sectors=1024), group="plain")]).passed


ALL = [Coalesced("load", 2), Coalesced("store", 2), Traffic(lambda x: 8192, 2), Programs(1, 2, "performance")]


@pytest.mark.parametrize("criterion", ALL, ids=lambda criterion: criterion.title)
@pytest.mark.parametrize("evidence", [{"error": "raised"}, {"refused": "it also does add"}, {"output": X + 1}], ids=str)
def test_nothing_is_credited_where_the_result_is_wrong(criterion, evidence):
    good = {"footprints": [Footprint("x", 4096, 4096, 4096)], "programs": 9}
    assert criterion.judge(EXERCISE, [trial(load(), **good)]).passed
    finding = criterion.judge(EXERCISE, [trial(load(), **good), trial(load(), **good, **evidence)])
    assert (finding.passed, finding.points) == (False, 0)
    assert any(text in finding.seen for text in ("raised", "it also does add", "not right on a case"))


# ------------------------------------------------------------------------------------------------ traffic, programs


def moved(read, written, distinct=4096):
    return [
        Footprint("x", 4096, read, min(read, distinct)),
        Footprint("out", 4096, 0, 0, written, min(written, distinct)),
    ]


@pytest.mark.parametrize(
    "footprints, detail",
    [
        (moved(4096, 4096), ""),
        (moved(4500, 4096), ""),  # 1.049
        (moved(4600, 4096), "`x` is read 1.12 times: line 3 `line 3`"),
        (moved(8192, 4096), "`x` is read 2 times: line 3 `line 3`"),
        (moved(4096, 12288), "`out` is written 3 times"),
        ([*moved(4096, 4096), Footprint("buffer 1", 4096, 4096, 4096, 4096, 4096)], "is a detour"),
    ],
)
def test_traffic(footprints, detail):
    finding = Traffic(lambda x: 2 * x.numel() * 4, 1).judge(EXERCISE, [trial(load(), footprints=footprints)])
    assert finding.passed == (detail == "")
    assert detail in finding.detail
    assert "8,602" in (finding.seen if finding.passed else finding.expected), "what is allowed: 1.05 x 8192"


def test_traffic_blames_what_is_written_and_read_back_by_another_kernel():
    found = trial(load("out", line=4), load(), footprints=moved(4096, 4096))
    (forward,) = found.evidence.launches
    back = [
        Footprint("x", 4096, 4096, 4096),
        Footprint("out", 4096, 4096, 4096),
        Footprint("dx", 4096, 0, 0, 4096, 4096),
    ]
    found.evidence.launches.append(Launch("back", (1, 1, 1), 1, forward.accesses, back))
    finding = Traffic(lambda x: 2 * x.numel() * 4, 1).judge(EXERCISE, [found])
    assert finding.detail.startswith(
        f"`out` is a detour: `{forward.kernel}` writes it and `back` reads it back, line 4"
    )
    assert finding.expected.endswith("on a case")


def test_traffic_without_a_detour_tells_who_moves_what():
    found = trial(load(), footprints=moved(4096, 4096))
    found.evidence.launches *= 2
    detail = Traffic(lambda x: 2 * x.numel() * 4, 1).judge(EXERCISE, [found]).detail
    assert detail.startswith("in order: ") and detail.count("reads `x` and writes `out`") == 2


@pytest.mark.parametrize("programs, passed", [(1, False), (7, False), (8, True), (1000, True)])
def test_programs(programs, passed):
    found = trial(group="tall", programs=programs)
    small = Launch("sum_up", (1, 1, 1), 1, [], [Footprint("buffer 1", 64, read_bytes=64)])
    found.evidence.launches[0].footprints.append(Footprint("x", 4096, read_bytes=4096))
    found.evidence.launches.append(small)  # a second, small launch does not count
    assert Programs(8, 2).judge(EXERCISE, [found]).passed == passed


# ------------------------------------------------------------------------------------------------ speed

SPEED = Speed("copy", Case("large", "speed", lambda g: {}), lambda x: 1, full=0.8, none=0.5, points=2)


@pytest.mark.parametrize(
    "ratio, points", [(0.0, 0), (0.49, 0), (0.5, 0), (0.575, 0.5), (0.65, 1), (0.8, 2), (1.3, 2), (-1.0, 0)]
)
def test_speed_is_a_ramp(ratio, points):
    found = trial(timing=Timing("large", "copy", ratio, 0.01, "H200"))
    finding = SPEED.judge(EXERCISE, [found])
    assert (finding.points, finding.passed) == (points, points == 2)
    assert finding.seen == f"{ratio:.2f} ± 0.01 on H200, large"
    assert bool(finding.detail) == (points < 2)


def test_speed_is_extra():
    timed = Exercise("unit.copy", "copy", "copy(x)", 1, 1, 1, [], lambda x: x.double(), bonus=[SPEED])
    verdict = criteria.judge(timed, [trial(timing=Timing("large", "copy", 0.8, 0.01, "H200"))])
    assert (verdict.points, verdict.out_of, verdict.bonus) == (0, 0, 2)
    verdict = criteria.judge(timed, [trial()])
    assert verdict.bonus == 0 and verdict.findings[-1].seen == "not measured: needs a GPU"
    verdict = criteria.judge(timed, [trial(timing=Timing("large", "copy", 0, 0, "H200", problem="out of memory"))])
    assert verdict.bonus == 0 and verdict.findings[-1].seen == "out of memory"
