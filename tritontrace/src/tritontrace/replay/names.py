"""The public names of Triton's language and of Gluon's: all that a name or an attribute in a kernel may stand for.

Triton's code generator looks names up as Python objects, and calls what it finds. So each name here is harmless: it gives code, a
type, a constant, or nothing. A kernel in Gluon may use Triton's names as well; the code generator refuses those that do not fit.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import ModuleType

import triton
import triton.language as tl
import triton.language.extra.cuda.libdevice
import triton.language.extra.libdevice
import triton.runtime.jit
from triton.language.extra import libdevice
from triton.runtime.jit import KernelInterface

ConstexprFunction = getattr(triton.runtime.jit, "ConstexprFunction", ())  # none in Triton 3.4
DECORATORS = {"Triton": "@triton.jit", "Gluon": "@gluon.jit"}
BUILTINS = {"range", "min", "max", "len", "float", "int", "list", "print", "isinstance"}


@cache
def refused_builtins() -> frozenset[str]:
    """Return the builtins that Triton lets a kernel call and that are refused here, with the name of an attribute as text."""
    from triton.compiler.code_generator import CodeGenerator  # which loads Gluon, half of what Triton takes to load

    return frozenset(CodeGenerator.builtin_namespace.keys() - BUILTINS)


@dataclass(frozen=True, eq=False)
class AllowedNames:
    """Names that kernels in one language may use.

    public       path of a module -> the names in it
    attributes   names that may be asked of anything in a kernel: of blocks, types and constants
    """

    language: str
    public: Mapping[str, set[str]]
    attributes: frozenset[str]

    @cached_property
    def modules(self) -> dict[str, ModuleType]:
        return {path: sys.modules[path] for path in self.public if path in sys.modules}

    @cached_property
    def objects(self) -> dict[int, str]:
        """Map each public object's id to the path at which it is first found."""
        return {
            id(getattr(self.modules[path], name)): f"{path}.{name}"
            for path in reversed(self.modules)
            for name in sorted(self.public[path], reverse=True)
        }


def _functions(path: str) -> set[str]:
    """Names of the language's functions and dtypes in a module: what only helps Triton itself (str_to_ty evaluates
    strings) is not among them."""
    kinds = (KernelInterface, ConstexprFunction, tl.dtype)
    return {
        name
        for name, value in getattr(sys.modules.get(path), "__dict__", {}).items()  # Triton 3.4 has no target_info
        if not name.startswith("_") and (isinstance(value, kinds) or getattr(value, "__triton_builtin__", False))
    }


def _lower(*kinds: type) -> set[str]:
    """The public attributes of these classes that are no constants of theirs."""
    return {name for kind in kinds for name in dir(kind) if name[0].islower()}


# ----------------------------------------------------------------------------------------------------- Triton

OTHERS = {"tensor", "tensor_descriptor", "dtype", "pointer_type", "block_type", "constexpr", "tuple", "PropagateNan"}
OTHERS |= {"range", "static_range", "condition", "TRITON_MAX_TENSOR_NUMEL"}
OTHERS |= {"extra", "math", "random", "standard", "target_info"}  # modules
CUDA = "triton.language.extra.cuda.libdevice"
FOR_TRITON_ITSELF = {"to_ir", "codegen_name", "mangle", "cache_key_part"}

TRITON = AllowedNames(
    "Triton",
    {
        "triton": {"cdiv", "next_power_of_2", "language"},
        "triton.language": _functions("triton.language") | OTHERS & set(vars(tl)),
        **{path: _functions(path) for path in map("triton.language.{}".format, ("math", "random", "standard"))},
        "triton.language.target_info": _functions("triton.language.target_info") - {"current_target"},
        "triton.language.extra": {"cuda", "libdevice"},
        "triton.language.extra.cuda": {"libdevice"},
        "triton.language.extra.libdevice": _functions(CUDA) & set(vars(libdevice)),  # stubs for the GPU's own
        CUDA: _functions(CUDA),
    },
    frozenset(
        _lower(tl.tensor, tl.tensor_descriptor, tl.dtype)
        | {"shape", "strides", "type", "value", "numel", "T"}
        | {"name", "element_ty", "primitive_bitwidth", "int_bitwidth", "fp_mantissa_width", "itemsize"}  # of dtypes
        | {"logical_and", "logical_or", "ALL", "NONE"}  # of constants, and of PropagateNan
    )
    - FOR_TRITON_ITSELF,
)


# ----------------------------------------------------------------------------------------------------- Gluon

GLUON_PATH = "triton.experimental.gluon.language"
HOPPER, AMPERE = f"{GLUON_PATH}.nvidia.hopper", f"{GLUON_PATH}.nvidia.ampere"
# They end the process on some layouts (see hopper/banks.py), and no kernel needs them
ABORTING = {"bank_conflicts", "to_linear_layout"}
# A method of tiles since Triton 3.9, which the simulator has not; `triton` has a function of that name, which is no kernel's
OF_A_MODULE_TOO = {"reinterpret"}


@cache
def gluon() -> AllowedNames:
    """Return the Names of Gluon. Raises ImportError under a Triton that lacks it."""
    from triton.experimental.gluon import language
    from triton.experimental.gluon.language.nvidia.hopper import tma

    from tritontrace.replay.layouts import classes

    layouts = classes().layouts.keys()
    also = {"tensor", "shared_memory_descriptor", "constexpr", "dtype", "tuple", "static_range", "nvidia"}
    public = {
        GLUON_PATH: _functions(GLUON_PATH) - ABORTING | (also | layouts) & set(vars(language)),
        f"{GLUON_PATH}.nvidia": {"ampere", "hopper"},
        HOPPER: _functions(HOPPER) | {"tma", "mbarrier", "async_copy"},
        f"{HOPPER}.tma": _functions(f"{HOPPER}.tma"),
        f"{HOPPER}.mbarrier": _functions(f"{HOPPER}.mbarrier") | {"MBarrierLayout"},
        AMPERE: _functions(AMPERE) | {"async_copy", "mbarrier"},
        f"{AMPERE}.async_copy": _functions(f"{AMPERE}.async_copy"),
        f"{AMPERE}.mbarrier": _functions(f"{AMPERE}.mbarrier") | {"MBarrierLayout"},
    }
    of_tiles = _lower(language.shared_memory_descriptor, tma.tensor_descriptor)
    of_layouts = {"get_default_for", "with_identity_for"}  # Triton's own functions of shapes
    attributes = TRITON.attributes | of_tiles - OF_A_MODULE_TOO | of_layouts | {"nbytes", "scalar"}
    return AllowedNames("Gluon", {**TRITON.public, **public}, attributes)


def names_of(is_gluon: bool) -> AllowedNames:
    """Return the Names of the language of a kernel."""
    return gluon() if is_gluon else TRITON
