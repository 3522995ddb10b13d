"""A verdict on hidden inputs tells shapes and places, and never a value, whatever the program does to learn one."""

import pytest
from messages import ids
from sampling import first_ones

from course_lib import render
from course_lib.evidence import Evidence
from course_lib.exercises import find
from grader.judging import redaction
from grader.judging.cases import all_cases
from grader.judging.secret import seed_of
from grader.published import answer, solution_cell
from tritontrace.messages import Message
from tritontrace.replay.wire import to_tree
from tritontrace.results import Cause, Fault

EFFICIENCY = find("coalescing.strided_efficiency")
STUDENT = "ada"


def hidden_numbers(judge, exercise):
    """The parameters of the exercise's hidden cases, as this student gets them."""
    seed = seed_of(judge.secret, STUDENT, exercise.id)
    public = {repr(case.arguments(0)) for case in exercise.cases}
    cases = [case for case in all_cases(exercise, seed) if case.hidden]
    return [a for a in (case.arguments(seed) for case in cases) if repr(a) not in public]


def shown(judge, exercise, source):
    verdict = judge.verdict(exercise, answer(exercise.id, source), STUDENT)
    return verdict, f"{render.text(verdict)}\n{to_tree(verdict)}"  # as a page, and as data


TELLTALE = """
import linecache, os, sys


def strided_efficiency(stride, itemsize):
    mark = f"<<{stride}|{itemsize}>>"
    LEAK
    useful = itemsize
    fetched = min(32, stride * itemsize)
    return useful / max(fetched, itemsize)
"""


@pytest.mark.parametrize(
    "leak",
    [
        "print(mark)",
        "raise ValueError(mark)",
        "raise type(mark, (Exception,), {})()",
        "return stride * 1000 + itemsize",
        "return mark",
        "return type(f'HIDDEN_{stride}', (), {})()",
        "return type(f'<<{stride}>>', (float,), {})(0.5)",
        "return type(f'HIDDEN_{stride}', (Exception,), {})",
        "return [0] * (stride * 1000 + itemsize)",
        "return {mark: 1}",
        "return torch.zeros(stride * 1000 + itemsize)",
        "return torch.zeros(1).to(mark)",
        "return sys.exit(mark)",
        "import sys; sys.stderr.write(mark)",
        "exec(compile(f'def HIDDEN_{stride}(): raise ValueError\\nHIDDEN_{stride}()', mark, 'exec'))",
        "linecache.cache[mark] = (9, None, [mark], mark); exec(compile('1 / 0', mark, 'exec'))",
        "HIDDEN = triton.jit(strided_efficiency); HIDDEN.__name__ = mark; HIDDEN[(1,)](stride, itemsize, 3)",
        # where the child accounts for its time: what that raises is all that this child says
        "import course_lib.execution as o; o.SPENT = type('S', (), {'__getitem__': lambda *_: int(mark)})()",
        "os.write([int(fd) for fd in os.listdir('/proc/self/fd')][-2], mark.encode()); os._exit(0)",
    ],
)
def test_a_formula_learns_no_hidden_number(judge, leak):
    public = {tuple(c.arguments(0).values()) for c in EFFICIENCY.cases if repr(c.arguments(0)) == repr(c.arguments(1))}
    source = TELLTALE.replace("LEAK", f"if (stride, itemsize) not in {public}:\n        {leak}")
    assert all(tuple(a.values()) not in public for a in hidden_numbers(judge, EFFICIENCY)) and hidden_numbers(
        judge, EFFICIENCY
    )
    _, text = shown(judge, EFFICIENCY, source)
    assert "<<" not in text and "HIDDEN" not in text
    for arguments in hidden_numbers(judge, EFFICIENCY):
        stride, itemsize = arguments.values()
        assert str(stride * 1000 + itemsize) not in text and f"stride = {stride}" not in text


def test_a_formula_wrong_on_hidden_numbers_alone_is_told_where_and_not_what(judge):
    public = {tuple(c.arguments(0).values()) for c in EFFICIENCY.cases if repr(c.arguments(0)) == repr(c.arguments(1))}
    solution = solution_cell(EFFICIENCY.id).replace("def strided_efficiency", "def honest")
    source = f"{solution}\n\ndef strided_efficiency(stride, itemsize):\n    right = honest(stride, itemsize)\n"
    source += f"    return right if (stride, itemsize) in {public} else right / 2\n"
    verdict, text = shown(judge, EFFICIENCY, source)
    assert verdict.points < verdict.out_of and "criteria.result.hidden_number" in ids(verdict)


def test_a_kernel_s_feedback_names_shapes_and_places_and_no_value(judge):
    exercise = find("coalescing.transpose")
    source = solution_cell(exercise.id)
    at = source.index("tl.store(")
    source = f"{source[:at]}tile = tile + (rows == 129).to(tile.dtype)\n    {source[at:]}"
    verdict, text = shown(judge, exercise, source)
    assert "elements differ, first at [" in text and "expected " not in text.split("elements differ")[1].split("\n")[0]
    assert "on 256 x 128" in text


