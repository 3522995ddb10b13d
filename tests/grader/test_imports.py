"""Exports of an LMS as students and their enemies fill them: what is a notebook comes in, the rest is named."""

import json
import stat
import struct
import time
import unicodedata
import zipfile

import pytest
from nbgrader.api import Gradebook
from sentences import refusing
from typer.testing import CliRunner

from course_lib.handin.archive import pack
from course_lib.handin.validate import validated
from grader import released
from grader.__main__ import app
from grader.judging import submission
from grader.lms import exported, rejected
from grader.lms.exported import NotAnExport
from grader.lms.imports import collect

UNIT = "04_memory_coalescing"
NOTEBOOK = f"{UNIT}.ipynb"


def zipped(path, files):
    """A zip of {name: content}; a ZipInfo may stand for a name."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def foldered(path, files):
    for name, content in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def handed_in(home):
    return {p.parent.parent.name: p.read_text() for p in home.glob(f"submitted/*/{UNIT}/{NOTEBOOK}")}


CANVAS = {
    f"doejane_1234_5678_{NOTEBOOK}": "old",
    f"doejane_1234_5999_{UNIT}-1.ipynb": "new",
    f"roejohn_LATE_77_900_{NOTEBOOK}": "late",
    "onlypdf_78_901_report.pdf": "pdf",
    f"anon_a9Xz_902_{NOTEBOOK}": "anonymous",
    f"LATE_anon_Q1w2e_903_{NOTEBOOK}": "anonymous and late",
}
MOODLE = {
    f"Jane Doe_98765_assignsubmission_file/{NOTEBOOK}": "jane",  # since Moodle 4.1
    "Zoë van Dam_98766_assignsubmission_file_/sub/my work.ipynb": "zoe",
    f"Max Flat_98767_assignsubmission_file_{NOTEBOOK}": "max",
    "No File_98768_assignsubmission_onlinetext_/text.html": "x",
}
PLAIN = {f"ada/{NOTEBOOK}": "ada", "ben/x/y.ipynb": "ben", "cyd.ipynb": "cyd", "dee/notes.txt": "dee"}


@pytest.mark.parametrize("pack", [zipped, foldered])
def test_canvas(pack, tmp_path):
    done = collect(pack(tmp_path / "export", CANVAS), UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {
        "doejane_1234": "new",
        "roejohn_77": "late",
        "anon_a9Xz": "anonymous",
        "anon_Q1w2e": "anonymous and late",
    }
    assert done.students == ["anon_Q1w2e", "anon_a9Xz", "doejane_1234", "roejohn_77"]
    assert done.remarks == [
        "onlypdf_78 handed in no notebook, but onlypdf_78_901_report.pdf.",
        f"doejane_1234 has 2 notebooks; doejane_1234_5999_{UNIT}-1.ipynb, the latest, counts.",
        "Marked late by Canvas, which takes what lateness costs: anon_Q1w2e, roejohn_77.",
    ]
    with Gradebook(f"sqlite:///{tmp_path / 'home' / 'gradebook.db'}") as book:
        assert {s.id: s.lms_user_id for s in book.students} == {
            "doejane_1234": "1234",
            "roejohn_77": "77",
            "anon_a9Xz": None,
            "anon_Q1w2e": None,
        }


@pytest.mark.parametrize("pack", [zipped, foldered])
@pytest.mark.parametrize("around", ["", "CS336-Unit 04-12345/"])
def test_moodle(pack, around, tmp_path):
    done = collect(pack(tmp_path / "export", {around + k: v for k, v in MOODLE.items()}), UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {
        "Jane-Doe_98765": "jane",
        "Zoë-van-Dam_98766": "zoe",
        "Max-Flat_98767": "max",
    }
    with Gradebook(f"sqlite:///{tmp_path / 'home' / 'gradebook.db'}") as book:
        zoe = book.find_student("Zoë-van-Dam_98766")
        assert (zoe.first_name, zoe.last_name, zoe.lms_user_id) == ("Zoë van", "Dam", "98766")
    assert len(done.remarks) <= 1


def lms_ids(home):
    with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
        return {s.id: s.lms_user_id for s in book.students}


def unflagged(path, files):
    """A zip whose names are in UTF-8 without saying so, as macOS writes them."""
    content = zipped(path, files).read_bytes()
    for record, at in ((b"PK\3\4", 7), (b"PK\1\2", 9)):
        parts = content.split(record)
        content = record.join([parts[0], *(p[: at - 4] + bytes([p[at - 4] & ~8]) + p[at - 3 :] for p in parts[1:])])
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("pack", [zipped, foldered, unflagged])
def test_letters_with_marks_keep_id_and_lateness(pack, tmp_path):
    names = ["müllerjürgen", "ใจดีสมชาย", "शर्माप्रिया", "ọláṣọ́lá", "田中太郎"]
    written = [unicodedata.normalize(form, name) for form in ("NFC", "NFD") for name in names]
    files = {f"{name}_LATE_{1000 + i}_{50000 + i}_{NOTEBOOK}": "work" for i, name in enumerate(written)}
    done = collect(pack(tmp_path / "export", files), UNIT, tmp_path / "home")
    expected = {f"{unicodedata.normalize('NFC', name)}_{1000 + i}": f"{1000 + i}" for i, name in enumerate(written)}
    assert lms_ids(tmp_path / "home") == expected and set(handed_in(tmp_path / "home")) == set(expected)
    assert done.remarks == [f"Marked late by Canvas, which takes what lateness costs: {', '.join(sorted(expected))}."]
    assert [submission.misnamed(student) for student in expected] == [""] * len(expected)


def test_a_name_of_any_length_is_a_folder_s(tmp_path):
    files = {f"{letter * 300}.ipynb": "1" for letter in "xü田"}
    collect(zipped(tmp_path / "export", files), UNIT, tmp_path / "home")
    assert len(handed_in(tmp_path / "home")) == 3


def test_who_is_renamed_in_the_lms_stays_one_student_and_the_newer_notebook_counts(tmp_path):
    home = tmp_path / "home"
    collect(zipped(tmp_path / "a", {f"smithjane_1005_50001_{NOTEBOOK}": "blank"}), UNIT, home)
    renamed = zipped(tmp_path / "b", {f"doejane_1005_50002_{NOTEBOOK}": "full", f"roe_7_8_{NOTEBOOK}": "roe"})
    done = collect(renamed, UNIT, home)
    assert handed_in(home) == {"smithjane_1005": "full", "roe_7": "roe"} and done.replaced == ["smithjane_1005"]
    assert "doejane_1005 has the LMS's id of smithjane_1005, and was imported under that name." in done.remarks
    assert lms_ids(home) == {"smithjane_1005": "1005", "roe_7": "7"}


def test_of_two_names_with_one_id_in_one_export_none_takes_the_other_s_place(tmp_path):
    home = tmp_path / "home"
    files = {f"smithjane_1005_50001_{NOTEBOOK}": "jane's", f"mal_1005_9_50002_{NOTEBOOK}": "of one called mal_1005"}
    said = "mal_1005 and smithjane_1005 have the same id of the LMS in one export; {}. Remove what is not theirs."
    done = collect(zipped(tmp_path / "a", files | {f"roe_7_8_{NOTEBOOK}": "roe"}), UNIT, home)
    assert handed_in(home) == {"roe_7": "roe"} and done.remarks == [said.format("they were left out")]
    collect(zipped(tmp_path / "b", {f"smithjane_1005_50001_{NOTEBOOK}": "jane's"}), UNIT, home)
    done = collect(zipped(tmp_path / "c", files), UNIT, home)
    assert handed_in(home)["smithjane_1005"] == "jane's" and "mal_1005" not in handed_in(home)
    assert done.remarks == [said.format("only smithjane_1005 was imported")]


def test_names_that_are_not_the_lms_s_among_those_that_are_are_told(tmp_path):
    files = {f"doejane_1005_50002_{NOTEBOOK}": "1", f"doe-jim_1006_50003_{NOTEBOOK}": "2"}
    done = collect(zipped(tmp_path / "export", files), UNIT, tmp_path / "home")
    assert done.remarks == [
        f"Some files are named as Canvas names them, and those of doe-jim_1006_50003_{UNIT} are not: "
        "they came in without Canvas's id and without LATE."
    ]


def test_text_typed_into_moodle_is_no_other_student(tmp_path):
    files = {
        f"Jane Doe_1006_assignsubmission_file/{NOTEBOOK}": "jane",
        "Jane Doe_1006_assignsubmission_onlinetext/onlinetext.html": "x",
        "Jim Roe_1007_assignsubmission_onlinetext/onlinetext.html": "x",
    }
    done = collect(zipped(tmp_path / "export", files), UNIT, tmp_path / "home")
    assert done.students == ["Jane-Doe_1006"]
    assert done.remarks == ["Jim-Roe_1007 handed in no notebook, but onlinetext.html."]


@pytest.mark.parametrize("pack", [zipped, foldered])
def test_a_folder_for_each_student(pack, tmp_path):
    done = collect(pack(tmp_path / "export", PLAIN), UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {"ada": "ada", "ben": "ben", "cyd": "cyd"}
    assert done.remarks == ["dee handed in no notebook, but notes.txt."]


@pytest.mark.parametrize("pack", [zipped, foldered])
@pytest.mark.parametrize(
    "name, student",
    [
        (f"doejane_1234_5678_{UNIT}.zip", "doejane_1234"),
        (f"Jane Doe_98765_assignsubmission_file/{UNIT}.zip", "Jane-Doe_98765"),
        (f"ada/{UNIT}.zip", "ada"),
        ("ada.zip", "ada"),
    ],
)
def test_a_student_s_zip_stands_for_the_notebook_in_it(pack, name, student, tmp_path):
    inner = zipped(tmp_path / "inner", {"somewhere/mine.ipynb": "work", "__MACOSX/._mine.ipynb": "x", "a.py": "x"})
    export = pack(tmp_path / "export", {"ben.ipynb": "ben", name: inner.read_bytes()})
    done = collect(export, UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {student: "work", "ben": "ben"}
    assert [remark for remark in done.remarks if "Some files are named" not in remark] == []


def test_what_submission_makes_comes_in_as_it_was_saved(tmp_path):
    mine = tmp_path / "mine.ipynb"
    mine.write_bytes(released(UNIT).read_bytes())
    made = pack(validated(mine))
    export = zipped(tmp_path / "export", {f"doejane_1234_5678_{made.name}": made.read_bytes()})
    assert collect(export, UNIT, tmp_path / "home").students == ["doejane_1234"]
    assert handed_in(tmp_path / "home") == {"doejane_1234": mine.read_text()}


@pytest.mark.parametrize(
    "inside, remark",
    [
        ({"notes.txt": "x"}, "ada handed in no notebook, but 04.zip."),
        (
            {"a.ipynb": "1", "b.ipynb": "2"},
            "ada/04.zip holds 2 notebooks, none of them named after the unit; it was left out.",
        ),
        (
            {NOTEBOOK: "1", f"{UNIT}_2.ipynb": "2", "c.ipynb": "3"},
            "ada/04.zip holds 3 notebooks, 2 of them named after the unit; it was left out.",
        ),
        (b"PK\x03\x04 not a zip", "ada/04.zip is no zip, or a damaged one; it was left out."),
        (b"", "ada/04.zip is no zip, or a damaged one; it was left out."),
        ({"a.zip": "a.ipynb"}, "ada/04.zip holds no notebook but another zip, a.zip; it was left out."),
        ({"../../a.ipynb": "1"}, "ada/04.ipynb has a name that leads out of the zip; it was left out."),
        ({"a.ipynb": "0" * 5_000_000}, "ada/04.ipynb has more than 4 MB; ada was left out."),
    ],
)
def test_a_student_s_zip_that_holds_no_single_notebook_is_named(inside, remark, tmp_path, monkeypatch):
    monkeypatch.setattr(exported, "MAX_FILE", 4_000_000)
    content = inside if isinstance(inside, bytes) else zipped(tmp_path / "inner", inside).read_bytes()
    export = zipped(tmp_path / "export", {"ada/04.zip": content, f"ben/{NOTEBOOK}": "ben"})
    done = collect(export, UNIT, tmp_path / "home")
    assert done.remarks == [remark] and handed_in(tmp_path / "home") == {"ben": "ben"}


@pytest.mark.parametrize("mine", [NOTEBOOK, f"{UNIT}_2.ipynb"])
def test_of_a_whole_work_folder_the_notebook_of_the_unit_counts(mine, tmp_path):
    work = {
        "01_tensors_and_strides/01_tensors_and_strides.ipynb": "x",
        f"{UNIT}/{mine}": "work",
        f"{UNIT}_old.ipynb": "x",
    }
    work |= {f"{UNIT}/.ipynb_checkpoints/{UNIT}-checkpoint.ipynb": "x", f"{UNIT}/{UNIT}.zip": "x"}
    content = zipped(tmp_path / "inner", {f"work/{name}": text for name, text in work.items()}).read_bytes()
    done = collect(zipped(tmp_path / "export", {"ada/work.zip": content, "ben.ipynb": "b"}), UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {"ada": "work", "ben": "b"} and done.remarks == []


def worked_on(text="x"):
    """The unit's notebook with some work in it."""
    nb = json.loads(released(UNIT).read_text())
    cell = next(
        c for c in nb["cells"] if c["metadata"].get("nbgrader", {}).get("grade_id") == "coalescing-padded_stride"
    )
    cell["source"] = f"def padded_stride(n, itemsize):\n    return {text!r}"
    return json.dumps(nb)


