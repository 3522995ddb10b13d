"""Accidents that the trace calls faults are faults: on a GPU each stops or gives wrong numbers, and its honest twin is right.

Each runs in a process of its own, since a GPU that was stopped gives that process nothing more; several at a time.
"""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from grader.audit import variants

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")]

AT_ONCE, SECONDS = 6, 240
SCRIPTS = variants.scripts()
ALL = [v for v in SCRIPTS if v.script == "cheats/on_a_gpu"]
BEHIND_A_BARRIER = [v for v in ALL if "behind a barrier" in v.name]
UNSEEN = {
    "turned in a buffer, without a barrier"
}  # a race all the same: in 240 runs no warp of an H200 was late enough
ACCIDENTS = [v for v in ALL if v not in BEHIND_A_BARRIER and v.name not in UNSEEN]
LOCKS = [v for v in variants.of_unit("recomputation") if v.name.startswith("locks for groups of rows")]
TWINS = [*BEHIND_A_BARRIER, *LOCKS, *(v for v in SCRIPTS if v.script == "honest/on_a_gpu")]


def alone(variant) -> dict[str, str]:
    command = [sys.executable, str(Path(__file__).parent / "alone.py"), variant.script, variant.name]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return {"outcome": "late", "how": f"no answer in {SECONDS} s"}
    lines = run.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith('{"outcome"'):
        return {"outcome": "lost", "how": run.stderr[-2000:]}
    return json.loads(lines[-1])


@pytest.fixture(scope="module")
def outcomes():
    """The outcomes by script and name."""
    everyone = [*ACCIDENTS, *TWINS]
    with ThreadPoolExecutor(AT_ONCE) as executor:
        found = dict(zip([(v.script, v.name) for v in everyone], executor.map(alone, everyone), strict=True))
    for (script, name), outcome in found.items():
        print(f"{script}: {name}: {outcome['outcome']}: {outcome['how'][:160]}")
    return found


def test_there_are_some_of_each():
    assert len(ACCIDENTS) > 15 and len(TWINS) > 8 and len(LOCKS) == 1


@pytest.mark.parametrize("variant", ACCIDENTS, ids=lambda v: v.name)
def test_an_accident_shows(variant, outcomes):
    found = outcomes[variant.script, variant.name]
    assert found["outcome"] in ("wrong", "stopped"), found


@pytest.mark.parametrize("variant", TWINS, ids=lambda v: v.name)
def test_an_honest_twin_is_right(variant, outcomes):
    found = outcomes[variant.script, variant.name]
    assert found["outcome"] == "right", found
