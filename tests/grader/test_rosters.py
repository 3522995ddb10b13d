"""Class lists as Canvas and Moodle export them: who is in the class, and who has handed in nothing."""

import csv
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import toyclass
from nbgrader.api import Gradebook
from nbgrader.utils import parse_utc
from toy import UNIT
from typer.testing import CliRunner

from grader import ROOT
from grader.__main__ import app
from grader.gradebook import results
from grader.lms import canvas, enrolled, exports, imports, rejected, rosters
from grader.lms.rosters import NotARoster, Person
from grader.reporting import report

CANVAS = (
    "Student,ID,SIS User ID,SIS Login ID,Section,Notes,Unit 90 (1234),Final Score\n"
    ",,,,,,Manual Posting,\n"
    "    Points Possible,,,,,,14,(read only)\n"
    '"Byron, Ada",501,s1,ada,A and B,,10,71\n'
    '"van Dam, Zoë",502,s2,zoe@uni.edu,B,,,\n'
    f'"Student, Test",599,,{"0a" * 20},A,,,\n'
)
SPLIT = CANVAS.replace("Student,ID", "LastName,FirstName,ID").replace("Possible,", "Possible,,").replace("\n,", "\n,,")
for name in ("Byron, Ada", "van Dam, Zoë", "Student, Test"):
    SPLIT = SPLIT.replace(f'"{name}"', name.replace(", ", ","))
GROUPS = (
    "name,canvas_user_id,user_id,login_id,sections,group_name,canvas_group_id,group_id\n"
    '"Byron, Ada",501,s1,ada,A and B,Red,7,\n"Byron, Ada",501,s1,ada,A and B,Blue,8,\n'
    '"van Dam, Zoë",502,s2,zoe@uni.edu,B,,,\n'
)
WORKSHEETS = {
    "English": "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade),Feedback comments\n"
    "Participant 501,Ada Byron,ada@uni.edu,Submitted,,100,-,\nParticipant 502,Zoë van Dam,zoe@uni.edu,None,,100,-,\n",
    "German": "ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung,Bestwertung,Zuletzt geändert (Bewertung),"
    "Feedback als Kommentar\n"
    "Teilnehmer/in501,Ada Byron,ada@uni.edu,Abgegeben,,100,-,\nTeilnehmer/in502,Zoë van Dam,zoe@uni.edu,-,,100,-,\n",
    "French": "Identifiant;Nom complet;Adresse de courriel;Statut;Note;Note maximale;Dernière modification (note);"
    "Feedback par commentaires\n"
    "Participant 501;Ada Byron;ada@uni.edu;Remis;;100;-;\nParticipant 502;Zoë van Dam;zoe@uni.edu;-;;100;-;\n",
    "Spanish": "Identificador,Nombre completo,Dirección de correo,Estado,Calificación,Calificación máxima,"
    "Última modificación (calificación),Comentarios de retroalimentación\n"
    "Participante501,Ada Byron,ada@uni.edu,Enviado,,100,-,\nParticipante502,Zoë van Dam,zoe@uni.edu,-,,100,-,\n",
}
DUTCH = (
    "ID-code,Volledige naam,E-mailadres,Status,Cijfer,Laatst gewijzigd (beoordeling)\n"
    "Deelnemer501,Ada Byron,ada@uni.edu,-,,-\nDeelnemer502,Zoë van Dam,zoe@uni.edu,-,,-\n"
)
NAMED = ["name=Volledige naam", "grade=Cijfer"]
PARTICIPANTS = {
    "English": "First name,Last name,Email address,Groups\n",
    "German": "Vorname,Nachname,E-Mail-Adresse,Gruppen\n",
    "French": "Prénom,Nom de famille,Adresse de courriel,Groupes\n",
    "Spanish": "Nombre,Apellido(s),Dirección de correo,Grupos\n",
}
ADA = Person("501", "Ada", "Byron", "", "ada", "s1", "A and B")
ZOE = Person("502", "Zoë", "van Dam", "", "zoe@uni.edu", "s2", "B")


def written(folder, text):
    path = folder / "roster.csv"
    path.write_text(text, encoding="utf-8")
    return path


def people(folder, text, said=()):
    return rosters.read(written(folder, text), said).people()


