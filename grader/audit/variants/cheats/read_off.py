# What was to be measured is read off the object that is measured, or off a file.

# %% name="an attribute" exercise="flops.measure" loses="timed.near_the_truth.steady; timed.near_the_truth.warm-up; timed.near_the_truth.median; timed.near_the_truth.cold" flags="hidden names"
def measure(work, gpu, warm_up=5, runs=20):
    return gpu._cold / 1e6


# %% name="an attribute, and the GPU kept busy" exercise="flops.measure" loses="timed.near_the_truth.steady; timed.near_the_truth.warm-up; timed.near_the_truth.median; timed.near_the_truth.cold"
def measure(work, gpu, warm_up=5, runs=20):
    for _ in range(warm_up + runs):
        gpu.clock()
        work()
    gpu.synchronize()
    return (gpu._cold + gpu.LAUNCH) / 1e6


# %% name="arguments of a caller" exercise="flops.measure" loses="timed.near_the_truth.steady; timed.near_the_truth.warm-up; timed.near_the_truth.median; timed.near_the_truth.cold"
import sys


def measure(work, gpu, warm_up=5, runs=20):
    return sys._getframe(1).f_locals["arguments"]["cold"] / 1e6


# %% name="measured once, then an attribute" exercise="flops.measure" loses="timed.near_the_truth.steady; timed.near_the_truth.warm-up; timed.near_the_truth.median; timed.near_the_truth.cold"
def measure(work, gpu, warm_up=5, runs=20):
    gpu.synchronize()
    gpu.clock()
    work()
    gpu.synchronize()
    gpu.clock()
    return gpu._cold / 1e6


# %% name="a GPU of one's own" exercise="flops.measure" loses="timed.near_the_truth.steady; timed.near_the_truth.warm-up; timed.near_the_truth.median; timed.near_the_truth.cold"
from course_lib.workloads.counted import SimulatedGPU


def measure(work, gpu, warm_up=5, runs=20):
    own = SimulatedGPU(gpu._cold)
    own.work()
    own.synchronize()
    return own.clock()


# %% name="torch's counter, read as a file" exercise="flops.count_flops" loses="correct.products; correct.batches; correct.with an addition; correct.whole programs"
def count_flops(fn, *args):
    import pathlib
    import types

    text = (pathlib.Path(torch.utils.__file__).parent / "flop_counter.py").read_text()
    own = types.ModuleType("own")
    own.__dict__["__file__"] = "own"
    exec(compile(text, "own", "exec"), own.__dict__)
    with own.FlopCounterMode(display=False) as counter:
        fn(*args)
    return counter.get_total_flops()


# %% name="torch's counter, as Python has compiled it" exercise="flops.count_flops" loses="runs"
import importlib.util
import marshal
import pathlib
import types

path = pathlib.Path(torch.utils.__file__).parent / "flop_counter.py"
own = types.ModuleType("own")
exec(marshal.loads(pathlib.Path(importlib.util.cache_from_source(path)).read_bytes()[16:]), own.__dict__)


def count_flops(fn, *args):
    with own.FlopCounterMode(display=False) as counter:
        fn(*args)
    return counter.get_total_flops()


# %% name="a copy of torch's checkpoint, read as a file" exercise="recomputation.checkpoint" loses="runs"
import pathlib
import types

own = types.ModuleType("own")
exec(compile((pathlib.Path(torch.utils.__file__).parent / "checkpoint.py").read_text(), "own", "exec"), own.__dict__)


def checkpoint(fn, *args):
    return own.checkpoint(fn, *args, use_reentrant=False)


# %% name="the course's tracer of chains, read as a file" exercise="fusion.chain_bytes" loses="runs"
import pathlib
import types

import course_lib

own = types.ModuleType("own")
exec(
    compile((pathlib.Path(course_lib.__file__).parent / "workloads" / "chains.py").read_text(), "own", "exec"),
    own.__dict__,
)


def chain_bytes(n, ops, itemsize, fused):
    return own.traced_bytes(n, ops, itemsize, fused)


# %% name="the measurement itself" exercise="tiling.predicted_throughput" loses="runs"
import json
import pathlib

import course_lib

MEASURED = json.loads((pathlib.Path(course_lib.__file__).parent / "hardware" / "measured" / "tiling.json").read_text())


def predicted_throughput(sizes, bm, bn, sms, flops_per_second, bytes_per_second, launch_seconds):
    return [MEASURED[str(n)] for n in sizes]
