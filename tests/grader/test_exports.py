"""The gradebook as CSV, read back as a spreadsheet, Canvas and Moodle would."""

import csv
import re
from dataclasses import replace

import pytest
import toyclass
from nbgrader.api import Gradebook
from toy import UNIT
from typer.testing import CliRunner

from grader.__main__ import app
from grader.gradebook import counts, results
from grader.lms import exports, moodle, sheets


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        home = toyclass.make(patch, tmp_path_factory.mktemp("course"))
        with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
            book.update_or_create_student("ada", first_name="Ada", last_name="Byron", lms_user_id="501")
            book.update_or_create_student(
                "ben", first_name="=cmd|'/c'!A1", last_name=toyclass.HOSTILE, email="Ben@Uni.edu"
            )
            book.find_grade("toy-root-check", UNIT, UNIT, "cyd").manual_score = 1.25  # an instructor's own
            book.find_comment("toy-root", UNIT, UNIT, "cyd").manual_comment = "See <me>."
            book.db.commit()
        yield home


def read(home, form, **more):
    rows, unknown, *_ = exports.export(home, UNIT, form, **more)
    path = home / f"{form}.csv"
    exports.write(rows, path)
    assert not path.read_bytes().startswith(b"\xef\xbb\xbf")  # a mark would hide the first column's name
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file)), unknown


def roster(tmp_path, text):
    path = tmp_path / "roster.csv"
    path.write_text(text)
    return path


def test_per_exercise(home):
    rows, _ = read(home, "exercises")
    ada = dict(student="ada", name="Ada Byron", extra="1.5", penalty="0", score="15.5", out_of="14", by_hand="", gpu="")
    assert rows[0] == ada | {"section": "", "group": "", "toy.double": "10", "toy.root": "4"}
    assert [row["score"] for row in rows] == ["15.5", "10", "7.25", "0"]
    assert rows[2]["toy.root"] == "1.25" and [row["by_hand"] for row in rows] == ["", "", "toy.root", ""]


def test_the_gpu_that_judged_kernels_is_named(home):
    counting = counts.of(home, UNIT)
    entries = [replace(entry, gpus=("H100", "H200")) for entry in results.gradebook(home, UNIT)]
    head, first, *_ = sheets.by_exercise(counting, entries)
    assert first[head.index("gpu")] == "H100, H200"
    assert moodle.feedback(entries[0], {}, counting).endswith("kernels judged on H100, H200, too")
    assert "judged on" not in moodle.feedback(replace(entries[0], gpus=()), {}, counting)


def test_what_a_spreadsheet_would_run_is_text(home):
    rows, _ = read(home, "exercises")
    assert rows[1]["name"].startswith("'=cmd|")
    assert exports._cell("-3.5") == "-3.5" and exports._cell("@x") == "'@x" and exports._cell("\t=1") == "' =1"


@pytest.mark.parametrize(
    "text",
    [*("a;=1+1", "a; =1", 'a;"=1+1"', "a;+1+1", "a;-x", "a;@SUM(1)", ";;=1", "a\n=1", "a\r\n =1", "a;\t=1", "\uff1d1")],
)
def test_nothing_becomes_a_formula_where_semicolons_separate(tmp_path, text):
    exports.write([["x", text, "y"]], tmp_path / "a.csv")
    cells = re.split("[,;\n]", (tmp_path / "a.csv").read_text())  # the quotes need not hold
    assert not [cell for cell in cells if re.match(r"[\s\"]*[=+\-@\uff1d]", cell)] and "'" in "".join(cells)


@pytest.mark.parametrize("text", ["-3.5", "-", "a;-", "3;-1.5", "a-b = c", "2 + 2", "x; y", "expected 1, got -1"])
def test_what_is_none_stays_as_it_is(text):
    assert exports._cell(text) == text


