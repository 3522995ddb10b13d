"""Criteria are pure functions of evidence: each judged on evidence made by hand."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from messages import parameters
from sentences import says

from course_lib import criteria
from course_lib.catalogue import say
from course_lib.criteria import (
    BuffersBelow,
    Compiles,
    Correct,
    Holds,
    Launches,
    NoAtomics,
    Rereads,
    Speed,
    TritonDidTheWork,
)
from course_lib.evidence import Evidence
from course_lib.exercise import Case, CodeLine, Criterion, Effort, Exercise, Request, Spent, Trial
from tritontrace.results import Access, Cause, Compiled, Fault, Footprint, Launch

SPEED = Speed("copy", Case("large", "speed", None), None, full=0.8, none=0.5)
X = torch.arange(12.0).reshape(3, 4) + 1


def exercise(oracle=lambda x: x.double() * 2, **fields):
    defaults = {"gates": (), "criteria": (), "bonus": ()}
    return Exercise("unit.double", "double(x)", Effort(1, 1, 1), [], oracle, **(defaults | fields))


DOUBLE = exercise()
FIRST, SHAPE, HOLDS = "criteria.looks.first", "criteria.result.shape", "criteria.result.holds"


def trial(*outputs, group="plain", inputs=None, **evidence):
    arguments = [{"x": X} for _ in outputs] if inputs is None else inputs
    return Trial(Case("a case", group, None), arguments, Evidence("a case", outputs=list(outputs), **evidence))


def seen(*outputs, of=DOUBLE, **options):
    """Words of Correct on these outputs: "" if they are right."""
    finding = Correct("plain", 2).judge(of, [trial(*outputs, **options)])
    assert finding.points == (2 if finding.passed else 0) and finding.out_of == 2
    return "" if finding.passed else finding.seen


# ------------------------------------------------------------------------------------------------ correct


def test_right():
    assert seen(X * 2) == seen(X * 2, X * 2) == ""


@pytest.mark.parametrize(
    "output, id, parameters",
    [
        (X, FIRST, {"wrong": 12, "all": 12, "place": "[0, 0]", "right": "2", "got": "1"}),
        (X * 2 + (X == 7), FIRST, {"wrong": 1, "place": "[1, 2]", "right": "14", "got": "15"}),
        (torch.full_like(X, float("nan")), FIRST, {"wrong": 12}),
        (torch.where(X == 12, torch.nan, X * 2), FIRST, {"wrong": 1, "place": "[2, 3]", "right": "24", "got": "nan"}),
        (torch.where(X == 12, torch.inf, X * 2), FIRST, {"wrong": 1, "place": "[2, 3]", "right": "24", "got": "inf"}),
        ((X * 2).T, SHAPE, {"right": (3, 4), "got": (4, 3), "turned": True}),
        ((X * 2)[None], SHAPE, {"right": (3, 4), "got": (1, 3, 4), "turned": False}),
        ((X * 2)[:1], SHAPE, {"got": (1, 4), "turned": False}),
        ((X * 2)[:0], SHAPE, {"got": (0, 4), "turned": False}),
        (torch.tensor(2.0), SHAPE, {"got": (), "turned": False}),
        (torch.empty(0), SHAPE, {"got": (0,), "turned": False}),
        ((X * 2).double(), "criteria.result.dtype", {"right": "torch.float32", "got": "torch.float64"}),
        ((X * 2).half(), "criteria.result.dtype", {"right": "torch.float32", "got": "torch.float16"}),
        ((X * 2).long(), "criteria.result.dtype", {"right": "torch.float32", "got": "torch.int64"}),
        (None, "criteria.result.blank", {"entry": "double"}),
        (3.0, "criteria.result.no_tensor", {"got": "a value of type float"}),
        ([X * 2], "criteria.result.no_tensor", {"got": "a tuple or list of 1"}),
        ({"unsupported": "a numpy.ndarray"}, "criteria.result.no_tensor", {"got": "a numpy.ndarray"}),
    ],
)
def test_wrong(output, id, parameters):
    assert says(seen(output), id, **parameters)
    second = seen(X * 2, output)
    assert says(second, "criteria.result.part", again=False) and says(second.parameters["problem"], id, **parameters)


@pytest.mark.parametrize("outputs", [[], [X * 2, X * 2]])
def test_a_call_too_few_or_too_many(outputs):
    assert says(seen(*outputs, inputs=[{"x": X}]), "criteria.result.too_few", results=len(outputs), calls=1)


@pytest.mark.parametrize("field", ["error", "refused"])
def test_what_did_not_run(field):
    assert seen(**{field: "as was told"}) == "as was told"


def test_a_fault_is_wrong_though_the_result_is_right():
    assert seen(X * 2, faults=[Fault("race", "a race")]) == "a race"


def test_the_line_of_a_fault_is_that_of_the_one_that_is_told_of():
    race, wild = (
        Fault(kind, kind, "k", line, source=f"line {line}") for kind, line in {"race": 3, "misaligned": 5}.items()
    )
    told = Correct("plain", 2).judge(DOUBLE, [trial(X * 2, faults=[race, wild])])
    assert told.at == CodeLine(3, "line 3")
    ended = trial(faults=[race, wild], error="misaligned", cause=wild.cause)
    assert Correct("plain", 2).judge(DOUBLE, [ended]).at == CodeLine(5, "line 5")
    stopped = trial(faults=[race], error="a typo", cause=Cause("raised"))
    assert Correct("plain", 2).judge(DOUBLE, [stopped]).at is None


def test_only_its_own_group_counts():
    trials = [trial(X * 2), trial(X, group="ragged")]
    assert Correct("plain", 1).judge(DOUBLE, trials).passed
    assert not Correct("ragged", 1).judge(DOUBLE, trials).passed


def test_the_oracles_dtype_counts():
    counts = exercise(lambda x: (x > 6).long())
    assert seen((X > 6).long(), of=counts) == ""
    assert says(seen((X > 6).float(), of=counts), "criteria.result.dtype", right="torch.int64", got="torch.float32")


def test_half_precision_is_compared_after_rounding():
    third = exercise(lambda x: x.double() / 3)
    half = [{"x": X.half()}]
    assert seen((X / 3).half(), of=third, inputs=half) == ""
    assert says(seen((X / 3).half() * 1.01, of=third, inputs=half), FIRST)


NAN = torch.full_like(X, float("nan"))
TAIL = torch.where(X > 8, torch.nan, X * 2)  # the last of three rows
LANES = say("criteria.looks.poisoned", lines=["kernel `k`, line 3"])
NOT_STORED = say("criteria.looks.both", one=say("criteria.looks.not_stored"), other=say("criteria.looks.left_out"))
LAST_ROW = say("criteria.looks.wrong_alone", where=say("criteria.looks.row", first=2))


@pytest.mark.parametrize(
    "output, written, poisoned, words",
    [
        (NAN, 48, [], say("criteria.looks.nan_stored")),
        (NAN, 40, [], say("criteria.looks.nan")),  # it stored what is wrong, and left other out
        (NAN, 0, [], NOT_STORED),
        (NAN, 0, ["kernel `k`, line 3"], NOT_STORED),  # so the masked positions did no harm
        (NAN, 48, ["kernel `k`, line 3"], say("criteria.looks.poisoned_or", poisoned=LANES)),
        (TAIL, 32, [], say("criteria.looks.both", one=say("criteria.looks.not_stored"), other=LAST_ROW)),
        (TAIL, 48, [], LAST_ROW),
        (TAIL.nan_to_num(0), 32, [], say("criteria.looks.both", one=say("criteria.looks.still_zero"), other=LAST_ROW)),
        (0 * X, 48, [], say("criteria.looks.zeros")),
        (0 * X, 0, [], say("criteria.looks.no_store")),
        (TAIL, 48, ["kernel `k`, line 3"], say("criteria.looks.both", one=LAST_ROW, other=LANES)),
    ],
)
def test_nan_was_computed_or_never_stored(output, written, poisoned, words):
    """X has 48 bytes."""
    footprint = Footprint("out", 48, written_bytes=written, written_distinct_bytes=written)
    launches = [Launch("k", (1, 1, 1), footprints=[footprint])]
    finding = Correct("plain", 2).judge(DOUBLE, [trial(output, launches=launches, poisoned=poisoned)])
    assert finding.detail == words


@pytest.mark.parametrize("wrong", [0.0, math.nan, 7.0])
def test_a_mask_that_ends_early_is_told_from_a_row_that_alone_is_right(wrong):
    output = torch.where(X > 4, wrong, X * 2)
    finding = Correct("plain", 2).judge(DOUBLE, [trial(output, launches=[launch()])])
    assert bool(finding.detail) == (wrong != 7.0), "one row may be right for many reasons"
    first = say("criteria.looks.right_alone_empty", where=say("criteria.looks.row", first=0))
    assert finding.detail == ("" if wrong == 7.0 else first)
    corner = torch.where((X > 4) & (X % 4 > 1), wrong, X * 2)
    detail = Correct("plain", 2).judge(DOUBLE, [trial(corner, launches=[launch()])]).detail
    assert not detail or "right" not in detail.id


def test_rows_whose_right_result_is_0_prove_nothing():
    x = torch.ones(16, 4)
    x[:8] = 0
    output = x * 2
    output[8:] += torch.arange(1, 5)
    assert Correct("plain").judge(exercise(), criteria_trials(output, x)).detail == ""


def test_rows_that_are_right_up_to_no_block_say_nothing_of_offsets():
    x = torch.ones(40, 4)
    for start, shown in ((16, True), (13, False)):
        output = x * 2
        output[start:] += 1
        finding = Correct("plain").judge(exercise(), criteria_trials(output, x))
        rows = say("criteria.looks.rows", first=0, last=start - 1)
        assert finding.detail == (say("criteria.looks.right_alone", where=rows) if shown else "")


def test_numbers_that_print_alike_get_more_digits():
    assert says(seen(X * 2 + 1e-6), FIRST, right="2", got="2.00000095")


def heads_wrong(where):
    """The finding on two heads of 3 x 64 twice over, wrong (by 1) where `where` says, as a kernel left it."""
    x = torch.ones(2, 2, 3, 64)
    out = x * 2
    where(out).add_(1.0)
    return Correct("plain").judge(exercise(), criteria_trials(out, x))


def criteria_trials(out, x):
    judged = trial(out, inputs=[{"x": x}], kernels={"k": "def k(): pass"}, launches=[launch()])
    return [criteria.GradedTrial.of(exercise(), judged)]


def test_a_map_says_exactly_where_and_that_rows_are_those_of_several_matrices():
    found = heads_wrong(lambda out: out[1, 0, 1:, 40:50]).error_map
    assert (found.rows, found.columns, found.extent, found.lead) == (12, 64, [7, 8, 40, 49], [2, 2])
    assert heads_wrong(lambda out: out[:, :, :, 1:]).error_map is None, "nearly everything: a map says nothing"


@pytest.mark.parametrize(
    "where, id, indices",
    [
        (lambda out: out[1], "right_alone", say("criteria.looks.matrices", first=0, last=1)),
        (lambda out: out[:, :, 2], "wrong_alone", say("criteria.looks.row", first=2)),
        (lambda out: out[..., 48:], "wrong_alone", say("criteria.looks.columns", first=48, last=63)),
        (lambda out: out[..., 51:], "", None),  # no block begins there
    ],
)
def test_matrices_rows_and_columns_that_are_wrong_to_the_end(where, id, indices):
    detail = heads_wrong(where).detail
    assert says(detail, f"criteria.looks.{id}", where=indices) if id else detail == ""


def test_a_grid_without_programs():
    nothing_ran = trial(NAN, kernels=["k"], idle=1)
    why = say("criteria.looks.no_program")
    assert Correct("plain", 2).judge(DOUBLE, [nothing_ran]).detail == why
    assert says(TritonDidTheWork().judge(DOUBLE, [nothing_ran]).seen, "criteria.triton.stores_nothing", why=why)
    assert Correct("plain", 2).judge(DOUBLE, [trial(NAN)]).detail == ""  # no kernel was launched: nothing is known


def test_a_call_that_launches_nothing_has_no_grid():
    kept = trial(NAN, NAN, kernels=["k"])
    for said in (Correct("plain", 2).judge(DOUBLE, [kept]).detail, TritonDidTheWork().judge(DOUBLE, [kept]).seen):
        assert says(said, "criteria.looks.no_launch")


def test_results_that_are_swapped():
    both = exercise(lambda x: (x.double(), x.double() + 1))
    swapped = Correct("plain", 2).judge(both, [trial([X + 1, X])])
    assert says(swapped.detail, "criteria.result.swapped", part=1, other=2)
    assert says(Correct("plain", 2).judge(both, [trial(None)]).seen, "criteria.result.blank")
    assert says(Correct("plain", 2).judge(both, [trial([X, X])]).detail, "criteria.result.twice")
    assert Correct("plain", 2).judge(both, [trial([X, X + 2])]).detail == ""
    numbers = exercise(lambda x: (1.0, x.double()))
    problem = Correct("plain", 2).judge(numbers, [trial([X, X])]).seen.parameters["problem"]
    assert says(problem, "criteria.result.number")


def test_a_fault_explains_wrong_elements_better_than_a_guess():
    race = Fault("race", "program 1 stores to element 0, and so does program 0")
    finding = Correct("plain", 2).judge(
        DOUBLE, [trial(torch.full_like(X, math.nan), faults=[race], launches=[launch()])]
    )
    assert says(finding.seen, FIRST) and finding.detail == race.sentence


def test_numbers_that_only_got_another_shape():
    turned = exercise(lambda x: x.T.double())
    finding = Correct("plain", 2).judge(turned, [trial(X.reshape(4, 3))])
    assert says(finding.detail, "criteria.looks.input_in_order", name="x")


@pytest.mark.parametrize("side", [16, 32])
def test_tiles_that_are_turned_twice(side):
    x = torch.randn(64, 96)
    tiles = x.T.reshape(96 // side, side, 64 // side, side).transpose(1, 3).reshape(96, 64)
    turned = exercise(lambda x: x.T.double())
    finding = Correct("plain", 2).judge(turned, [trial(tiles, inputs=[{"x": x}], launches=[launch()])])
    assert says(finding.detail, "criteria.looks.tiles_turned", side=side)


@pytest.mark.parametrize("side", [16, 32])
def test_tiles_that_stay_where_they_were(side):
    x = torch.randn(64, 64)
    tiles = torch.cat([torch.cat([tile.T for tile in row.split(side, 1)], 1) for row in x.split(side)])
    turned = exercise(lambda x: x.T.double())
    finding = Correct("plain", 2).judge(turned, [trial(tiles, inputs=[{"x": x}], launches=[launch()])])
    assert says(finding.detail, "criteria.looks.tiles_unmoved", side=side)


def test_one_element_is_one():
    assert says(seen(torch.ones(1), inputs=[{"x": torch.ones(1)}]), FIRST, wrong=1, all=1)


def test_what_is_refused_is_first_told_to_be_wrong_if_it_is():
    """A view of an input may hold the right numbers, or teach what the exercise is about."""
    refused = "the function returns its input `x`, or a view of it"
    assert seen(X, inputs=[{"x": X}] * 2, refused=refused).parameters["wrong"] == 12
    assert seen(X * 2, inputs=[{"x": X}] * 2, refused=refused) == refused
    values = exercise(lambda: {"a": 1})
    assert seen({"a": 1}, of=values, inputs=[{}], refused="forged") == "forged"


def test_nan_where_nan_is_right():
    root = exercise(lambda x: (x.double() - 6).sqrt())
    assert seen((X - 6).sqrt(), of=root) == ""
    assert says(seen((X - 6).clamp(min=0).sqrt(), of=root), FIRST)


def test_several_results():
    both = exercise(lambda x: (x.double(), x.double() + 1))
    assert seen([X, X + 1], of=both) == ""
    assert says(seen([X, X], of=both), "criteria.result.part", part="result 2 of 2: ")
    assert says(seen(X, of=both), "criteria.result.several", results=2, got="a tensor")
    assert says(seen([X], of=both), "criteria.result.several", results=2, got="a tuple or list of 1")


@pytest.mark.parametrize("output, right", [(2, True), (2.0, True), (2.0000000001, True), (2.001, False), (-2.0, False)])
def test_numbers(output, right):
    assert (seen(output, of=exercise(lambda x: 2.0)) == "") == right


@pytest.mark.parametrize(
    "output", ["2", [2], None, {"a": 2}, X, 10**400, -(10**400), float("nan"), float("inf")], ids=str
)
def test_what_is_no_such_number(output):
    assert seen(output, of=exercise(lambda x: 2.0)) != ""
    assert seen(output, of=exercise(lambda x: 2)) != ""


def test_a_whole_number_is_exact():
    assert says(
        seen(2.0000000001, of=exercise(lambda x: 2)), "criteria.result.wrong_number", right="2", got="2.0000000001"
    )


@pytest.mark.parametrize(
    "answer, points, wrong",
    [
        ({"a": 1, "b": 2, "c": 3, "d": 4}, 2, []),
        (
            {"a": 1, "b": 2.0, "c": 0, "d": 4, "e": 5},
            1.5,
            ["c (you: 0)", say("criteria.result.no_question", question="e")],
        ),
        (
            {"a": True, "b": "2", "c": None},
            0,
            ["a (you: True; a number is meant)", "b (you: '2', a string)", "c (you: None)", "d (you: no answer)"],
        ),
        ({}, 0, [f"{name} (you: no answer)" for name in "abcd"]),
        (None, 0, [f"{name} (you: no answer)" for name in "abcd"]),
        ([1, 2, 3, 4], 0, [f"{name} (you: no answer)" for name in "abcd"]),
    ],
)
def test_predictions_earn_their_share(answer, points, wrong):
    predict = exercise(lambda: {"a": 1, "b": 2, "c": 3, "d": 4})
    finding = Correct("plain", 2).judge(predict, [trial(answer, inputs=[{}])])
    assert (finding.points, finding.passed) == (points, points == 2)
    assert finding.seen.parameters.get("wrong", []) == wrong and finding.seen.parameters["right"] == 2 * points


def test_holds():
    even = Holds(lambda output, x: "" if output % 2 == 0 else f"{output} is odd", 2, "is even")
    assert even.judge(DOUBLE, [trial(4)]).points == 2 and even.judge(DOUBLE, [trial(4)]).seen.id == HOLDS
    telling = Holds(lambda output, x: "", 2, "is even", told=lambda output, x: f"{output}, to be exact")
    assert telling.judge(DOUBLE, [trial(4, 6)]).seen == "6, to be exact"
    assert even.judge(DOUBLE, [trial(4, 3)]).seen == "3 is odd"
    assert says(even.judge(DOUBLE, [trial(None)]).seen, "criteria.result.blank")
    assert even.judge(DOUBLE, [trial(error="raised")]).seen == "raised"


# ------------------------------------------------------------------------------------------------ gates


def launch(*accesses, footprints=(), programs=1, kernel="k"):
    return Launch(kernel, (programs, 1, 1), programs, list(accesses), list(footprints))


WRITES_OUT = launch(footprints=[Footprint("x", 48, read_bytes=48), Footprint("out", 48, written_bytes=48)])


def test_no_launch_at_all_is_not_triton():
    finding = TritonDidTheWork().judge(DOUBLE, [trial(X), trial(X)])
    assert not finding.passed and says(finding.seen, "criteria.triton.no_launch")


@pytest.mark.parametrize(
    "evidence, sentence",
    [
        ({"launches": [WRITES_OUT]}, ""),
        ({"launches": [launch(footprints=[Footprint("out[1]", 4, written_bytes=4)])]}, ""),
        ({"error": "raised"}, ""),  # in the words of Correct
        ({"launches": []}, ""),  # an empty grid on one input
        ({"launches": [launch(footprints=[Footprint("out", 48, read_bytes=48)])]}, say("criteria.triton.not_written")),
        (
            {"launches": [launch(footprints=[Footprint("x", 4, written_bytes=4)])]},
            say("criteria.triton.written", tensors=["`x`"]),
        ),
        ({"launches": [WRITES_OUT], "refused": "it also uses add"}, "it also uses add"),
    ],
)
def test_triton_did_the_work(evidence, sentence):
    finding = TritonDidTheWork().judge(DOUBLE, [trial(X, launches=[WRITES_OUT]), trial(X, **evidence)])
    assert finding.passed == (not sentence) and (finding.passed or finding.seen == sentence)


def test_nothing_returned_yet():
    assert says(TritonDidTheWork().judge(DOUBLE, [trial(None)]).seen, "criteria.result.blank", entry="double")
    launched = TritonDidTheWork().judge(DOUBLE, [trial(None, launches=[WRITES_OUT])])
    assert says(launched.seen, "criteria.result.launched_and_nothing", entry="double")


def test_nothing_returned_in_one_case_is_not_nothing_yet():
    trials = [trial(X * 2), Trial(Case("a wide one", "ragged", None), [{"x": X}], Evidence("", outputs=[None]))]
    ragged = Correct("ragged", 1)
    assert says(ragged.judge(DOUBLE, trials).seen, "criteria.result.nothing_here", case="a wide one", entry="double")
    assert says(ragged.judge(DOUBLE, trials[1:]).seen, "criteria.result.blank", entry="double")


def test_a_truth_is_asked_for_as_one():
    assert says(seen("yes", of=exercise(lambda x: True)), "criteria.result.truth")


def test_what_is_refused_says_by_itself_what_is_allowed():
    finding = TritonDidTheWork().judge(DOUBLE, [trial(X, launches=[WRITES_OUT], refused="`tl` has no `arrange`")])
    assert (finding.seen, finding.expected) == ("`tl` has no `arrange`", "")
    assert says(TritonDidTheWork().judge(DOUBLE, [trial(X)]).expected, "criteria.triton.expected")


def test_compiles():
    accepted, slow = Compiled("k", "sm_90", True), Compiled("k", "sm_80", False, too_slow=True)
    refused = Compiled("k", "sm_80", False, complaint="line 3: `break` is not part of Triton's language")
    assert Compiles().judge(DOUBLE, [trial(X, compiled=[accepted])]).seen == "sm_90"
    finding = Compiles().judge(DOUBLE, [trial(X, compiled=[slow, accepted])])
    assert finding.judged and parameters(finding.seen, "criteria.compiler.kernel") == {"kernel": "k", "gpu": "sm_80"}
    finding = Compiles().judge(DOUBLE, [trial(X, compiled=[slow])])
    assert finding.status == "not_judged", "no tick for what was not tested"
    rounded = Compiled("k", "sm_90", True, dots=1, tf32_dots=["line 7: `acc = tl.dot(a, b, acc)`"])
    finding = Compiles().judge(DOUBLE, [trial(X, compiled=[rounded]), trial(X, compiled=[rounded])])
    assert finding.passed and finding.detail.count("as TF32") == 1 and "line 7" in finding.detail
    finding = Compiles().judge(DOUBLE, [trial(X, compiled=[accepted]), trial(X, compiled=[refused])])
    assert (finding.passed, finding.seen) == (False, refused.complaint)


def test_what_one_group_alone_launches_costs_no_more_than_that_group():
    wide = Compiled("k", "sm_80", False, "172,032 bytes", cases=["wide heads"])
    trials = [
        Trial(Case(name, group, None), [{"x": X}], Evidence(name, outputs=[X * 2], compiled=facts))
        for name, group, facts in (("a case", "plain", [wide]), ("wide heads", "dims", []))
    ]
    gate, dims = Compiles(apart=["dims"]), Correct("dims", 1, compiles=True)
    assert gate.judge(DOUBLE, trials).passed and not Compiles().judge(DOUBLE, trials).passed
    found = dims.judge(DOUBLE, trials)
    assert not found.points and says(found.seen, "criteria.result.on_case", case="wide heads", problem="172,032 bytes")
    assert Correct("dims", 1).judge(DOUBLE, trials).passed
    wide.cases = ["a case", "wide heads"]  # others launch the same
    assert not gate.judge(DOUBLE, trials).passed and dims.judge(DOUBLE, trials).passed


SPILLS = {"spills": True, "spill_bytes": 400}


@pytest.mark.parametrize(
    "facts, seen, judged",
    [
        ([("k", "sm_80"), ("k", "sm_90")], "gpus", True),
        ([("k", "sm_80")], "gpus_and_late", True),
        ([], "late", False),
        ([("j", "sm_80")], "gpus_and_late", False),
    ],
)
def test_a_loaded_machine_changes_no_words_and_hides_no_spills(facts, seen, judged):
    late = [Compiled("k", gpu, False, too_slow=True) for gpu in ("sm_80", "sm_90") if ("k", gpu) not in facts]
    known = [Compiled(kernel, gpu, True, **SPILLS) for kernel, gpu in facts]
    finding = Compiles().judge(DOUBLE, [trial(X, compiled=[*known, *late])])
    assert finding.status == ("passed" if judged else "not_judged")
    assert not judged or says(finding.seen, f"criteria.compiler.{seen}")
    shown = finding.seen + finding.detail * finding.judged  # render shows no detail of what is not judged
    assert ("400 bytes in slow memory" in shown) == bool(facts)


def fails(points=0.0):
    return Holds(lambda output, x: "no", points, "fails")


def passes(points=0.0):
    return Holds(lambda output, x: "", points, "passes")


def test_points_add_up():
    verdict = criteria.judge(exercise(gates=(passes(),), criteria=(passes(2), fails(3), passes(0.5))), [trial(X)])
    assert (verdict.points, verdict.out_of) == (2.5, 5.5)
    assert [f.gate for f in verdict.findings] == [True, False, False, False]


def test_a_failed_gate_leaves_the_rest_not_judged():
    judged = exercise(gates=(passes(), fails(), passes()), criteria=(passes(2),), bonus=(SPEED,))
    verdict = criteria.judge(judged, [trial(X)])
    assert (verdict.points, verdict.bonus, verdict.out_of) == (0, 0, 2)
    assert [(f.title, f.judged) for f in verdict.findings[:3]] == [("passes", True), ("fails", True), ("passes", False)]
    assert says(verdict.findings[2].seen, "criteria.seen.not_judged")


@dataclass
class Fails(Criterion):
    cause: Cause | None
    points: float = 1
    title: str = "fails"

    def judge(self, exercise, trials):
        return self.lost("own words", detail="in detail", cause=self.cause)


def test_one_cause_is_told_once_and_another_line_is_another_cause():
    def outside(line, sentence):
        return Fault("out of bounds", sentence, "k", line, "x").cause

    causes = [
        Cause("waste", "line 2"),
        Cause("waste", "line 2"),
        Cause("waste", "line 5"),
        outside(2, "program 1 loads from element 64"),
        outside(2, "program (0, 3) loads from element 1,290"),
        outside(4, "program 1 loads from element 64"),
        None,
        None,
    ]
    findings = criteria.judge(exercise(criteria=list(map(Fails, causes))), [trial(X)]).findings
    assert [f.status == "same_cause" for f in findings] == [False, True, False, False, True, False, False, False]
    assert {(f.seen, f.detail) for f in findings if f.status == "same_cause"} == {("as above", "")}
    assert all(f.lost and not f.points and f.key == "fails" for f in findings)


def test_a_wasteful_request_is_drawn_of_a_public_case_alone():
    """The places to which the lanes of a gather go are numbers of the input."""

    def found(hidden, request=range(0, 1024, 32)):
        wasteful = Access("x", "load", 3, "tl.load(x_ptr)", 1, 1, 32, 128, 0, 128, 32, request=list(request))
        case = Case("a", "performance", lambda generator: {"x": X}, hidden)
        trial = Trial(case, [{"x": X}], Evidence("a", outputs=[X * 2], launches=[launch(wasteful)]))
        return criteria.Coalesced("load", 1).judge(exercise(), [trial])

    assert found(False).request == Request("x", "load", 3, 4, list(range(0, 1024, 32)))
    assert found(True).request is None and found(True).spent == found(False).spent
    assert found(False).spent == Spent("sectors", "touched", 4, 32, 4.2, "a")
    assert found(False, range(0, 128, 4)).request is None, "this one wastes nothing"
    assert found(False, []).request is None


def test_a_dense_request_is_drawn_of_a_kernel_that_holds():
    dense = Access("x", "load", 3, "tl.load(x_ptr)", 1, 1, 32, 128, 0, 128, 4, request=[*range(0, 128, 4)])
    case = Case("a", "performance", lambda generator: {"x": X})
    trial = Trial(case, [{"x": X}], Evidence("a", outputs=[X * 2], launches=[launch(dense)]))
    seen = criteria.Coalesced("load", 1).judge(exercise(), [trial])
    assert seen.passed and seen.spent == Spent("sectors", "touched", 4, 4, 4.2)
    assert seen.request == Request("x", "load", 3, 4, [*range(0, 128, 4)])


def test_a_request_of_no_element_of_a_tensor_is_not_drawn():
    odd = Access("x", "load", 3, "", 1, 1, 1, 4096, 0, 4, 32, request=[0, 64])
    case = Case("a", "performance", lambda generator: {"x": X})
    trial = Trial(case, [{"x": X}], Evidence("a", outputs=[X * 2], launches=[launch(odd)]))
    assert criteria.Coalesced("load", 1).judge(exercise(), [trial]).request is None


def test_a_result_that_is_not_contiguous_is_right_where_nobody_asks():
    asked = replace(DOUBLE, signature="double(x, contiguous) -> (3, 4), contiguous")
    for of, strides, right in [
        (asked, [4, 1], True),
        (asked, [1, 3], False),
        (asked, [8, 1], False),
        (DOUBLE, [1, 3], True),
    ]:
        words = seen(X * 2, of=of, strides=[strides])
        assert not words if right else says(words, "criteria.result.apart", got=tuple(strides), right=(4, 1))
    one = [{"x": X[:1]}]
    assert not seen(X[:1] * 2, of=asked, inputs=one, strides=[[1, 1]]), "one row lies anywhere"
    assert says(seen(X, of=asked, strides=[[1, 3]]), FIRST), "wrong numbers are told first"


def test_a_result_is_stored_once_where_that_is_asked():
    def judged(times, **options):
        stores = [Access("out", "store", 3, "tl.store(out_ptr)", bytes=48 * times)]
        launched = Launch(
            "k", (64, 1, 1), 1, stores, [Footprint("out", 48, written_bytes=48 * times, written_distinct_bytes=48)]
        )
        asked = criteria.Traffic(lambda x: 1000, 1, programs=0, **options)
        return asked.judge(exercise(), [trial(X * 2, group="performance", launches=[launched])])

    assert judged(1, once=True).passed and judged(2).passed
    again = judged(2, once=True)
    assert again.lost and again.spent == Spent("bytes", "stored", 48, 96, 1.05 * 48, "a case")


@pytest.mark.parametrize(
    "tensor, op, programs, stored, distinct, lost",
    [
        ("out", "store", 1, [96], 48, True),
        ("out", "store", 1, [96], 96, False),  # padding, too
        ("out", "store", 1, [48, 48], 48, True),
        ("out", "store", 1, [24, 24], 24, False),  # a half by each launch
        ("out", "atomic", 1, [192], 48, True),  # one program in a loop
        ("out", "atomic", 4, [192], 48, False),  # four programs add up
        ("buffer 1", "store", 1, [96], 48, True),
        ("buffer 1", "store", 1, [96], 4, False),  # a flag
        ("buffer 1", "atomic", 1, [96], 4, False),  # a lock
        ("x", "store", 1, [96], 48, False),
    ],
)
def test_each_element_of_a_result_that_is_a_part_of_a_tensor_is_stored_once(
    tensor, op, programs, stored, distinct, lost
):
    launches = [
        Launch(
            "k",
            (programs, 1, 1),
            programs,
            [Access(tensor, op, 3, "p", instructions=4, bytes=nbytes)],
            [Footprint(tensor, 4800, written_distinct_bytes=distinct)],
        )
        for nbytes in stored
    ]
    asked = criteria.Traffic(lambda x: 10**6, 1, programs=0, once=True)
    assert asked.judge(exercise(), [trial(X * 2, group="performance", launches=launches)]).lost == lost


def test_a_finding_says_what_was_lost():
    assert says(criteria.Correct("ragged").missed, "criteria.result.missed_on", on="on ragged inputs")
    assert says(criteria.Coalesced("store").missed, "criteria.dense.missed_store")
    assert says(criteria.Correct("plain", title="any order").missed, "criteria.result.missed", title="any order")
    named = criteria.judge(exercise(criteria=[criteria.Correct("plain", 1)]), [trial(X)]).findings[0]
    assert says(named.title, "criteria.result.right_on") and says(named.missed, "criteria.result.missed_on")
    blank = criteria.refused(exercise(), "nothing here", "blank").findings[0]
    assert says(blank.missed, "criteria.seen.not_begun") and blank.blank


def test_launches_that_read_a_part_each_read_a_tensor_once():
    parts = [
        Launch("k", (1, 1, 1), footprints=[Footprint("x", 48, read_bytes=read, read_distinct_bytes=once)])
        for read, once in ((48, 24), (24, 24))
    ]
    reads = Rereads("x", lambda x: 2, 1, "x is read twice", group="plain", programs=0)
    found = reads.judge(DOUBLE, [trial(X * 2, launches=parts)])
    assert says(found.seen, "criteria.reads.times", tensor="x", times=1.5)
    assert not reads.judge(DOUBLE, [trial(X * 2, launches=[parts[0]] * 3)]).passed


def test_what_is_printed_beside_a_launch_is_said_not_to_be_there_yet():
    printed = [
        criteria.judge(exercise(), [trial(X, printed="x\n", launches=some)]).printed for some in ([], [launch()])
    ]
    assert printed == ["x\n", f"x\n{criteria.NOT_YET}"]


def test_the_first_mistake_that_fits_is_the_remark():
    mistakes = (lambda trials: "", lambda trials: "Look at the mask.", lambda trials: "Look elsewhere.")
    assert criteria.judge(exercise(criteria=(fails(1),), mistakes=mistakes), [trial(X)]).remark == "Look at the mask."
    assert criteria.judge(exercise(criteria=(passes(1),), mistakes=mistakes), [trial(X)]).remark == ""


def test_behind_a_gate_that_failed_a_remark_sees_what_the_gate_saw():
    trials = [trial(X), trial(X, group="hard")]
    for gates, seen in (((Correct("plain"),), "plain"), ((), "plain hard")):
        looks = [lambda seen: " ".join(t.case.group for t in seen)]
        judged = criteria.judge(exercise(gates=gates, criteria=(fails(1),), mistakes=looks), trials)
        assert judged.remark == seen


def test_a_trial_is_compared_once_however_many_criteria_ask():
    asked = []

    def oracle(x):
        asked.append(x)
        return x.double() * 2

    counting = [Launches(1, 1, group="plain"), NoAtomics(1, group="plain"), BuffersBelow(lambda x: 1, 1, "", "plain")]
    judged = exercise(oracle, gates=(Correct("plain"),), criteria=(Correct("plain", 2), *counting))
    assert criteria.judge(judged, [trial(X * 2, launches=[WRITES_OUT])]).points == 5
    assert len(asked) == 1
    assert (
        criteria.judge(judged, [trial(X * 3, launches=[WRITES_OUT])]).points == 0
    )  # nothing is kept from judgement to judgement
    assert len(asked) == 2


def test_a_failure_of_the_compiler_costs_nothing():
    failed = Compiled("k", "sm_80", False, "kernel `k`: Triton's compiler fails by itself.", crashed=True)
    accepted = Compiled("k", "sm_90", True)
    refused = Compiled("k", "sm_90", False, "kernel `k` is wrong.")
    alone, beside, wrong = (
        Compiles().judge(DOUBLE, [trial(X * 2, compiled=facts)])
        for facts in ([failed], [failed, accepted], [failed, refused])
    )
    assert not alone.judged and alone.seen == "kernel `k`: Triton's compiler fails by itself"
    assert beside.passed and beside.judged and beside.seen == "sm_90" and failed.complaint in beside.detail
    assert not wrong.passed and wrong.seen == "kernel `k` is wrong."
