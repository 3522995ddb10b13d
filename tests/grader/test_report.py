"""The class report and the feedback page: what they say, and that nothing a student wrote is active in them."""

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import toyclass
from nbgrader.api import Gradebook
from toy import UNIT

import grader
from course_lib import criteria
from course_lib.evidence import Evidence
from course_lib.exercise import Finding, Trial, Verdict
from course_lib.exercises import find
from course_lib.version import VERSION
from grader.gradebook import results
from grader.reporting import report, similar, sources

LONG = """
def double(x):
    '''{note}'''
    total = 0
    for i in range(len(x)):
        if i % 2 == 0 and x[i] > 3:
            total = total + 2 * x[i] - 1  # {note}
        else:
            total = total - x[i] / (4 + i)
    return [total, total * 2, total * 3, total ** 4]
"""
RENAMED = (
    LONG.replace("total", "s").replace("(i", "(k").replace(" i ", " k ").replace("[i]", "[k]").replace("+ i)", "+ k)")
)
OTHERWISE = LONG.replace("x[i]", "float(x.item(i))").replace("**", "//").replace("range(len(x))", "x.rows()")
OTHERWISE = OTHERWISE.replace("total", "x.total")
SOURCES = {
    "ada": LONG.replace("{note}", "mine"),
    "ben": RENAMED.replace("{note}", toyclass.HOSTILE),
    "cyd": "import gc\ndef double(x):\n    return gc.get_objects()",
}


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text of all but style."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.quiet = [], "", 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.quiet += tag == "style"

    def handle_endtag(self, tag):
        self.quiet -= tag == "style"

    def handle_data(self, data):
        if not self.quiet:
            self.text += data

    def active(self):
        return [
            (tag, attrs)
            for tag, attrs in self.elements
            if tag in ("script", "img", "iframe", "object", "embed", "form", "link")
            or any(
                name.startswith("on") or str(value).strip().startswith("javascript:") for name, value in attrs.items()
            )
        ]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        home = toyclass.make(patch, tmp_path_factory.mktemp("course"), source=SOURCES)
        with Gradebook(f"sqlite:///{home / 'gradebook.db'}") as book:
            book.update_or_create_student("ben", first_name="Ben", last_name=toyclass.HOSTILE)
        yield home


@pytest.fixture(scope="module")
def of_class(home):
    return report.of_class(home, UNIT, published=lambda exercise: "def double(x):\n    return 2 * x\n")


@pytest.fixture(scope="module")
def page(of_class):
    return Page(report.page(of_class))


def test_distributions_are_the_gradebook_s(of_class):
    double, root = of_class.distributions
    assert (double.points, double.full, double.none, double.blank) == ([10, 6, 6, 0], 1, 1, 1)
    assert (root.points, root.mean) == ([4, 4, 4, 0], 3)
    assert of_class.total.points == [15.5, 10, 10, 0]  # extra credit included


def test_what_most_failed_comes_with_the_sentence_they_saw_and_blank_exercises_do_not_count(of_class, page):
    (mistake,) = of_class.mistakes
    assert (mistake.exercise, mistake.title, mistake.students) == (
        "toy.double",
        "right on ragged inputs",
        ["ben", "cyd"],
    )
    assert mistake.sentence.startswith("12 of 99 differ. <img")
    assert "12 of 99 differ" in page.text and "returns nothing yet" not in page.text


def test_who_was_late_stands_in_the_gradebook_with_what_it_cost(of_class, page):
    ada, ben, *others = of_class.entries
    late = [replace(ada, hours_late=35.0), replace(ben, hours_late=2.5, penalty=6.2)]
    text = Page(report.page(replace(of_class, entries=[*late, *others]))).text
    assert "35.0 h" in text and "2.5 h, -6.2" in text
    assert "35.0 h" not in page.text and "0.0 h" not in text


def test_an_answer_of_nothing_but_none_is_a_blank():
    order = find("tiling.grouped_order")
    for outputs, blank in (([[None, None]], True), ([[[0, 0], [0, 1]]], False)):
        trials = [Trial(c, [c.arguments(0)], Evidence(c.name, outputs=outputs)) for c in order.cases]
        assert report.blank(criteria.judge(order, trials)) == blank


