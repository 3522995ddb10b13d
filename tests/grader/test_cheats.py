"""No cheat passes: every submission of grader/audit/variants/cheats, and what softmax, matmul and attention invite, is judged by
the real judge and loses what stands in its header. Accidents that an outcome-only test lets pass are among them."""

import json
from functools import cache
from itertools import groupby
from pathlib import Path

import pytest
import toy_kernels
from sampling import sampled

from course_lib.catalogue import say
from course_lib.exercise import Verdict
from course_lib.exercises import find
from course_lib.exercises.misconceptions import Misconception
from grader.audit import kill_matrix, remarks, variants
from grader.judging import judge as judging
from grader.judging.secret import seed_of
from grader.published import answer, solution_cell

TOY = variants.read(Path(__file__).parent / "toy_variants" / "accidents_and_cheats.py")
CHEATS = [v for v in variants.scripts() if v.script.startswith("cheats/")]
FIRST = [next(of_file) for _, of_file in groupby(CHEATS, lambda v: v.script)]
MORE = FIRST + sampled(v for v in CHEATS if v not in FIRST)


@pytest.fixture(scope="module")
def judged():
    """A function from cheats to their rows of the kill matrix, by script and name."""

    @cache
    def judge(cheats: tuple[variants.Variant, ...]):
        with pytest.MonkeyPatch.context() as patch:
            toy_kernels.install(patch)
            patch.setattr(judging, "RECORD_SECONDS", 8.0)  # what never ends is given up sooner than in a class
            patch.setattr(judging, "REPLAY_SECONDS", 45.0)
            return {(row.variant.script, row.variant.name): row for row in kill_matrix.run(cheats)}

    return judge


def gains_nothing(row: kill_matrix.JudgedVariant) -> None:
    cheat = row.variant
    assert set(row.lost) == set(cheat.loses)
    gates_and_none = {"runs", "triton_did_the_work", "correct.plain", "compiles"}
    assert row.verdict.points == 0 or not gates_and_none & set(cheat.loses)
    assert all("Traceback" not in finding.seen for finding in row.verdict.findings)


@pytest.mark.parametrize("cheat", TOY, ids=lambda v: f"{v.script}: {v.name}")
def test_no_toy_gains_anything(cheat, judged):
    gains_nothing(judged(tuple(TOY))[cheat.script, cheat.name])


@pytest.mark.slow
@pytest.mark.parametrize("cheat", MORE, ids=lambda v: f"{v.script}: {v.name}")
def test_no_cheat_gains_anything(cheat, judged):
    """The first of each kind, and a sample of the others."""
    gains_nothing(judged(tuple(MORE))[cheat.script, cheat.name])


def test_what_a_variant_lost_is_told_by_title():
    exercise = find("coalescing.transpose")
    key, title = exercise.criteria[0].key, exercise.criteria[0].title
    variant = variants.Variant(exercise.id, "a", (key,))
    row = kill_matrix.JudgedVariant(variant, Verdict(exercise.id, 0, 0, []))
    assert key != title and row.difference == f"lost nothing; expected {title}"


def test_a_slip_that_no_variant_draws_is_named():
    exercise = find("flash.one_head")
    slips = list(dict.fromkeys(m.says for m in exercise.mistakes if isinstance(m, Misconception)))
    drawn, *others = slips
    variant = variants.Variant(exercise.id, "a", ())
    rows = [kill_matrix.JudgedVariant(variant, Verdict(exercise.id, 0, 0, [], remark=remark)) for remark in ("", drawn)]
    assert others and kill_matrix.unused_remarks(rows) == [(exercise.id, sentence) for sentence in others]


@pytest.fixture
def no_remarks(tmp_path, monkeypatch):
    """A folder of remarks in which none is written down."""
    monkeypatch.setattr(remarks, "FOLDER", tmp_path / "remarks")
    remarks.of_module.cache_clear()
    yield tmp_path / "remarks"
    remarks.of_module.cache_clear()


def row_with(remark: str, name: str = "a") -> kill_matrix.JudgedVariant:
    return kill_matrix.JudgedVariant(
        variants.Variant("toy.double", name, ()), Verdict("toy.double", 0, 0, [], remark=remark)
    )