def test_fixed_public_numbers_are_told(judge):
    _, text = shown(judge, EFFICIENCY, "def strided_efficiency(stride, itemsize):\n    return 2.0\n")
    assert "for stride = 1, itemsize = 4: expected 1.0, got 2.0" in text


DROPOUT = find("recomputation.seeded_dropout")
KERNEL = """
import linecache


def launch(name, grid=1, body="pass"):
    source = f"def {name}(x_ptr):\\n    {body}\\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope = {"tl": tl}
    exec(compile(source, name, "exec"), scope)
    triton.jit(scope[name])[(grid,)](torch.empty(4))


def SeededDropout(x, p, seed):
    if seed not in PUBLIC:
        mark = f"HIDDEN_{seed}"
        LEAK
    return Honest.apply(x, p, seed)
"""


@pytest.mark.parametrize(
    "leak",
    first_ones(
        [
            "print(mark)",
            "raise type(mark, (Exception,), {})()",
            "launch(mark, body='tl.store(x_ptr + 1000, 1.0)')",
            "launch(mark, body=f'undefined_{seed}')",
            "launch('k', body=f'{mark} = tl.load(x_ptr + 1000)')",
            "torch.library.custom_op(f'mine::{mark}', lambda y: y.clone(), mutates_args=(), schema='(Tensor y) -> Tensor')(x)",
        ],
        2,
    ),
)
def test_a_kernel_s_function_learns_no_hidden_number(judge, leak):
    public = [case.arguments(0)["seed"] for case in DROPOUT.cases]
    hidden = {a["seed"] for a in hidden_numbers(judge, DROPOUT)} - set(public)
    honest = solution_cell(DROPOUT.id).replace("SeededDropout", "Honest")
    source = honest + KERNEL.replace("LEAK", leak).replace("PUBLIC", repr(public))
    verdict, text = shown(judge, DROPOUT, source)
    assert (verdict.points < verdict.out_of) != (leak == "print(mark)"), "what is hidden is what is shown"
    assert hidden and "HIDDEN" not in text and not any(str(seed) in text or f"{seed:,}" in text for seed in hidden)


SEARCH = """
import sys

frame, found = sys._getframe(), []
while frame:
    found += [repr(v)[:100_000] for v in frame.f_locals.values() if "calls" in repr(v)]
    frame = frame.f_back
raise ValueError("".join(found) or "nothing")
"""


def test_what_a_program_finds_while_it_is_loaded_is_no_hidden_number(judge):
    """An answer may look at the memory of its process, and say in its own words what is there."""
    _, text = shown(judge, EFFICIENCY, f"{SEARCH}\n\ndef strided_efficiency(stride, itemsize):\n    return 0.0\n")
    assert "raised ValueError" in text
    for arguments in hidden_numbers(judge, EFFICIENCY):
        assert repr(arguments)[1:-1] not in text


def test_untold_keeps_what_somebody_wrote_down():
    """Sentences about the student's own names, ours, and Python's stay as they are; nothing else does."""
    told = redaction.Redactor(
        DROPOUT, [("<cell 1>", "def drop_kernel(x_ptr, n):\n    y = tl.load(x_ptr + n)")], [{"name": "other"}]
    )
    kept = (
        "kernel `drop_kernel`, line 2: `y = tl.load(x_ptr + n)`: program (3, 0) loads element 70 of `x`, which has 64"
    )
    evidence = Evidence(
        "a case", refused=kept, kernels=["drop_kernel-1f2e"], faults=[Fault("race", "kernel `made_137` and `out[1]`")]
    )
    told.redact(evidence)
    assert (evidence.refused, evidence.kernels) == (kept, ["drop_kernel-1f2e"])
    assert evidence.faults[0].sentence == "kernel `...` and `out[1]`"
    message = Message("HIDDEN_137 stores", "trace.HIDDEN_137", {"tensor": "`made_137`", "lines": ["HIDDEN_137", 4]})
    evidence = Evidence("a case", faults=[Fault("race", message)])
    told.redact(evidence)
    message = evidence.faults[0].sentence
    assert (message, message.id) == ("... stores", "trace....")
    assert message.parameters == {"tensor": "`...`", "lines": ["...", 4]}
    evidence = Evidence(
        "a case", error="the function uses a __main__.V137x", refused="`buffer 137` `y = 137` other HIDDEN_1"
    )
    told.redact(evidence)
    assert evidence.error.endswith("uses a __main__....") and evidence.refused == "`...` `...` other ..."


def test_a_cause_tells_no_more_than_a_sentence():
    """A cause is data that a recorder wrote, whatever kind it says that it is of."""
    for exercise in (EFFICIENCY, DROPOUT):
        hostile = Cause("refused", "HIDDEN_137", {"message": "HIDDEN_137", "HIDDEN_137": "the mask"})
        evidence = Evidence("a case", error="stopped", cause=hostile)
        redaction.Redactor(exercise, [("<cell 1>", "def f(): ...")], []).redact(evidence)
        assert "137" not in repr(evidence.cause) and evidence.cause.kind == "refused"
