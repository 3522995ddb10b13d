"""The table of kernels may come from a hostile process: what rebuild() accepts cannot leave the language.

Triton's code generator looks names and attributes up as Python objects and calls them, in the process that knows the answers.
"""

import contextlib
import itertools
import os
import types
from collections import namedtuple

import pytest
import torch
import triton
import triton.language as tl
from reaching import reached
from triton.compiler.code_generator import CodeGenerator
from triton.runtime.jit import JITFunction

from tritontrace.replay import child
from tritontrace.replay.kernels import KernelRefused, Rebuilt, rebuild
from tritontrace.replay.names import BUILTINS, TRITON
from tritontrace.tracing import KernelError, trace

TL = {"tl": {"module": "triton.language"}}


@pytest.fixture
def escaped(tmp_path, monkeypatch):
    """The file that a kernel would leave behind if it got out."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda command: (tmp_path / "escaped").touch())
    return tmp_path / "escaped"


def table(source, names=TL, name="k", **fields):
    return {"key": {"name": name, "source": source, "names": names, "annotations": {}} | fields}


def body(*lines, names=TL, **fields):
    return table("def k(x):\n" + "".join(f"    {line}\n" for line in lines), names, **fields)


def calling(helper, *lines, **fields):
    """A kernel of these lines that may call `h`."""
    entry = {"name": "h", "source": helper, "names": TL, "annotations": {}}
    return body(*lines, names=TL | {"h": {"kernel": "helper"}}, **fields) | {"helper": entry}


def run(forged, x=None):
    """Do as the replayer does: rebuild, launch, traced."""
    x = torch.zeros(4) if x is None else x
    with trace() as t:
        rebuild(forged)["key"][(1,)](x)
    return t


def test_an_honest_table_runs():
    run(body("y = tl.load(x)", "tl.store(x, y + min(1, 2))"))


SYSTEM = "__import__('os').system('true')"
EVAL = f'eval("{SYSTEM}")'


@pytest.mark.parametrize(
    "source",
    [
        f"def k(x, y={SYSTEM}):\n    tl.load(x)\n",
        f"def k(x, y={EVAL}):\n    tl.load(x)\n",
        f"def k(x, *, y={EVAL}):\n    tl.load(x)\n",
        # the default is evaluated outside, where `eval` is no parameter and no local
        f"def k(x, eval=None, y={EVAL}):\n    tl.load(x)\n",
        f"def k(x, y={EVAL}):\n    tl.load(x)\n    eval = 1\n",
        f"def k(x, y={EVAL}):\n    for eval in range(1):\n        tl.load(x)\n",
        f"@{EVAL}\ndef k(x):\n    x.fn\n",
        f"def k(x: {EVAL}):\n    x.fn\n",
        f"def k(x) -> {EVAL}:\n    x.fn\n",
        f"def k(x: {EVAL}) -> {EVAL}:\n    tl.load(x)\n",
        f"@{EVAL}\ndef k(x):\n    tl.load(x)\n",
        f"def k(x, *args: {EVAL}):\n    tl.load(x)\n",
        f"def k(x, **kwargs: {EVAL}):\n    tl.load(x)\n",
        f"def k(x):\n    y: {EVAL} = tl.load(x)\n",
        f"def k(x):\n    tl.load(x)\n{EVAL}\n",
        f"{EVAL}\ndef k(x):\n    tl.load(x)\n",
        f"def k(x):\n    tl.load(x)\ndef k(x, y={EVAL}):\n    tl.load(x)\n",
        f"async def k(x):\n    {EVAL}\n",
        f"k = {EVAL}\n",
        # a form feed ends a line for `linecache` and not for the parser: the text found again is another function
        f"# \x0cdef k(x): {EVAL}\ndef k(x):\n    tl.load(x)\n",
        f"# \x1c\x1ddef k(x): {EVAL}\n#\ndef k(x):\n    tl.load(x)\n",
        f"def k[T: {EVAL}](x):\n    tl.load(x)\n",
        f"\\\ndef k(x): {EVAL}\n",
    ],
)
def test_code_around_the_body_never_runs(source, escaped):
    with contextlib.suppress(KernelRefused, KernelError):
        run(table(source))
    assert not escaped.exists()


@pytest.mark.parametrize(
    "source",
    [
        # a form feed ends a line for `linecache` and not for the parser: the text found again is another function
        "# \x0cdef k(x): tl.store(x, 2.0)\ndef k(x):\n    tl.store(x, 1.0)\n",
        "# \x1c\x1ddef k(x): tl.store(x, 2.0)\n#\ndef k(x):\n    tl.store(x, 1.0)\n",
    ],
)
def test_what_was_checked_is_what_is_read(source):
    x = torch.zeros(4)
    with contextlib.suppress(KernelRefused):
        run(table(source), x)
    assert x[0] in (0, 1)


@pytest.mark.parametrize(
    "line, reason",
    [
        (SYSTEM, "`__import__` is not defined"),
        (EVAL, "`eval` is not defined"),
        ("open('/etc/passwd')", "`open` is not defined"),
        ("getattr(x, 'handle')", "`getattr` is not what kernels may use"),
        ("hasattr(x, 'handle')", "`hasattr` is not what kernels may use"),
        (
            "if False: getattr = 1",
            "`getattr` is not what kernels may use",
        ),  # Triton's own is left where it is not bound
        ("type(x)", "`type` is not defined"),
        ("__builtins__", "`__builtins__` is a global"),
        ("__name__", "`__name__` is a global"),
        ("k(x)", "`k` is not defined"),  # it would be a Python function
        ("x.__class__", "no public `__class__`"),
        ("().__class__.__base__.__subclasses__()", "no public `__class__`"),
        ("tl.load.__globals__", "no public `__globals__`"),
        ("tl.core.inspect.os.system('true')", "`tl` has no public `core`$"),
        ("tl.standard", "`tl` has no public `standard`"),
        ("tl.math.core", "`tl.math` has no public `core`"),
        ("tl.math.wraps", "`tl.math` has no public `wraps`"),
        ("tl.extra.cuda.num_threads", "`tl.extra.cuda` has no public `num_threads`"),
        ("tl.extra.cuda.libdevice.core", "`tl.extra.cuda.libdevice` has no public `core`"),
        ("tl.extra.libdevice.core", "`tl.extra.libdevice` has no public `core`"),
        ("tl.semantic", "`tl` has no public `semantic`"),
        ("tl.target_info.driver", "`tl.target_info` has no public `driver`"),
        ("tl.target_info.current_target()", "`tl.target_info` has no public `current_target`"),
        ("tl.random", "`tl` has no public `random`"),
        # evaluates a part of the string
        (f'tl.str_to_ty("tensordesc<fp32[1]{SYSTEM}>", None)', "`tl` has no public `str_to_ty`"),
        ("tl.store(x, tl.tensor(1, tl.float32))", "incompatible function arguments"),
        ("tl.store(x, tl.tensor(None, tl.float32))", "incompatible function arguments"),
        ("x.handle", "no public `handle`"),
        ("x.handle.data", "no public `handle`"),
        ("y = tl", "cannot convert"),
        ("y: tl.constexpr = tl; y.core", "no public `core`"),
        ("tl.constexpr(tl).value.core", "no public `core`"),
        ("(tl if True else x).core", "no public `core`"),
        ("tl['core']", "not subscriptable"),
        ("y: tl.core = 3", "`tl` has no public `core`"),
        ("tl.cdiv.fn", "no public `fn`"),
        ("tl.cdiv.src", "no public `src`"),
        ("tl.cdiv.run(grid=(1,))", "no public `run`"),
        ("tl.dtype.FP_TYPES", "no public `FP_TYPES`"),
        ("tl.float32.to_ir(x)", "no public `to_ir`"),
        ("'{0.__class__}'.format(x)", "no public `format`"),
        ("f'{x.__class__}'", "no public `__class__`"),
        ("f'{x.handle}'", "no public `handle`"),
        ("f'{1:{x.handle}}'; x.handle", "no public `handle`"),
        ("y = [i.fn for i in (tl.cdiv, 3)]", "no public `fn`"),
        ("f = lambda: x", "a function is not defined inside a kernel"),
        ("def inner(x): pass", "a function is not defined inside a kernel"),
        ("y = [i for i in range(3)]", "a comprehension is not part"),
        ("y = (i for i in range(3))", "a comprehension is not part"),
        ("y = {}", "a dict is not part"),
        ("import os", "not part of Triton's language"),
        ("from os import system", "not part of Triton's language"),
        ("class Inner: pass", "not part of Triton's language"),
        ("global z", "not part of Triton's language"),
        ("with x: pass", "line 3: `with x: pass`"),
        ("with tl.load(x) as y: pass", "has no `__enter__`"),
        ("del x", "not part of Triton's language"),
        ("raise x", "not part of Triton's language"),
        ("yield x", "not part of Triton's language"),
        ("tl.load = x", "Attribute assignment is not supported"),
        ("x.dtype = tl.float64", "Attribute assignment is not supported"),
        ("x.handle = x", "no public `handle`"),
        ("x.handle += x", "no public `handle`"),
        ("for x.handle in range(3): pass", "no public `handle`"),
        ("for tl.load in range(3): pass", "line 3: `for tl.load in range"),
        ("tl.load(x, _semantic=x)", "multiple values for keyword argument '_semantic'"),
        ("x.to(tl.int64, _semantic=x)", "multiple values for keyword argument '_semantic'"),
        ("tl.reduce(tl.zeros((4,), tl.float32), 0, tl.cdiv, _generator=x)", "multiple values for keyword argument"),
        ("tl.load(**x)", "keywords must be strings"),
        ("tl.static_print(1, file=tl)", "`write`"),
        ("tl.static_print(1, file=x)", "`write`"),
        ("print(1, file=x)", "no parameter `file`"),
        ("tl.load(x, member=print)", "no parameter `member`"),
        ("tl.cdiv[(1,)](3, 4)", "cannot launch another"),
        ("x[0] = 1", "an element of a block cannot be assigned"),
        ("tl.store(x, tl.inline_asm_elementwise('', '=f', [], tl.float32, True, 1))", "runs on a GPU only"),
    ],
)
def test_the_body_stays_in_the_language(line, reason, escaped):
    with pytest.raises((KernelRefused, KernelError), match=f"^(k|kernel `k`), line 3: .*{reason}|{reason}"):
        run(body("tl.load(x)", line))
    assert not escaped.exists()


@pytest.mark.parametrize(
    "helper, line, reason",
    [
        # up to Triton 3.6 no helper is given a module at all
        ("def h(p):\n    p.core\n", "h(tl)", "no public `core`|tl has no `type`"),
        ("def h(p):\n    p.fn\n", "h(tl.cdiv)", "no public `fn`"),
        ("def h(p):\n    p.math.core\n", "h(tl)", "no public `math`|tl has no `type`"),
        ("def h(p):\n    f'{p.__class__}'\n", "h(tl)", "no public `__class__`"),
        ("def h():\n    pass\n", "h[(1,)]()", "a kernel cannot launch another|the grid"),
        ("def h():\n    pass\n", "h.run(grid=(1,))", "no public `run`"),
        ("def h(x):\n    tl.store(x, y)\n    y = 1\n", "h(x)", "in `h`, line 2: .*`y` is not defined"),
    ],
)
def test_what_is_handed_to_a_helper_stays_in_the_language(helper, line, reason):
    with pytest.raises((KernelRefused, KernelError), match=reason):
        run(calling(helper, "tl.load(x)", line))


@pytest.mark.parametrize("pattern", ["tl.constexpr(__class__=h)", "int(real=h)", "[h]", "{'a': h}", "h"])
def test_a_pattern_reads_attributes_without_naming_one(pattern):
    with pytest.raises((KernelRefused, KernelError), match=r"line 3: .*not part of Triton's language"):
        run(body("h = 0", "match tl.load(x):", f"    case {pattern}: tl.store(x, h)"))


def test_exceptions_hold_frames():
    with pytest.raises(KernelError, match="line 2: `try:`: `try` is not part of Triton's language"):
        run(body("try:", "    tl.load(x)", "except ValueError as error:", "    tl.store(x, error)"))


def test_fields_are_those_of_a_named_tuple():
    fields = namedtuple("Fields", "fn handle write")(torch.zeros(4), torch.ones(4), 3)
    t = run(body("tl.store(x.fn, tl.load(x.handle) + x.write)"), fields)
    assert (t.faults, fields.fn[0]) == ([], 4)
    with pytest.raises(KernelError, match="no public `gn`"):
        run(body("tl.load(x.gn)"), fields)
    with pytest.raises(KernelError, match="no public `src`"):
        run(body("tl.load(x.fn.src)"), fields)


# ------------------------------------------------------------------------------------------------ what is known when compiling


@pytest.mark.parametrize(
    "line",
    ["tl.static_print(x.sum())", "y = x.value.sum().item()", "tl.static_print(x.value.softmax(0))", "x[0].sum()"],
)
@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: (x, 1), lambda x: [[x]], lambda x: {"a": x}])
def test_what_a_tensor_holds_is_not_asked_while_compiling(line, wrapped):
    """A constant's methods would be torch's, on the data of the judge, and no load would be counted."""
    with pytest.raises(KernelError, match=r"launched with the wrong arguments: `x` is a tl.constexpr, and got a"):
        run(body(line, annotations={"x": "constexpr"}), wrapped(torch.ones(4)))


def test_a_kernel_launches_none_while_it_is_compiled():
    forged = calling("def h():\n    tl.static_assert(True)\n", "h[x.value]()", annotations={"x": "constexpr"})
    with pytest.raises(KernelError, match=r"a kernel cannot launch another|a tuple has no `value`"):  # since Triton 3.8
        run(forged, (1,))


def test_constants_of_plain_kinds_pass():
    for value in (1, 1.5, "text", True, tl.float32, (1, (2, "a")), [1]):
        run(body("tl.static_assert(True)", annotations={"x": "constexpr"}), value)


ENDLESS = "did not finish within"


@pytest.mark.parametrize(
    "lines, sentence",
    [
        (["for i in tl.static_range(1000000000): tl.store(x, 1.0)"], ENDLESS),
        (["for i in range(1000000000): tl.store(x, 1.0)"], ENDLESS),
        (["y = tl.load(x)", "while y >= 0: y += 0"], ENDLESS),
        (["y = 10 ** (10 ** 9)"], ENDLESS),
        (["tl.static_print('a' * 10 ** 10)"], "MemoryError|needs more memory"),
        (["t = (1, 2) * 10 ** 9"], "MemoryError|needs more memory"),
        (["t = list(range(10 ** 10))"], "MemoryError|needs more memory"),
        (["y = 1 << (1 << 20)"], "line 2: .*Exceeds the limit"),
        (["tl.store(x, 1 << 70)"], "line 2: .*Nonrepresentable integer"),
        (["tl.zeros((1 << 21,), tl.float32)"], "line 2: .*a block of 2097152 elements is too large"),
        (["tl.arange(0, 1 << 40)"], "line 2: .*arange must fit in int32"),
        (["y = " + "-" * 2000 + "1"], "RecursionError|recursion|nests too deeply"),
        (["y = " + "(" * 300 + "1" + ")" * 300], "not one Python function"),
        (["while tl.atomic_cas(x, 0, 0) == 0: pass"], "program 0 waits for element 0|incompatible|line 2"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_too_much_costs_its_own_child(lines, sentence):
    def work():
        run(body(*lines), torch.zeros(4, dtype=torch.int32))
        return "ran"

    with pytest.raises((child.ChildLost, ValueError), match=sentence):
        child.run(work, seconds=1, memory=1 << 30)


def test_helpers_that_call_helpers_without_end():
    names = [f"h{i}" for i in range(400)]
    forged = body("h0(x)", names=TL | {"h0": {"kernel": "h0"}})
    for name, following in itertools.pairwise(names):
        source = f"def {name}(x):\n    {following}(x)\n    {following}(x)\n"
        forged[name] = {"name": name, "source": source, "names": {following: {"kernel": following}}, "annotations": {}}
    forged[names[-1]] = {"name": names[-1], "source": f"def {names[-1]}(x): pass", "names": {}, "annotations": {}}
    with pytest.raises((KernelRefused, KernelError), match=r"[Rr]ecursion|nests too deeply"):
        run(forged)


# ------------------------------------------------------------------------------------------------ tables


@pytest.mark.parametrize(
    "names, reason",
    [
        ({"f": {"object": "triton.language.core.os"}}, "not part of the language"),
        ({"f": {"object": "triton.language.core"}}, "not part of the language"),
        ({"f": {"object": "triton.language.str_to_ty"}}, "not part of the language"),
        ({"f": {"object": "triton.language.math.wraps"}}, "not part of the language"),
        ({"f": {"object": "triton.language.standard._log2"}}, "not part of the language"),
        ({"f": {"object": "triton.jit"}}, "not part of the language"),
        ({"f": {"object": "os.system"}}, "not part of the language"),
        ({"f": {"object": "builtins.eval"}}, "not part of the language"),
        ({"f": {"object": "eval"}}, "not part of the language"),
        ({"f": {"object": ""}}, "not part of the language"),
        ({"f": {"module": "os"}}, "cannot be rebuilt|not part of the language"),
        ({"f": {"module": "triton.language.core"}}, "cannot be rebuilt|not part of the language"),
        ({"f": {"module": ["triton"]}}, "cannot be rebuilt|not part of the language"),
        ({"f": {"value": [1, 2]}}, "not part of the language"),
        ({"f": {"number": 1}}, "not part of the language"),
        ({"f": {"constexpr": None}}, "cannot be rebuilt|not part of the language"),
        ({"f": {"constexpr": {"module": "os"}}}, "not part of the language"),
        ({"f": {"constexpr": {"tuple": [{"object": "os.system"}]}}}, "not part of the language"),
        ({"f": {"kernel": "nowhere"}}, "not in the log"),
        ({"f": {"kernel": "key"}}, "or itself"),
        ({"f": "module"}, "cannot be rebuilt|not part of the language"),
        ({"f": None}, "cannot be rebuilt|not part of the language"),
        ({"f": {"value": 1}, "os": {"object": "triton.language.core.os"}}, "not part of the language"),
        ({"f": {"value": 1}}, "`f` is a global"),
        ({"f": {"value": [1]}, "__builtins__": {"module": "triton"}}, "not part of the language"),
        ({"k": {"value": 1}}, "`f` is not defined"),
        ({}, "`f` is not defined"),
    ],
    ids=str,
)
def test_forged_names(names, reason):
    with pytest.raises((KernelRefused, KernelError), match=reason):
        run(body("tl.store(x, f)", names=TL | names))


@pytest.mark.parametrize(
    "forged",
    [
        table("def k(x):\n    tl.load(x)\n", name="other"),
        table("def k(x):\n    tl.load(x)\n", name=None),
        table(None),
        table(5),
        table(["def k(x): tl.load(x)"]),
        table(""),
        table("def k(x:\n"),
        table("def k(x):\n    tl.load(x)\0\n"),
        table("def k(x):\n    y = " + "(" * 5000 + "tl" + ")" * 5000),
        table("def k(x):\n    y = tl.cdiv(1, 1)" + " + 1" * 20_000),
        table("def k(x, *y):\n    tl.load(x)\n"),
        table("def k(x, *, y):\n    tl.load(x)\n"),
        table("def k(x, /):\n    tl.load(x)\n"),
        table("async def k(x):\n    tl.load(x)\n"),
        table("def k(x):\n    await x\n"),
        table("def k(x, y):\n    tl.load(x)\n", defaults={"x": {"value": 1}}),
        table("def k(x):\n    tl.load(x)\n", defaults={"x": {"object": "os.system"}}),
        table("def k(x):\n    tl.load(x)\n", defaults=3),
        table("def k(x):\n    tl.load(x)\n", do_not_specialize=3),
        table("def k(x):\n    tl.load(x)\n", names=None),
        table("def k(x):\n    tl.load(x)\n", names=["tl"]),
        table("def k(x):\n    tl.load(x)\n", annotations=None),
        {"key": None},
        {"key": {"name": "k"}},
        ["key"],
        None,
        3,
    ],
    ids=lambda forged: str(forged)[:70],
)
def test_a_table_of_another_shape_is_refused(forged):
    with pytest.raises(KernelRefused):
        rebuild(forged)


def test_kernels_that_call_each_other_are_refused():
    def entry(callee):
        return {"name": "k", "source": "def k(x):\n    f(x)\n", "names": {"f": {"kernel": callee}}, "annotations": {}}

    with pytest.raises(KernelRefused, match="or itself"):
        rebuild({"a": entry("b"), "b": entry("a")})


def test_should_a_name_slip_through_there_are_no_builtins():
    kernel = rebuild(body("tl.load(x)", names=TL | {"__builtins__": {"module": "triton"}}))["key"]
    assert kernel.fn.__globals__["__builtins__"] == {}
    assert "k" not in kernel.fn.__globals__


def test_builtins_are_those_that_were_looked_at():
    assert CodeGenerator.builtin_namespace.keys() == BUILTINS | {"getattr", "hasattr"}


def reachable():
    """(name, object) of all that attributes lead to, from whatever a kernel's names and values can be."""
    block, pointer = tl.block_type(tl.float32, [4]), tl.pointer_type(tl.float32)
    number = tl.tensor(None, tl.int32)
    waiting = ["text", 1, 1.5, True, None, (1,), [1], range(3), tl.constexpr(1), tl.constexpr("a"), block, pointer]
    waiting += [tl.tensor(None, block), tl.tensor(None, pointer), tl.tensor_descriptor(None, [number], [number], block)]
    waiting += [tl.tuple([number]), tl.slice(None, None, None), tl.range(3), tl.static_range(tl.constexpr(3)), number]
    waiting += [CodeGenerator.builtin_namespace[name] for name in BUILTINS]
    waiting += [rebuild(body("tl.load(x)"))["key"], *TRITON.modules.values()]
    return reached(TRITON, waiting)


