"""Another language, chosen by an environment variable, changes the texts of faults and errors, and no data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from sentences import accented, parts

import tritontrace
from tritontrace import KernelError, KernelFault, trace
from tritontrace.compiled import compile_for
from tritontrace.messages import LANGUAGE, Catalogue, Message, message_of
from tritontrace.replay import child, load, record, replay
from tritontrace.tracing import Work

PACKAGE = Path(tritontrace.__file__).parent
SENTENCES = Catalogue.read(PACKAGE / "catalogue").sentences


@triton.jit
def copy(x_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=i < n), mask=i < n)


@triton.jit
def misspelt(x_ptr):
    tl.store(x_ptr, x)  # noqa: F821


@triton.jit
def assembly(x_ptr):
    tl.store(x_ptr, tl.inline_asm_elementwise("mov.u32 $0, %smid;", "=r,r", [1], tl.int32, False, 1))


X = torch.zeros(64)


def traced(launch: Callable[[], object], **more) -> Message:
    """What a launch in a trace ends with."""
    try:
        with trace(**more):
            launch()
    except (KernelError, KernelFault) as error:
        return error.message
    raise AssertionError("nothing was said")


def recorded(function: Callable) -> Message:
    """What a function cannot be recorded for, or cannot be replayed for."""
    evidence = replay(record(function, [{"x": X}]), [{"x": X}], case="c")
    log = record(function, [{"x": X}])
    return log["calls"][0]["error"] or evidence.refused or evidence.error


def of_a_child(work: Callable, seconds: float = 20) -> Message:
    try:
        child.run(work, seconds=seconds)
    except (child.ChildLost, ValueError) as error:
        return message_of(error)
    raise AssertionError("nothing was said")


def said() -> list[dict]:
    """Faults and errors of all kinds, as JSON holds them."""
    messages = [
        traced(lambda: copy[(1,)](X, torch.zeros(32), 64, BLOCK=64)),
        traced(lambda: copy[(1,)](X, X, 64, BLOK=64)),
        traced(lambda: copy[(1, 1 << 20)](X, X, 64, BLOCK=64)),
        traced(lambda: copy[(1,)](X, X, 64, BLOCK=64, num_warps=3)),
        traced(lambda: copy[(1 << 10,)](X, X, 64, BLOCK=64), work=Work(1000)),
        traced(lambda: assembly[(1,)](X)),
        traced(lambda: misspelt[(1,)](X)),
        compile_for(copy, X, X, 64, BLOCK=48).complaint,
        compile_for(copy, X, X, BLOCK=64, seconds=30).complaint,
        recorded(lambda x: x * 2),
        recorded(lambda x: x.stride[0]),
        recorded(lambda x: misspelt[(1,)](x)),
        recorded(lambda x: x),
        recorded(lambda x: copy[(1,)](x, x.stride, 64, BLOCK=64)),
        of_a_child(lambda: os._exit(0)),
        of_a_child(lambda: load([("<cell 1>", "y = z")], "y")),
    ]
    return [message.as_data() for message in messages]


@pytest.fixture(scope="module")
def in_another_language(tmp_path_factory) -> list[dict]:
    """The same of a process that finds all sentences of the engine in another language."""
    folder = tmp_path_factory.mktemp("language") / "tritontrace"
    folder.mkdir()
    for id, sentence in SENTENCES.items():
        name, _, key = id.partition(".")
        with open(folder / f"{name}.toml", "a", encoding="utf-8") as file:
            file.write(f"{key} = {json.dumps(accented(sentence), ensure_ascii=False)}\n")
    asked = f"import json, {Path(__file__).stem} as test; print(json.dumps(test.said()))"
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    environment = {**os.environ, LANGUAGE: str(folder.parent), "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True, env=environment)
    return json.loads(done.stdout)


def test_texts_are_of_the_other_language_and_data_are_the_same(in_another_language):
    ours, theirs = ([list(parts(Message.from_data(each))) for each in of] for of in (said(), in_another_language))
    assert {message.id.partition(".")[0] for each in ours for message in each} == {
        "trace",
        "launch",
        "compiler",
        "replay",
    }
    assert [[message.id for message in each] for each in ours] == [[message.id for message in each] for each in theirs]
    for message in (message for each in theirs for message in each):
        there = Catalogue({message.id: accented(SENTENCES[message.id])})
        assert there.say(message.id, **message.parameters) == message
    for one, other in zip(ours, theirs, strict=True):
        assert one[0] != other[0]
