"""The front end's text (ttir/frontend.py) as the compiler goes on with it, for one GPU.

The kernel's Python is not asked again: what was evaluated is what is compiled. The text was written for an sm_90. Whatever a front
end does differently for another GPU is done here:

* it refuses the fp8 types that this GPU lacks;
* it lets products of fp8 be added in fewer bits on an sm_90 alone.

For a Turing it converts fp8e4b15 by other instructions. No dtype of torch is fp8e4b15; the assembler refuses what is here.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from triton._C.libtriton import ir as mlir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from tritontrace.compiled.places import Frame
from tritontrace.messages import Message, MessageError, say
from tritontrace.ttir import frontend, ir
from tritontrace.ttir.frontend import Front

FP8 = {"f8E4M3FN": "fp8e4nv", "f8E5M2": "fp8e5"}  # those of an sm_90, as the text and as Triton's language call them

# The number of products that may be added in fewer bits; who names one for fp8 names at most K.
# trap: the text was written for an sm_90: what a front end refuses or sets for another GPU is done here, by what stands
# in the text

IMPRECISE = "maxNumImpreciseAcc = {} : i32"
FILE = re.compile(r'^(#loc\d* = loc\()("(?:[^"\\]|\\.)*")(:\d+:\d+\))$', re.MULTILINE)


class NotThere(MessageError):
    """Raised for a type that a GPU of this architecture lacks; frames: where, innermost call first."""

    def __init__(self, message: Message, frames: Sequence[Frame]):
        super().__init__(message)
        self.frames = frames


class Text(ASTSource):
    """The TTIR of a launch, as a source that triton.compile takes. Raises NotThere if the GPU lacks one of its types."""

    def __init__(self, front: Front, arguments: dict[str, Any], target: GPUTarget):
        super().__init__(front.kernel, {})
        if front.kernel.is_gluon():
            from triton.backends.compiler import Language

            self.language, self.ext = Language.GLUON, "ttgir"
        known: Any  # options of a GPU, of which Triton declares no field
        wanted: Any
        known, wanted = (make_backend(gpu).parse_options(dict(front.options)) for gpu in (frontend.TARGET, target))
        _check_types(front, wanted.supported_fp8_dtypes)
        before, after = (IMPRECISE.format(options.max_num_imprecise_acc_default) for options in (known, wanted))
        self.text = front.aligned(arguments).replace(before, after)

    def hash(self) -> str:
        """Return the key of Triton's cache on disk. Each session of Jupyter names the files of its cells anew, and the code is the same."""
        files: dict[str, int] = {}
        text = FILE.sub(lambda place: f"{place[1]}{files.setdefault(place[2], len(files))}{place[3]}", self.text)
        return hashlib.sha256(text.encode()).hexdigest()

    def make_ir(self, *arguments: Any) -> Any:
        """Parse the text, with Triton's interface. Triton passes the context last, and before it what a front end asks for."""
        return module_of(self.text, arguments[-1])


def module_of(text: str, context: Any) -> Any:
    """Parse TTIR into a module."""
    with tempfile.NamedTemporaryFile("w", suffix=".ttir", encoding="utf-8") as file:  # it reads files alone
        file.write(text)
        file.flush()
        module = mlir.parse_mlir_module(file.name, context)
    module.context = context  # which lives as long
    return module


def _check_types(front: Front, supported: Sequence[str]) -> None:
    """Raise NotThere for the first fp8 type of the text that is not `supported`."""
    lacking = {element: name for element, name in FP8.items() if name not in supported}
    if not any(name in front.text for name in lacking):
        return
    for types, frames in _typed(front.module, front.entry, (), set()):
        for kind in types:
            if name := lacking.get(kind.element) or lacking.get(kind.pointee):
                raise NotThere(say("compiler.problem.gpu_lacks_type", type=name, supported=str(supported)), frames)


def _typed(
    module: ir.Module, function: ir.Function, callers: tuple[Frame, ...], known: set[str]
) -> Iterator[tuple[list[ir.Type], tuple[Frame, ...]]]:
    """The types of a function's arguments and of what its operations give, in the order in which the front end came to them.

    known: the functions that need no second look
    """
    known.add(function.name)
    yield [kind for _, kind in function.arguments], ((function.place.file, function.place.line), *callers)
    for operation in ir.walk(function.blocks):
        frames = ((operation.place.file, operation.place.line), *callers)
        callee = operation.attributes.get("callee")
        if callee in module and callee not in known:
            yield from _typed(module, module[callee], frames, known)
        yield [kind for _, kind in operation.results], frames
