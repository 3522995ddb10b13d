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
from sentences import mentions, refusing
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


LACK, TL_LACKS = ("replay.kernel.lack", {}), ("compiler.problem.tl_lacks", {})


def lack(name, of=""):
    """The id, and some parameters, of what is said of an attribute that is not public."""
    return LACK[0], {"name": name} | ({"of": f"`{of}`"} if of else {})


def undefined(name):
    return "compiler.problem.undefined", {"name": name}


def of_the_globals(name):
    return "compiler.problem.global", {"name": name}


def builtin(name):
    return "replay.kernel.builtin", {"name": name}


def node(name):
    return "compiler.problem.node", {"node": name}


def in_line(error, number):
    """Whether a refusal names this line."""
    parameters = error.message.parameters
    place = parameters.get("place") or parameters.get("site", "").partition(", ")[2]
    return parameters.get("line") == number or place.startswith(f"line {number}:")


@pytest.mark.parametrize(
    "line, reason",
    [
        (SYSTEM, undefined("__import__")),
        (EVAL, undefined("eval")),
        ("open('/etc/passwd')", undefined("open")),
        ("getattr(x, 'handle')", builtin("getattr")),
        ("hasattr(x, 'handle')", builtin("hasattr")),
        ("if False: getattr = 1", builtin("getattr")),  # Triton's own is left where it is not bound
        ("type(x)", undefined("type")),
        ("__builtins__", of_the_globals("__builtins__")),
        ("__name__", of_the_globals("__name__")),
        ("k(x)", undefined("k")),  # it would be a Python function
        ("x.__class__", lack("__class__")),
        ("().__class__.__base__.__subclasses__()", lack("__class__")),
        ("tl.load.__globals__", lack("__globals__")),
        ("tl.core.inspect.os.system('true')", lack("core", "tl")),
        ("tl.standard.core", lack("core", "tl.standard")),
        ("tl.math.core", lack("core", "tl.math")),
        ("tl.math.wraps", lack("wraps", "tl.math")),
        ("tl.extra.cuda.num_threads", lack("num_threads", "tl.extra.cuda")),
        ("tl.extra.cuda.libdevice.core", lack("core", "tl.extra.cuda.libdevice")),
        ("tl.extra.libdevice.core", lack("core", "tl.extra.libdevice")),
        ("tl.semantic", lack("semantic", "tl")),
        ("tl.target_info.driver", lack("driver", "tl.target_info")),
        ("tl.target_info.current_target()", lack("current_target", "tl.target_info")),
        ("tl.random.core", lack("core", "tl.random")),
        # evaluates a part of the string
        (f'tl.str_to_ty("tensordesc<fp32[1]{SYSTEM}>", None)', lack("str_to_ty", "tl")),
        ("x.handle", lack("handle")),
        ("x.handle.data", lack("handle")),
        ("y: tl.constexpr = tl; y.core", lack("core")),
        ("tl.constexpr(tl).value.core", lack("core")),
        ("(tl if True else x).core", lack("core")),
        ("y: tl.core = 3", lack("core", "tl")),
        ("tl.cdiv.fn", lack("fn")),
        ("tl.cdiv.src", lack("src")),
        ("tl.cdiv.run(grid=(1,))", lack("run")),
        ("tl.dtype.FP_TYPES", lack("FP_TYPES")),
        ("tl.float32.to_ir(x)", lack("to_ir")),
        ("'{0.__class__}'.format(x)", lack("format")),
        ("f'{x.__class__}'", lack("__class__")),
        ("f'{x.handle}'", lack("handle")),
        ("f'{1:{x.handle}}'; x.handle", lack("handle")),
        ("y = [i.fn for i in (tl.cdiv, 3)]", lack("fn")),
        ("f = lambda: x", ("replay.kernel.function_inside", {})),
        ("def inner(x): pass", ("replay.kernel.function_inside", {})),
        ("y = [i for i in range(3)]", ("compiler.problem.comprehension", {})),
        ("y = (i for i in range(3))", ("compiler.node.comprehension", {})),
        ("y = {}", ("compiler.node.dict", {})),
        ("import os", node("`import`")),
        ("from os import system", node("`import`")),
        ("class Inner: pass", ("compiler.node.class", {})),
        ("global z", node("`Global`")),
        ("with x: pass", ("compiler.problem.lacks", {})),
        ("with tl.load(x) as y: pass", ("compiler.problem.lacks", {"name": "__enter__"})),
        ("del x", node("`del`")),
        ("raise x", node("`raise`")),
        ("yield x", node("`Yield`")),
        ("x.handle = x", lack("handle")),
        ("x.handle += x", lack("handle")),
        ("for x.handle in range(3): pass", lack("handle")),
        ("for tl.load in range(3): pass", ("compiler.problem.lacks", {})),
        ("tl.static_print(1, file=tl)", ("compiler.problem.tl_lacks", {"name": "write"})),
        ("tl.static_print(1, file=x)", ("compiler.problem.lacks", {"name": "write"})),
        ("print(1, file=x)", ("compiler.problem.no_parameter", {"name": "file"})),
        ("tl.load(x, member=print)", ("compiler.problem.no_parameter", {"name": "member"})),
        ("tl.cdiv[(1,)](3, 4)", ("launch.run.nested", {"kernel": "cdiv"})),
        ("x[0] = 1", ("compiler.problem.element_assigned", {})),
        ("tl.store(x, tl.inline_asm_elementwise('', '=f', [], tl.float32, True, 1))", ("launch.lacking.assembly", {})),
    ],
)
def test_the_body_stays_in_the_language(line, reason, escaped):
    with pytest.raises((KernelRefused, KernelError)) as refused:
        run(body("tl.load(x)", line))
    id, parameters = reason
    assert mentions(refused.value, id, **parameters) and in_line(refused.value, 3)
    assert not escaped.exists()


