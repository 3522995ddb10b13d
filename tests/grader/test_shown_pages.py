"""Pages of what students wrote hold nothing active, and cost no more than a child."""

import re
from dataclasses import replace

import pytest
import toy
import toyclass

from course_lib import criteria
from course_lib.exercise import CodeLine, Finding, Verdict
from grader.gradebook import counts, pages, results
from grader.judging import bounded


@pytest.mark.parametrize(
    "link",
    [
        "data:text/html,<b>Full marks</b>",
        "DATA:text/html;base64,AAAA",
        "&#100;ata:text/html,x",
        "data&colon;text/html,x",
        " data:text/html,x",
        "da&#9;ta:text/html,x",
        "javascript:alert(1)",
        "blob:https://x/y",
    ],
)
def test_a_link_that_holds_its_page_does_not_survive(link):
    for source in (f"<a href='{link}'>x</a>", f"[x]({link})", f"[x][1]\n\n[1]: {link}", f"<{link}>"):
        assert 'href="d' not in pages.safe_markdown(source).lower() and "href='d" not in pages.safe_markdown(source)
        assert 'href="java' not in pages.safe_markdown(source) and 'href="blob' not in pages.safe_markdown(source)


@pytest.mark.parametrize("link", ["https://x.example/a:b", "mailto:a@b.c", "#data:x", "other.html?a:b"])
def test_a_link_to_a_page_stays(link):
    assert f'href="{link}"' in pages.safe_markdown(f"[x]({link})")


def test_a_picture_that_comes_along_stays():
    assert 'src="data:image/png;base64,AAAA"' in pages.safe_markdown("![x](data:image/png;base64,AAAA)")


def test_what_ends_the_child_is_shown_as_it_was_typed(monkeypatch):
    monkeypatch.setattr(pages, "_code", lambda source: [0] * 10**10)  # no memory holds it
    assert "a &lt; b" in pages.highlighted("a < b  # never seen before")
    monkeypatch.setattr(bounded, "SECONDS", 1.0)
    monkeypatch.setattr(pages, "_markdown", lambda source: sum(iter(int, 1)))
    assert "&lt;i&gt;" in pages.safe_markdown("<i>nor this</i>")


def test_a_long_cell_is_cut_and_says_so():
    assert "... and 1 more characters" in pages.highlighted("#" * (pages.MAX_RENDERED + 1))


def test_code_has_the_cell_s_numbers_and_the_lines_that_lost_points_are_lit():
    findings = [
        Finding("t", 0, 1, status, at=CodeLine(line, ""))
        for line, status in {3: "failed", 4: "partial", 5: "passed"}.items()
    ]
    page = pages.numbered("\n\na = 1\nb = '''two\n\nlines'''\n", Verdict("toy.double", 0, 3, findings))
    lines = re.findall(r'<span class="line( lit)?">', page)
    assert lines == [" lit", " lit", "", ""] and "--first:3" in page, "two empty lines stand above"
    assert "lit" not in pages.numbered("a = 1", None)


def test_what_concerns_the_file_is_said_once_and_the_student_is_called_by_name(tmp_path, monkeypatch):
    """And three criteria that are not begun are one word."""
    why = "90_toy.ipynb is not a notebook: line 7 of the file is the marker of a merge conflict."
    double, root = toy.exercise("double", 10), toy.exercise("root", 4)
    unread = {e.id: criteria.refused(e, why) for e in (double, root)}
    begun = {
        "toy.double": criteria.refused(double, "No code cell defines double."),
        "toy.root": toyclass.BLANK["toy.root"],
    }
    blank = replace(
        begun["toy.root"], findings=[replace(f, missed="not begun") for f in 3 * begun["toy.root"].findings]
    )
    home = toyclass.make(monkeypatch, tmp_path, {"ada": unread, "ben": begun | {"toy.root": blank}})
    with results.book(home) as book:
        book.update_or_create_student("ada", first_name="Ada", last_name="<i>Byron")
    assert set(toy.grade_with_nbgrader(home, toy.UNIT, root=tmp_path).values()) == {"ok"}
    ada, ben = ((home / "feedback" / who / toy.UNIT / f"{toy.UNIT}.html").read_text() for who in ("ada", "ben"))
    assert ada.count(why) == 1 and "<section" not in ada and "Ada &lt;i&gt;Byron (ada)" in ada
    assert ben.count("<section") == 1 and ">toy.root</span>" in ben and 'id="file"' not in ben, (
        "what is not begun is a line"
    )
    assert re.findall(r'<td class="quiet">(.*?)</td>', ben) == ["does not run"]


def test_what_is_lost_in_more_stands_apart_and_costs_nothing(tmp_path, monkeypatch):
    lost = {
        f"toy.{name}": toyclass.verdict(name, 0, of, Finding("right", 0, of, "failed", missed=f"{name} is wrong"))
        for name, of in (("double", 10), ("root", 4))
    }
    says = {"ada": lost, "ben": toyclass.RIGHT | {"toy.root": lost["toy.root"]}}
    home = toyclass.make(monkeypatch, tmp_path, says)
    counts.set_rules(home, toy.UNIT, {"more": ["toy.root"]})
    assert set(toy.grade_with_nbgrader(home, toy.UNIT, root=tmp_path).values()) == {"ok"}
    told = [
        re.findall(
            r'class="kind">(\w+)|<td class="quiet">(.*?)</td>',
            (home / "feedback" / who / toy.UNIT / f"{toy.UNIT}.html").read_text(),
        )
        for who in ("ada", "ben")
    ]
    rows = [[head or row for head, row in page] for page in told]
    assert rows == [["Main", "double is wrong", "More", "root is wrong"], ["More", "root is wrong"]]
