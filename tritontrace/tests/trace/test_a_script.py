"""A script is traced from the command line, unchanged, and the report says what its kernels did, in lines of its file."""

import argparse
import json
import re
import sys
from pathlib import Path

import pytest
import torch
import triton

from tritontrace import gpu
from tritontrace.cli import main
from tritontrace.cli.script import FAULTS, FINE, NOT_TRACED, gpu_named, named
from tritontrace.results import Launch, Requests, Warps
from tritontrace.tracing import launcher, show
from tritontrace.tracing.recorded import Recorded

ROOT = Path(__file__).resolve().parents[2]
HEAD = """\
import torch, triton, triton.language as tl
DEVICE = triton.runtime.driver.active.get_active_torch_device()

@triton.jit
def scale_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)
    tl.store(out_ptr + offs, 2 * x, mask=offs < n)
"""
GOOD = """
x = torch.ones(1000, device=DEVICE)
out = torch.empty_like(x)
assert x.is_cuda and x.device == DEVICE
scale_kernel[(8,)](x, out, 1000, BLOCK=128)
assert (out == 2).all()
print("done")
"""


@pytest.fixture
def traced(tmp_path, monkeypatch, capfd):
    """Trace a script of this text; returns (exit status, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)

    def traced(text, *options):
        Path("script.py").write_text(text)
        status = main([*options, "script.py"])
        return status, *capfd.readouterr()

    return traced


def test_the_table(traced):
    status, out, err = traced(HEAD + GOOD)
    assert status == FINE and err == "done\n"
    title, columns, heading, load, store, summary, flops, faults = out.splitlines()
    assert title.startswith("script.py, as on ") and title.endswith(" SMs")
    assert columns.split()[:4] == ["tensor", "op", "lines", "instructions"]
    assert heading == "scale_kernel, grid (8,), at script.py:5: 1,024 FLOPs"
    assert load.split() == ["x_ptr", "load", "7", "8", "4,000", "125", "100%", "1.0"]
    assert store.split() == ["out_ptr", "store", "8", "8", "4,000", "125", "100%"]
    assert summary == "1 launch, 8 programs, 4,000 bytes loaded, 4,000 bytes stored"
    assert faults == "no race, no access out of bounds, no read of what nobody wrote."


def test_json_is_all_that_goes_to_stdout(traced):
    status, out, _ = traced(HEAD + GOOD, "--format", "json")
    data = json.loads(out)
    [launch] = data["launches"]
    assert (status, data["stopped"], data["bytes"], launch["where"]) == (FINE, "", 8000, "script.py:5")
    assert launch["bytes"] == {"load": 4000, "store": 4000, "atomic": 0} and launch["flops"]["float"] == 1024
    assert [(line["where"], line["op"], line["sectors"]) for line in launch["lines"]] == [
        ("script.py:7", "load", 125),
        ("script.py:8", "store", 125),
    ]
    assert launch["tensors"][0]["reads_per_byte"] == 1.0 and launch["faults"] == []


def test_html_stands_alone(traced, tmp_path):
    status, out, _ = traced(HEAD + GOOD, "--format", "html", "-o", "report.html")
    page = (tmp_path / "report.html").read_text()
    assert status == FINE and out == ""
    assert "tl.load(x_ptr + offs" in page and "4,000" in page and "http" not in page


FAULTY = {
    "race": ("scale_kernel[(8,)](x, out, 1000, BLOCK=128)", "out_ptr + offs, 2", "out_ptr + offs % 128, 2", 8),
    "out of bounds": ("scale_kernel[(8,)](x, out, 1000, BLOCK=128)", "mask=offs < n, other=0.0", "", 7),
    "uninitialised": ("scale_kernel[(8,)](torch.empty(1000), out, 1000, BLOCK=128)", "", "", 7),
}


@pytest.mark.parametrize("kind", FAULTY)
def test_faults_have_their_lines(traced, kind):
    launch, before, after, line = FAULTY[kind]
    text = HEAD.replace(before, after) + f"x = torch.ones(1000)\nout = torch.empty(1000)\n{launch}\n"
    status, out, _ = traced(text)
    assert status == FAULTS
    assert any(said.startswith(f"script.py:{line}: {kind}: kernel `scale_kernel`") for said in out.splitlines())
    status, out, _ = traced(text, "--format", "json")
    [fault] = json.loads(out)["launches"][0]["faults"]
    assert (fault["kind"], fault["where"]) == (kind, f"script.py:{line}")


def test_a_launch_that_a_fault_stops_says_how_far_it_came(traced, monkeypatch):
    monkeypatch.setattr(launcher, "BATCH", 2 * 128)  # two programs at a time
    text = HEAD.replace("mask=offs < n, other=0.0", "") + "x = torch.ones(1000)\n"
    text += "scale_kernel[(8,)](x, x.clone(), 1000, BLOCK=128)\n"
    status, out, _ = traced(text, "--format", "json")
    (launch,) = json.loads(out)["launches"]
    assert status == FAULTS and (launch["programs"], launch["stopped_from"]) == (8, 8)
    status, out, _ = traced(text.replace("ones(1000)", "ones(200)"), "--format", "json")
    (launch,) = json.loads(out)["launches"]
    assert (launch["programs"], launch["stopped_from"], launch["bytes"]["load"]) == (2, 8, 0)


def test_a_fault_is_told_by_the_exit_status_even_if_the_script_dies(traced):
    launch, before, after, _ = FAULTY["race"]
    text = HEAD.replace(before, after) + f"x = torch.ones(1000)\nout = torch.empty(1000)\n{launch}\n1 / 0\n"
    assert traced(text)[0] == FAULTS


TUNED = HEAD.replace(
    "@triton.jit",
    """\