def test_per_criterion(home):
    rows, _ = read(home, "criteria")
    ragged = [row for row in rows if row["criterion"] == "right on ragged inputs"]
    assert [row["student"] for row in ragged] == ["ben", "cyd"]
    ben = ragged[0]
    assert (ben["kind"], ben["judged"], ben["passed"], ben["points"], ben["out_of"]) == (
        "criterion",
        "yes",
        "no",
        "0",
        "4",
    )
    assert ben["expected"] == "right on 130 x 33"
    assert ben["seen"] == "12 of 99 differ" and ben["detail"] == toyclass.HOSTILE
    assert ben["carried"] == "0"
    assert [row["kind"] for row in rows if row["student"] == "dee"] == ["gate", "gate"]
    (by_hand,) = [row for row in rows if row["kind"] == "by hand"]
    assert (by_hand["student"], by_hand["exercise"], by_hand["points"], by_hand["out_of"]) == (
        "cyd",
        "toy.root",
        "1.25",
        "4",
    )
    assert (by_hand["seen"], by_hand["detail"]) == ("See <me>.", "")
    reviewed = replace(results.gradebook(home, UNIT)[2].by_hand["toy.root"], review=True)
    again = replace(results.gradebook(home, UNIT)[2], by_hand={"toy.root": reviewed})
    assert sheets.by_criterion(UNIT, [again], {})[-1][-2] == "given to an earlier answer, and not looked at since"


def test_what_a_mistake_elsewhere_had_cost_is_told_apart(home):
    found = toyclass.verdict(
        "root", 4, 4, toyclass.Finding("right", 4, 4, "passed", carried=3), rests_on=["toy.double"]
    )
    header, *rows = sheets.by_criterion(UNIT, results.gradebook(home, UNIT)[:1], {"ada": {"toy.root": found}})
    assert [(row[header.index("points")], row[header.index("carried")]) for row in rows] == [(4, 3)]


def test_canvas_without_a_roster(home):
    rows, _ = read(home, "canvas", column="Unit 90 (1234)")
    assert list(rows[0]) == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Unit 90 (1234)"]
    assert rows[0]["Student"] == "    Points Possible" and rows[0]["Unit 90 (1234)"] == "14"
    assert [row["Unit 90 (1234)"] for row in rows[1:]] == ["15.5", "10", "7.25", "0"]
    assert (rows[1]["Student"], rows[1]["ID"], rows[1]["SIS Login ID"]) == ("Byron, Ada", "501", "")
    assert (rows[4]["ID"], rows[4]["SIS Login ID"]) == ("", "dee")


def test_canvas_with_its_own_gradebook_as_roster(home, tmp_path):
    given = roster(
        tmp_path,
        "\ufeffStudent,ID,SIS User ID,SIS Login ID,Section,Old (1)\n    Points Possible,,,,,10\n"
        '"Zed, Zoe",77,z,zoe,A,3\n"Dee, D",900,S1,DEE,B,\n"Byron, Ada",501,S2,whatever,A,1\n',
    )
    rows, unknown = read(home, "canvas", roster=given)
    assert [(r["Student"], r["ID"], r["Section"], r[UNIT]) for r in rows[1:]] == [
        ("Dee, D", "900", "B", "0"),
        ("Byron, Ada", "501", "A", "15.5"),
    ]  # and not Zoe, whom an empty cell would cost what she has
    assert "Old (1)" not in rows[0] and unknown == ["ben", "cyd"]


def test_canvas_may_write_semicolons(home, tmp_path):
    given = roster(tmp_path, 'Student;ID;SIS Login ID;Section\n"Byron, Ada";501;ada;A\n')
    rows, _ = read(home, "canvas", roster=given)
    assert [(r["Student"], r["ID"], r[UNIT]) for r in rows[1:]] == [("Byron, Ada", "501", "15.5")]


