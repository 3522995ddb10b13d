"""Triton's own peculiarities: what depends on its version, and what is irregular about the printed form of single
operations (parse.py reads the rest)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource, make_backend
from triton.runtime.jit import JITFunction

from tritontrace.ttir.ir import Type

# ----------------------------------------------------------------------------------------------------- types

# trap: this, frontend.py, sources.py, tracing/interception.py, tuning.py and as_on_a_gpu.py alone touch Triton's
# internals: a new Triton breaks here first, and what has no known form is refused by name

TOKEN = re.compile(r"->|, |[<({\[]|[>)}\]]")
INTEGERS = {"i1", "i8", "i16", "i32", "i64"}
BLOCK = re.compile(r"((?:\d+x)+)(.*)", re.DOTALL)


def split(text: str) -> list[str]:
    """Split a text at the commas that stand in no brackets."""
    if ", " not in text:
        return [text]
    parts, depth, start = [], 0, 0
    for found in TOKEN.finditer(text):
        token = found[0]
        if token in "<({[":
            depth += 1
        elif token in ">)}]":
            depth -= 1
        elif token == ", " and not depth:
            parts.append(text[start : found.start()])
            start = found.end()
    return [*parts, text[start:]]


def types_of(text: str) -> tuple[Type, ...]:
    """Parse a list of types, in round brackets or not."""
    text = text.strip()
    if text[:1] == "(":
        text = text[1:-1]
    return tuple(map(type_of, split(text))) if text else ()


@lru_cache(4096)
def type_of(text: str) -> Type:
    """Parse a type such as "i1", "tensor<64x!tt.ptr<f16>, #layout>", "!tt.ptr<f32>" or, in short, "<f32>", "!tt.tensordesc<..>".

    Before Triton 3.8 a descriptor is of "tensor<64x64xf32>", later of "64x64xf32", and there are pointers to blocks: their
    element is "block_ptr", and the shape is the block's. What a pointer to pointers points to is text: "!tt.ptr<f32>".
    """
    if found := BLOCK.match(text):
        element = type_of(found[2])
        return Type(element.element, tuple(map(int, found[1].split("x")[:-1])), element.pointee)
    head, _, inner = text.partition("<")
    if head not in ("tensor", "!tt.ptr", "", "!tt.tensordesc"):
        return Type(text[1:] if text[1:] in INTEGERS else text)  # si32 and ui32 are i32
    inner = split(inner[:-1])[0]  # without layout and address space
    target = type_of(inner)
    if head == "tensor":
        return target
    if head == "!tt.tensordesc":
        return Type("desc", target.shape, target.element)
    if target.element == "ptr":
        return Type("ptr", (), inner)
    return Type("block_ptr" if target.shape else "ptr", target.shape, target.element)


# ----------------------------------------------------------------------------------------------------- forms

# Attributes that are printed without their names, in the order in which they stand.
UNNAMED = {
    "arith.cmpi": ("predicate",),
    "arith.cmpf": ("predicate",),
    "tt.get_program_id": ("axis",),
    "tt.get_num_programs": ("axis",),
    "tt.atomic_rmw": ("kind", "sem", "scope"),
    "tt.atomic_cas": ("sem", "scope"),
    "tt.atomic_load": ("sem", "scope"),
    "tt.atomic_store": ("sem", "scope"),
    "tt.atomic_poll": ("sem", "scope"),
    "tt.descriptor_reduce": ("kind",),
    "ttng.async_tma_reduce": ("kind",),
    "tt.print": ("prefix",),
    "tt.assert": ("message",),
    "tt.elementwise_inline_asm": ("asm",),
    "ttng.init_barrier": ("count",),
    "ttng.barrier_expect": ("size",),
    "ttng.arrive_barrier": ("count",),
}
AXES = {"x": 0, "y": 1, "z": 2}
SYNTAX = {
    "to",
    "step",
    "iter_args",
    "else",
    "do",
    "scale",
    "attributes",
    "default",
    "partition",
}  # words that say nothing

# Operations whose last operands may be left out: how many there can be.
MOST_OPERANDS = {
    "tt.load": 3,
    "tt.store": 3,
    "tt.atomic_rmw": 3,
    "tt.atomic_load": 2,
    "tt.atomic_store": 3,
    "tt.histogram": 2,
}
SCALED = re.compile(r"%( scale %)?, %( scale %)?, %")


def groups(name: str, head: str) -> tuple[int, ...]:
    """Return how many operands each group has, () if there is but one kind: those in square brackets are one group."""
    if name in MOST_OPERANDS:
        count = head.count("%")
        return (1,) * count + (0,) * (MOST_OPERANDS[name] - count)
    if name == "tt.dot_scaled":
        scaled = SCALED.search(head)
        assert scaled is not None
        a, b = scaled.groups()
        return (1, int(bool(a)), 1, int(bool(b)), 1)
    if "[" in head:
        return tuple(found.count("%") for found in re.findall(r"\[[^\]]*\]|%", head))
    return ()


def results(name: str, kinds: tuple[Type, ...]) -> tuple[Type, ...]:
    """Return the types of results of an operation that prints no arrow: as a rule those that it prints."""
    if not kinds and name.startswith("ttg.async"):
        return (Type("token"),)  # Gluon's, of which nothing is printed
    first = kinds[0]
    if name == "tt.load":
        loaded = type_of(first.pointee)
        return (Type(loaded.element, first.shape, loaded.pointee),)
    if name in ("arith.cmpi", "arith.cmpf"):
        return (Type("i1", first.shape),)
    if name == "tt.addptr":
        return (first,)
    if name == "tt.unsplat":
        return (Type(first.element, (), first.pointee),)
    if name == "tt.make_tensor_descriptor":  # "<f16>, <tensor<16x32xf16>>"
        return (Type("desc", kinds[1].shape, kinds[1].pointee),)
    return kinds


POLICY = re.compile(r"(cache_modifier|eviction_policy) = (\w+)")
POLICY_NAMES = {"cache_modifier": "cacheModifier", "eviction_policy": "evictionPolicy"}


def named(attributes: dict[str, Any]) -> dict[str, Any]:
    """Rename attributes to the names of ir.py, which most versions use: of how caches are used, 3.9 has one for two."""
    if "operandSegmentSizes" in attributes:
        attributes["operands"] = attributes.pop("operandSegmentSizes")
    if "cachePolicy" in attributes:
        policy = POLICY.findall(attributes.pop("cachePolicy"))
        attributes |= {POLICY_NAMES[name]: value for name, value in policy}
    return attributes


# ----------------------------------------------------------------------------------------------------- the front end


@cache
def _backend(target: GPUTarget) -> tuple[Any, Any]:
    """Triton's backend for the GPU, and a context in which modules live without disturbing each other."""
    backend, context = make_backend(target), ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    return backend, context


def make_module(
    function: JITFunction,
    signature: Mapping[str, str],
    constants: Mapping[Any, Any],
    attrs: Mapping[tuple[int, ...], list],
    options: Mapping[str, Any],
    target: GPUTarget,
) -> str:
    """Return the printed module that the front end makes of a kernel, Gluon's too. Raises Triton's CompilationError if it cannot.

    signature, constants, attrs   as ASTSource takes them
    options                       of the launch: num_warps, num_stages ...; overflow checks are left out unless they ask
    """
    source = ASTSource
    if function.is_gluon():
        from triton.experimental.gluon._runtime import GluonASTSource as source
    made = source(function, dict(signature), dict(constants), dict(attrs))
    backend, context = _backend(target)
    parsed = backend.parse_options({"sanitize_overflow": False, **options})
    arguments = [parsed, backend.get_codegen_implementation(parsed), backend.get_module_map(), context]
    if "target" in inspect.signature(made.make_ir).parameters:  # from Triton 3.5 on
        arguments.insert(0, target)
    return str(made.make_ir(*arguments))
