"""Facts about both halves of a call, read from its log, where it trains in sight of that log, too."""

from course_lib.execution.calls import CALLS
from tritontrace.replay import record, steps

NUMBER = 8  # bytes


def of(function, called, **arguments):
    log = record(function, [arguments], CALLS[called])["calls"][0]
    assert not log["error"], log["error"]
    return steps(log["events"])


def tensor(identity, count):
    return {"tensor": identity, "dtype": "float64", "size": [count], "stride": [1], "offset": 0}


def op(out, *args):
    return {"op": "aten.mul.Tensor", "args": list(args), "kwargs": {}, "out": [out]}


def mark(what):
    return {"mark": what, "state": 0}


def test_alive_is_what_waits_for_its_last_use():
    a, b, c, w = tensor("a", 10), tensor("b", 20), tensor("c", 30), tensor("w", 1000)
    events = [op(w), mark("begin"), op(a, w), op(b, a), op(c, b), mark("backward"), op(a, a, c), mark("end")]
    found = steps(events)
    assert found.alive == (10 + 20 + 30) * NUMBER, "a and c wait, b is used while c is made; w was there before"
    assert found.kept == (10 + 30) * NUMBER


def accumulate(model, batches):
    model.zero_grad()
    for tokens, targets in batches:
        (model(tokens, targets) / len(batches)).backward()


def all_at_once(model, batches):
    model.zero_grad()
    sum(model(tokens, targets) / len(batches) for tokens, targets in batches).backward()


def test_graphs_that_wait_for_each_other_are_seen():
    given = {"rows": 16, "length": 12, "padded": False, "seed": 1}
    one = of(accumulate, "in micro-batches", parts=8, **given).alive
    assert 0 < one < of(all_at_once, "in micro-batches", parts=8, **given).alive / 3


def test_a_kernel_shows_by_what_it_does():
    from course_lib.exercises.training.block import in_the_log
    from course_lib.exercises.training.oracles import differentiable

    def swap_in(model, kernels):
        model.ops = differentiable(kernels)

    usual = {"width": 16, "heads": 4, "kv_heads": 2, "rows": 2, "length": 9, "steps": 1, "seed": 1}
    for layers in (1, 2):
        seen = of(swap_in, "into a model", layers=layers, **usual)
        assert in_the_log(seen, layers=layers) == ""
        assert "right" in in_the_log(seen, layers=layers + 1)