def test_mistakes_are_counted_by_kind_whatever_the_numbers_in_their_sentences():
    def wrong(seen, status="failed"):
        return {"toy.double": Verdict("toy.double", 1, 2, [Finding("loads are dense", 0, 1, status, seen=seen)])}

    (mistake,) = report.mistakes(
        {
            "a": wrong("64 sectors"),
            "b": wrong("1,024 sectors"),
            "c": wrong("not right"),
            "d": wrong("as above", "same_cause"),
        }
    )
    assert len(mistake.students) == 4 and mistake.sentence == "64 sectors" and mistake.alike == 2


def test_a_failure_of_the_grader_is_no_mistake_of_a_student(monkeypatch, home):
    failed = toyclass.verdict(
        "double", 0, 10, Finding("runs", 0, 0, "not_judged", seen="the grader failed (OSError: full); tell")
    )
    says = {student: {"toy.double": failed} for student in toyclass.SAYS}
    monkeypatch.setattr(results, "verdicts", lambda home, unit, student: says[student])
    found = report.of_class(home, UNIT, published=lambda exercise: "")
    assert found.mistakes == [] and len(found.unjudged) == 8
    assert {f.sentence[:25] for f in found.unjudged} == {"the grader failed (OSErro", "has no verdict: grade it "}


def test_what_could_not_be_read_is_to_look_at_and_no_mistake_in_ten_exercises(monkeypatch, home):
    refused = "x.ipynb is not a notebook: it does not read as JSON."
    monkeypatch.setattr(
        sources,
        "handin",
        lambda path, unit, student: sources.Handin({}, {}, [sources.StudentFlag(student, "", refused)], refused),
    )
    found = report.of_class(home, UNIT, published=lambda exercise: "")
    assert found.mistakes == [] and {flag.sentence for flag in found.flags} == {refused}
    assert [len(each.points) for each in (found.total, *found.distributions)] == [0, 0, 0] and len(found.unread) == 4
    text = Page(report.page(found)).text
    assert "from 4 files" in text and "with 0 points" in text


def test_flags_say_why_and_lead_to_the_student(of_class, page):
    assert {flag.student for flag in of_class.flags} == {"cyd"}
    assert (
        any("gc" in flag.sentence for flag in of_class.flags)
        and of_class.flags[0].sentence.replace("`", "") in page.text
    )
    assert ("a", {"href": f"../feedback/cyd/{UNIT}/{UNIT}.html"}) in page.elements


def test_sources_that_differ_in_names_alone_are_put_side_by_side(of_class, page):
    (alike,) = of_class.alike
    assert (alike.exercise, alike.pair) == ("toy.double", similar.Pair(("ada", "ben"), 1.0))
    assert page.text.count("return [total, total * 2") == 1 and "return [s, s * 2" in page.text


def test_sources_equal_to_the_published_solution_are_named(home):
    found = report.of_class(home, UNIT, published=lambda exercise: SOURCES["ada"].replace("total", "t"))
    assert found.published == {"toy.double": ["ada", "ben"]} and found.alike == []


def test_the_page_is_one_file_with_a_plot_and_nothing_active(page):
    assert page.active() == []
    plots = [attrs["aria-label"] for tag, attrs in page.elements if tag == "svg"]
    assert plots == ["Histogram of total: mean 8.9 of 14 points"]
    assert toyclass.HOSTILE in page.text and "7006652" not in page.text  # the name, as text; no template in it was run
    outside = [v for _, attrs in page.elements for k, v in attrs.items() if k in ("src", "href") and "//" in (v or "")]
    assert outside == []


def test_it_begins_with_what_to_look_at_and_one_coloured_table(of_class, page):
    heads = [attrs["id"] for tag, attrs in page.elements if tag == "h2"]
    assert heads[:3] == ["look", "gradebook", "mistakes"]
    shades = [attrs["class"].split()[-1] for tag, attrs in page.elements if tag == "td" and "title" in attrs]
    cells = {(e.student, x.id): (e.scores[x.id], x.points) for e in of_class.entries for x in of_class.exercises}
    kinds = [
        "open"
        if got is None or place in of_class.not_begun
        else "none"
        if not got
        else "part"
        if got < all_
        else "full"
        for place, (got, all_) in cells.items()
    ]
    assert shades[: len(kinds)] == kinds and {"open", "part", "full"} <= set(kinds)


def test_a_histogram_has_a_bar_as_high_as_its_students(of_class):
    svg = report.histogram(report.Distribution("x", 4, [4, 4, 4, 0]))
    assert report.INK not in svg and "currentColor" in svg
    heights = sorted(_heights(svg))
    assert len(heights) == 2 and heights[1] == pytest.approx(3 * heights[0], rel=0.01)


