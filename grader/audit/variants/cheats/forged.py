# Forged evidence on the wire: the recorder writes its own reply, and ends before the course's code can write one.

# %%
import os
import sys

from tritontrace.replay import wire

X = {"tensor": "0:x", "dtype": "float32", "size": [256, 128], "stride": [128, 1], "offset": 0}
Y = {"tensor": "0", "dtype": "float32", "size": [128, 256], "stride": [256, 1], "offset": 0}
EMPTY = {"op": "aten.empty.memory_format", "args": [{"list": [128, 256]}], "kwargs": {}, "out": [Y]}


def cases():
    """How many logs the judge waits for."""
    frame = sys._getframe()
    while "recorded" not in frame.f_locals:
        frame = frame.f_back
    return len(frame.f_locals["recorded"])


def send(message):
    for descriptor in range(3, 256):
        try:
            os.write(descriptor, message)
        except OSError:
            pass
    os._exit(0)


def send_result(value):
    """Send a forged result in the form in which a child answers: where that changes, it is refused for that alone."""
    parts = [{"logs": value, "error": "", "printed": ""}]
    send(wire.pack({"result": {"value": parts, "spent": {}}, "error": "", "printed": ""}))


def send_log(events, result=Y, kernels=None):
    call = {"events": events, "result": result, "error": ""}
    send_result([{"kernels": kernels or {}, "calls": [call, call]}] * cases())


# %% name="a verdict" exercise="coalescing.transpose" loses="runs" flags="files and processes"
def transpose(x):
    verdict = {"exercise": "coalescing.transpose", "points": 10.0, "out_of": 10.0, "findings": [], "bonus": 2.0}
    send_result(verdict)


# %% name="Evidence instead of a log" exercise="coalescing.transpose" loses="runs" flags="files and processes"
def transpose(x):
    from course_lib.evidence import Evidence

    evidence = wire.to_tree(Evidence("256 x 128", outputs=[torch.zeros(128, 256)] * 2))
    send_result([evidence] * cases())


# %% name="a log in which torch copies" exercise="coalescing.transpose" loses="triton_did_the_work"
def transpose(x):
    copy = {
        "op": "aten.copy_.default",
        "args": [Y, X | {"size": [128, 256], "stride": [1, 128]}],
        "kwargs": {},
        "out": [Y],
    }
    send_log([EMPTY, copy])


# %% name="a log that allocates into the input" exercise="coalescing.transpose" loses="triton_did_the_work"
def transpose(x):
    send_log([{"op": "aten.ones_like.out", "args": [X], "kwargs": {"out": X}, "out": [Y]}])


# %% name="a log that gives the input another name" exercise="coalescing.transpose" loses="triton_did_the_work"
def transpose(x):
    send_log([{"op": "aten.zero_.default", "args": [X], "kwargs": {}, "out": [Y]}])


# %% name="a log that calls something else" exercise="coalescing.transpose" loses="triton_did_the_work"
def transpose(x):
    send_log([{"op": "aten.empty.__class__", "args": ["import os"], "kwargs": {}, "out": []}])


# %% name="a kernel that leaves the language" exercise="coalescing.transpose" loses="triton_did_the_work"
def transpose(x):
    source = "def k(x, out):\n    tl.store(out, __import__('os').getpid())\n"
    names = {"tl": {"module": "triton.language"}, "__import__": {"object": "builtins.__import__"}}
    table = {"k": {"name": "k", "source": source, "names": names, "annotations": {}}}
    launch = {"launch": "k", "grid": [1, 1, 1], "arguments": {"x": X, "out": Y}, "options": {}}
    send_log([EMPTY, launch], kernels=table)


# %% name="a kernel under another's key" exercise="coalescing.transpose" loses="triton_did_the_work"
# What was compiled and traced goes by keys.
def transpose(x):
    source = "def k(x, out):\n    tl.store(out, tl.load(x))\n"
    table = {
        "0123456789abcdef": {
            "name": "k",
            "source": source,
            "names": {"tl": {"module": "triton.language"}},
            "annotations": {},
        }
    }
    launch = {"launch": "0123456789abcdef", "grid": [1, 1, 1], "arguments": {"x": X, "out": Y}, "options": {}}
    send_log([EMPTY, launch], kernels=table)


# %% name="a launch with machine code of its own" exercise="coalescing.transpose" loses="triton_did_the_work"
def transpose(x):
    from tritontrace.replay import key_of

    source = "def k(x, out):\n    tl.store(out, tl.load(x))\n"
    kernel = {"name": "k", "source": source, "names": {"tl": {"module": "triton.language"}}, "annotations": {}}
    options = {"ir_override": "/tmp/mine.ptx"}
    launch = {"launch": key_of(kernel), "grid": [1, 1, 1], "arguments": {"x": X, "out": Y}, "options": options}
    send_log([EMPTY, launch], kernels={key_of(kernel): kernel})


# %% name="a tensor beyond its storage" exercise="coalescing.transpose" loses="correct.plain"
def transpose(x):
    send_log([EMPTY], result=Y | {"size": [128, 1 << 20]})


# %% name="a pickle" exercise="coalescing.transpose" loses="runs"
def transpose(x):
    import pickle

    class Surprise:
        def __reduce__(self):
            return os._exit, (0,)

    send(pickle.dumps(Surprise()))


# %% name="lengths that lie" exercise="coalescing.transpose" loses="runs"
def transpose(x):
    send(b"strides1" + (1 << 60).to_bytes(8, "little") + b"{}")


# %% name="nested without end" exercise="coalescing.transpose" loses="runs"
def transpose(x):
    header = ('{"storages": [], "body": ' + "[" * 100_000 + "]" * 100_000 + "}").encode()
    send(b"strides1" + len(header).to_bytes(8, "little") + header)


# %% name="too few logs" exercise="coalescing.transpose" loses="runs"
def transpose(x):
    send_result([])


# %% name="time that it never took" exercise="coalescing.transpose" loses="runs"
def transpose(x):
    answer = {"value": [{"logs": [], "error": "", "printed": 5}], "spent": {"running": "-1e400", "tracing": [[]]}}
    send(wire.pack({"result": answer, "error": "", "printed": 5}))


# %% name="logs of a formula that are none" exercise="coalescing.sectors_touched" loses="runs"
# What a formula returns is read by the judge itself.
def sectors_touched(addresses, itemsize):
    send_result([{"calls": 3}, {"calls": [{"error": "", "result": {"float": "x"}}]}, None, "log"] * 9)


# %% name="a formula's result of another kind" exercise="coalescing.sectors_touched" loses="runs"
def sectors_touched(addresses, itemsize):
    log = {"calls": [{"error": "", "result": {"tuple": [{"float": "nan"}, {"tensor": "0:x"}, {"kernel": "k"}]}}] * 2}
    send_result([log] * cases())