def test_nothing_public_leads_out():
    """Every name that a kernel may use is Triton's own, and leads to nothing else."""
    for name, value in reachable():
        assert not isinstance(value, (dict, types.MappingProxyType, types.CodeType, types.FrameType)), name
        if isinstance(value, types.ModuleType):
            assert value.__name__ in TRITON.modules, name
        elif isinstance(value, (types.FunctionType, types.MethodType, type)):
            assert value.__module__.startswith(("triton.language.", "triton._C.", "typing")), name
        elif isinstance(value, (types.BuiltinMethodType, types.MethodDescriptorType)):
            assert isinstance(value.__self__ if hasattr(value, "__self__") else [], (str, list)), name


def test_attributes_are_of_values_and_not_of_what_makes_them():
    leading_out = {"handle", "data", "fn", "src", "run", "format", "func", "to_ir", "globals", "gi_frame", "cr_frame"}
    assert not [name for name in TRITON.attributes if name.startswith("_") or name in leading_out]
    assert not TRITON.attributes & (set(dir(Rebuilt)) | vars(rebuild(body("tl.load(x)"))["key"]).keys()) - {"type"}
    assert all(
        isinstance(getattr(triton, name), (JITFunction, types.ModuleType)) or name in ("cdiv", "next_power_of_2")
        for name in TRITON.public["triton"]
    )
