"""The criteria that count bytes, programs and time, on evidence made by hand."""

from dataclasses import replace

import pytest
import torch
from sentences import says

from course_lib import criteria
from course_lib.catalogue import say
from course_lib.criteria import Coalesced, DotFlops, Programs, Rereads, Speed, Traffic, blocks
from course_lib.criteria.costs import effective_programs
from course_lib.evidence import Evidence, Timing
from course_lib.exercise import Case, CodeLine, Effort, Exercise, Trial
from tritontrace.results import Access, Flops, Footprint, Launch, LineFlops, Operation

X = torch.zeros(1024)
EXERCISE = Exercise("unit.copy", "copy(x)", Effort(1, 1, 1), [], lambda x: x.double())


def trial(*accesses, group="performance", output=X, footprints=(), programs=64, busiest=0, **evidence):
    launches = [Launch("k", (programs, 1, 1), programs, list(accesses), list(footprints), busiest_bytes=busiest)]
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
        # an index or a length, read one element at a time besides much more
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
    assert says(finding.detail, "criteria.dense.line", line=7, used=4, tensor="y", case="a case")
    assert finding.at == CodeLine(7, "line 7")
    assert says(finding.seen, "criteria.dense.sectors", sectors=1024, needed=128), "of that line"


def test_what_is_shown_is_of_the_case_that_fails():
    """Sums over all cases once showed "1.03 times as many (1.05 times are allowed)" beside 0 points."""
    large = trial(load(useful=1 << 17, sectors=1 << 12), footprints=moved(4096, 4096))
    small = trial(load(useful=8192, sectors=512), footprints=moved(5000, 4096))
    for criterion in (Coalesced("load", 2), Traffic(lambda x: 8192, 1)):
        both = criterion.judge(EXERCISE, [large, small])
        assert both.spent and both.spent.spent > both.spent.allowed
    dense = Coalesced("load", 2).judge(EXERCISE, [large, small]).spent
    assert dense and (dense.spent, dense.needed, dense.on) == (512, 256, "a case")


def test_one_wasteful_case_is_enough():
    assert not Coalesced("load", 2).judge(EXERCISE, [trial(load()), trial(load(sectors=1024))]).passed
    assert Coalesced("load", 2).judge(EXERCISE, [trial(load()), trial(load(sectors=1024), group="plain")]).passed


ALL = [Coalesced("load", 2), Coalesced("store", 2), Traffic(lambda x: 8192, 2), Programs(1, 2, "performance")]


@pytest.mark.parametrize("criterion", ALL, ids=lambda criterion: criterion.title)
@pytest.mark.parametrize("evidence", [{"error": "raised"}, {"refused": "it also uses add"}, {"output": X + 1}], ids=str)
def test_nothing_is_credited_where_the_result_is_wrong(criterion, evidence):
    good = {"footprints": [Footprint("x", 4096, 4096, 4096)], "programs": 64}
    assert criterion.judge(EXERCISE, [trial(load(), **good)]).passed
    finding = criterion.judge(EXERCISE, [trial(load(), **good), trial(load(), **good, **evidence)])
    assert (finding.passed, finding.points) == (False, 0)
    assert says(finding.seen, "criteria.result.not_right", case="a case")


# ------------------------------------------------------------------------------------------------ small blocks


@pytest.mark.parametrize(
    "elements, masked, instructions, elements_of_a_block",
    [(2048, 0, 2048, 1), (2048, 2048, 2048, 2), (2048, 0, 128, 16), (2048, 0, 64, None), (2048, 2048, 128, None)],
)
def test_blocks_smaller_than_a_warp_save_nothing(elements, masked, instructions, elements_of_a_block):
    access = replace(load(useful=8192), elements=elements, masked=masked, instructions=instructions)
    finding = Coalesced("load", 2).judge(EXERCISE, [trial(access)])
    told = finding.cause.details["elements"] if finding.cause else None
    assert told == (str(elements_of_a_block) if elements_of_a_block else None)
    few = replace(access, bytes=512)
    assert blocks.small_blocks(trial(few)) is None, "an index, and nothing else"
    index = trial(few, replace(load(useful=1 << 16), elements=1 << 14, instructions=16))
    assert blocks.small_blocks(index) is None


