"""The names that a notebook imports.

    check(id, f)          judge your function as the grader would
    hint(id)              one hint at a time
    progress()            your points so far, and what is next
    reset(id)             an exercise as it was handed out; what was there is kept
    validate()            what of this notebook would be graded
    make_zip()            the zip to hand in
    trace()               count what a kernel does to memory, without a GPU
    compile_for(k, ...)   what the compiler makes of a kernel, without a GPU
    profile(f)            what limits the kernels that f launches: predicted, and counted where a GPU and `ncu` are
    gpu                   which GPU this is, and datasheets
    bench                 timed ratios on a GPU
    figures               the pictures of each unit

Names are loaded when they are first used, so that `import course_lib` costs next to nothing.

A check
    evidence.py       what is observed of a case, as plain data
    exercise.py       the vocabulary: Exercise, Case, Criterion, Finding, Verdict
    exercises/        what each unit asks
    checking.py       check() and hint()
    judging.py        what was observed -> a verdict
    threads.py        torch without threads of its own
    observe/          runs the student's code
    ttir/             a kernel as the compiler's front end writes it
    tracing/          what that does to memory
    compiled/         what the compiler makes of it
    hopper/           what a Gluon kernel does at the same time, on a Hopper GPU
    criteria/         what was observed -> findings
    mistakes.py       where a result is wrong, and the mistake it looks like
    words.py          how answers and numbers are said
    render/           a verdict as text and HTML
    logbook.py        progress()
    handin/           validate(), make_zip(), reset()
    jupyter/          settings of the student's lab

What exercises and pictures are about
    workloads/        functions to be counted, timed and differentiated
    hardware/         the GPU: datasheets, timed ratios, and what an H200 showed
    figures/          the pictures of each unit;  picture.py has what they are made of

fixtures.py           pytest's: a kernel's test, traced
version.py            which course this is: `course_lib.__version__`
"""

import sys
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.util import spec_from_loader

_HOMES = {
    "check": ("course_lib.checking", "check"),
    "hint": ("course_lib.checking", "hint"),
    "progress": ("course_lib.logbook", "progress"),
    "reset": ("course_lib.handin.stubs", "reset"),
    "validate": ("course_lib.handin.validate", "validate"),
    "make_zip": ("course_lib.handin.zipped", "make_zip"),
    "trace": ("course_lib.tracing", "trace"),
    "compile_for": ("course_lib.compiled", "compile_for"),
    "profile": ("course_lib.observe.profiled", "profile"),
    "gpu": ("course_lib.hardware.gpu", None),
    "bench": ("course_lib.hardware.bench", None),
    "figures": ("course_lib.figures", None),
    "throughput": ("course_lib.hardware.throughput", None),
    "torch_attention": ("course_lib.workloads.torch_attention", None),
    "__version__": ("course_lib.version", "VERSION"),
}
__all__ = sorted(_HOMES.keys() - {"__version__"})


_WAS = {"submission": "make_zip", "slow_attention": "torch_attention"}  # in release 0.2.0


def __getattr__(name: str):
    if name in _WAS:
        from course_lib.version import moved

        moved(f"course_lib.{name}", _WAS[name])
        name = _WAS[name]
    if name not in _HOMES:
        raise AttributeError(f"course_lib has no {name!r}; it has {', '.join(__all__)}")
    home, attribute = _HOMES[name]
    module = import_module(home)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


_MOVED = {
    "course_lib.inductor": "course_lib.hardware.inductor",
    "course_lib.slow_attention": "course_lib.workloads.torch_attention",
}


class _OldNames(MetaPathFinder, Loader):
    """Finds modules under their names of release 0.2.0, which stand in notebooks that were handed out then."""

    def find_spec(self, fullname, path=None, target=None):
        return spec_from_loader(fullname, self) if fullname in _MOVED else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        from course_lib.version import moved

        moved(module.__name__, _MOVED[module.__name__])
        found = vars(import_module(_MOVED[module.__name__]))
        vars(module).update({name: value for name, value in found.items() if not name.startswith("__")})


sys.meta_path.append(_OldNames())