def test_moodle_without_a_roster(home):
    rows, _ = read(home, "moodle")
    assert {"Identifier", "Grade", "Last modified (grade)"} <= set(rows[0])  # Moodle refuses a worksheet without them
    assert (
        rows[0]["Identifier"] == "Participant 501" and rows[0]["Grade"] == "14" and rows[0]["Maximum Grade"] == "14"
    )  # which refuses more than that, and so the 1.5 of extra credit
    assert rows[1]["Feedback comments"] == (
        "toy.double: 6 / 10. right on ragged inputs: 12 of 99 differ<br>toy.root: 4 / 4"
    )
    assert rows[2]["Feedback comments"].endswith("<br>toy.root: 1.25 / 4, given by hand. See &lt;me&gt;.")


def test_moodle_keeps_its_worksheet_and_gets_html_without_anything_active(home, tmp_path):
    given = roster(
        tmp_path,
        "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade)\n"
        'Participant 501,Ada Byron,a@b.c,Submitted,,100,"Monday, 2 November 2026"\n'
        "Participant 9,Ben,ben@uni.edu,Submitted,,100,-\nParticipant 8,Zoe,z@b.c,No submission,,100,-\n",
    )
    rows, unknown = read(home, "moodle", roster=given, out_of="unit")
    assert rows[1]["Last modified (grade)"] == "-"  # Moodle's own
    assert [(r["Identifier"], r["Grade"], r["Status"]) for r in rows] == [
        ("Participant 501", "15.5", "Submitted"),
        ("Participant 9", "10", "Submitted"),
        ("Participant 8", "", "No submission"),
    ]
    assert rows[0]["Last modified (grade)"] == "Monday, 2 November 2026" and unknown == ["cyd", "dee"]
    entry = results.gradebook(home, UNIT)[0]
    active = toyclass.verdict(
        "double", 0, 10, toyclass.Finding(toyclass.HOSTILE, 0, 1, "failed", seen=toyclass.HOSTILE)
    )
    assert "<img" not in moodle.feedback(entry, {"toy.double": active}, counts.of(None, UNIT))
    lost = toyclass.Finding("right on ragged inputs", 0, 1, "failed", seen="9 differ", missed="wrong on ragged inputs")
    said = moodle.feedback(entry, {"toy.double": toyclass.verdict("double", 0, 10, lost)}, counts.of(None, UNIT))
    assert "wrong on ragged inputs: 9 differ" in said and "right on" not in said, "what was lost, not what should hold"


@pytest.mark.parametrize(
    "form, text",
    [
        (
            "canvas",
            'Student,ID,SIS Login ID\n    Points Possible,,\n"Zed, Zoe",77,zoe\n,78,\n"Byron, Ada",501,a\n"Yu, [b]",79,y\n',
        ),
        ("moodle", 'Identifier,Full name,Grade\nParticipant 77,"Zed, Zoe",\n78,,\n501,Ada,\nP 79,"Yu, [b]",\n'),
    ],
)
def test_who_is_in_the_roster_and_handed_in_nothing_is_named_in_a_line(home, tmp_path, form, text):
    given = roster(tmp_path, text)
    assert exports.export(home, UNIT, form, roster=given).absent == ["Zed, Zoe", "78", "Yu, [b]"]
    assert exports.export(home, UNIT, form).absent == []
    words = ["export", UNIT, form, "--roster", given, "--to", tmp_path / "out.csv"]
    said = CliRunner().invoke(app, [str(word) for word in words]).output.replace("\n", " ")
    assert "roster.csv, and nothing of theirs is graded: Zed, Zoe; 78; Yu, [b]." in said
    assert "dee is not in" in said


@pytest.mark.parametrize(
    "form, text, sentence",
    [
        ("excel", "", "There is no export 'excel'. There are: exercises, criteria, canvas, moodle."),
        ("canvas", "Name,Grade\nada,1\n", "has no column 'ID'; it has: Name, Grade."),
        ("moodle", "", "has no column 'Identifier'"),
    ],
)
def test_what_is_no_form_or_no_roster_is_a_sentence(home, tmp_path, form, text, sentence):
    with pytest.raises(ValueError, match=sentence.replace(".", r"\.")):
        exports.export(home, UNIT, form, roster=roster(tmp_path, text))


