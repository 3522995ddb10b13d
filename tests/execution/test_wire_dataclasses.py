"""Evidence and verdicts travel as trees, and a tree of another type is refused."""

import numpy as np
import pytest

from course_lib.evidence import Evidence, Timing
from course_lib.exercise import ErrorMap, Finding, Verdict
from tritontrace.replay.wire import WireError, from_tree, pack, to_tree, unpack
from tritontrace.results import Access, Compiled, Fault, Footprint, Launch, Operation

EVIDENCE = Evidence(
    "plain",
    outputs=[[1.5, None], {"a": 1}],
    launches=[Launch("k", (4, 1, 1), 4, [Access("x", "load", 3, "tl.load(x)", sectors=4)], [Footprint("x", 128, 64)])],
    operations=[Operation("mm", [[2, 3], [3, 4]], [2, 4], ["float32"])],
    faults=[Fault("race", "two programs write", "k", 3, "out")],
    compiled=[Compiled("k", "sm_90", True, load_bits=128)],
    timing=Timing("speed", "copy", 0.9, 0.01, "H200"),
)
VERDICT = Verdict(
    "a.b",
    1.5,
    2.0,
    [Finding("right", 1, 2, "failed", error_map=ErrorMap([[0.5, 1.0]], 3, 4, [0, 2, 1, 3], [2]))],
    remark="Look.",
)


@pytest.mark.parametrize(
    "value", [EVIDENCE, Evidence("empty"), VERDICT, Verdict("x", 0.0, 0.0, [])], ids=lambda v: type(v).__name__
)
def test_dataclasses_come_back_equal(value):
    tree = unpack(pack(to_tree(value)))
    assert from_tree(type(value), tree) == value


def test_counts_may_be_numpys():
    tree = to_tree(Access("x", "load", sectors=np.int64(3)))
    assert type(tree["sectors"]) is int
    assert from_tree(Access, unpack(pack(tree))).sectors == 3


def edited(value, path, new):
    tree = to_tree(value)
    *inner, last = path
    place = tree
    for key in inner:
        place = place[key]
    place[last] = new
    return tree


@pytest.mark.parametrize(
    "path, new",
    [
        (["case"], 3),
        (["error"], None),
        (["outputs"], {"a": 1}),
        (["launches"], "many"),
        (["launches", 0], {"kernel": "k"}),
        (["launches", 0, "grid"], [1, 1]),
        (["launches", 0, "grid"], [1, 1, 1.0]),
        (["launches", 0, "programs"], True),
        (["launches", 0, "accesses", 0, "op"], "steal"),
        (["launches", 0, "accesses", 0, "op"], ["load"]),
        (["launches", 0, "accesses", 0, "sectors"], -0.5),
        (["launches", 0, "accesses", 0, "unknown"], 1),
        (["faults", 0, "kind"], "harmless"),
        (["faults", 0], None),
        (["compiled", 0, "accepted"], 1),
        (["largest_buffer"], "0"),
        (["timing"], []),
        (["timing", "ratio"], "1.0"),
        (["operations"], [1]),
        (["extra"], 1),
    ],
    ids=str,
)
def test_evidence_of_another_type_is_refused(path, new):
    with pytest.raises(WireError):
        from_tree(Evidence, edited(EVIDENCE, path, new))


@pytest.mark.parametrize("tree", [None, 3, [], {}, "Evidence", {"case": "x"}], ids=repr)
def test_no_evidence_at_all(tree):
    with pytest.raises(WireError):
        from_tree(Evidence, tree)


@pytest.mark.parametrize(
    "path, new",
    [
        (["points"], "2"),
        (["points"], True),
        (["findings", 0, "error_map"], 3),
        (["findings", 0, "error_map", "shares"], [1]),
    ],
    ids=str,
)
def test_a_verdict_of_another_type_is_refused(path, new):
    with pytest.raises(WireError):
        from_tree(Verdict, edited(VERDICT, path, new))