BLANK = released(UNIT).read_text()


def test_a_blank_copy_never_counts_before_work(tmp_path):
    files = {f"doejane_1_10_{NOTEBOOK}": worked_on(), f"doejane_1_11_{UNIT}_2.ipynb": BLANK}
    files |= {f"roejohn_2_20_{NOTEBOOK}": worked_on("a"), f"roejohn_2_21_{UNIT}-1.ipynb": worked_on("b")}
    files |= {f"blank_3_30_{NOTEBOOK}": BLANK, f"blank_3_31_{UNIT}-1.ipynb": BLANK}
    files |= {f"broken_4_40_{NOTEBOOK}": worked_on(), f"broken_4_41_{UNIT}_2.ipynb": "{"}
    files |= {f"renamed_5_50_{NOTEBOOK}": BLANK, "renamed_5_51_final.ipynb": worked_on()}
    done = collect(zipped(tmp_path / "export", files), UNIT, tmp_path / "home")
    expected = {"doejane_1": worked_on(), "roejohn_2": worked_on("b"), "blank_3": BLANK}
    assert handed_in(tmp_path / "home") == expected | {"broken_4": worked_on(), "renamed_5": worked_on()}
    assert f"doejane_1 has 2 notebooks; doejane_1_10_{NOTEBOOK}, the latest with work in it, counts." in done.remarks
    assert f"roejohn_2 has 2 notebooks; roejohn_2_21_{UNIT}-1.ipynb, the latest, counts." in done.remarks