@pytest.mark.parametrize(
    "line, words",
    [
        ("tl.store(x, tl.tensor(1, tl.float32))", "incompatible function arguments"),
        ("tl.store(x, tl.tensor(None, tl.float32))", "incompatible function arguments"),
        ("y = tl", "cannot convert"),
        ("tl['core']", "not subscriptable"),
        ("tl.load = x", "Attribute assignment is not supported"),
        ("x.dtype = tl.float64", "Attribute assignment is not supported"),
        ("tl.load(x, _semantic=x)", "multiple values for keyword argument '_semantic'"),
        ("x.to(tl.int64, _semantic=x)", "multiple values for keyword argument '_semantic'"),
        ("tl.reduce(tl.zeros((4,), tl.float32), 0, tl.cdiv, _generator=x)", "multiple values for keyword argument"),
        ("tl.load(**x)", "keywords must be strings"),
    ],
)
def test_what_triton_refuses_in_its_own_words(line, words, escaped):
    with pytest.raises(KernelError) as refused:
        run(body("tl.load(x)", line))
    problem = refused.value.message.parameters["problem"]
    assert problem.id == "compiler.problem.words" and words in problem and in_line(refused.value, 3)
    assert not escaped.exists()


@pytest.mark.parametrize(
    "helper, line, reason",
    [
        # up to Triton 3.6 no helper is given a module at all
        ("def h(p):\n    p.core\n", "h(tl)", (LACK, TL_LACKS)),
        ("def h(p):\n    p.fn\n", "h(tl.cdiv)", lack("fn")),
        ("def h(p):\n    p.math.core\n", "h(tl)", (LACK, TL_LACKS)),
        ("def h(p):\n    f'{p.__class__}'\n", "h(tl)", lack("__class__")),
        ("def h():\n    pass\n", "h[(1,)]()", ("launch.run.nested", {"kernel": "h"})),
        ("def h():\n    pass\n", "h.run(grid=(1,))", lack("run")),
        ("def h(x):\n    tl.store(x, y)\n    y = 1\n", "h(x)", undefined("y")),
    ],
)
def test_what_is_handed_to_a_helper_stays_in_the_language(helper, line, reason):
    with pytest.raises((KernelRefused, KernelError)) as refused:
        run(calling(helper, "tl.load(x)", line))
    reasons = reason if isinstance(reason[0], tuple) else (reason,)
    assert any(mentions(refused.value, id, **parameters) for id, parameters in reasons)


