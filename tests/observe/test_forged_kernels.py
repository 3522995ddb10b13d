"""The table of kernels may come from a hostile process: what rebuild() accepts cannot leave the language.

A rebuilt kernel runs as Python on the interpreter, so a name or an attribute too many is a way out.
"""

import os

import pytest
import torch
import triton.language as tl
from triton.runtime.jit import JITFunction

from course_lib.observe.kernels import ATTRIBUTES, BUILTINS, PUBLIC, KernelRefused, rebuild
from course_lib.tracing import KernelError, trace

TL = {"tl": {"module": "triton.language"}}


@pytest.fixture
def escaped(tmp_path, monkeypatch):
    """What a kernel that got out would leave behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda command: (tmp_path / "escaped").touch())
    return tmp_path / "escaped"


def table(source, names=TL, name="k", **fields):
    return {"key": {"name": name, "source": source, "names": names, "annotations": {}} | fields}


def body(*lines, names=TL):
    return table("def k(x):\n" + "".join(f"    {line}\n" for line in lines), names)


def run(forged):
    """As the replayer does: rebuild, launch, traced."""
    with trace():
        rebuild(forged)["key"][(1,)](torch.zeros(4))


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
    with pytest.raises(KernelRefused):
        rebuild(table(source))
        run(table(source))
    assert not escaped.exists()


@pytest.mark.parametrize(
    "source", [f"@{EVAL}\ndef k(x):\n    tl.load(x)\n", f"def k(x: {EVAL}) -> {EVAL}:\n    tl.load(x)\n"]
)
def test_decorators_and_annotations_are_dropped(source, escaped):
    run(table(source))
    assert not escaped.exists()


@pytest.mark.parametrize(
    "line, reason",
    [
        (SYSTEM, "`__import__` does not exist"),
        (EVAL, "`eval` does not exist"),
        ("open('/etc/passwd')", "`open` does not exist"),
        ("getattr(x, 'handle')", "`getattr` is not part of the language"),
        ("type(x)", "`type` does not exist"),
        ("__builtins__", "`__builtins__` does not exist"),
        ("__name__", "`__name__` does not exist"),
        ("x.__class__", r"no public `\.__class__`"),
        ("().__class__.__base__.__subclasses__()", r"no public `\.__class__`"),
        ("tl.load.__globals__", r"no public `\.__globals__`"),
        ("tl.core.inspect.os.system('true')", "`triton.language.core` is not part of the language"),
        ("tl.standard", "`triton.language.standard` is not part"),
        ("tl.math.core", "`triton.language.math.core` is not part"),
        ("tl.math.wraps", "`triton.language.math.wraps` is not part"),
        ("tl.math", "tl.math is a module"),
        ("tl.extra.cuda", "tl.extra.cuda is a module"),
        ("tl.extra.cuda.num_threads", "`triton.language.extra.cuda.num_threads` is not part"),
        ("tl.extra.cuda.libdevice.core", "`triton.language.extra.cuda.libdevice.core` is not part"),
        ("tl.extra.libdevice.core", "`tl.extra.libdevice` has no `core`"),
        ("tl.semantic", "`triton.language.semantic` is not part"),
        ("tl.target_info", "`triton.language.target_info` is not part"),
        ("tl.random", "`triton.language.random` is not part"),
        ("tl.inline_asm_elementwise('', '', [x], tl.int32, True, 1)", "inline_asm_elementwise` is not part"),
        # evaluates a part of the string
        (f'tl.str_to_ty("tensordesc<fp32[1]{SYSTEM}>", None)', "str_to_ty` is not part"),
        ("tl.tensor(1, tl.float32)", "`triton.language.tensor` is not part"),
        ("x.handle", r"no public `\.handle`"),
        ("x.handle.data", r"no public `\.handle`|no public `\.data`"),
        ("y = tl; y.core", r"no public `\.core`"),
        ("tl.cdiv.fn", r"no public `\.fn`"),
        ("tl.cdiv.src", r"no public `\.src`"),
        ("'{0.__class__}'.format(x)", r"no public `\.format`"),
        ("f'{x.__class__}'", "an f-string does not exist"),
        ("f = lambda: x", "a lambda does not exist"),
        ("y = [i for i in range(3)]", "a comprehension does not exist"),
        ("y = (i for i in range(3))", "a comprehension does not exist"),
        ("y = {}", "a dict does not exist"),
        ("(y := 1)", "`:=` does not exist"),
        ("import os", "an import does not exist"),
        ("from os import system", "an import does not exist"),
        ("def inner(): pass", "a function does not exist"),
        ("class Inner: pass", "a class does not exist"),
        ("global tl", "Global does not exist"),
        ("with x: pass", "With does not exist"),
        ("del x", "Delete does not exist"),
        ("raise x", "Raise does not exist"),
        ("yield x", "Yield does not exist"),
        ("tl.load = x", r"nothing can be assigned to tl\.load"),
        ("x.dtype = tl.float64", r"nothing can be assigned to x\.dtype"),
        ("x.dtype += 1", r"nothing can be assigned to x\.dtype"),
        ("for tl.load in range(3): pass", r"nothing can be assigned to tl\.load"),
        ("tl.load(x, _semantic=x)", "no argument _semantic=x"),
        ("tl.load(**x)", r"no argument \*\*x"),
    ],
)
def test_the_body_stays_in_the_language(line, reason, escaped):
    with pytest.raises(KernelRefused, match=f"(k, line 3: )?.*({reason})") as refusal:
        run(body("tl.load(x)", line))
    assert str(refusal.value).startswith("k, line 3: ")
    assert not escaped.exists()


@pytest.mark.parametrize("pattern", ["tl.constexpr(__class__=h)", "int(real=h)", "[h]", "{'a': h}", "h"])
def test_a_pattern_reads_attributes_without_naming_one(pattern):
    with pytest.raises(KernelRefused, match="k, line 3: Match does not exist"):
        rebuild(body("h = 0", "match tl.load(x):", f"    case {pattern}: tl.store(x, h)"))


def test_exceptions_hold_frames():
    with pytest.raises(KernelRefused, match="Try does not exist"):
        rebuild(body("try:", "    tl.load(x)", "except TypeError as error:", "    tl.store(x, error)"))


@pytest.mark.parametrize(
    "names, reason",
    [
        ({"f": {"object": "triton.language.core.os"}}, "not part of the language"),
        ({"f": {"object": "triton.language.core"}}, "not part of the language"),
        ({"f": {"object": "triton.language.str_to_ty"}}, "not part of the language"),
        ({"f": {"object": "triton.language.inline_asm_elementwise"}}, "not part of the language"),
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
        ({"f": {"number": [1, 2]}}, "not part of the language"),
        ({"f": {"constexpr": None}}, "not part of the language"),
        ({"f": {"kernel": "nowhere"}}, "not in the log"),
        ({"f": {"kernel": "key"}}, "or itself"),
        ({"f": "module"}, "cannot be rebuilt|not part of the language"),
        ({"f": None}, "cannot be rebuilt|not part of the language"),
        ({"f": {"number": 1}, "__builtins__": {"module": "triton"}}, "does not use `__builtins__`"),
        ({"f": {"number": 1}, "os": {"object": "triton.language.core.os"}}, "does not use `os`"),
        ({"f": {"number": 1}, "x": {"module": "triton"}}, "does not use `x`"),
        ({}, "`f` does not exist"),
    ],
    ids=str,
)
def test_forged_names(names, reason):
    with pytest.raises(KernelRefused, match=reason):
        rebuild(body("tl.store(x, f)", names=TL | names))


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
        table("def k(x, y=tl.load(1)):\n    tl.load(x)\n"),
        table("def k(x, y=1 // 0):\n    tl.load(x)\n"),
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
    kernel = rebuild(body("tl.load(x)"))["key"]
    assert set(kernel.fn.__globals__["__builtins__"]) == BUILTINS


def test_nothing_public_leads_out():
    """Whatever a kernel may name is a kernel of Triton's, a builtin of its own, a type, a dtype or a number."""
    for name in PUBLIC["triton.language"] - {"math", "extra"}:
        value = getattr(tl, name)
        own = isinstance(value, (JITFunction, tl.dtype, int)) or getattr(value, "__triton_builtin__", False)
        assert own or value in (tl.constexpr, tl.range, tl.static_range, tl.tuple, tl.pointer_type, tl.PropagateNan), (
            name
        )
    leading_out = {"handle", "data", "fn", "src", "run", "format", "func", "to_ir", "globals", "gi_frame", "cr_frame"}
    assert not [name for name in ATTRIBUTES if name.startswith("_") or name in leading_out]


@pytest.mark.parametrize("line", ["tl.load(x, member=print)", "print(1, file=x)", "k_(x)", "x[0] = 1"])
def test_what_passes_the_rules_fails_in_a_sentence(line):
    names = TL | ({"k_": {"kernel": "helper"}} if "k_" in line else {})
    helper = {"name": "h", "source": "def h(x):\n    tl.store(x, y)\n    y = 1\n", "names": TL, "annotations": {}}
    with pytest.raises(KernelError, match="kernel `k`, line 3: "):
        run(body("tl.load(x)", line, names=names) | {"helper": helper})
