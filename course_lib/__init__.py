"""The names that a notebook imports.

    check(id, f)          judge your function as the grader would
    hint(id)              one hint at a time
    progress()            your points so far, and what is next
    attempt(id, f)        your function on an open task, next to the published one and your own earlier ones
    worklog(id, f)        rounds that make a kernel better: what was stated of each, and what its trace says
    twists(code)          your own tasks, where your class asks for some
    effort()              your checks and hints in this unit, for your class if you hand them in
    reset(id)             an exercise as it was handed out; what was there is kept
    validate()            what of this notebook would be graded
    make_zip()            the zip to hand in
    trace()               count what a kernel does to memory, without a GPU
    compile_for(k, ...)   what the compiler makes of a kernel, without a GPU
    profile(f)            what limits the kernels that f launches: predicted, and counted where a GPU and `ncu` are
    gpu                   which GPU this is, and its datasheet (tritontrace.gpu)
    bench                 timed ratios on a GPU
    figures               the pictures of each unit

Names are loaded when they are first used, so that `import course_lib` costs next to nothing.

A check
    evidence.py       what is observed of a case, as plain data
    exercise.py       the vocabulary: Exercise, Case, Criterion, Finding, Verdict
    exercises/        what each unit asks, and hints on it
    checking.py       check() and hint()
    judging.py        what was observed -> a verdict
    execution/        runs the student's code; what it does to memory tells tritontrace, a library of its own
    criteria/         what was observed -> findings
    catalogue/        what they say of it: sentences by id
    mistakes.py       where a result is wrong, and the mistake it looks like
    common_mistakes.py  which kind of wrong a result is, by the inputs alone
    render/           a verdict as text and HTML
    open_tasks/       attempt()
    work_logs/        worklog()
    logbook.py        progress()
    handin/           validate(), make_zip(), reset(), twists(), effort()
    jupyter/          settings of the student's lab

What exercises and pictures are about
    workloads/        functions to be counted, timed and differentiated
    hardware/         the GPU: timed ratios, and what an H200 showed
    figures/          the pictures of each unit

words.py              how an answer is said
content.py            where notebooks and solutions lie, in a clone and in a wheel
metadata.py           what the course writes into a notebook's metadata
version.py            which course this is: `course_lib.__version__`
"""

import gc
import sys
from importlib import import_module

_HOMES = {
    "check": ("course_lib.checking", "check"),
    "hint": ("course_lib.checking", "hint"),
    "progress": ("course_lib.logbook", "progress"),
    "attempt": ("course_lib.open_tasks", "attempt"),
    "worklog": ("course_lib.work_logs", "worklog"),
    "twists": ("course_lib.handin.twists", "twists"),
    "effort": ("course_lib.handin.effort", "effort"),
    "reset": ("course_lib.handin.reset", "reset"),
    "validate": ("course_lib.handin.validate", "validate"),
    "make_zip": ("course_lib.handin.archive", "make_zip"),
    "trace": ("tritontrace", "trace"),
    "compile_for": ("tritontrace", "compile_for"),
    "profile": ("tritontrace", "profile"),
    "gpu": ("tritontrace.gpu", None),
    "bench": ("tritontrace.profiling.bench", None),
    "figures": ("course_lib.figures", None),
    "throughput": ("course_lib.hardware.throughput", None),
    "torch_attention": ("course_lib.workloads.torch_attention", None),
    "__version__": ("course_lib.version", "VERSION"),
}
__all__ = sorted(_HOMES.keys() - {"__version__"})


# trap: names load when first used, and not even torch by itself: a lab would start seconds later
def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"course_lib has no {name!r}; it has {', '.join(__all__)}")
    home, attribute = _HOMES[name]
    module = sys.modules.get(home) or _loaded(home)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def _loaded(home: str):
    """Load a module. What it brings stays, torch and Triton among it: nobody searches it for garbage, which takes a tenth of a second
    each time, now or in a check."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        module = import_module(home)
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()
    return module
