"""check() and hint(), as a student meets them."""

import subprocess
import sys
from collections import Counter

import pytest
import torch
import triton
import triton.language as tl

from course_lib import checking, criteria, render
from course_lib.exercise import ErrorMap, Finding, Verdict
from course_lib.exercises import find
from course_lib.exercises.coalescing import EXERCISES
from course_lib.exercises.hints import hints_on
from course_lib.handin import stale

TRANSPOSE, FORMULA, VALUES = "coalescing.transpose", "coalescing.padded_stride", "coalescing.predictions"
SCRIPT_TAG = "<script>alert(1)</script>"


@triton.jit
def transpose_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)[:, None]
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)[None, :]
    inside = (rows < M) & (cols < N)
    tile = tl.load(x_ptr + rows * stride_m + cols * stride_n, mask=inside, other=0)
    tl.store(out_ptr + cols * M + rows, tile, mask=inside)


def transpose(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    transpose_kernel[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, *x.stride(), BLOCK=64)
    return out


@triton.jit
def row_kernel(x_ptr, out_ptr, M, N, stride_m, stride_n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    values = tl.load(x_ptr + row * stride_m + cols * stride_n, mask=cols < N)
    tl.store(out_ptr + cols * M + row, values, mask=cols < N)


def row_by_row(x):
    M, N = x.shape
    out = torch.empty((N, M), dtype=x.dtype, device=x.device)
    row_kernel[(M,)](x, out, M, N, *x.stride(), BLOCK=triton.next_power_of_2(N))
    return out


tuned_kernel = triton.autotune([triton.Config({"BLOCK": 32})], key=["M"])(row_kernel)
guessed_kernel = triton.heuristics({"BLOCK": lambda arguments: 64})(row_kernel)


def padded_stride(n, itemsize):
    per_sector = 32 // itemsize
    return -(-n // per_sector) * per_sector


# ------------------------------------------------------------------------------------------------ points


def test_full_marks_are_a_plain_whole_number(capsys):
    points = checking.check(TRANSPOSE, transpose)
    assert points == 10 and repr(points) == str(points) == "10"
    printed = capsys.readouterr().out
    assert printed.startswith("coalescing.transpose") and "10 / 10" in printed and "✗" not in printed


def test_the_wasteful_store_is_shown_with_its_line(capsys):
    points = checking.check(TRANSPOSE, row_by_row)
    assert points == 7 and repr(points) == "7"
    printed = " ".join(capsys.readouterr().out.split())  # long lines are wrapped
    assert "≈ stores are dense" in printed and "✓ loads are dense" in printed
    assert "line 5 uses 2 of every 32 bytes it touches of `out`" in printed  # of the float16 case
    assert "5 │ tl.store(out_ptr + cols * M + row, values" in printed
    assert "Each store goes down a column" in printed


def test_a_check_takes_one_thread_and_leaves_the_number_alone(two_threads, monkeypatch, capsys):
    seen = []
    judge = criteria.judge
    monkeypatch.setattr(criteria, "judge", lambda *args: seen.append(torch.get_num_threads()) or judge(*args))
    assert checking.check(TRANSPOSE, transpose) > 0
    assert seen == [1] and torch.get_num_threads() == 2


def test_partial_points_are_a_plain_number(capsys):
    points = checking.check(VALUES, {"neighbours": 128})
    assert points == 1 and repr(points) == "1"
    assert "1 of 5 right" in capsys.readouterr().out


@pytest.mark.parametrize("points", [2.0, 1.5, 0.0])
def test_a_check_is_one_output_whose_number_nbgrader_reads(monkeypatch, points):
    from nbformat import v4
    from nbgrader.utils import determine_grade

    verdict = Verdict(FORMULA, points, 4.0, [Finding("a", points, 4, "partial")])
    monkeypatch.setattr(checking, "verdict", lambda *asked: verdict)
    formatter = Notebook(monkeypatch).display_formatter
    told = checking.check(FORMULA, padded_stride)
    assert formatter.format(told)[0] == {"text/plain": render.text(verdict), "text/html": render.html(verdict)}
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")  # as nbgrader sets it
    data, metadata = formatter.format(told)
    assert data == {"text/plain": f"{points:g}", "text/html": render.html(verdict)}, (
        "the verdict, and no number below it"
    )
    cell = v4.new_code_cell(outputs=[v4.new_output("execute_result", data, metadata=metadata)])
    cell.metadata.nbgrader = {"grade": True, "solution": False, "points": 4}
    assert determine_grade(cell) == (points, 4)


class Notebook:
    """IPython's shell as a kernel has it: events, and what was displayed."""

    kernel = 1

    def __init__(self, monkeypatch):
        from IPython.core.events import EventManager, available_events
        from IPython.core.formatters import DisplayFormatter

        self.display_formatter = DisplayFormatter()
        self.events, self.shown = EventManager(self, available_events), []
        monkeypatch.setattr("IPython.get_ipython", lambda: self)
        monkeypatch.setattr("IPython.display.display", lambda data, raw: self.shown.append(data["text/html"]))

    def run(self, *verdicts, last=True):
        """A cell with a check for each; `last`: nothing follows the last one, so that it is the value of the cell."""
        points = [render.Points(v.points, render.text(v), render.html(v)).display_result() for v in verdicts]
        if last:
            self.shown.append(points[-1]._repr_mimebundle_()["text/html"])
        self.events.trigger("post_execute")


@pytest.mark.parametrize("last", [True, False])
def test_each_check_of_a_cell_is_shown_once_and_in_order(monkeypatch, last):
    notebook = Notebook(monkeypatch)
    one, two = (criteria.refused(find(FORMULA), sentence) for sentence in ("first", "second"))
    for _ in range(2):
        notebook.run(one, two, last=last)
    assert notebook.shown == [render.html(one), render.html(two)] * 2


def test_points_are_numbers_to_all_others():
    import pickle

    points = render.Points(7.0, "text", "html")
    assert points == 7 and points + 1 == 8 and f"{points:g}" == "7" and sum([points, points]) == 14
    assert type(pickle.loads(pickle.dumps(points))) is float


def test_a_formula_is_judged(capsys):
    assert checking.check(FORMULA, padded_stride) == 4
    assert checking.check(FORMULA, lambda n, itemsize: n) == 0
    assert "✗ no larger than it must be" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------------ what is no solution


def refusal(exercise_id, entry, capsys):
    assert checking.check(exercise_id, entry) == 0
    printed = capsys.readouterr().out
    assert "Traceback" not in printed
    return printed


@pytest.mark.parametrize(
    "exercise_id, entry, sentence",
    [
        (TRANSPOSE, None, "`transpose` is not solved yet"),
        (TRANSPOSE, ..., "`transpose` is not solved yet"),
        (TRANSPOSE, 3, "`transpose` must be a function, not an int"),
        (TRANSPOSE, "transpose", "`transpose` must be a function, not a str"),
        (TRANSPOSE, torch.ones(2), "`transpose` must be a function, not a Tensor"),
        (TRANSPOSE, transpose_kernel, "this is the kernel; check the function that launches it"),
        (TRANSPOSE, tuned_kernel, "this is the kernel; check the function that launches it"),
        (TRANSPOSE, guessed_kernel, "this is the kernel; check the function that launches it"),
        (FORMULA, {}, "`padded_stride` must be a function, not a dict"),
        (VALUES, padded_stride, "`predicted_sectors` must be a dict, not a function"),
        (VALUES, None, "`predicted_sectors` is not solved yet"),
        (VALUES, {"neighbours": ..., "column": ...}, "`predicted_sectors` is not filled in yet"),
        (TRANSPOSE, lambda x: None, "transpose returns nothing yet"),
        (TRANSPOSE, lambda x: ..., "a ellipsis"),
        (TRANSPOSE, lambda x: x.T.contiguous(), "it also uses a copy (.clone or .contiguous)"),
        (TRANSPOSE, lambda x: 1 / 0, "raised ZeroDivisionError: division by zero, in line"),
        (TRANSPOSE, lambda: 1, "raised TypeError"),
        (FORMULA, lambda n, itemsize: None, "padded_stride returns nothing yet"),
        (FORMULA, lambda n, itemsize: ..., "is no row stride"),
        (
            FORMULA,
            lambda n, itemsize: n + 7.5,
            "1008.5 is no row stride, a whole number: divide with //",
        ),
        (FORMULA, lambda m, itemsize: m, "keep the names of the parameters as they were given"),
        (FORMULA, lambda n, itemsize: sectors_of(n), "No cell that was run defines `sectors_of`: run the one"),  # noqa: F821
        (FORMULA, lambda n, itemsize: torch.tensor(n), "is no row stride"),
        (FORMULA, lambda n, itemsize: 10**400, "is no row stride"),
        (FORMULA, lambda n, itemsize: 10**5000, "not plain data"),
        (FORMULA, lambda n, itemsize: n / 0, "raised ZeroDivisionError"),
        ("coalescing.strided_efficiency", lambda stride, itemsize: 10**400, "expected 1.0, got 1000"),
        (FORMULA, lambda n, itemsize: (_ for _ in ()).throw(SystemExit(0)), "raised SystemExit"),
    ],
)
def test_what_is_no_solution_earns_nothing_and_a_sentence(exercise_id, entry, sentence, capsys):
    assert sentence in refusal(exercise_id, entry, capsys)


def test_a_whole_number_may_be_a_float():
    found = checking.verdict(find(FORMULA), lambda n, itemsize: float(-(-n * itemsize // 32) * 32 / itemsize))
    assert found.points == found.out_of


def test_a_kernel_may_be_warmed_up_and_says_what_a_host_plans_with(capsys):
    def tutorial(x, asked=lambda compiled: None):
        out = x.new_empty(x.shape[::-1])
        arguments = (x, out, *x.shape, *x.stride(), 64)
        compiled = transpose_kernel.warmup(*arguments, grid=(1,))
        compiled._init_handles()
        active = triton.runtime.driver.active
        has = active.utils.get_device_properties(active.get_current_device())
        by_registers = has["max_num_regs"] // (compiled.n_regs * has["warpSize"] * compiled.metadata.num_warps)
        assert by_registers > 0 and 0 <= compiled.metadata.shared <= has["max_shared_mem"]
        asked(compiled)
        compiled[triton.cdiv(x.shape[0], 64), triton.cdiv(x.shape[1], 64)](*arguments)
        return out

    assert checking.check(TRANSPOSE, tutorial) == 10
    assert checking.check(TRANSPOSE, lambda x: tutorial(x, lambda compiled: compiled.asm)) == 0
    assert "`asm` is there on a GPU alone" in capsys.readouterr().out


def test_an_endless_loop(monkeypatch, capsys):
    allowed = {}

    def observed(exercise, entry, seed, *, seconds, compile_seconds):
        allowed[exercise.id] = seconds
        return observe(exercise, entry, seed, seconds=min(seconds, 0.5), compile_seconds=compile_seconds)

    observe = checking.observe
    monkeypatch.setattr(checking, "observe", observed)

    def forever(n, itemsize):
        while True:
            pass

    assert "padded_stride did not finish within 0.5 seconds: an endless loop" in refusal(FORMULA, forever, capsys)
    checking.check(TRANSPOSE, transpose)
    assert allowed == {FORMULA: 3.0, TRANSPOSE: 20.0}


@pytest.mark.parametrize(
    "name, near",
    [
        ("coalescing.transpse", "coalescing.transpose"),
        ("colescing.transpose", "coalescing.transpose"),  # codespell:ignore
        ("transpose", "coalescing.transpose"),
        ("coalescing.padded", "coalescing.padded_stride"),
        ("", ""),  # any
        (None, ""),
        (transpose, "coalescing.transpose"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_unknown_exercises_get_the_nearest_name(name, near, capsys):
    assert checking.check(name, transpose) == 0.0
    checking.hint(name)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    told = (
        f"There is no exercise {name!r}" if isinstance(name, str) else "An exercise is named in quotes, with its unit"
    )
    assert all(line.startswith(f'{told}. Did you mean "{near}') for line in lines)


@pytest.mark.parametrize(
    "arguments, example",
    [
        ((), 'check("start.add_one", add_one)'),
        ((TRANSPOSE,), 'check("coalescing.transpose", transpose)'),
        ((transpose,), 'check("start.add_one", add_one)'),
        ((transpose, TRANSPOSE), 'check("coalescing.transpose", transpose)'),
        (({"column": 1}, VALUES), 'check("coalescing.predictions", predicted_sectors)'),
        (("coalescing.transpse",), 'check("start.add_one", add_one)'),
    ],
    ids=lambda value: str(len(value)) if isinstance(value, tuple) else value,
)
def test_arguments_that_are_missing_or_swapped(arguments, example, capsys):
    assert checking.check(*arguments) == 0.0
    assert capsys.readouterr().out == f"check takes the name of an exercise, then what you wrote for it: {example}\n"


def test_a_hint_for_nothing(capsys):
    checking.hint()
    assert capsys.readouterr().out == 'hint takes the name of an exercise, in quotes: hint("start.add_one")\n'


# ------------------------------------------------------------------------------------------------ text and HTML


def hostile(n, itemsize):
    print(SCRIPT_TAG)
    raise ValueError(f"{SCRIPT_TAG} \ud800 \x1b[31m & `code`")


def test_html_is_escaped():
    html = render.html(checking.verdict(find(FORMULA), hostile, seed=0))
    assert SCRIPT_TAG not in html and "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html and "&amp; <code>code</code>" in html


@pytest.mark.parametrize("field", ["title", "seen", "expected", "detail"])
def test_every_field_is_escaped(field):
    finding = Finding(**({"title": "t", "points": 0, "out_of": 1, "status": "failed"} | {field: SCRIPT_TAG}))
    verdict = Verdict(SCRIPT_TAG, 0, 1, [finding], remark=SCRIPT_TAG, printed=SCRIPT_TAG)
    assert "<script" not in render.html(verdict)
    assert render.html(verdict).count("&lt;script&gt;") == 4
    assert render.text(verdict).count(SCRIPT_TAG) == 4


def test_what_no_terminal_can_show_is_replaced():
    verdict = checking.verdict(find(FORMULA), hostile, seed=0)
    for page in (render.text(verdict), render.html(verdict)):
        page.encode()  # half a surrogate pair could be written nowhere
        assert "\x1b" not in page and "\N{REPLACEMENT CHARACTER} [31m".replace(" ", "") in page.replace(" ", "")


def test_a_map_of_the_error():
    finding = Finding("right", 0, 2, "failed", error_map=ErrorMap([[0.0, 1.0], [0.3, 0.0]], 4, 4, [0, 3, 0, 3]))
    verdict = Verdict("unit.x", 0, 2, [finding])
    assert "│ █│" in render.text(verdict) and "│▒ │" in render.text(verdict)
    assert render.html(verdict).count("<rect") == 4 + verdict.out_of, "and a box for each point"


def test_where_the_result_is_wrong_is_shown(capsys):
    def no_tail(x):
        M, N = x.shape
        out = torch.zeros((N, M), dtype=x.dtype)
        transpose_kernel[(max(1, M // 64), max(1, N // 64))](x, out, M, N, *x.stride(), BLOCK=64)
        return out

    assert 0 < checking.check(TRANSPOSE, no_tail) < 10
    printed = capsys.readouterr().out
    assert "elements differ" in printed and "where it is wrong:" in printed


def test_what_a_failed_gate_leaves_is_one_line():
    text = render.text(checking.verdict(find(TRANSPOSE), lambda x: None))
    assert text.count("not judged until then") == 1 and "0 / 10" in text


@pytest.mark.parametrize("notebook", [True, False])
def test_a_notebook_gets_html_and_a_terminal_text(monkeypatch, capsys, notebook):
    IPython = pytest.importorskip("IPython")
    shell = Notebook(monkeypatch) if notebook else type("Shell", (), {})()
    monkeypatch.setattr(IPython, "get_ipython", lambda: shell)
    verdict = criteria.refused(find(FORMULA), SCRIPT_TAG)
    monkeypatch.setattr(checking, "verdict", lambda *asked: verdict)
    assert checking.check(FORMULA, padded_stride) == 0
    if notebook:
        shell.events.trigger("post_execute")
        assert shell.shown == [render.html(verdict)]
    assert capsys.readouterr().out == ("" if notebook else render.text(verdict) + "\n")


@pytest.fixture(autouse=True)
def counts_of_its_own(monkeypatch):
    """Hints given and checks lost in a row, from none on in each test."""
    for name in ("_hints_given", "_lost_again"):
        monkeypatch.setattr(checking, name, Counter())


def test_the_second_failure_points_to_a_hint_in_words(capsys):
    exercise = find("start.num_programs")
    said = []
    for _ in range(2):
        checking.check(exercise.id, lambda n, block: n // block)
        said.append(capsys.readouterr().out)
    pointer = 'hint("start.num_programs")'
    assert pointer not in said[0] and pointer in said[1]
    checking._hints_given[exercise.id] = len(hints_on(exercise.id))
    checking.check(exercise.id, lambda n, block: n // block)
    assert pointer not in capsys.readouterr().out, "there is none left"


def test_the_card_of_a_second_failure_has_hints_to_click_at_and_no_command(monkeypatch):
    shell = Notebook(monkeypatch)
    for _ in range(2):
        checking.check("start.num_programs", lambda n, block: n // block)
        shell.events.trigger("post_execute")
    assert "hint 1 of" in shell.shown[-1] and "hint(" not in shell.shown[-1]


def test_a_hint_is_html_in_a_notebook(monkeypatch, capsys):
    """JupyterLab breaks plain text within words."""
    notebook = Notebook(monkeypatch)
    checking.hint(TRANSPOSE)
    (html,) = notebook.shown
    assert "Hint 1 of 3" in html and "`" not in html and not capsys.readouterr().out


@pytest.fixture
def shell():
    """IPython, as a notebook runs its cells."""
    from IPython.core.interactiveshell import InteractiveShell

    instance = InteractiveShell.instance()
    stale.watch()
    yield instance
    InteractiveShell.clear_instance()


def test_each_cell_of_a_notebook_ends_by_giving_memory_back(shell, monkeypatch):
    given_back = []
    monkeypatch.setattr(checking, "_give_back", lambda result: given_back.append(result.execution_count))
    monkeypatch.setattr(render, "shell", lambda: shell)
    checking._give_back_after_each_cell()
    checking._give_back_after_each_cell()
    shell.run_cell("1 + 1", store_history=True)
    assert len(given_back) == 1


RIGHT = "def padded_stride(n, itemsize):\n    return -(-n * itemsize // 32) * 32 // itemsize\n"


def checked_after(shell, capsys, *cells):
    for cell in ("from course_lib import check", RIGHT, *cells):
        shell.run_cell(cell, store_history=True)
    capsys.readouterr()
    shell.run_cell(f"check({FORMULA!r}, padded_stride)", store_history=True)
    return capsys.readouterr().out


def test_after_a_syntax_error_a_check_says_that_it_judges_the_version_before(shell, capsys):
    said = checked_after(shell, capsys, RIGHT.replace("itemsize):", "itemsize)"))
    assert said.startswith("The cell that you ran last with `padded_stride` has a syntax error, in its line 1: ")
    assert "4 / 4" in said, "it is judged all the same"


@pytest.mark.parametrize(
    "cell, said",
    [
        (RIGHT.replace("n, itemsize):", "n: torh.Tensor, itemsize):"), "line 1 (NameError): what follows is about the version before it."),
        ("import nosuchmodule\n\n" + RIGHT, "line 1 (ModuleNotFoundError): what follows is about the version before it."),
        ("@undefined\ndef helper():\n    pass\n" + RIGHT, "line 1 (NameError): what follows is about the version before it."),
        (RIGHT + "@undefined\ndef helper():\n    pass\n", "line 3 (NameError): what it defines from there on is as it was before."),
    ],
)  # fmt: skip
def test_after_a_cell_that_stopped_a_check_says_what_it_judges(shell, capsys, cell, said):
    printed = checked_after(shell, capsys, cell)
    assert printed.startswith(f"The cell that you ran last with `padded_stride` stopped at its {said}\n")
    assert "4 / 4" in printed


def test_after_answers_that_stopped_a_check_says_that_it_judges_those_before(shell, capsys):
    for cell in ("from course_lib import check", "myths = {'a': 1}", "myths = {'a': true}"):
        shell.run_cell(cell, store_history=True)
    assert "line 1 (NameError): what follows is about the version before it." in stale.newer_version("myths")


@pytest.mark.parametrize(
    "value, told", [("2 * 1024 // 8", "5 right"), ("len(str(check))", "Line 2 has a call of `str`")]
)
def test_a_prediction_that_is_computed_is_told_so_in_the_notebook(shell, capsys, value, told):
    cell = f"n = 4\npredicted_sectors = {{'dense': {value}}}\n"
    for source in ("from course_lib import check", cell, f"check({VALUES!r}, predicted_sectors)"):
        shell.run_cell(source, store_history=True)
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(
    "cells",
    [
        (),
        (RIGHT + "padded_stride(1, 0)\n",),  # it was defined
        ("import nosuchmodule\n" + RIGHT, RIGHT),
        (RIGHT.replace("itemsize):", "itemsize)"), RIGHT),  # mended since
        ("other = padded_stride(", "%time padded_stride(3, 4)", "!true"),  # another cell; magics
        ("%%time\n" + RIGHT,),
        (RIGHT.replace("itemsize):", "itemsize)"), "%%time\n" + RIGHT),  # mended, under a magic
        ("def padded_stride_2(n:",),  # another function, whose name begins alike
        ("padded_stride == 3 or (",),
    ],
)
def test_what_python_has_read_is_said_nothing_of(shell, capsys, cells):
    assert "that you ran last" not in checked_after(shell, capsys, *cells)


def test_a_plain_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from course_lib import check\n"
        "def padded_stride(n, itemsize):\n    return -(-n * itemsize // 32) * 32 // itemsize\n"
        f"print('points', check({FORMULA!r}, padded_stride))\n"
    )
    found = subprocess.run(
        [sys.executable, script], env={"PYTHONPATH": "."}, capture_output=True, text=True, timeout=60
    )
    assert found.returncode == 0, found.stderr
    assert "✓ every row starts on a sector boundary" in found.stdout and found.stdout.endswith("points 4\n")


# ------------------------------------------------------------------------------------------------ hints


@pytest.mark.parametrize("exercise", EXERCISES.values(), ids=lambda exercise: exercise.entry)
def test_hints_advance_and_stop(exercise, capsys):
    for _ in range(len(hints_on(exercise.id)) + 2):
        checking.hint(exercise.id)
    lines = capsys.readouterr().out.splitlines()
    more = " (call again for a stronger one)"
    count = len(hints_on(exercise.id))
    expected = [
        f"Hint {k} of {count}: {text}{more if k < count else ''}" for k, text in enumerate(hints_on(exercise.id), 1)
    ]
    assert lines == expected + [expected[-1]] * 2 and count == 3