def test_of_two_with_the_same_time_the_one_that_was_renamed_for_the_other_counts(tmp_path):
    """A browser or Moodle puts a number behind a name that is there already."""
    folder = "Jane Doe_98765_assignsubmission_file"
    for names in (["04.ipynb", "04-1.ipynb"], ["04 (1).ipynb", "04 (2).ipynb"]):
        files = {f"{folder}/{name}": name for name in names}
        done = collect(zipped(tmp_path / f"{names[0]}.zip", files), UNIT, tmp_path / names[0])
        assert list(handed_in(tmp_path / names[0]).values()) == [names[1]]
        assert "of several with the same time" in str(done.remarks)


def test_who_handed_in_something_else_is_remembered_until_a_notebook_comes_in(tmp_path, monkeypatch):
    monkeypatch.setattr(exported, "MAX_FILE", 1_000_000)
    home, folder = tmp_path / "class", "{}_assignsubmission_file"
    files = {
        f"{folder.format('Ada L_1')}/{NOTEBOOK}": released("05_tiling").read_bytes(),
        f"{folder.format('Ben M_2')}/notes.txt": "x",
        f"{folder.format('Cyd N_3')}/{NOTEBOOK}": "0" * 1_000_001,
        f"{folder.format('Dee O_4')}/{UNIT}.zip": "no zip",
        f"{folder.format('Eve P_5')}/{NOTEBOOK}": released(UNIT).read_bytes(),
    }
    export = foldered(tmp_path / "export", files)
    assert collect(export, UNIT, home, dry_run=True).rejected.keys() == {"Ada-L_1", "Ben-M_2", "Cyd-N_3", "Dee-O_4"}
    assert rejected.sentences(home, UNIT) == {}
    collect(export, UNIT, home)
    reasons = rejected.sentences(home, UNIT)
    assert "05_tiling" in reasons["Ada-L_1"] and "notes.txt" in reasons["Ben-M_2"] and "1 MB" in reasons["Cyd-N_3"]
    assert reasons.keys() == {"Ada-L_1", "Ben-M_2", "Cyd-N_3", "Dee-O_4"}
    again = {f"{folder.format('Ada L_1')}/{NOTEBOOK}": released(UNIT).read_bytes()}
    collect(foldered(tmp_path / "again", again), UNIT, home)
    assert rejected.sentences(home, UNIT).keys() == {"Ben-M_2", "Cyd-N_3", "Dee-O_4"}