# ----------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize("text", [CANVAS, SPLIT, "\ufeff" + SPLIT, SPLIT.replace(",", ";").replace("(read only)", "-")])
def test_canvas_s_gradebook_with_names_in_one_column_or_two(tmp_path, text):
    assert people(tmp_path, text) == [ADA, ZOE]  # without points, posting and the test student


def test_canvas_s_groups(tmp_path):
    assert people(tmp_path, GROUPS) == [replace(ADA, group="Red, Blue"), replace(ZOE, group="")]


@pytest.mark.parametrize("language", WORKSHEETS)
def test_moodle_s_worksheet_in_its_languages(tmp_path, language):
    ada, zoe = people(tmp_path, WORKSHEETS[language])
    assert ada == Person("501", "Ada", "Byron", "ada@uni.edu", moodle=True) and (zoe.first, zoe.last) == (
        "Zoë van",
        "Dam",
    )


@pytest.mark.parametrize("language", PARTICIPANTS)
def test_moodle_s_participants_in_its_languages(tmp_path, language):
    (ada,) = people(tmp_path, PARTICIPANTS[language] + 'Ada,Byron,ada@uni.edu,"Red, Blue"\n')
    assert ada == Person("", "Ada", "Byron", "ada@uni.edu", group="Red, Blue")


def test_names_are_one_line_with_composed_accents(tmp_path):
    (zoe,) = people(tmp_path, 'Student,ID\n"van\n Dam, \x1bZoe\u0308 ", 502 \n')
    assert (zoe.last, zoe.first, zoe.id) == ("van Dam", "Zoë", "502")


def test_columns_of_another_language_are_known_by_content_or_named_by_the_instructor(tmp_path):
    ada, _ = people(tmp_path, DUTCH, NAMED)
    assert ada == Person("501", "Ada", "Byron", "ada@uni.edu", moodle=True)


