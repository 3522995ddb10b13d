"""`import course_lib` costs next to nothing: what it loads is counted, since times depend on the machine."""

import json
import subprocess
import sys

HEAVY = {"torch", "triton", "numpy", "matplotlib", "ipywidgets", "IPython", "nbformat", "nbgrader", "jupytext"}


def loaded(statement: str) -> set[str]:
    """Top-level modules in a fresh Python after the statement."""
    code = (
        f"{statement}; import json, sys; print(json.dumps(sorted({{name.partition('.')[0] for name in sys.modules}})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def test_the_package_by_itself_loads_no_library():
    assert HEAVY & loaded("import course_lib") == set()


def test_what_judges_loads_no_pictures_and_no_notebooks():
    found = loaded(
        "from course_lib import check, compile_for, hint, progress, trace; from course_lib import bench, gpu"
    )
    assert HEAVY & found == {"torch", "triton", "numpy"}


def test_nobody_searches_for_garbage_what_imports_bring():
    """A search through all that torch and Triton bring takes a tenth of a second, and there were five."""
    loaded("""import gc
searched = []
gc.callbacks.append(lambda phase, found: searched.append(found["generation"]))
from course_lib import check, trace
assert gc.isenabled() and gc.get_freeze_count() > 100_000 and 2 not in searched, searched""")


def test_names_load_no_exercises():
    """`check` loads those of its own unit. `attempt` loaded four units more, for a twentieth of the time that torch takes."""
    loaded("""import sys
from course_lib import attempt, check, figures, gpu, hint, progress, trace
from course_lib.exercises import UNITS
assert not [each for each in sys.modules if each in {f"course_lib.exercises.{unit}" for unit in UNITS}]""")


def test_gluon_is_loaded_by_what_asks_for_it():
    """Half as long as all else of Triton takes it to load, and one unit in fifteen uses it."""
    course = "from course_lib import check, figures, gpu, hint, progress, trace"
    loaded(f"{course}; import sys; assert 'triton.experimental.gluon' not in sys.modules")


def test_a_catalogue_is_read_file_by_file():
    """All of them took a fiftieth of the time that torch takes, and a check says sentences of its own unit."""
    loaded("""import pathlib
read, whole = [], pathlib.Path.read_text
pathlib.Path.read_text = lambda path, *how: read.append(path.stem) or whole(path, *how)
from course_lib.catalogue import say
assert not read and say("tiling.tune.blank") and read == ["tiling"], read""")


def test_a_check_does_not_load_what_compiles_torch():
    """Loading it takes as long as loading torch, and 50 MB: tritontrace/tracing/modes.py does without. flops.count_flops is a mode, and
    coalescing.break_transpose has memory filled that nobody stores to."""
    loaded("""import sys
from course_lib import check
from grader.published import published
from tritontrace.replay import child
in_child, heard = child.run, []
def run(work, **more):
    (result, loaded), printed = in_child(lambda: [work(), "torch._dynamo" in sys.modules], **more)
    heard.append(loaded)
    return result, printed
child.run = run
for exercise in ("flops.count_flops", "coalescing.break_transpose"):
    assert check(exercise, published(exercise)) > 0
assert heard and not any(heard) and "torch._dynamo" not in sys.modules""")


def test_gradients_for_a_gradient_load_no_algebra():
    """torch compares shapes with SymPy where autograd is given a gradient: a third of a second."""
    ours = (
        "import torch; from course_lib.exercises.attention.oracles import gradients; gradients(*torch.randn(4, 8, 4))"
    )
    assert "sympy" not in loaded(ours)
    torchs = "import torch; x = torch.ones(3, requires_grad=True); (2 * x).backward(torch.ones(3))"
    assert "sympy" in loaded(torchs), "torch loads it no more: course_lib/workloads/gradients.py can go"


def test_the_gradebook_builds_no_parser_for_addresses():
    """jsonschema builds one, for a second, where a package for it is installed: grader/__init__.py keeps it from that."""
    assert "lark" not in loaded("import grader.gradebook.books")
    assert "lark" in loaded("import rfc3987_syntax"), "it is cheap now: the lines in grader/__init__.py can go"


def test_a_zygote_loads_algebra_when_tensors_without_data_are_asked_for():
    """One exercise asks for them, and a class waits for its zygotes."""
    answer = (
        "from tritontrace.replay import child, wire; from grader.child import zygote; child.message = lambda *a, **k: b''; "
        "order = {'role': 'record', 'seconds': 1, 'without': [], 'without_data': %s}; zygote.answer(order, wire.pack([]))"
    )
    assert "sympy" not in loaded(answer % False)
    assert "sympy" in loaded(answer % True)


def test_a_hub_computes_the_codes_of_students_without_torch():
    assert HEAVY & loaded("from grader.judging import twists") == set()
