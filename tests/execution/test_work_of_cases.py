"""A case that is too much work costs no other case its verdict, in whatever order they come."""

import torch
import triton
import triton.language as tl

from course_lib import execution
from course_lib.evidence import Evidence
from tritontrace.replay import record, wire


@triton.jit
def one_by_one(x_ptr, o_ptr, N):
    for i in range(N):
        tl.store(o_ptr + i, tl.load(x_ptr + i))


def test_behind_a_case_that_is_too_much_less_is_allowed(monkeypatch):
    def function(x):
        o = torch.zeros_like(x)
        one_by_one[(1,)](x, o, 2048 if x.numel() == 3000 else 200)
        return o

    monkeypatch.setattr(execution, "MOST_OF_A_CASE", 2e7)
    calls = [[{"x": torch.rand(size)}] for size in (400, 3000, 4000)]
    logs = [record(function, call) for call in calls]
    for most, slow in ((2e7, [False, True, False]), (1e6, [False, True, True])):
        monkeypatch.setattr(execution, "MOST_BEHIND_IT", most)
        trees = execution.replay_all(logs, calls, ["small", "too much", "larger"], kernel=True)
        assert [bool(wire.from_tree(Evidence, tree).error) for tree in trees] == slow


def test_what_was_not_too_much_is_judged_in_whatever_order_the_cases_come(monkeypatch):
    def function(x):
        o = torch.empty_like(x)
        one_by_one[(1,)](x, o, x.numel())
        return o

    monkeypatch.setattr(execution, "MOST_OF_A_CASE", 2e7)
    sizes = (9, 4096, 10, 2048, 11)
    calls = [[{"x": torch.rand(size)}] for size in sizes]
    logs = [record(function, call) for call in calls]
    for most, slow in ((1e9, [4096, 2048]), (1e7, [4096, 2048])):
        monkeypatch.setattr(execution, "MOST_WORK", most)
        trees = execution.replay_all(logs, calls, [str(size) for size in sizes], kernel=True)
        found = [wire.from_tree(Evidence, tree) for tree in trees]
        late = [size for size, e in zip(sizes, found, strict=True) if e.error and e.error.id.startswith("launch.work.")]
        assert late == slow
        right = [e for e in found if not e.error]
        assert all(torch.equal(e.outputs[0], c[0]["x"]) for e, c in zip(found, calls, strict=True) if e in right)