@pytest.mark.parametrize(
    "text, said, sentence",
    [
        (DUTCH, [], "has no column with names; it has: ID-code, Volledige naam, E-mailadres, Status, Cijfer,"),
        (DUTCH, [], "--field name=COLUMN."),
        ("Student,Points\nAda,1\n", [], "has no column with ids, logins or email addresses; it has: Student, Points."),
        (DUTCH, ["name=Naam"], "has no column 'Naam'; it has: ID-code, Volledige naam"),
        (DUTCH, ["nom=Naam"], "There is no field 'nom'. There are: id, identifier, name,"),
        ("Student,ID\n", [], "names nobody."),
        ("", [], "has no column with names; it has: ."),
    ],
)
def test_what_cannot_be_read_is_a_sentence_with_the_columns(tmp_path, text, said, sentence):
    with pytest.raises(NotARoster) as error:
        people(tmp_path, text, said)
    assert sentence in str(error.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", "Student,ID\nMüller,1\n".encode("latin-1")])
def test_what_is_no_text_is_a_sentence(tmp_path, content):
    path = tmp_path / "roster.csv"
    path.write_bytes(content)
    with pytest.raises(NotARoster, match="cannot be read as CSV"):
        rosters.read(path)


def test_logins_with_digits_are_no_participants_of_moodle(tmp_path):
    roster = rosters.read(written(tmp_path, "Kennung,Name,Email\nab12,Ada Byron,a@b.c\nab13,Zoe Dam,z@b.c\n"))
    assert "identifier" not in roster.fields


# -------------------------------------------------------------------------------------------------- the class


@pytest.fixture(scope="module", autouse=True)
def _books_are_quickly_made(tmp_path_factory):
    """nbgrader starts a program to make a gradebook: once is enough."""
    folder, original = tmp_path_factory.mktemp("empty"), results.book
    with original(folder):
        pass

    def book(home):
        home.mkdir(parents=True, exist_ok=True)
        if not (home / "gradebook.db").exists():
            shutil.copy(folder / "gradebook.db", home)
        return original(home)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(results, "book", book)
        yield


def enrol(home, text, **more):
    home.mkdir(exist_ok=True)
    return enrolled.enrol(home, people(home, text), **more)


def students(home):
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        return {s.id: (s.first_name, s.last_name, s.email, s.lms_user_id) for s in book.students}


def test_a_roster_fills_nbgrader_s_gradebook_and_groups_follow(tmp_path):
    done = enrol(tmp_path, SPLIT)
    assert done.new == done.students == ["byronada_501", "vandamzoë_502"] and done.remarks == []
    assert students(tmp_path) == {
        "byronada_501": ("Ada", "Byron", None, "501"),
        "vandamzoë_502": ("Zoë", "van Dam", None, "502"),
    }
    assert enrol(tmp_path, GROUPS).new == []
    ada = enrolled.members(tmp_path)["byronada_501"]
    assert (ada.ids, ada.login, ada.section, ada.group) == (["501"], "ada", "A and B", "Red, Blue")
    enrol(tmp_path, GROUPS.replace("Red", "").replace("Blue", ""))  # who has left a group is in none
    assert enrolled.members(tmp_path)["byronada_501"].group == ""


def test_submissions_come_to_whom_the_roster_has(tmp_path):
    home = tmp_path / "home"
    enrol(home, CANVAS.replace("Byron, Ada", "Lovelace, Ada"))
    unit = "04_memory_coalescing"
    (tmp_path / "export").mkdir()
    (tmp_path / "export" / f"byronada_LATE_501_77_{unit}.ipynb").write_text("work")
    done = imports.collect(tmp_path / "export", unit, home)
    assert done.students == ["lovelaceada_501"] and len(students(home)) == 2
    assert [absent.name for absent in enrolled.missing(home, unit, [])] == ["Zoë van Dam"]


def test_moodle_s_numbers_of_another_assignment_find_the_same_student_by_address(tmp_path):
    home, export, unit = tmp_path / "home", tmp_path / "export", "04_memory_coalescing"
    enrol(home, WORKSHEETS["German"])
    done = enrol(home, WORKSHEETS["English"].replace("501", "901").replace("502", "902"))
    ada, zoe = "Ada-Byron_501", "Zoë-van-Dam_502"
    assert done.new == [] and set(students(home)) == {ada, zoe}
    assert enrolled.known(home) == {"501": ada, "901": ada, "502": zoe, "902": zoe}
    for name in ("Ada Byron_901", "Zoë van Dam_502"):
        (export / f"{name}_assignsubmission_file").mkdir(parents=True)
        (export / f"{name}_assignsubmission_file" / "work.ipynb").write_text("work")
    done = imports.collect(export, unit, home)
    assert done.students == [ada, zoe] and done.remarks == []


def test_who_came_before_the_roster_is_found_by_id_login_or_address(tmp_path):
    with results.book(tmp_path) as book:
        book.update_or_create_student("lovelaceada_501", lms_user_id="501")
        book.update_or_create_student("somebody", email="ZOE@uni.edu")
    assert enrol(tmp_path, CANVAS).students == ["lovelaceada_501", "somebody"]


def test_newcomers_are_called_by_their_login_where_the_exchange_does_so(tmp_path):
    assert enrol(tmp_path, CANVAS, by_login=True).new == ["ada", "zoe@uni.edu"]
    done = enrol(tmp_path / "other", WORKSHEETS["English"], by_login=True)
    assert done.students == [] and done.remarks[0] == "Byron, Ada has no login; left out."


def test_nobody_is_missed_who_handed_in_under_their_login(tmp_path):
    assert enrol(tmp_path, CANVAS.replace(",501,", ",../501,")).students == ["byronada_..-501", "vandamzoë_502"]
    (tmp_path / "submitted" / "ada" / UNIT).mkdir(parents=True)
    (tmp_path / "submitted" / "ada" / UNIT / f"{UNIT}.ipynb").write_text("work")
    assert [student for student, _ in enrolled.missing(tmp_path, UNIT, [])] == ["vandamzoë_502"]


def test_who_has_left_is_named_and_leaves_with_replace(tmp_path):
    enrol(tmp_path, CANVAS)
    alone = CANVAS.split('"van Dam')[0]
    assert enrol(tmp_path, alone).remarks == [
        "In the class, and not in this file: vandamzoë_502. If they have left, add --replace."
    ]
    assert set(enrolled.members(tmp_path)) == {"byronada_501", "vandamzoë_502"}
    assert enrol(tmp_path, alone, replace=True).remarks == []
    assert set(enrolled.members(tmp_path)) == {"byronada_501"} and len(students(tmp_path)) == 2


def test_a_roster_without_ids_says_what_is_missing(tmp_path):
    done = enrol(tmp_path, PARTICIPANTS["English"] + "Ada,Byron,ada@uni.edu,Red\n")
    assert done.new == ["ada@uni.edu"] and "has no ids of the LMS" in done.remarks[0]
    assert enrol(tmp_path, WORKSHEETS["French"]).new == ["Zoë-van-Dam_502"]
    assert students(tmp_path)["ada@uni.edu"] == ("Ada", "Byron", "ada@uni.edu", "501")


MEND = "Remove who does not count (`nbgrader db student remove NAME --force`)."


def test_whom_a_roster_does_not_tell_apart_is_named(tmp_path):
    with results.book(tmp_path) as book:
        book.update_or_create_student("old", lms_user_id="501")
        book.update_or_create_student("new", lms_user_id="501")
        book.update_or_create_student("sure", lms_user_id="502")
        book.update_or_create_student("zoe@uni.edu")
    done = enrol(tmp_path, CANVAS + '"Twin, A",,,twin,,,,\n"Twin, B",,,twin,,,,\n')
    assert done.students == ["sure"]
    assert done.remarks == [
        f"Byron, Ada is known as new and old: left out. {MEND}",
        f"van Dam, Zoë is known as sure and zoe@uni.edu: sure has the LMS's id, and is in the class. {MEND}",
        "Twin, A and Twin, B would both be twin; both were left out.",
    ]


def test_the_command_says_what_it_did(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADER_HOME", str(tmp_path / "home"))
    path = written(tmp_path, DUTCH)
    said = CliRunner().invoke(app, ["roster", str(path)])
    assert said.exit_code == 1 and "roster.csv has no column with names; it has: ID-code" in said.output.replace(
        "\n", ""
    )
    said = CliRunner().invoke(app, ["roster", str(path), "--field", "name=Volledige naam"])
    assert said.exit_code == 0 and "2 students in the class, 2 of them new." in said.output


# ------------------------------------------------------------------------------------- a class that is graded


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """ada is Canvas's 501; old and new are both its 503, as an older version left them; zoe has handed in nothing."""
    with pytest.MonkeyPatch.context() as patch:
        says = {"ada": toyclass.RIGHT, "old": toyclass.BLANK, "new": toyclass.RIGHT}
        home = toyclass.make(patch, tmp_path_factory.mktemp("course"), says=says)
        enrol(home, SPLIT.replace("A and B", "A & <b>"))
        enrol(home, GROUPS.replace("A and B", "A & <b>"))
        with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
            for student in ("old", "new"):
                book.update_or_create_student(student, first_name="Jane", last_name="Doe", lms_user_id="503")
        yield home


def exported(home, form, text="", **more):
    roster = written(home, text) if text else None
    done = exports.export(home, UNIT, form, roster=roster, out_of="unit" if form in exports.LMS else "", **more)
    path = home / f"{form}.csv"
    exports.write(done.rows, path)
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file)), done


