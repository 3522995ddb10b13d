"""Whether the compiler makes use of what a kernel promises (ttir/hints.py).

The compiler makes use of a hint if an access becomes wider or narrower with it: a wider one may stop a GPU, or reach other
elements. It makes use of tl.assume if any code changes.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Hashable
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import Language
from triton.compiler import make_backend

from tritontrace.compiled.assembly import moves as moves_in
from tritontrace.compiled.limit import answers
from tritontrace.compiled.text import Text, module_of
from tritontrace.ttir.frontend import TARGET, Front
from tritontrace.ttir.hints import ASSUME, Promise, without

SECONDS = 30.0  # for all that is asked of one launch; two are enough, but on a machine that others keep busy
MOST = 100  # answers that are remembered
STAGES = ("ttir", "ttgir", "llir", "ptx")
ATOMIC = re.compile(r"\b(?:atom|red)\.\S+")


def taken(front: Front, arguments: dict[str, Any], broken: list[Promise]) -> list[Promise]:
    """Select the broken promises (tl.multiple_of and the like) that the compiler relies on for a launch with these arguments. None if the
    compiler gives no answer in time, which is no fault of the kernel."""
    text = Text(front, arguments, TARGET).text
    key = text, tuple(broken)
    if key not in _known:
        if len(_known) >= MOST:
            _known.clear()
        _known[key] = _taken(text, front.options, broken)
    return _known[key]


_known: dict[Hashable, list[Promise]] = {}


def _taken(text: str, options: dict[str, Any], broken: list[Promise]) -> list[Promise]:
    """Compile with one broken promise at a time, those that are kept always in place; then with all of them."""
    alone = [without(text, [other for other in broken if other is not each]) for each in broken]
    texts = [without(text, broken), *alone, text]
    codes = list(answers(_code, [(each, options) for each in texts], time.monotonic() + SECONDS))
    if len(codes) < len(texts):
        return []

    def used(each: Promise, code: dict[str, str]) -> bool:
        what = "all" if each.kind == ASSUME else "moves"
        return code[what] != codes[0][what]

    found = [each for each, code in zip(broken, codes[1:], strict=False) if used(each, code)]
    return found or [each for each in broken if used(each, codes[-1])]


def _code(text: str, options: dict[str, Any]) -> dict[str, str]:
    """Two texts that differ where the PTX differs, and where its accesses do; if the compiler raises, both are its exception."""
    try:
        backend: Any = make_backend(TARGET)  # a CUDABackend, whose stages differ by language
        parsed, context = backend.parse_options(dict(options)), ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        stages: dict[str, Any] = {}
        backend.add_stages(stages, parsed, Language.TRITON)
        made, metadata = module_of(text, context), {}
        for stage in STAGES:
            made = stages[stage](made, metadata)
    except Exception as error:
        return dict.fromkeys(("moves", "all"), repr(error))
    moves = [*moves_in(made), *ATOMIC.findall(made)]
    return {name: hashlib.sha256(repr(part).encode()).hexdigest() for name, part in (("moves", moves), ("all", made))}