def test_a_dry_run_says_what_would_happen(tmp_path):
    export = foldered(
        tmp_path / "export",
        {f"ada/{NOTEBOOK}": "", f"ben/{NOTEBOOK}": released("05_tiling").read_bytes(), "b/x.zip": ""},
    )
    for dry_run in (True, False):
        said = " ".join(collect(export, UNIT, tmp_path / "class", dry_run=dry_run).remarks)
        assert said.count("would be") == (3 if dry_run else 0) and said.count(" was ") == (0 if dry_run else 3), said


def test_the_notebook_of_another_unit_is_left_out(tmp_path):
    files = {f"ada/{NOTEBOOK}": released("05_tiling").read_bytes(), f"ben/{NOTEBOOK}": released(UNIT).read_bytes()}
    done = collect(foldered(tmp_path / "export", files), UNIT, tmp_path / "class")
    assert done.students == ["ben"] and "is a notebook of 05_tiling; ada was left out" in str(done.remarks)


@pytest.mark.parametrize("blank, mine", [(NOTEBOOK, f"{UNIT}_2.ipynb"), (f"{UNIT}_2.ipynb", NOTEBOOK)])
def test_of_a_zip_with_a_blank_copy_in_it_the_work_counts(blank, mine, tmp_path):
    inner = zipped(tmp_path / "inner", {blank: BLANK, mine: worked_on()}).read_bytes()
    done = collect(zipped(tmp_path / "export", {"ada/work.zip": inner}), UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {"ada": worked_on()} and done.remarks == []
    both = zipped(tmp_path / "both", {blank: worked_on("a"), mine: worked_on("b")}).read_bytes()
    with pytest.raises(NotAnExport, match="holds 2 notebooks, 2 of them named after the unit"):
        collect(zipped(tmp_path / "export", {"ada/work.zip": both}), UNIT, tmp_path / "home")


@pytest.mark.parametrize("ending", [".txt", ".json", ".TXT"])
def test_endings_that_browsers_add_are_no_obstacle(ending, tmp_path):
    inner = zipped(tmp_path / "inner", {f"work/{NOTEBOOK}{ending}": "dee"}).read_bytes()
    files = {f"doejane_1_10_{NOTEBOOK}{ending}": "jane", f"ben/{NOTEBOOK}{ending}": "ben", "dee/work.zip": inner}
    files |= {f"Max Flat_98767_assignsubmission_file_/{NOTEBOOK}{ending}": "max", f"cyd.ipynb{ending}": "cyd"}
    done = collect(zipped(tmp_path / "export", files), UNIT, tmp_path / "home")
    names = {"doejane_1": "jane", "ben": "ben", "dee": "dee", "Max-Flat_98767": "max", "cyd": "cyd"}
    assert handed_in(tmp_path / "home") == names
    assert [remark for remark in done.remarks if "named as Canvas names them" not in remark] == []


def test_nbgrader_s_own_folders_come_back_with_their_times(tmp_path):
    files = {f"submitted/{s}/{UNIT}/{NOTEBOOK}": s for s in ("ada", "ben")}
    files |= {
        f"submitted/ada/{UNIT}/timestamp.txt": "2026-11-20 10:00:00 UTC",
        f"submitted/ben/{UNIT}/timestamp.txt": "soon",
    }
    done = collect(zipped(tmp_path / "export", files), UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {"ada": "ada", "ben": "ben"}
    submitted = tmp_path / "home" / "submitted"
    assert (submitted / "ada" / UNIT / "timestamp.txt").read_text() == "2026-11-20 10:00:00 UTC"
    assert not (submitted / "ben" / UNIT / "timestamp.txt").exists()
    assert done.remarks == ["The timestamp.txt of ben holds no time; it was left out."]


def test_one_student_s_folder_is_not_taken_for_what_stands_around_a_class(tmp_path):
    collect(foldered(tmp_path / "export", {f"ada/{UNIT}/{NOTEBOOK}": "ada"}), UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {"ada": "ada"}


def link(name, target):
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, target


@pytest.mark.parametrize(
    "name, content, remark",
    [
        ("../../evil/x.ipynb", "{}", "../../evil/x.ipynb has a name that leads out of the zip; it was left out."),
        ("/etc/x.ipynb", "{}", "/etc/x.ipynb has a name that leads out of the zip; it was left out."),
        ("C:\\x\\y.ipynb", "{}", "C:/x/y.ipynb has a name that leads out of the zip; it was left out."),
        ("ok/..\\..\\x.ipynb", "{}", "ok/../../x.ipynb has a name that leads out of the zip; it was left out."),
        (*link("eve/a.ipynb", "/etc/passwd"), "eve/a.ipynb is a link or a device, not a file; it was left out."),
        ("eve/bomb.ipynb", "0" * 5_000_000, "eve/bomb.ipynb has more than 4 MB; eve was left out."),
        (
            f"{UNIT}.ipynb",
            "{}",
            f"{NOTEBOOK} does not say whose it is; it was left out. Put it into a folder named so.",
        ),
    ],
)
def test_what_is_hostile_is_named_and_the_rest_imported(tmp_path, monkeypatch, name, content, remark):
    monkeypatch.setattr(exported, "MAX_FILE", 4_000_000)
    done = collect(zipped(tmp_path / "export", {f"ada/{NOTEBOOK}": "ada", name: content}), UNIT, tmp_path / "home")
    assert done.remarks == [remark] and done.students == ["ada"]
    assert handed_in(tmp_path / "home") == {"ada": "ada"}
    assert {p.name for p in tmp_path.iterdir()} == {"export", "home"}


def test_a_zip_that_lies_about_sizes_is_read_no_further_than_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr(exported, "MAX_FILE", 1000)
    path = zipped(tmp_path / "export", {f"ada/{NOTEBOOK}": "ada", "eve/x.ipynb": "0" * 5000})
    data = path.read_bytes()
    assert data.count((5000).to_bytes(4, "little")) == 2
    path.write_bytes(data.replace((5000).to_bytes(4, "little"), (50).to_bytes(4, "little")))
    done = collect(path, UNIT, tmp_path / "home")
    assert done.students == ["ada"] and "eve was left out" in done.remarks[0]


def test_a_broken_and_an_encrypted_file_cost_their_student_alone(tmp_path):
    path = zipped(tmp_path / "export", {f"ada/{NOTEBOOK}": "ada", "eve/x.ipynb": "eve's own work" * 9})
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("eve/x.ipynb")
    data = bytearray(path.read_bytes())
    start = info.header_offset + 30 + len(info.filename)
    data[start + 3 : start + 8] = b"\xff" * 5
    path.write_bytes(data)
    done = collect(path, UNIT, tmp_path / "home")
    assert done.students == ["ada"] and done.remarks[0].startswith("eve/x.ipynb cannot be read (")


def test_an_empty_notebook_is_handed_in_all_the_same(tmp_path):
    done = collect(zipped(tmp_path / "export.zip", {f"tariq/{NOTEBOOK}": ""}), UNIT, tmp_path / "home")
    assert done.students == ["tariq"] and handed_in(tmp_path / "home") == {"tariq": ""}
    assert done.remarks == [f"The notebook of tariq is empty (tariq/{NOTEBOOK}); it was imported."]
    with refusing("handin.notebook.no_json", submission.Problem):
        submission.load(tmp_path / "home" / "submitted" / "tariq" / UNIT / NOTEBOOK)


def test_links_in_a_folder_are_not_followed(tmp_path):
    secret = tmp_path / "secret.ipynb"
    secret.write_text("secret")
    export = foldered(tmp_path / "export", {f"ada/{NOTEBOOK}": "ada"})
    (export / "eve").mkdir()
    (export / "eve" / NOTEBOOK).symlink_to(secret)
    (export / "mal").symlink_to(tmp_path)
    done = collect(export, UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {"ada": "ada"}
    assert [r.split(" is a link")[0] for r in done.remarks] == ["mal", f"eve/{NOTEBOOK}"]


def test_a_link_among_the_submissions_is_replaced_and_not_written_through(tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "home" / "submitted").mkdir(parents=True)
    (tmp_path / "home" / "submitted" / "ada").symlink_to(elsewhere)
    collect(foldered(tmp_path / "export", {f"ada/{NOTEBOOK}": "ada"}), UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {"ada": "ada"} and not list(elsewhere.iterdir())


def test_of_two_names_that_become_one_neither_is_taken(tmp_path):
    files = {f"ada l/{NOTEBOOK}": "1", f"ada  l/{NOTEBOOK}": "2", f"ben/{NOTEBOOK}": "3", "<b>/x.ipynb": "4"}
    done = collect(zipped(tmp_path / "export", files), UNIT, tmp_path / "home")
    assert handed_in(tmp_path / "home") == {"ben": "3", "b": "4"}
    assert done.remarks == ["'ada  l' and 'ada l' would both be called ada-l; both were left out. Rename one of them."]


def test_what_was_handed_in_before_is_replaced_and_a_dry_run_writes_nothing(tmp_path):
    home = tmp_path / "home"
    collect(foldered(tmp_path / "one", {f"ada/{NOTEBOOK}": "first"}), UNIT, home)
    second = foldered(tmp_path / "two", {f"ada/{NOTEBOOK}": "second"})
    assert collect(second, UNIT, home, dry_run=True).students == ["ada"] and handed_in(home) == {"ada": "first"}
    collect(second, UNIT, home)
    assert handed_in(home) == {"ada": "second"}


def test_a_second_import_says_what_changes_and_leaves_the_rest_as_it_is(tmp_path, monkeypatch):
    home, when = tmp_path / "home", "2026-11-20 10:00:00 UTC"
    first = {f"{student}/{NOTEBOOK}": student for student in ("ada", "ben", "cyd")}
    assert collect(foldered(tmp_path / "one", first), UNIT, home).changes == "3 new"
    kept = (home / "submitted" / "ben" / UNIT / NOTEBOOK).stat().st_ino
    second = foldered(
        tmp_path / "two", first | {f"ada/{NOTEBOOK}": "a", f"dee/{NOTEBOOK}": "d", "cyd/timestamp.txt": when}
    )
    for dry_run in (True, False):
        done = collect(second, UNIT, home, dry_run=dry_run)
        assert done.changes == "2 replaced, 1 as before, 1 new"
        assert len(done.remarks) == 1 and "ada, cyd" in done.remarks[0]
    assert (home / "submitted" / "ben" / UNIT / NOTEBOOK).stat().st_ino == kept
    monkeypatch.setenv("GRADER_HOME", str(home))
    said = CliRunner().invoke(app, ["import", UNIT, str(second), "--dry-run"]).output
    assert said == "4 notebooks would be imported: 4 as before\n"


@pytest.mark.parametrize("what", ["missing", "text", "empty"])
def test_what_is_no_export_is_a_sentence(tmp_path, what):
    source = tmp_path / what
    if what == "text":
        source.write_text("hello")
    elif what == "empty":
        source.mkdir()
    says = {
        "missing": "does not exist. Give",
        "text": "is neither a folder nor a zip",
        "empty": "holds no notebook that says",
    }
    with pytest.raises(NotAnExport, match=says[what]):
        collect(source, UNIT, tmp_path / "home")


def test_too_many_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(exported, "MAX_FILES", 3)
    with pytest.raises(NotAnExport, match="more than 3 files"):
        collect(zipped(tmp_path / "export", PLAIN), UNIT, tmp_path / "home")
    folders = {f"a{number}/": "" for number in range(7)}
    with pytest.raises(NotAnExport, match="files or folders"):
        collect(zipped(tmp_path / "folders", folders), UNIT, tmp_path / "home")
    for name in folders:
        (tmp_path / "tree" / name).mkdir(parents=True)
    with pytest.raises(NotAnExport, match="files or folders"):
        collect(tmp_path / "tree", UNIT, tmp_path / "home")


def test_an_export_that_is_all_entries_is_counted_before_it_is_parsed(tmp_path, monkeypatch):
    monkeypatch.setattr(exported, "MAX_FILES", 3)
    source = zipped(tmp_path / "folders", {f"a{number}/": "" for number in range(7)})

    def parsed(self, *_) -> None:
        raise AssertionError("nobody needs to parse it")

    monkeypatch.setattr(zipfile.ZipInfo, "__init__", parsed)
    with pytest.raises(NotAnExport, match="files or folders"):
        collect(source, UNIT, tmp_path / "home")


def test_entries_of_a_students_zip_are_none_of_the_exports(tmp_path, monkeypatch):
    monkeypatch.setattr(exported, "MAX_FILES", 3)
    full = zipped(tmp_path / "full", {f"a{number}": "" for number in range(9)} | {"04.ipynb": "eve"})
    source = tmp_path / "export.zip"
    with zipfile.ZipFile(source, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("ada/04.ipynb", "ada")
        archive.writestr("eve/work.zip", full.read_bytes())
    assert collect(source, UNIT, tmp_path / "home").students == ["ada", "eve"]


@pytest.mark.parametrize("name", ["a/", "a", "a.ipynb", "__MACOSX/a"])
def test_a_zip_that_is_all_entries_is_left_out_before_it_is_read(tmp_path, name):
    count, name = exported.MAX_ENTRIES + 1, name.encode()
    entry = exported.ENTRY + struct.pack("<4B4H3L5H2L", 20, 3, 20, *[0] * 8, len(name), *[0] * 6) + name
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, count, count, len(entry) * count, 0, 0)
    (tmp_path / "export" / "eve").mkdir(parents=True)
    (tmp_path / "export" / "eve" / "work.zip").write_bytes(entry * count + end)
    (tmp_path / "export" / "ada").mkdir()
    (tmp_path / "export" / "ada" / NOTEBOOK).write_text("ada")
    started = time.process_time()
    done = collect(tmp_path / "export", UNIT, tmp_path / "home")
    assert time.process_time() - started < 1
    assert done.students == ["ada"] and done.remarks[0].startswith("eve/work.zip holds more than 10000 files")