# ------------------------------------------------------------------------------------------------ traffic, programs


LINE = say("criteria.traffic.line", line=3, source="line 3")
BACK = Footprint("buffer 1", 4096, 4096, 4096, 4096, 4096)


def again(done, tensor, times, *lines):
    facts = {"tensors": [f"`{tensor}`"], "one": True, "times": times, "lines": [*lines]}
    return say(f"criteria.traffic.{done}_again", **facts)


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
        (moved(4600, 4096), again("read", "x", 1.12, LINE)),
        (moved(8192, 4096), again("read", "x", 2, LINE)),
        (moved(4096, 12288), again("written", "out", 3)),
        (
            [*moved(4096, 4096), BACK],
            say("criteria.traffic.detour", tensor="buffer 1", kernel="k", any=False, lines=[]),
        ),
    ],
)
def test_traffic(footprints, detail):
    finding = Traffic(lambda x: 2 * x.numel() * 4, 1).judge(EXERCISE, [trial(load(), footprints=footprints)])
    assert finding.passed == (detail == "")
    assert finding.detail == detail
    allowed = (finding.seen if finding.passed else finding.expected).parameters["allowed"]
    assert allowed == 1.05 * 8192


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
    facts = {"tensor": "out", "kernel": forward.kernel, "reader": "back"}
    assert says(finding.detail, "criteria.traffic.detour_of_two", **facts)
    assert finding.detail.parameters["lines"][0].parameters["line"] == 4
    assert finding.expected.parameters["case"] == "a case"


def test_traffic_without_a_detour_tells_who_moves_what():
    found = trial(load(), footprints=moved(4096, 4096))
    found.evidence.launches += [replace(found.evidence.launches[0], kernel="another")]
    detail = Traffic(lambda x: 2 * x.numel() * 4, 1).judge(EXERCISE, [found]).detail
    launches = [say("criteria.traffic.launch", kernel=k, reads=["`x`"], writes=["`out`"]) for k in ("k", "another")]
    assert says(detail, "criteria.traffic.in_order", launches=launches)


def test_traffic_says_that_all_is_done_twice_and_is_silent_on_parts():
    found = trial(load(), footprints=moved(4096, 4096))
    found.evidence.launches *= 2
    twice = Traffic(lambda x: 8 * x.numel(), 1).judge(EXERCISE, [found]).detail
    assert says(twice, "criteria.traffic.all_again", kernel="k", times=2)
    parts = trial(load(), footprints=moved(4096, 2048, 2048))
    parts.evidence.launches *= 3
    detail = Traffic(lambda x: 8 * x.numel(), 1).judge(EXERCISE, [parts]).detail
    assert getattr(detail, "id", "") != "criteria.traffic.all_again"


def test_a_cache_to_which_a_token_is_added_is_no_detour():
    cache = [Footprint("buffer 1", 1 << 20, 1 << 20, 1 << 20, 64, 64)]
    found = trial(load(), footprints=[*moved(4096, 4096), *cache])
    detail = Traffic(lambda x: 8 * x.numel(), 1).judge(EXERCISE, [found]).detail
    assert "detour" not in getattr(detail, "id", "")


def test_arguments_that_share_a_storage_are_named_together():
    both = torch.zeros(2, 1024)
    found = trial(
        load("do"), footprints=[Footprint("do", 8192, 3 * 8192, 8192), Footprint("out", 4096, 0, 0, 4096, 4096)]
    )
    found.inputs[:] = [{"q": both[0], "do": both[1]}]
    of_two = replace(EXERCISE, oracle=lambda q, do: q.double())
    detail = Traffic(lambda **_: 8192, 1).judge(of_two, [found]).detail
    assert says(detail, "criteria.traffic.read_again", tensors=["`q`", "`do`"], times=3)