def said(home, *words):
    return CliRunner().invoke(app, [str(word) for word in words]).output.replace("\n", " ")


def test_who_handed_in_nothing_is_in_table_report_and_export(home):
    assert enrolled.missing(home, UNIT, results.gradebook(home, UNIT)) == [("vandamzoë_502", "Zoë van Dam")]
    text = report.page(report.of_class(home, UNIT, published=lambda exercise: ""))
    assert '<h2 id="absent">Not handed in' in text and "vandamzoë_502" in text and "<td>A &amp; &lt;b&gt;</td>" in text
    assert "<th>section</th><th>group</th>" in text
    rows, _ = exported(home, "exercises")
    ada, *_, zoe = rows
    assert (ada["student"], ada["section"], ada["group"], ada["score"]) == ("ada", "A & <b>", "Red, Blue", "15.5")
    assert (zoe["name"], zoe["section"], zoe["toy.double"], zoe["score"]) == ("Zoë van Dam", "B", "", "")
    assert "handed in nothing (1): Zoë van Dam (vandamzoë_502)" in said(home, "report", UNIT)


def test_who_handed_in_a_file_that_is_no_notebook_is_not_called_absent(home):
    rejected.remember(home, UNIT, {"vandamzoë_502": "notes.txt <b>"}, [])
    shown = report.of_class(home, UNIT, published=lambda exercise: "")
    assert shown.absent == [] and shown.rejected.keys() == {"vandamzoë_502"}
    assert "notes.txt &lt;b&gt;" in report.page(shown)
    text = said(home, "report", UNIT)
    assert "handed in nothing" not in text and "to look at: vandamzoë_502" in text and "notes.txt" in text
    rejected.remember(home, UNIT, {}, ["vandamzoë_502"])
    assert report.of_class(home, UNIT, published=lambda exercise: "").absent


