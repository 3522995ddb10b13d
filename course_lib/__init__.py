"""What a notebook imports.

    check(id, f)          judge your function as the grader would
    hint(id)              one hint at a time
    progress()            your points so far, and what is next
    reset(id)             an exercise as it was handed out; what was there is kept
    validate()            what of this notebook would be graded
    submission()          the zip to hand in
    trace()               count what a kernel does to memory, without a GPU
    compile_for(k, ...)   what the compiler makes of a kernel, without a GPU
    gpu                   which GPU this is, and datasheets
    bench                 timed ratios on a GPU
    figures               the pictures of each unit

Names are loaded when they are first used, so that `import course_lib` costs next to nothing.

A check
    exercise.py       the vocabulary: Exercise, Case, Evidence, Finding, Verdict
    exercises/        what each unit asks
    checking.py       check() and hint()
    stale.py          after a cell that failed: which version a check judges
    threads.py        torch without threads of its own
    observe/          runs the student's code
    tracing/          what a kernel does to memory
    compiled/         what the compiler makes of it
    criteria/         what was observed -> findings
    mistakes.py       where a result is wrong, and the mistake it looks like
    words.py          how answers and numbers are said
    render.py         a verdict as text and HTML
    logbook.py        progress()
    handin/           validate(), submission(), reset()
    jupyter/          settings of the student's lab

What several exercises share
    cases.py          ways to draw cases
    workloads.py      functions to be counted and timed, by name
    activations.py    functions to be differentiated, and what autograd keeps of them
    chains.py         elementwise operations, cut into kernels
    slow_attention.py attention in torch, for a unit 10 without unit 09

Pictures, and what GPUs reach
    figures/          the pictures of each unit
    picture.py        what they are made of
    widgets.py        controls above them
    gpu.py            which GPU this is, and datasheets
    bench.py          timed ratios
    hierarchy.py      how fast its memories are
    throughput.py     how fast products and copies are
    inductor.py       the kernels that torch.compile writes
    measured/         all that from one H200, for readers without a GPU
    recordings.py     reads and writes measured/

version.py            which course this is: `course_lib.__version__`
"""

from importlib import import_module

_HOMES = {
    "check": ("course_lib.checking", "check"),
    "hint": ("course_lib.checking", "hint"),
    "progress": ("course_lib.logbook", "progress"),
    "reset": ("course_lib.handin.stubs", "reset"),
    "validate": ("course_lib.handin.validate", "validate"),
    "submission": ("course_lib.handin.zipped", "submission"),
    "trace": ("course_lib.tracing", "trace"),
    "compile_for": ("course_lib.compiled", "compile_for"),
    "gpu": ("course_lib.gpu", None),
    "bench": ("course_lib.bench", None),
    "figures": ("course_lib.figures", None),
    "__version__": ("course_lib.version", "VERSION"),
}
__all__ = sorted(_HOMES.keys() - {"__version__"})


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"course_lib has no {name!r}; it has {', '.join(__all__)}")
    home, attribute = _HOMES[name]
    module = import_module(home)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value