configs = [triton.Config({"BLOCK": block}, num_warps=4) for block in (128, 256)]
@triton.autotune(configs, key=["n"])
@triton.jit""",
)


def test_the_configuration_of_a_tuned_kernel_is_told(traced):
    text = TUNED + "x = torch.ones(1000)\nscale_kernel[(8,)](x, torch.empty(1000), 1000)\n"
    _, out, _ = traced(text, "--format", "json")
    (launch,) = json.loads(out)["launches"]
    assert launch["configuration"].startswith("BLOCK=128, num_warps=4") and launch["configurations"] == 2


def test_a_gpu_that_there_is_not(traced):
    for name, near in (("h100", ["H100 SXM", "H100 PCIe"]), ("H300", [])):
        with pytest.raises(argparse.ArgumentTypeError) as refused:
            gpu_named(name)
        question = refused.value.args[0].parameters["question"]
        assert question.parameters.get("near", []) == [f'"{each}"' for each in near]
    with pytest.raises(SystemExit) as ended:
        traced(HEAD + GOOD, "--gpu", "H100")
    assert ended.value.code == 2


def test_a_card_that_kernels_are_not_read_for_is_told():
    assert "sm_90" in named(gpu.datasheet("B200")) and "sm_90" not in named(gpu.datasheet("H200"))


def test_warps_that_find_nothing_say_so():
    assert show.looked_at(Recorded()) == []
    seen = Recorded()
    seen.launches.append(
        Launch("k", (1, 1, 1), warps=Warps("k", "sm_90", 1, requests=[Requests("line 2: `x`", "load", 16, 16)]))
    )
    (fine,) = show.looked_at(seen)
    assert (fine.id, fine.parameters) == ("trace.warps.fine", {"lines": 1})
    seen.launches[0].warps.requests[0].lane_bytes = 4  # of 16 side by side
    assert show.looked_at(seen) == [] and len(show.of_warps(seen)) == 1


def test_a_fault_belongs_to_the_launch_that_made_it(traced):
    two = "y = torch.ones(1000)\nscale_kernel[(8,)](y, y.clone(), 1000, BLOCK=128)\n"
    _, out, _ = traced(HEAD + two + "scale_kernel[(8,)](torch.empty(1000), y, 1000, BLOCK=128)\n", "--format", "json")
    assert [len(launch["faults"]) for launch in json.loads(out)["launches"]] == [0, 1]


ENDINGS = {
    "fails": ("1 / 0", r"script\.py, line 9, failed: ZeroDivisionError: division by zero"),
    "does not parse": ("def f(:", r"script\.py, line 9, failed: SyntaxError: .*"),
    "ends itself": ("import sys; sys.exit(3)", r"script\.py ended itself with 3 before its end\."),
    "hangs": ("while True: pass", r"script\.py was stopped after 1 seconds?; --seconds allows more\. .*"),
    "launches nothing": ("print(1)", r"script\.py launched no kernel, so there is nothing to count\. .*"),
    "is refused": (
        "scale_kernel[(8,)](torch.ones(8), 1000, BLOCK=128)",
        r"script\.py, line 9, failed: kernel `scale_kernel` .*",
    ),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_a_script_that_cannot_be_traced_ends_in_one_sentence(traced, how):
    last, sentence = ENDINGS[how]
    status, out, err = traced(HEAD + last + "\n", "--seconds", "1")
    assert status == NOT_TRACED
    assert re.fullmatch(sentence, err.splitlines()[-1]), err
    assert "Traceback" not in err


def test_what_was_counted_before_a_failure_is_shown(traced):
    status, out, err = traced(HEAD + GOOD + "1 / 0\n")
    assert status == NOT_TRACED and "4,000 bytes loaded" in out and "ZeroDivisionError" in out.splitlines()[-1]
    assert err == "done\n"  # one stream is enough
    status, out, err = traced(HEAD + GOOD + "1 / 0\n", "--format", "json")
    assert status == NOT_TRACED and "line 16" in json.loads(out)["stopped"] and "line 16" in err


def test_no_such_script(capfd):
    assert main(["nowhere.py"]) == NOT_TRACED
    assert capfd.readouterr().err == "There is no script nowhere.py.\n"


PERSISTENT = """
sms = torch.cuda.get_device_properties("cuda").multi_processor_count
assert sms == triton.runtime.driver.active.utils.get_device_properties(0)["multiprocessor_count"]
x = torch.ones(128 * sms, device="cuda")
scale_kernel[(sms,)](x, torch.empty_like(x), x.numel(), BLOCK=128)
"""


@pytest.mark.parametrize("options, sms", [(("--sms", "7"), 7), (("--gpu", "A100 80GB"), 108)])
def test_the_number_of_sms_is_what_the_script_is_told(traced, options, sms):
    _, out, _ = traced(HEAD + PERSISTENT, *options)
    assert f"with {sms} SMs" in out and f"grid ({sms},)" in out


BACKWARD = """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        out = torch.empty_like(x)
        scale_kernel[(1,)](x, out, x.numel(), BLOCK=128)
        return out

    @staticmethod
    def backward(ctx, g):
        assert g.device.type == "cuda"
        return Scale.forward(None, g.contiguous())

x = torch.ones(100, device="cuda", requires_grad=True)
Scale.apply(x).sum().backward()
print(triton.testing.do_bench(lambda: Scale.apply(x), quantiles=[0.5, 0.2]))
"""


def test_backward_passes_see_the_gpu_too_and_nothing_is_timed(traced):
    status, out, err = traced(HEAD + BACKWARD)
    assert status == FINE and "3 launches" in out and err == "[nan, nan]\n"


def test_nothing_of_it_stays_behind(traced):
    before = torch.cuda.is_available(), triton.testing.do_bench, list(sys.argv), list(sys.path)
    traced(HEAD + "1 / 0\n")
    assert before == (torch.cuda.is_available(), triton.testing.do_bench, sys.argv, sys.path)
    assert torch.ones(1).device.type == "cpu"
