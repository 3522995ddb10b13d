"""The ways that values of a function go: found once, however often the function is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tritontrace.tracing.cas_loads import guesses
from tritontrace.tracing.undefined_masks import deciding
from tritontrace.tracing.unused import for_all, passed_on, read, repeated, uses_of
from tritontrace.tracing.wraps import on_the_way
from tritontrace.ttir import ir


class Dataflow(NamedTuple):
    """Names of values of a function.

    used      the values that are used;  passed_on  to where another one may come instead
    for_all   those single numbers among them that all threads need
    repeated  those that are computed in a loop;  guesses  results of loads that only guess what an atomic_cas finds
    read      those that something comes of;  on_the_way  those that lead to an address
    deciding  comparisons that lead to the mask of a store, with what an undefined lane answers
    """

    used: set[str]
    passed_on: set[str]
    for_all: set[str]
    repeated: set[str]
    guesses: set[str]
    read: set[str]
    on_the_way: set[str]
    deciding: dict[str, bool]


def dataflow(function: ir.Function, module: ir.Module, of: Callable[[ir.Function], Dataflow]) -> Dataflow:
    """Follow a function's values. of: what is known of a function that it calls."""
    blocks = function.blocks
    return Dataflow(
        used=set().union(*map(uses_of, blocks)),
        passed_on=passed_on(blocks),
        for_all=for_all(blocks),
        repeated=repeated(blocks),
        guesses=guesses(function, module),
        read=read(function, module, lambda callee: of(callee).read),
        on_the_way=on_the_way(blocks),
        deciding=deciding(blocks),
    )