def _heights(svg):
    import re

    for patch in re.findall(r'<path d="M ([^"]*)z\s*" clip-path', svg):
        ys = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.]+)", patch)]
        if max(ys) > min(ys):
            yield max(ys) - min(ys)


def test_an_ungraded_unit_is_a_sentence(tmp_path):
    with pytest.raises(
        results.NotGraded, match="90_toy has not been graded yet: run `python -m grader autograde 90_toy`"
    ):
        results.gradebook(tmp_path, UNIT)


# ------------------------------------------------------------------------------------------------- similarity


def alike(sources, leave_out="", given="", **more):
    read = {student: similar.tokens(source) for student, source in sources.items()}
    return similar.pairs(read, similar.tokens(leave_out), similar.tokens(given), **more)


@pytest.mark.parametrize(
    "changed, ratio",
    [
        (RENAMED, 1.0),
        (LONG.replace("# {note}", ""), 1.0),
        (LONG.replace("    total = 0\n", "    total = 0\n    print(x)\n"), 0.92),
        (OTHERWISE, 0.17),
    ],
)
def test_the_measure_ignores_names_and_layout_and_nothing_else(changed, ratio):
    (found,) = alike({"a": LONG, "b": changed}, at_least=0.1)
    assert found.ratio == pytest.approx(ratio, abs=0.02) and (found.ratio == 1.0) == (ratio == 1.0)


def test_what_was_moved_is_found():
    helper = LONG.replace("double", "helper").replace("total", "x.total")
    assert alike({"a": LONG + helper, "b": helper + LONG})[0].ratio > 0.95


def test_short_sources_and_those_like_the_published_one_are_not_compared():
    short = "def f(x):\n    return 2 * x"
    assert alike({"a": short, "b": short}) == []
    assert alike({"a": LONG, "b": RENAMED}, leave_out=LONG) == []
    assert similar.tokens("def f(:\n  'x")[:4] == (
        "def",
        "name",
        "(",
        ":",
    )  # what does not parse is read as far as it goes


def test_what_was_handed_out_makes_nobody_alike():
    given = 4 * LONG.replace("total", "x.given")
    own = {"a": given + LONG, "b": given + OTHERWISE}
    assert alike(own)[0].ratio > 0.8 and alike(own, given=given) == []
    assert alike({"a": given + "x = 1", "b": given + "x = 1"}, given=given) == []  # too little of their own
    (copied,) = alike({"a": given + LONG, "b": RENAMED + given, "c": given + OTHERWISE}, given=given)
    assert copied.students == ("a", "b") and copied.ratio > 0.9


def test_a_report_leaves_out_what_was_handed_out(monkeypatch, home, tmp_path):
    notebook = json.loads(grader.released(UNIT).read_text())
    toyclass.cell_of(notebook, "toy-double")["source"] = LONG + "\nmore = 1\n"
    (tmp_path / "released.ipynb").write_text(json.dumps(notebook))
    monkeypatch.setattr("grader.released", lambda unit: tmp_path / "released.ipynb")
    found = report.of_class(home, UNIT, published=lambda exercise: "def double(x):\n    return 2 * x\n")
    assert found.alike == []


# --------------------------------------------------------------------------------------------------- feedback


def test_feedback_shows_findings_figures_and_the_code_and_nothing_active(home):
    text = (home / "feedback" / "ben" / UNIT / f"{UNIT}.html").read_text()
    page = Page(text)
    assert page.active() == []
    assert "right on ragged inputs" in page.text and "130 x 33" in page.text and "12 of 99 differ" in page.text
    assert toyclass.HOSTILE in page.text  # in the detail, what was printed and the docstring: as text
    assert any(attrs.get("aria-label", "").startswith("Map of the wrong elements") for tag, attrs in page.elements)
    assert "ben: 10 / 14 points" in page.text and "6 / 10" in page.text
    table = text.partition("<table")[2].partition("</table>")[0]
    assert re.findall(r'<td class="quiet">(.*?)</td>', table, re.S) == ["right on ragged inputs"], (
        "what has all its points is below"
    )
    folded = text.partition('<details class="whole"')[2]
    assert "toy.root" in folded.partition("</summary>")[0] and 'class="line"' in folded
    assert f"Course version {VERSION}." in page.text


def test_feedback_says_what_lateness_took(home):
    text = Page((home / "feedback" / "ada" / UNIT / f"{UNIT}.html").read_text()).text
    assert "late" not in text