@pytest.mark.parametrize("form", ["exercises", "criteria"])
@pytest.mark.parametrize("more", [{"column": "a"}, {"out_of": "column"}, {"roster": "a.csv"}])
def test_what_would_change_nothing_is_refused(home, tmp_path, form, more):
    with pytest.raises(ValueError, match=f"are for canvas and moodle, and would change nothing in '{form}'"):
        exports.export(home, UNIT, form, **more)


# ---------------------------------------------------------------------------------------------- another maximum


def canvas_roster(tmp_path, possible):
    head = "Student,ID,SIS User ID,SIS Login ID,Section,Unit 90 (7),Old (1)"
    return roster(
        tmp_path, f'{head}\n    Points Possible,,,,,{possible},10\n"Byron, Ada",501,,ada,A,,1\n"Ben, B",9,,ben,A,,\n'
    )


def moodle_roster(tmp_path, maximum):
    head = "Identifier,Full name,Email address,Grade,Maximum Grade,Last modified (grade)"
    return roster(tmp_path, f"{head}\nParticipant 501,Ada,,,{maximum},-\nParticipant 9,Ben,ben@uni.edu,,{maximum},-\n")


COLUMN = {"column": "Unit 90 (7)"}


@pytest.mark.parametrize(
    "form, make, name", [("canvas", canvas_roster, "Unit 90 (7)"), ("moodle", moodle_roster, "Grade")]
)
def test_another_maximum_is_refused_until_somebody_says_what_it_means(home, tmp_path, form, make, name):
    how = {"roster": make(tmp_path, "28.00")} | (COLUMN if form == "canvas" else {})
    with pytest.raises(ValueError, match=r"The unit has 14 points, and .* has 28: say `--out-of column`"):
        exports.export(home, UNIT, form, **how)
    skip = 1 if form == "canvas" else 0
    scaled, _ = read(home, form, **how, out_of="column")
    as_they_are, _ = read(home, form, **how, out_of="unit")
    assert [float(row[name]) for row in as_they_are[skip:]] == [15.5, 10]
    # ada has 15.5 of 14 by extra credit: Canvas takes that, Moodle refuses what is above its maximum
    assert [float(row[name]) for row in scaled[skip:]] == [31 if form == "canvas" else 28, 20]
    assert exports.export(home, UNIT, form, **how, out_of="column").cut == (["ada"] if form == "moodle" else [])
    with pytest.raises(ValueError, match="--out-of is `column` or `unit`, not 'what'"):
        exports.export(home, UNIT, form, **how, out_of="what")


def test_points_as_they_are_do_not_fit_below_moodle_s_maximum(home, tmp_path):
    given = moodle_roster(tmp_path, "10")
    with pytest.raises(ValueError, match="Moodle refuses grades above its maximum of 10, and the unit has 14 points"):
        exports.export(home, UNIT, "moodle", roster=given, out_of="unit")
    rows, _ = read(home, "moodle", roster=given, out_of="column")
    assert [row["Grade"] for row in rows] == ["10", "7.14"]


def test_nothing_is_scaled_to_a_maximum_of_nothing(home, tmp_path):
    given = canvas_roster(tmp_path, "0.0")
    for out_of in ("", "column"):
        with pytest.raises(ValueError, match="has 0: say `--out-of unit` to write them as they are"):
            exports.export(home, UNIT, "canvas", roster=given, **COLUMN, out_of=out_of)
    rows, _ = read(home, "canvas", roster=given, **COLUMN, out_of="unit")
    assert [row["Unit 90 (7)"] for row in rows] == ["0", "15.5", "10"]


@pytest.mark.parametrize("form", ["canvas", "moodle"])
def test_what_is_not_known_is_not_scaled_in_silence(home, form):
    with pytest.raises(ValueError, match=r"`--out-of column` needs the column's maximum: .* as --roster"):
        exports.export(home, UNIT, form, out_of="column")
    with pytest.raises(ValueError, match="--out-of is `column` or `unit`"):
        exports.export(home, UNIT, form, out_of="what")