@pytest.mark.parametrize("pattern", ["tl.constexpr(__class__=h)", "int(real=h)", "[h]", "{'a': h}", "h"])
def test_a_pattern_reads_attributes_without_naming_one(pattern):
    with pytest.raises((KernelRefused, KernelError)) as refused:
        run(body("h = 0", "match tl.load(x):", f"    case {pattern}: tl.store(x, h)"))
    assert mentions(refused.value, "compiler.problem.node") and in_line(refused.value, 3)


def test_exceptions_hold_frames():
    with pytest.raises(KernelError) as refused:
        run(body("try:", "    tl.load(x)", "except ValueError as error:", "    tl.store(x, error)"))
    assert mentions(refused.value, "compiler.problem.node", node="`try`") and in_line(refused.value, 2)


def test_fields_are_those_of_a_named_tuple():
    fields = namedtuple("Fields", "fn handle write")(torch.zeros(4), torch.ones(4), 3)
    t = run(body("tl.store(x.fn, tl.load(x.handle) + x.write)"), fields)
    assert (t.faults, fields.fn[0]) == ([], 4)
    for line, name in (("tl.load(x.gn)", "gn"), ("tl.load(x.fn.src)", "src")):
        with refusing("replay.kernel.lack", KernelError, name=name):
            run(body(line), fields)


# ------------------------------------------------------------------------------------------------ what is known when compiling


@pytest.mark.parametrize(
    "line",
    ["tl.static_print(x.sum())", "y = x.value.sum().item()", "tl.static_print(x.value.softmax(0))", "x[0].sum()"],
)
@pytest.mark.parametrize("wrapped", [lambda x: x, lambda x: (x, 1), lambda x: [[x]], lambda x: {"a": x}])
def test_what_a_tensor_holds_is_not_asked_while_compiling(line, wrapped):
    """A constant's methods would be torch's, on the data of the judge, and no load would be counted."""
    with refusing("launch.argument.no_constant", KernelError, name="x"):
        run(body(line, annotations={"x": "constexpr"}), wrapped(torch.ones(4)))


def test_a_kernel_launches_none_while_it_is_compiled():
    forged = calling("def h():\n    tl.static_assert(True)\n", "h[x.value]()", annotations={"x": "constexpr"})
    with pytest.raises(KernelError) as refused:
        run(forged, (1,))
    of_a_tuple = mentions(refused.value, "compiler.problem.lacks", type="tuple", name="value")  # since Triton 3.8
    assert of_a_tuple or mentions(refused.value, "launch.run.nested")


def test_constants_of_plain_kinds_pass():
    for value in (1, 1.5, "text", True, tl.float32, (1, (2, "a")), [1]):
        run(body("tl.static_assert(True)", annotations={"x": "constexpr"}), value)


ENDLESS, STARVED = ("replay.child.timeout",), ("replay.child.memory", "MemoryError")
TOO_DEEP = ("RecursionError", "recursion", "replay.kernel.too_deep")


