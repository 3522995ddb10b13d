"""torch._dynamo, which takes longer to load than torch, is loaded for nobody who does not need it."""

from __future__ import annotations

import subprocess
import sys

HOST = """
import sys
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from tritontrace import trace
from tritontrace.replay.recording import record
from tritontrace.tracing import modes

with trace():
    torch.empty(3).zero_()
assert not record(lambda: torch.zeros(3) + 1, [{}])["calls"][0]["error"]
assert "torch._dynamo" not in sys.modules
"""
A_MODE = """
class Counter(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))

def host():
    with Counter():
        return torch.ones(3) * 2

call = record(host, [{}])["calls"][0]
assert not call["error"], call["error"]
"""


def run(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]


def test_tracing_and_recording_load_nothing():
    run(HOST)


def test_a_mode_of_an_authors_loads_it_while_the_gpu_is_simulated():
    run(HOST + A_MODE + 'assert "torch._dynamo" in sys.modules')


def test_where_torch_compiles_nothing_a_mode_of_an_authors_loads_nothing():
    run(HOST + "modes.keep_it_light()" + A_MODE + 'assert "torch._dynamo" not in sys.modules')


def test_one_that_was_defined_before_and_torchs_own_load_nothing():
    defined, used = A_MODE.split("def host")
    counter = """
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False):
    torch.ones(3, 3) @ torch.ones(3)
assert "torch._dynamo" not in sys.modules
"""
    run(HOST + defined + "modes.keep_it_light()\ndef host" + used + counter)


def test_torch_compile_is_kept_away_from_a_mode_all_the_same():
    kept_away = """
import torch._dynamo
asked = []
def disable(fn, recursive=True, **more):
    asked.append(fn)
    return fn
torch._dynamo.disable = disable
"""
    run(
        HOST + "modes.keep_it_light()" + kept_away + A_MODE + "assert asked == [Counter.__torch_dispatch__.__wrapped__]"
    )
