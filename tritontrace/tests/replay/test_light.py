"""torch._dynamo, which takes longer to load than torch, and SymPy are loaded for nobody who does not need them."""

from __future__ import annotations

import subprocess
import sys

import pytest

HOST = """
import sys
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from tritontrace import trace
from tritontrace.replay.recording import record
from tritontrace.tracing import light

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
    run(HOST + "light.keep_it_light()" + A_MODE + 'assert "torch._dynamo" not in sys.modules')


def test_one_that_was_defined_before_and_torchs_own_load_nothing():
    defined, used = A_MODE.split("def host")
    counter = """
from torch.utils.flop_counter import FlopCounterMode
with FlopCounterMode(display=False):
    torch.ones(3, 3) @ torch.ones(3)
assert "torch._dynamo" not in sys.modules
"""
    run(HOST + defined + "light.keep_it_light()\ndef host" + used + counter)


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
        HOST + "light.keep_it_light()" + kept_away + A_MODE + "assert asked == [Counter.__torch_dispatch__.__wrapped__]"
    )


GIVEN_A_GRADIENT = """
x = torch.ones(3, requires_grad=True)
(2 * x).backward(torch.ones(3))
assert torch.autograd.grad(x * x, x, torch.full((3,), 2.0))[0].tolist() == [4.0] * 3
"""
OPTIMIZERS = """
import torch.optim
x = torch.ones(3, requires_grad=True)
x.grad = torch.ones(3)
for one in (torch.optim.SGD, torch.optim.Adagrad, torch.optim.RMSprop, torch.optim.Adam, torch.optim.AdamW):
    optimizer = one([x], lr=0.5)
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
assert not x.equal(torch.ones(3)) and x.requires_grad
"""


@pytest.mark.parametrize("host", [GIVEN_A_GRADIENT, OPTIMIZERS])
def test_gradients_and_optimizers_load_nothing(host):
    loaded = 'any(name in sys.modules for name in ("torch._dynamo", "sympy"))'
    run(HOST + "light.keep_it_light()" + host + f"assert not {loaded}")
    run("import sys, torch" + host + f"assert {loaded}")  # else light.py need not do it any more


def test_a_gradient_that_does_not_fit_is_refused_in_torchs_words():
    run(
        HOST
        + """
def refusal():
    try:
        torch.autograd.grad(x * x, x, torch.ones(4))
    except RuntimeError as error:
        return str(error)

x = torch.ones(3, requires_grad=True)
before = refusal()
light.keep_it_light()
assert before and refusal() == before
"""
    )