@pytest.mark.parametrize("titles", [[UNIT], [UNIT, UNIT], [UNIT + " "]])
def test_a_second_import_goes_into_the_assignment_that_the_first_has_made(home, tmp_path, titles):
    """Canvas looks for the title where a column has no id (lib/gradebook_importer.rb)."""
    head = ",".join(["Student,ID,SIS Login ID,Section", *(f"{title} ({id})" for id, title in enumerate(titles, 7))])
    possible = ["28"] * len(titles)
    given = roster(tmp_path, f'{head}\n{",".join(["    Points Possible,,,", *possible])}\n"Byron, Ada",501,a,A\n')
    if titles == [UNIT]:
        with pytest.raises(ValueError, match=rf"'{UNIT} \(7\)' in the roster has 28: say"):
            exports.export(home, UNIT, "canvas", roster=given)
        rows, _ = read(home, "canvas", roster=given, out_of="column")
        assert [row[f"{UNIT} (7)"] for row in rows] == ["28", "31"]
    elif len(titles) == 2:
        with pytest.raises(
            ValueError, match=rf"has 2 assignments '{UNIT}'. Say which with --column: .* \(7\)', .* \(8\)'"
        ):
            exports.export(home, UNIT, "canvas", roster=given)
    else:
        rows, _ = read(home, "canvas", roster=given)
        assert [row[UNIT] for row in rows] == ["14", "15.5"]


def test_the_same_maximum_needs_no_word(home, tmp_path):
    rows, _ = read(home, "canvas", roster=canvas_roster(tmp_path, "14"), column="Unit 90 (7)")
    assert [row["Unit 90 (7)"] for row in rows] == ["14", "15.5", "10"]
    rows, _ = read(home, "moodle", roster=moodle_roster(tmp_path, "14,00".replace(",", ".")))
    assert [row["Grade"] for row in rows] == ["14", "10"]


@pytest.mark.parametrize("column", ["Unit 91 (8)", "Section", "Current Score", "91"])
def test_a_column_that_the_roster_does_not_have_would_make_a_new_assignment(home, tmp_path, column):
    head = "Student,ID,SIS Login ID,Section,Unit 90 (7),Old,Current Score"
    given = roster(tmp_path, f'{head}\n    Points Possible,,,,14,10,(read only)\n"Byron, Ada",501,ada,A,,1,\n')
    done = CliRunner().invoke(app, ["export", UNIT, "canvas", "--roster", str(given), "--column", column])
    said = " ".join(done.output.split())
    assert (
        done.exit_code == 1 and f"has no assignment '{column}'. Say which with --column: 'Unit 90 (7)', 'Old'." in said
    )
    rows, _ = read(home, "canvas", roster=given, column="Unit 90")  # the title alone, as Canvas takes it
    assert [row["Unit 90 (7)"] for row in rows] == ["14", "15.5"]


def test_a_roster_without_assignments_says_so(home, tmp_path):
    given = roster(tmp_path, 'Student,ID,SIS Login ID\n"Byron, Ada",501,ada\n')
    with pytest.raises(
        ValueError, match=r"no assignment 'Old'. Say which with --column: it has none, and without --column"
    ):
        exports.export(home, UNIT, "canvas", roster=given, column="Old")


def test_a_new_assignment_in_canvas_is_said_with_those_that_are_there(home, tmp_path):
    given = roster(tmp_path, 'Student,ID,Section,Unit 04 (77001),Notes,Quiz (5)\n"Byron, Ada",501,A,,,\n')
    assert exports.export(home, UNIT, "canvas", roster=given).made == ["Unit 04 (77001)", "Quiz (5)"]
    assert exports.export(home, UNIT, "canvas", roster=given, column="Unit 04 (77001)").made == []
    assert exports.export(home, UNIT, "canvas").made == []