@pytest.mark.parametrize("programs, passed", [(1, False), (7, False), (8, True), (1000, True)])
def test_programs(programs, passed):
    found = trial(group="tall", programs=programs, busiest=4096 // programs)
    found.evidence.launches[0].footprints.append(Footprint("x", 4096, 4096, 4096))
    assert Programs(8, 2).judge(EXERCISE, [found]).passed == passed


BUFFER = Footprint("buffer 1", 1 << 20, 0, 0, 1 << 20, 1 << 20)


@pytest.mark.parametrize(
    "footprints, programs, busiest, expected",
    [
        (moved(4096, 4096), 64, 128, 64),
        (moved(4096, 4096), 64, 256, 64),  # half of them do twice their share
        (moved(4096, 4096), 64, 1024, 16),
        (moved(4096, 4096), 64, 8192, 2),  # one does it all, the others nothing
        (moved(64 * 4096, 4096), 64, 4096 + 64, 3),  # each reads it all
        ([*moved(4096, 4096), BUFFER], 64, 8192, 2),  # the others fill a buffer
        (moved(4096, 4096), 1, 8192, 1),
    ],
)
def test_programs_at_work(footprints, programs, busiest, expected):
    found = trial(footprints=footprints, programs=programs, busiest=busiest)
    assert effective_programs(found) == expected


@pytest.mark.parametrize("busiest, counts", [(0, False), (102, False), (103, True)])
def test_a_launch_for_show_counts_no_programs(busiest, counts):
    """A thousand programs that each move less than a twentieth of what the busiest of all moves share no work."""
    found = trial(footprints=moved(4096, 4096), programs=2, busiest=2048)
    found.evidence.launches.append(Launch("for_show", (1000, 1, 1), 1000, busiest_bytes=busiest))
    shared = 2 * 8192 // (2048 + busiest)
    assert effective_programs(found) == (shared if counts else 2) and shared > 2


def test_launches_follow_one_another():
    found = trial(footprints=moved(4096, 4096), programs=64, busiest=128)
    found.evidence.launches.append(Launch("alone", (1, 1, 1), 1, busiest_bytes=8192))
    assert effective_programs(found) == 1
    rows = trial(footprints=moved(4096, 4096), programs=1, busiest=128)
    rows.evidence.launches.extend(Launch("a row", (1, 1, 1), 1, busiest_bytes=128) for _ in range(63))
    assert effective_programs(rows) == 1


@pytest.mark.parametrize("programs, passed", [(1, False), (31, False), (32, True), (132, True)])
def test_traffic_is_spared_by_many_programs(programs, passed):
    size = 1 << 20
    large = [Footprint("x", size, size, size), Footprint("out", size, 0, 0, size, size)]
    few = trial(footprints=moved(4096, 4096), programs=4, busiest=2048)  # a small case
    found = trial(footprints=large, programs=programs, busiest=2 * size // programs)
    finding = Traffic(lambda x: 2 * size, 1).judge(EXERCISE, [few, found])
    assert finding.passed == passed
    if not passed:
        assert says(finding.seen, "criteria.programs.work_of", programs=max(4, programs))
        assert says(finding.expected, "criteria.programs.share", programs=32, case="a case")
        assert says(finding.title, "criteria.programs.title", programs=32)
        assert says(finding.missed, "criteria.programs.missed")


@pytest.mark.parametrize("programs, passed", [(1, False), (7, False), (16, True)])
def test_a_small_case_asks_for_no_more_programs_than_it_has_work_for(programs, passed):
    """128 rows of 1024 floats, eight to a program, are 16 programs."""
    size = 128 * 1024 * 4
    rows = [Footprint("x", size, size, size), Footprint("out", size, 0, 0, size, size)]
    found = trial(footprints=rows, programs=programs, busiest=2 * size // programs)
    assert Traffic(lambda x: 2 * size, 1).judge(EXERCISE, [found]).passed == passed


@pytest.mark.parametrize(
    "back, times",
    [
        (0, 2),
        (8192, 2),  # two float32 sums of each result
        (8192 + 4096, 3),
        (8192 + 8 * 4096, 10),
    ],
)
def test_a_copy_that_is_read_counts_as_the_tensor(back, times):
    reads = [load(useful=8192), *([load("buffer 1", useful=back, line=4)] if back else [])]
    found = trial(*reads, footprints=[Footprint("x", 4096, 8192, 4096)])
    finding = Rereads("x", lambda x: 2, 1, "x is read twice").judge(EXERCISE, [found])
    assert finding.seen.parameters["times"] == times and finding.passed == (times == 2)
    assert finding.passed or ("line 4" in finding.detail and finding.seen.parameters["buffers"])


@pytest.mark.parametrize(
    "forward, backward, least, flops, half",
    [
        (2, 5, [2, 5], None, ""),
        (1, 6, [2, 5], 1, say("criteria.products.forward")),
        (2, 4, [2, 5], 4, say("criteria.products.backward")),
        (None, 5, [2, 5], None, ""),  # torch's forward
        (2, 9, [2, 5], 11, ""),
        (2, 1, 3, None, ""),
        (2, 0, 3, 2, ""),
        (0, 0, 3, 0, ""),
    ],
)
def test_products_have_bounds_on_both_sides(forward, backward, least, flops, half):
    found = trial()
    found.evidence.launches[:] = [
        Launch("k", (1, 1, 1), 1, line_flops=[LineFlops("k", 2, "", Flops(dot=dot))], phase=phase)
        for phase, dot in enumerate((forward, backward))
        if dot is not None
    ]
    finding = DotFlops(lambda x: 10, lambda x: least, 1, "products").judge(EXERCISE, [found])
    assert finding.passed == (flops is None)
    assert finding.passed or says(finding.seen, "criteria.products.done", flops=flops, half=half)


def test_the_sides_of_products():
    batch = Operation("bmm", [[3, 4, 5], [3, 5, 6]])
    assert (batch.sides, batch.product_flops) == ((4, 5, 6), 2 * 3 * 4 * 5 * 6)
    assert Operation("addmm", [[4, 6], [4, 5], [5, 6]]).sides == (4, 5, 6)
    assert Operation("mv", [[4, 5], [5]]).sides == (4, 5, 1)
    assert Operation("dot", [[5], [5]]).product_flops == 10


# ------------------------------------------------------------------------------------------------ speed

SPEED = Speed("copy", Case("large", "speed", lambda g: {}), lambda x: 1, full=0.8, none=0.5, points=2)


@pytest.mark.parametrize(
    "ratio, points", [(0.0, 0), (0.49, 0), (0.5, 0), (0.575, 0.5), (0.65, 1), (0.8, 2), (1.3, 2), (-1.0, 0)]
)
def test_speed_is_a_ramp(ratio, points):
    found = trial(timing=Timing("large", "copy", ratio, 0.01, "H200", microseconds=12.3))
    finding = SPEED.judge(EXERCISE, [found])
    assert (finding.points, finding.passed) == (points, points == 2)
    assert finding.seen == f"{ratio:.2f} ± 0.01 on H200, large: 12 µs"
    assert bool(finding.detail) == (points < 2)


def test_speed_is_extra():
    timed = Exercise("unit.copy", "copy(x)", Effort(1, 1, 1), [], lambda x: x.double(), bonus=[SPEED])
    verdict = criteria.judge(timed, [trial(timing=Timing("large", "copy", 0.8, 0.01, "H200"))])
    assert (verdict.points, verdict.out_of, verdict.bonus) == (0, 0, 2)
    verdict = criteria.judge(timed, [trial()])
    assert verdict.bonus == 0 and says(verdict.findings[-1].seen, "criteria.seen.not_measured")
    verdict = criteria.judge(timed, [trial(timing=Timing("large", "copy", 0, 0, "H200", problem="out of memory"))])
    assert verdict.bonus == 0 and verdict.findings[-1].seen == "out of memory"
