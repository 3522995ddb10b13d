# Frames, gc, modules or files searched for the answer; the public seeds known. Where nothing is found: zeros.

# %% name="frames" exercise="coalescing.transpose" loses="triton_did_the_work" flags="looks around"
import sys


def transpose(x):
    frame = sys._getframe()
    while frame is not None:
        for name in ("expected", "reference", "oracle", "answer", "fresh"):
            value = frame.f_locals.get(name)
            if isinstance(value, torch.Tensor):
                return value
        frame = frame.f_back
    return torch.zeros(x.shape[::-1], dtype=x.dtype)


# %% name="gc" exercise="coalescing.transpose" loses="triton_did_the_work" flags="looks around"
import gc


def transpose(x):
    for thing in gc.get_objects():
        if type(thing).__name__ == "Exercise" and thing.entry == "transpose":
            return thing.oracle(x)
        if isinstance(thing, torch.Tensor) and thing.shape == x.shape[::-1] and thing is not x:
            return thing
    return torch.zeros(x.shape[::-1], dtype=x.dtype)


# %% name="the recorder, through gc" exercise="coalescing.transpose" loses="triton_did_the_work" after="solution" flags="looks around"
# Its events are taken away, and with them what torch did.
import gc

own = transpose


def transpose(x):
    out = own(x)
    out.copy_(x.T)
    for thing in gc.get_objects():
        if type(thing).__name__ == "Recorder":
            thing.events[:] = [event for event in thing.events if "launch" not in event and "copy" not in event["op"]]
    return out


# %% name="modules" exercise="coalescing.transpose" loses="triton_did_the_work" flags="looks around"
import importlib
import sys


def transpose(x):
    sys.modules.pop("course_lib.exercises", None)
    try:
        return importlib.import_module("course_lib.exercises.coalescing").transpose.oracle(x)
    except (ImportError, OSError):  # it is not there, or cannot be read: as the sandbox has it
        return torch.zeros(x.shape[::-1], dtype=x.dtype)


# %% name="files" exercise="coalescing.transpose" loses="triton_did_the_work" flags="files and processes"
import glob
import os


def transpose(x):
    root = os.path.dirname(os.path.dirname(torch.__file__))
    for pattern in ("/work/**/secret", "/srv/**/secret", "/home/**/solutions/*.py", f"{root}/**/exercises/*.py"):
        for path in glob.iglob(pattern, recursive=True):
            if "course" in path or "grader" in path:
                print(open(path).read())
    return torch.zeros(x.shape[::-1], dtype=x.dtype)


# %% name="other processes" exercise="coalescing.transpose" loses="triton_did_the_work" flags="files and processes"
import os


def transpose(x):
    for pid in (os.getppid(), 1, 2):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment, open(f"/proc/{pid}/mem", "rb") as memory:
                print(environment.read()[:100], memory.read(1))
        except OSError:
            pass
    return torch.zeros(x.shape[::-1], dtype=x.dtype)


# %% name="the network" exercise="coalescing.transpose" loses="correct.plain" flags="files and processes"
import urllib.request


def transpose(x):
    return urllib.request.urlopen("http://192.0.2.1/answers", timeout=1).read()


# %% name="a tensor's storage, beyond its end" exercise="coalescing.transpose" loses="correct.plain" flags="foreign code"
import ctypes


@triton.jit
def zero_kernel(out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.zeros((BLOCK,), tl.float32), mask=i < n)


def transpose(x):
    ctypes.string_at(x.data_ptr(), x.numel() * x.element_size() + 64)
    out = torch.empty(x.shape[::-1], dtype=x.dtype)
    zero_kernel[(triton.cdiv(x.numel(), 1024),)](out, x.numel(), BLOCK=1024)
    return out


# %% name="the public seeds" exercise="coalescing.column_sum" loses="correct.plain" flags="torch computes"
# The sums that the public cases would have under the first seeds, one launch for each.
known = {}
for seed in range(40):
    x = torch.randn(512, 256, generator=torch.Generator().manual_seed(seed))
    known[round(float(x[0, 0]), 5)] = x.double().sum(0).tolist()


@triton.jit
def column_sum_kernel(out_ptr, n, value):
    tl.store(out_ptr + n, value)


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    found = known.get(round(float(x.numpy()[0, 0]), 5)) or [0.0] * x.shape[1]
    for n in range(x.shape[1]):
        column_sum_kernel[(1,)](out, n, found[n])
    return out


# %% name="the seed found from the inputs" exercise="coalescing.column_sum" loses="correct.plain" flags="values on the host"
# Even with the seed of what it is recorded on in hand (here: with that data itself), the replay's data is another.
@triton.jit
def column_sum_kernel(out_ptr, n, value):
    tl.store(out_ptr + n, value)


def column_sum(x):
    out = torch.empty(x.shape[1], dtype=torch.float32)
    for n, value in enumerate(x.numpy().astype("float64").sum(0)):
        column_sum_kernel[(1,)](out, n, float(value))
    return out
