"""`tritontrace simulate script.py`: what launches in Gluon do, as a table and as data, and mistakes with an exit status of 1."""

import json
import shutil
import sys
from pathlib import Path

import jsonschema
import pytest
from mistakes import MISTAKES
from runs import KERNELS

from tritontrace import as_data as trace_as_data
from tritontrace import trace
from tritontrace.cli import COMMANDS, main
from tritontrace.cli.script import FAULTS, FINE, NOT_TRACED
from tritontrace.hopper import as_data, from_data
from tritontrace.tracing import schema

CALL = """
import torch
from gluon_kernels import copied, tiles_of
x = torch.randn(320, 64, device="cuda").half()
y = torch.empty_like(x)
copied[(1,)](tiles_of(x), tiles_of(y), COUNT=5, num_warps=4)
assert (y == x + x).all()
"""
WRONG = next(found for found in MISTAKES.values() if found.kernel == "copied")


@pytest.fixture
def simulated(tmp_path, monkeypatch, capfd):
    """Simulate a call of a kernel, with some of the kernel's text replaced: (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def simulated(*options, edits=(), call=CALL):
        text = KERNELS.read_text("utf-8")
        for old, new in edits:
            text = text.replace(old, new)
        Path("gluon_kernels.py").write_text(text)
        Path("script.py").write_text(call)
        monkeypatch.delitem(sys.modules, "gluon_kernels", raising=False)
        shutil.rmtree("__pycache__", ignore_errors=True)
        return main(["simulate", *options, "script.py"]), *capfd.readouterr()

    return simulated


def test_a_right_kernel(simulated):
    status, out, err = simulated()
    assert status == FINE, err
    assert "copied" in out.splitlines()[1]


def test_the_json_has_the_schema_and_reads_back(simulated):
    status, out, _ = simulated("--format", "json")
    found = json.loads(out)
    assert status == FINE and found["mistakes"] == [] and found["stopped"] == ""
    jsonschema.validate(found, schema(), cls=jsonschema.Draft202012Validator)
    (launch,) = found["launches"]
    assert launch["kernel"] == "copied" and launch["simulated"]["orders"] == len(found["orders"])
    assert launch["bytes"]["store"] == 320 * 64 * 2 and launch["simulated"]["tma_loads"] == 5
    trace, orders, mistakes = from_data(found)
    head = {name: found[name] for name in ("script", "gpu", "stopped")}
    assert head | json.loads(json.dumps(as_data(trace, orders, mistakes))) == found


def test_a_wrong_kernel(simulated):
    status, out, err = simulated("--format", "json", edits=WRONG.edits)
    assert status == FAULTS, err
    found = json.loads(out)
    jsonschema.validate(found, schema(), cls=jsonschema.Draft202012Validator)
    trace, orders, mistakes = from_data(found)
    assert mistakes and mistakes[0].kind in {kind.value for kind in WRONG.kinds}
    assert [launch.simulated for launch in trace.launches] == [None]
    assert json.loads(json.dumps(as_data(trace, orders, mistakes)))["mistakes"] == found["mistakes"]
    status, out, _ = simulated(edits=WRONG.edits)
    assert mistakes[0].sentence in out


def test_a_trace_is_no_simulation():
    with trace() as nothing:
        pass
    with pytest.raises(ValueError, match="not of `tritontrace simulate`"):
        from_data(trace_as_data(nothing))


# two programs store other numbers to the same rows, and the simulator's orders are within one program
RACE = CALL.replace("copied[(1,)]", "copied[(2,)]").replace("assert (y == x + x).all()\n", "")
OWN = [("out.store(x + x)", "out.store(x + x + gl.program_id(0).to(gl.float16))")]


def test_a_fault_in_global_memory_is_told(simulated):
    status, out, _ = simulated("--format", "json", edits=OWN, call=RACE)
    (launch,) = json.loads(out)["launches"]
    assert status == FAULTS and [fault["kind"] for fault in launch["faults"]] == ["race"]
    status, out, _ = simulated(edits=OWN, call=RACE)
    assert status == FAULTS and launch["faults"][0]["sentence"] in out


def test_what_launches_nothing(simulated):
    assert simulated(call="1 + 1\n")[0] == NOT_TRACED


def test_the_commands():
    assert {"trace", "simulate"} <= COMMANDS and "script" not in COMMANDS
