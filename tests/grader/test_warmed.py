"""Replays that know the published kernels already: verdicts are the same, and nothing that a student hands in can use or change that."""

import copy
import json
import os
import signal
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

from course_lib import execution
from course_lib.exercises import find
from grader.audit import variants
from grader.cohort import canary
from grader.judging.judge import Judge
from grader.published import answer, solution_cell
from tritontrace import compiled
from tritontrace.compiled import remembered
from tritontrace.replay import load, record, wire
from tritontrace.ttir import frontend

UNIT = "04_memory_coalescing"
KERNEL = find("coalescing.transpose")
FULL = answer(KERNEL.id, solution_cell(KERNEL.id))
WRONG = next(v.cells() for v in variants.of_unit("coalescing") if v.exercise == KERNEL.id and v.patches)
LOOKS_AROUND = """
import gc
import torch

def transpose(x):
    rebuilt = [one for one in gc.get_objects() if type(one).__name__ == "Rebuilt"]
    raise ValueError(f"there are {len(rebuilt)} kernels of others")
"""


@pytest.fixture(scope="module")
def judge(tmp_path_factory):
    made = Judge(tmp_path_factory.mktemp("home"), accept_risk=True)
    yield made
    made.close()


def verdicts(judge, *answers):
    return [wire.to_tree(verdict) for verdict in judge.judge_all([(KERNEL, cells, 7) for cells in answers])]


def below(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_verdicts_are_the_same_and_no_host_code_is_near_published_kernels(judge):
    cold = verdicts(judge, FULL, WRONG)
    zygote = judge.zygote.process.pid
    while Path(f"/proc/{zygote}/comm").read_text() == "bwrap\n":
        (zygote,) = below(zygote)
    assert below(zygote) == []
    judge.warm([one for one in canary.references(UNIT) if one[0].id == KERNEL.id])
    (warmed,) = below(zygote)
    assert verdicts(judge, FULL, WRONG) == cold
    assert below(zygote) == [warmed]  # what clears up after a submission leaves it
    (looked,) = verdicts(judge, [("<cell>", LOOKS_AROUND)])
    assert "there are 0 kernels of others" in json.dumps(looked)

    os.kill(warmed, signal.SIGKILL)
    assert verdicts(judge, FULL, WRONG) == cold and below(zygote) == []


# ------------------------------------------------------------------------------------------------ what is remembered

SCALE = 2


@triton.jit
def scaled(x_ptr, out_ptr, SIZE: tl.constexpr):
    offsets = tl.arange(0, SIZE)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) * SCALE)


def host(x):
    out = torch.empty_like(x)
    scaled[(1,)](x, out, SIZE=16)
    return out


SCALE = tl.constexpr(2)
X = torch.arange(16.0)


def replayed(log):
    """(what a replay of the log gives, how often the front end was asked)."""
    before, asked = frontend.printed.make_module, []
    frontend.printed.make_module = lambda *given: asked.append(1) or before(*given)
    try:
        (tree,) = execution.replay_all([log], [[{"x": X}]], ["case"], kernel=True, compile_seconds=0)
    finally:
        frontend.printed.make_module = before
    return tree, len(asked)


def out(tree):
    return wire.from_tree(execution.Evidence, tree).outputs


def test_an_equal_kernel_is_known_and_a_forged_one_is_not_taken_for_it():
    log = record(host, [{"x": X}])
    part = {"logs": [log], "fresh": [[{"x": X}]], "names": ["case"], "kernel": True}
    execution.replay_once([part])
    tree, asked = replayed(copy.deepcopy(log))
    assert asked == 0 and torch.equal(out(tree)[0], 2 * X)

    (key,) = log["kernels"]
    poisons = {
        "source": log["kernels"][key]["source"].replace("* SCALE", "* 3"),
        "names": log["kernels"][key]["names"] | {"SCALE": {"constexpr": {"value": 5}}},
    }
    for what, value in poisons.items():
        forged = copy.deepcopy(log)
        forged["kernels"][key][what] = value  # under the key of the known one
        tree, _ = replayed(forged)
        assert tree["refused"] and not out(tree)
    honest = copy.deepcopy(log)
    entry = honest["kernels"].pop(key) | {"names": poisons["names"]}
    from tritontrace.replay import kernels

    honest["kernels"][kernels.key_of(entry)] = entry
    for event in honest["calls"][0]["events"]:
        if event.get("launch") == key:
            event["launch"] = kernels.key_of(entry)
    tree, asked = replayed(honest)  # the same text, and another number behind its name
    assert asked == 1 and torch.equal(out(tree)[0], 5 * X)


# ------------------------------------------------------------------------------------------------ what is compiled


def scaling(comment, factor=2, size=16):
    """A kernel, with a comment of some lines in it."""
    source = f"""
@triton.jit
def scaling(x_ptr, out_ptr, SIZE: tl.constexpr):
{comment}
    i = tl.arange(0, SIZE)
    tl.store(out_ptr + i, tl.load(x_ptr + i) * {factor})
"""
    return load([("<cell>", f"import triton\nimport triton.language as tl\n{source}")], "scaling")


def job(kernel, gpu="sm_90", x=X, size=16, **options):
    arguments = {"x_ptr": x, "out_ptr": x, "SIZE": size}
    return frontend.front_of(kernel, arguments, options), (), arguments, gpu, False


def test_the_compiler_is_asked_no_more_of_an_equal_text_and_of_every_other_one(monkeypatch):
    asked, in_a_child = [], compiled.in_a_child
    monkeypatch.setattr(compiled, "in_a_child", lambda c, jobs, *more: asked.extend(jobs) or in_a_child(c, jobs, *more))
    monkeypatch.setattr(remembered, "_accepted", {})

    kernel = scaling("")
    first = compiled.compile_all([job(kernel)], 60)
    assert len(asked) == 1  # and what a child finds out stays there
    assert compiled.compile_all([job(kernel)], 60) == first and len(asked) == 2

    assert compiled.compile_here([job(kernel)], 60) == first
    for same in (kernel, scaling("    # elsewhere\n    #")):
        assert compiled.compile_all([job(same)], 60) == first
    assert len(asked) == 2
    others = {
        "another number": job(scaling("", factor=3)),
        "another size": job(kernel, size=32),
        "another dtype": job(kernel, x=X.half()),
        "no multiple of 16": job(kernel, x=torch.arange(20.0)[1:17]),
        "another GPU": job(kernel, "sm_80"),
        "other options": job(kernel, num_warps=2),
        "a place in words": job(scaling("    tl.device_print(' loc(#loc1)')")),
    }
    for number, what in enumerate(others.values(), 3):
        (found,) = compiled.compile_all([what], 60)
        assert found.accepted and len(asked) == number

    asked.clear()  # a whole report is asked for: it names lines
    elsewhere = scaling("    # elsewhere\n    #")
    report, other = ((*job(one)[:4], True) for one in (kernel, elsewhere))
    (whole,) = compiled.compile_all([report], 60)
    assert whole.to_the_end and whole.loads and len(asked) == 1
    assert compiled.compile_here([report], 60) == compiled.compile_all([report], 60) == [whole] and len(asked) == 1
    (moved,) = compiled.compile_all([other], 60)
    assert moved.loads.keys() != whole.loads.keys() and len(asked) == 2
    compiled.compile_all([report], 60)[0].cases.append("of a student")
    assert compiled.compile_all([report], 60) == [whole]  # what is made of an answer stays with who asked