def test_a_remark_must_have_been_read_beside_its_variant(no_remarks):
    assert row_with("").as_expected and not row_with("Rows up to 5 are right.").as_expected
    remarks.write({("toy.double", "a"): "Rows up to 5 are right.", ("toy.double", "b"): "", ("toy.none", "a"): ""})
    assert json.loads((no_remarks / "toy.json").read_text()) == {"double": {"Rows up to 5 are right.": ["a"]}}
    assert row_with("Rows up to 12,000.5 are right.").as_expected, "numbers follow the inputs"
    for remark in ("Columns up to 5 are right.", ""):
        assert not row_with(remark).as_expected and row_with(remark).other_remark
    assert row_with("", "b").as_expected and not row_with("Rows up to 5 are right.", "b").as_expected
    remarks.write({("toy.double", "b"): "Rows up to 5 are right."})
    assert row_with("Rows up to 5 are right.", "b").as_expected and row_with("Rows up to 5 are right.").as_expected
    remarks.write({("toy.double", "a"): ""})
    assert row_with("").as_expected


def test_what_was_proved_need_not_be_read(no_remarks):
    for formula in ("right", "wrong"):
        assert row_with(say(f"criteria.formula.{formula}", case="5 x 7")).as_expected
    shown = say("criteria.smallest.load", shapes=["`x` of shape (1,)"], line=4, tensor="x")
    remarks.write({("toy.double", "a"): "Rows up to 5 are right."})
    both = say("criteria.looks.both", one="Rows up to 5 are right.", other=shown)
    assert row_with(both).as_expected and not row_with(shown).as_expected


WHOLE = """# %% name="whole" exercise="coalescing.row_copy"
# - a remark
def row_copy(x):
    y = x + 1
    return y.clone()
"""
CHANGED = """# %% name="changed" exercise="coalescing.row_copy" loses="a title"
# Why it is wrong.
# -     y = x + 1
# -     return y.clone()
# +     return x + 2
"""


def test_a_cell_may_be_the_changes_of_the_one_above_it(tmp_path):
    script = tmp_path / "accidents.py"
    script.write_text(WHOLE + "\n\n" + CHANGED)
    whole, changed = variants.read(script)
    text = WHOLE.partition("\n")[2]
    assert whole.cells()[-1][1].rstrip() == text.rstrip() and whole.loses == ()
    assert (
        changed.cells()[-1][1].rstrip()
        == text.replace("    y = x + 1\n    return y.clone()", "    return x + 2").rstrip()
    )
    assert changed.loses == ("a title",)


def test_changes_that_fit_no_cell_are_refused(tmp_path):
    script = tmp_path / "accidents.py"
    script.write_text(WHOLE.replace("row_copy", "transpose") + CHANGED)
    with pytest.raises(ValueError, match="changed: changes a cell that answers coalescing"):
        variants.read(script)
    script.write_text(CHANGED)
    with pytest.raises(ValueError, match="answers nothing"):
        variants.read(script)
    script.write_text(WHOLE.replace("x + 1", "x + 3") + CHANGED)
    with pytest.raises(ValueError, match="the cell does not contain"):
        variants.read(script)[1].cells()


def test_what_compiles_for_ever_hides_nothing(tmp_path, monkeypatch):
    """A notebook gives up on a kernel that compiles slowly; the judge would have to take on trust all that comes after."""
    monkeypatch.setattr(judging, "COMPILE_SECONDS", 0.0)
    judge, exercise = judging.Judge(tmp_path, accept_risk=True), find("coalescing.row_copy")
    verdict = judge.verdict(exercise, answer(exercise.id, solution_cell(exercise.id)), "mallory")
    judge.close()
    (gate,) = [f for f in verdict.findings if f.judged and not f.passed]
    assert (verdict.points, gate.title) == (0, "compiles for a GPU") and "too slow" in gate.seen


def test_a_seed_tells_nothing_of_the_others():
    """A recorder might guess its own seed by trying all 2^32; that is not the seed of what is replayed."""
    from course_lib.execution import derived

    seeds = [derived(seed_of(b"secret", "ada", "x.y"), f"{p} {i} 0") for p in ("record", "replay") for i in range(50)]
    assert len(set(seeds)) == 100 and max(seeds) >= 1 << 31
    assert max(seed_of(bytes([i]), "ada", "x.y") for i in range(20)) > 1 << 60