def test_without_a_roster_nobody_is_missed(home, tmp_path):
    (tmp_path / "gradebook.db").write_bytes((home / "gradebook.db").read_bytes())
    assert enrolled.missing(tmp_path, UNIT, []) == []
    told = report.of_class(home, UNIT, published=lambda exercise: "")
    assert "Not handed in" not in report.page(replace(told, members={}, absent=[]))


def test_canvas_is_told_what_the_roster_said(home):
    rows, _ = exported(home, "canvas")
    ada = dict.fromkeys(rows[0], "") | {
        "Student": "Byron, Ada",
        "ID": "501",
        "SIS User ID": "s1",
        "SIS Login ID": "ada",
    }
    assert rows[1] == ada | {"Section": "A & <b>", UNIT: "15.5"}


def test_an_export_takes_names_in_two_columns(home):
    rows, done = exported(home, "canvas", SPLIT)
    assert [(row["Student"], row["ID"], row[UNIT]) for row in rows[1:]] == [("Byron, Ada", "501", "15.5")]
    assert list(rows[0]) == [*canvas.CANVAS, UNIT] and done.absent == ["van Dam, Zoë", "Student, Test"]


@pytest.mark.parametrize("language", [*WORKSHEETS, "Dutch"])
def test_an_export_keeps_the_columns_of_moodle_s_language(home, language):
    text, fields = (DUTCH, NAMED) if language == "Dutch" else (WORKSHEETS[language], [])
    rows, done = exported(home, "moodle", text, fields=fields)
    header = text.split("\n")[0].replace(";", ",").split(",")
    assert list(rows[0]) == header + ["Feedback comments"] * (language == "Dutch")
    assert rows[0][header[0]].endswith("501") and rows[0][header[4]] == "15.5"
    if language != "Dutch":
        assert rows[0][header[-1]].startswith("toy.double: 10 / 10")
    assert rows[1][header[4]] == "" and done.absent == ["Zoë van Dam"]


DOES = '"Doe, Jane",503,s3,jane,A,,,\n'


def test_two_students_of_one_id_are_both_left_out_and_named(home):
    for text in ("", CANVAS + DOES):
        rows, done = exported(home, "canvas", text)
        assert [row["ID"] for row in rows[1:]] == ["501"] and done.doubles == [["new", "old"]]
        assert done.unknown == [] and "Doe, Jane" not in done.absent
    worksheet = WORKSHEETS["German"] + "Teilnehmer/in503,Jane Doe,,-,7,100,-,\n"
    rows, done = exported(home, "moodle", worksheet)
    assert rows[-1]["Bewertung"] == "7" and done.doubles == [["new", "old"]] and done.unknown == []
    assert exported(home, "moodle")[1].doubles == [["new", "old"]]
    output = said(home, "export", UNIT, "canvas", "--roster", written(home, CANVAS + DOES), "--to", home / "x.csv")
    assert "new and old are the same person in the LMS: left out" in output and "is not in" not in output


def test_an_id_that_belongs_to_one_is_no_other_s_number(home):
    text = CANVAS.replace("s2", "501")  # Zoë's number at the university is Ada's at Canvas
    rows, done = exported(home, "canvas", text)
    assert [row["ID"] for row in rows[1:]] == ["501"] and "van Dam, Zoë" in done.absent


def test_numbers_of_several_assignments_of_moodle_need_its_worksheet(home, monkeypatch):
    both = {"ada": enrolled.Member(ids=["501", "901"])}
    monkeypatch.setattr(enrolled, "members", lambda home: both)
    with pytest.raises(NotARoster, match="give this one's grading worksheet with --roster"):
        exported(home, "moodle")
    for worksheet in (WORKSHEETS["French"], WORKSHEETS["French"].replace("501", "901")):
        assert exported(home, "moodle", worksheet)[0][0]["Note"] == "15.5"


def test_roster_json_is_plain_data(home):
    assert json.loads((home / "roster.json").read_text())["ada"]["group"] == "Red, Blue"