@pytest.mark.parametrize(
    "lines, reasons",
    [
        (["for i in tl.static_range(1000000000): tl.store(x, 1.0)"], ENDLESS),
        (["for i in range(1000000000): tl.store(x, 1.0)"], ENDLESS),
        (["y = tl.load(x)", "while y >= 0: y += 0"], ENDLESS),
        (["y = 10 ** (10 ** 9)"], ENDLESS),
        (["tl.static_print('a' * 10 ** 10)"], STARVED),
        (["t = (1, 2) * 10 ** 9"], STARVED),
        (["t = list(range(10 ** 10))"], STARVED),
        (["y = 1 << (1 << 20)"], ("Exceeds the limit",)),
        (["tl.store(x, 1 << 70)"], ("Nonrepresentable integer",)),
        (["tl.zeros((1 << 21,), tl.float32)"], ("compiler.problem.block_too_large",)),
        (["tl.arange(0, 1 << 40)"], ("arange must fit in int32",)),
        (["y = " + "-" * 2000 + "1"], TOO_DEEP),
        (["y = " + "(" * 300 + "1" + ")" * 300], ("replay.kernel.no_function",)),
        (
            ["while tl.atomic_cas(x, 0, 0) == 0: pass"],
            ("launch.waiting.unchanged", "incompatible", "compiler.refusal.at"),
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_too_much_costs_its_own_child(lines, reasons):
    """reasons: ids, or words of Python's and of Triton's"""

    def work():
        run(body(*lines), torch.zeros(4, dtype=torch.int32))
        return "ran"

    with pytest.raises((child.ChildLost, ValueError)) as lost:
        child.run(work, seconds=1, memory=1 << 30)
    assert any(mentions(lost.value, reason) or reason in str(lost.value) for reason in reasons)


def test_helpers_that_call_helpers_without_end():
    names = [f"h{i}" for i in range(400)]
    forged = body("h0(x)", names=TL | {"h0": {"kernel": "h0"}})
    for name, following in itertools.pairwise(names):
        source = f"def {name}(x):\n    {following}(x)\n    {following}(x)\n"
        forged[name] = {"name": name, "source": source, "names": {following: {"kernel": following}}, "annotations": {}}
    forged[names[-1]] = {"name": names[-1], "source": f"def {names[-1]}(x): pass", "names": {}, "annotations": {}}
    with pytest.raises((KernelRefused, KernelError)) as refused:
        run(forged)
    assert mentions(refused.value, "replay.kernel.too_deep") or "recursion" in str(refused.value).lower()


# ------------------------------------------------------------------------------------------------ tables


NO_LANGUAGE, NOT_REBUILT = "replay.kernel.no_language", ("replay.kernel.no_language", "replay.kernel.not_rebuilt")


@pytest.mark.parametrize(
    "names, reason",
    [
        ({"f": {"object": "triton.language.core.os"}}, NO_LANGUAGE),
        ({"f": {"object": "triton.language.core"}}, NO_LANGUAGE),
        ({"f": {"object": "triton.language.str_to_ty"}}, NO_LANGUAGE),
        ({"f": {"object": "triton.language.math.wraps"}}, NO_LANGUAGE),
        ({"f": {"object": "triton.language.standard._log2"}}, NO_LANGUAGE),
        ({"f": {"object": "triton.jit"}}, NO_LANGUAGE),
        ({"f": {"object": "os.system"}}, NO_LANGUAGE),
        ({"f": {"object": "builtins.eval"}}, NO_LANGUAGE),
        ({"f": {"object": "eval"}}, NO_LANGUAGE),
        ({"f": {"object": ""}}, NO_LANGUAGE),
        ({"f": {"module": "os"}}, NOT_REBUILT),
        ({"f": {"module": "triton.language.core"}}, NOT_REBUILT),
        ({"f": {"module": ["triton"]}}, NOT_REBUILT),
        ({"f": {"value": [1, 2]}}, NO_LANGUAGE),
        ({"f": {"number": 1}}, NO_LANGUAGE),
        ({"f": {"constexpr": None}}, NOT_REBUILT),
        ({"f": {"constexpr": {"module": "os"}}}, NO_LANGUAGE),
        ({"f": {"constexpr": {"tuple": [{"object": "os.system"}]}}}, NO_LANGUAGE),
        ({"f": {"kernel": "nowhere"}}, "replay.kernel.not_in_the_log"),
        ({"f": {"kernel": "key"}}, "replay.kernel.not_in_the_log"),
        ({"f": "module"}, NOT_REBUILT),
        ({"f": None}, NOT_REBUILT),
        ({"f": {"value": 1}, "os": {"object": "triton.language.core.os"}}, NO_LANGUAGE),
        ({"f": {"value": 1}}, "compiler.problem.global"),
        ({"f": {"value": [1]}, "__builtins__": {"module": "triton"}}, NO_LANGUAGE),
        ({"k": {"value": 1}}, "compiler.problem.undefined"),
        ({}, "compiler.problem.undefined"),
    ],
    ids=str,
)
def test_forged_names(names, reason):
    with pytest.raises((KernelRefused, KernelError)) as refused:
        run(body("tl.store(x, f)", names=TL | names))
    assert any(mentions(refused.value, id) for id in (reason if isinstance(reason, tuple) else (reason,)))


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

    with refusing("replay.kernel.not_in_the_log", KernelRefused):
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