@pytest.mark.parametrize(
    "column, cells",
    [
        (
            "Last modified (submission)",
            ["Thursday, 3 December 2026, 9:15 PM", "Thursday, December 3, 2026, 12:05 AM", "-"],
        ),
        ("Zuletzt geändert (Abgabe)", ["Donnerstag, 3. Dez. 2026, 21:15", "Donnerstag, 3. Dez. 2026, 00:05", "-"]),
        ("Dernière modification (travail remis)", ["jeudi 3 décembre 2026, 21:15", "jeudi 3 décembre 2026, 00:05", ""]),
        ("Última modificación (entrega)", ["jueves, 3 de diciembre de 2026, 21:15", "3 de dic. de 2026, 00:05", "-"]),
    ],
)
def test_moodle_s_worksheet_says_who_handed_in_when(tmp_path, column, cells):
    """Late days work for a class on Moodle, whose export of files has no times."""
    sheet = tmp_path / "sheet.csv"
    rows = [[f"Participant {501 + n}", f"Student {n}", cell] for n, cell in enumerate(cells)]
    with sheet.open("w", newline="") as file:
        csv.writer(file).writerows([["Identifier", "Full name", column], *rows])
    when = {id: f"{time:%Y-%m-%d %H:%M}" for id, time in rosters.read(sheet).times().items()}
    assert when == {"501": "2026-12-03 21:15", "502": "2026-12-03 00:05"}


def test_times_of_the_worksheet_are_those_of_the_submissions(tmp_path, monkeypatch):
    toyclass.toy.install(monkeypatch)
    home, export, sheet = (tmp_path / name for name in ("class", "export", "sheet.csv"))
    for who in ("Ada Byron_501", "Zoë van Dam_502"):
        (export / f"{who}_assignsubmission_file").mkdir(parents=True)
        (export / f"{who}_assignsubmission_file" / f"{UNIT}.ipynb").write_text("{}")
    sheet.write_text(
        'Identifier,Full name,Last modified (submission)\nParticipant 501,Ada Byron,"Thursday, 3 December 2026, 9:15 AM"\n'
        "Participant 502,Zoë van Dam,-\n"
    )
    monkeypatch.setenv("GRADER_HOME", str(home))
    runs = [["due", UNIT, "2026-12-01T12:00", "--percent", "10"], ["import", UNIT, str(export), "--times", str(sheet)]]
    plain, timed = (
        [CliRunner().invoke(app, words).output for words in (["import", UNIT, str(export), *times], runs[0])]
        for times in ([], ["--times", str(sheet)])
    )
    assert "says when it was handed in" in " ".join(plain[1].split())
    assert "says when it was handed in" not in " ".join(timed[1].split())
    stamps = {path.parts[-3]: path.read_text() for path in home.glob("submitted/*/*/timestamp.txt")}
    (ada,) = stamps
    local = datetime(2026, 12, 3, 9, 15).astimezone()
    assert ada.startswith("Ada") and parse_utc(stamps[ada]) == local.astimezone(UTC).replace(tzinfo=None)
    sheet.write_text("Identifier,Full name\nParticipant 501,Ada Byron\n")
    refused = CliRunner().invoke(app, runs[1])
    assert refused.exit_code == 1 and "no column with times" in refused.output


def test_canvas_s_test_student_is_nobody_whatever_the_file_leaves_out(tmp_path):
    path = tmp_path / "roster.csv"
    path.write_text('Student,ID,Section\n"Byron, Ada",501,A\n"Student, Test",599,A\n')
    assert [person.id for person in rosters.read(path).people()] == ["501"]


def test_a_slip_is_told_before_the_libraries_are_loaded(tmp_path, monkeypatch):
    """They take seconds."""
    monkeypatch.setenv("GRADER_HOME", str(tmp_path))
    code = """if True:
        import sys
        from grader.__main__ import app
        try:
            app(sys.argv[1:])
        finally:
            assert not {"torch", "nbgrader", "IPython"} & set(sys.modules)
    """
    for words in (
        ["roster", "none.csv"],
        ["import", "04_memory_coalescing", "none.zip"],
        ["autograde", "4"],
        ["autograde", "04_memory_coalescing"],
        ["due", "04_memory_coalescing", "soon"],
        ["export", "04_memory_coalescing", "excel"],
        ["grade", "none.ipynb"],
        ["pack", "canvas", "04_memory_coalescing"],
    ):
        done = subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 1 and "AssertionError" not in done.stderr and done.stdout.count("\n") < 4, done.stderr
