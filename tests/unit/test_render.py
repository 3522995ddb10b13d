"""A verdict and the progress for whoever does not see them, or sees them on a dark page."""

import re
from html.parser import HTMLParser

import pytest

from course_lib import progress, render
from course_lib.exercise import CodeLine, ErrorMap, Finding, Request, Spent, Verdict
from course_lib.exercises.hints import hints_on
from course_lib.render import drawings, verdicts
from tritontrace.colours import DONE, EDGE, HOLDS, PARTLY, WRONG
from tritontrace.results import Cause

MAP = ErrorMap([[0, 0, 0], [0, 0.5, 0], [0, 0, 1]], 26, 7, [10, 25, 4, 6])  # cells of 9 x 3
VERDICT = Verdict(
    "coalescing.transpose",
    3,
    9,
    [
        Finding("your kernel does it", 0, 0, "passed", seen="1 launch", gate=True),
        Finding("right", 2, 2, "passed", seen="equal"),
        Finding(
            "right on ragged shapes",
            0,
            3,
            "failed",
            "right",
            "`out` is wrong",
            "first at [9, 3]",
            on="<7 x 5>",
            error_map=MAP,
        ),
        Finding("coalesced", 1, 4, "failed", "4 bytes", "32 bytes"),
        Finding("speed", 0, 0, "not_judged", seen="not measured", bonus=True),
    ],
    remark="The tail is missing.",
    printed="<hello>",
)


class Heard(HTMLParser):
    """The words of a screen reader on a fragment, in order: texts, and the labels of what is drawn."""

    def __init__(self, fragment):
        super().__init__()
        self.said, self.tags, self.drawn = [], [], 0
        self.feed(fragment)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.tags.append((tag, named))
        if self.drawn or named.get("role") == "img" or named.get("aria-hidden"):
            self.drawn += tag not in ("rect", "br")
            self.said += [named["aria-label"]] if "aria-label" in named else []

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        self.drawn -= bool(self.drawn)

    def handle_data(self, data):
        if not self.drawn:
            self.said.append(data.strip())


def test_what_is_heard_is_what_is_seen_and_in_that_order():
    said = " | ".join(filter(None, Heard(render.html(VERDICT)).said))
    hints = [f"hint {n} of 3 | {hint}" for n, hint in enumerate(hints_on(VERDICT.exercise), 1)]
    assert said == " | ".join(
        [
            "partly right | transpose, dense on both sides | 3 / 9 | points | The tail is missing.",
            *hints,
            "failed | right on ragged shapes | 0 / 3 | out | is wrong | (on <7 x 5>) | first at [9, 3]",
            "Map of the wrong elements, all of them in rows 10 to 25, columns 4 to 6",
            "columns 0 to 6, rows 0 to 25 from the top; filled: wrong",
            "partly | coalesced | 1 / 4 | 32 bytes | expected: 4 bytes",
            "passed | your kernel does it | passed | right | 2 / 2 | not judged | speed: not measured",
            "what was seen where they hold",
            "passed | your kernel does it | 1 launch | passed | right | 2 / 2 | equal",
            verdicts.gpu_line(VERDICT),
            "what your code printed | <hello>",
        ]
    )


def test_the_text_says_in_words_where_it_is_wrong_before_it_draws_it():
    text = render.text(VERDICT)
    assert text.index("where it is wrong: rows 10 to 25, columns 4 to 6") < text.index("┌───┐")
    single = render.text(
        Verdict("a", 0, 1, [Finding("b", 0, 1, "failed", error_map=ErrorMap([[0, 1]], 1, 2, [0, 0, 1, 1]))])
    )
    assert "where it is wrong: row 0, column 1" in single


def finding(status, points=0, kind="", about="result", **more):
    return Finding("a", points, 2, status, cause=Cause(kind) if kind else None, about=about, **more)


OUTCOMES = {
    "right": [finding("passed", 2)],
    "wasteful": [finding("passed", 2), finding("failed", about="cost", kind="waste")],
    "partly": [finding("passed", 2), finding("failed", kind="wrong")],
    "wrong": [finding("failed", kind="fault")],
    "not_begun": [finding("failed", kind="blank"), finding("not_judged")],
    "did_not_run": [finding("failed", kind="raised"), finding("not_judged")],
    "not_accepted": [finding("failed", kind="refused"), finding("not_judged")],
    "not_judged": [finding("not_judged", kind="grader_failed")],
    "excused": [finding("passed", 1, kind="not_handed_out")],
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_the_headline_says_in_words_what_came_of_it(outcome):
    found = OUTCOMES[outcome]
    verdict = Verdict("a.b", sum(f.points for f in found), 2 * len(found), found)
    words, sign, tone = render.OUTCOMES[outcome]
    assert verdict.outcome == outcome
    assert f"{sign} {words}" in render.text(verdict).splitlines()[0]
    assert list(filter(None, Heard(render.html(verdict)).said))[:2] == [words, "a.b"]
    assert f"solid {tone}" in render.html(verdict)


def test_what_is_lost_by_a_wrong_result_is_no_waste():
    lost = [finding("passed", 2), finding("failed", about="cost", kind="wrong")]
    assert Verdict("a.b", 2, 4, lost).outcome == "partly"
    assert Verdict("a.b", 0, 4, [finding("failed", kind="wrong"), finding("failed", kind="blank")]).outcome == "wrong"


def test_every_standing_has_a_sign_or_a_word_of_its_own():
    """Colour alone tells nothing."""
    standings = [
        finding("passed", 2),
        finding("partial", 1),
        finding("failed"),
        finding("failed", about="cost"),
        finding("failed", kind="blank"),
        finding("not_judged"),
    ]
    assert len({verdicts.standing(f)[1] for f in standings}) == len({verdicts.standing(f)[0] for f in standings}) == 6
    widths = re.findall(r"width:([\d.]+em)", "".join(render.chip(*verdicts.standing(f)) for f in standings))
    assert len(widths) == 6 and len(set(widths)) == 1, "one below the other, none ragged"


def test_what_was_spent_is_drawn_beside_what_would_do():
    spent = Spent("sectors", "touched", 10_240, 98_304, 10_752)
    verdict = Verdict("a.b", 0, 2, [finding("failed", about="cost", seen="98,304 sectors", spent=spent)])
    html = render.html(verdict)
    _, *widths = [int(named["width"]) for tag, named in Heard(html).tags if tag == "svg"]  # the first: points
    assert widths == [round(drawings.BAR * 10_240 / 98_304), drawings.BAR]
    assert drawings.in_times(spent) == ("9.6 times as many", "1.05 times are allowed")
    said = " ".join(Heard(html).said)
    assert all(
        number in said for number in ("10,240 sectors", "98,304 sectors", "9.6 times as many", "1.05 times are allowed")
    )
    assert "98,304 sectors" in render.text(verdict)


def test_where_nothing_is_wasted_one_bar_says_so():
    shown = Heard(drawings.bars(Spent("bytes", "moved", 4_096, 4_096, 4_300)))
    assert [tag for tag, _ in shown.tags].count("svg") == 1 and " ".join(shown.said).count("4,096") == 1


def test_the_line_stands_in_its_code_with_its_number():
    lost = finding("failed", about="cost", detail="half is moved for nothing", at=CodeLine(7, "tl.store(a < b)"))
    html, text = (f(Verdict("a.b", 0, 2, [lost])) for f in (render.html, render.text))
    assert "tl.store(a &lt; b)" in html and "7tl.store(a < b)" in "".join(Heard(html).said)
    assert "    7 │ tl.store(a < b)" in text.splitlines()


def test_a_sentence_does_not_quote_the_line_that_is_lit_below_it():
    sentence = "kernel `k`, line 7: `tl.store(a)`, in `f`, line 2: `tl.store(b)`: outside"
    wrong = finding("failed", at=CodeLine(7, "tl.store(a)"), seen=sentence)
    html, text = (f(Verdict("a.b", 0, 2, [wrong])) for f in (render.html, render.text))
    assert html.count("tl.store(a)") == text.count("tl.store(a)") == 1
    assert "tl.store(b)" in html and "tl.store(b)" in text
    assert f"border-left:3px solid {WRONG}" in html


def test_a_sentence_on_what_comes_next_is_last():
    right = Verdict("a.b", 2, 2, [finding("passed", 2)])
    assert render.text(right, "Next: `c.d`.").splitlines()[-1] == "Next: `c.d`."
    assert render.html(right, "Next: `c.d`.").endswith("Next: <code>c.d</code>.</div></div></div>")


def test_a_request_is_drawn_where_its_lanes_fall():
    column = Request("out", "store", 5, 2, [512 * lane for lane in range(32)])
    assert len(column.sectors) == 32
    assert "32 lanes, 32 sectors of 32 bytes. It writes 64 of the 1,024 bytes" in drawings.of_request(column)
    assert drawings.lanes(column).count("<rect") == 64
    across = Request("x", "load", 3, 4, [30])  # no kernel does this; a drawing must not fail on it
    assert across.sectors == [0, 1] and drawings.lanes(across).count("<rect") == 4
    assert drawings.lanes(Request("x", "load", 3, 4, []))


def test_each_line_of_a_detail_stays_a_line():
    lost = Finding("each ring has its mistake", 0, 4, "failed", detail="A: not that.\nB: no answer.")
    verdict = Verdict("hopper.name_races", 0, 4, [lost])
    assert {"    A: not that.", "    B: no answer."} <= set(verdicts.text(verdict).splitlines())
    assert "<div>A: not that.</div><div>B: no answer.</div>" in render.html(verdict)


def test_rows_of_several_matrices_are_said_to_be_that():
    heads = ErrorMap([[0, 1]], 222, 2, [37, 100, 1, 1], [2, 3])
    text = render.text(Verdict("a", 0, 1, [Finding("b", 0, 1, "failed", error_map=heads)]))
    assert "rows 0 to 221 (6 matrices of 37, one below the other)" in text


def luminance(colour):
    parts = re.findall("..", colour.lstrip("#") if len(colour) == 7 else "".join(2 * c for c in colour.lstrip("#")))
    linear = [c / 12.92 if (c := int(p, 16) / 255) <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def tinted(page, tint):
    """The colour of a page under #RRGGBBAA."""
    share = int(tint[7:9], 16) / 255
    mixed = [
        round(int(a, 16) * share + int(b, 16) * (1 - share))
        for a, b in zip(*(re.findall("..", c[1:7]) for c in (tint, page)), strict=True)
    ]
    return "#" + "".join(f"{part:02x}" for part in mixed)


@pytest.mark.parametrize("page, own_ink", [("#ffffff", "#000000"), ("#111111", "#e0e0e0")])
def test_nothing_depends_on_the_theme(page, own_ink):
    """Text has the page's own colour, on a thin tint at most, or a ground of its own; what is drawn stands out from the page."""
    chips = []
    for tag, named in Heard(render.html(VERDICT)).tags:
        style = dict(part.split(":", 1) for part in named.get("style", "").split(";") if ":" in part)
        ink, ground = style.get("color", "inherit"), style.get("background", "none")
        if len(ground) == 9:  # a tint
            assert ink == "inherit" and contrast(own_ink, tinted(page, ground)) >= 4.5
            continue
        assert (ink == "inherit") == (ground == "none"), (tag, style)
        if ink != "inherit":
            chips.append((ink, ground))
    assert len(chips) == 1 + sum(finding.judged for finding in VERDICT.findings), "one beside the headline"
    assert all(contrast(ink, ground) >= 4.5 and contrast(ground, page) >= 3 for ink, ground in chips)
    for colour in (HOLDS, PARTLY, WRONG, EDGE, DONE):
        assert contrast(colour, page) >= 3


def test_progress_is_heard_row_by_row_with_its_heads(monkeypatch, tmp_path):
    monkeypatch.setenv("COURSE_PROGRESS", str(tmp_path / "progress.json"))  # no points of another test
    heard = Heard(progress()._repr_html_())
    said = list(filter(None, heard.said))
    assert said[0].startswith("Next: ") and said[1:7] == [
        "unit",
        "main path",
        "points",
        "minutes left",
        "More",
        "00 · Start here",
    ]
    assert all(named.get("scope") in ("col", "row") for tag, named in heard.tags if tag == "th")
    assert all(named.get("aria-hidden") for tag, named in heard.tags if tag == "meter")  # the numbers stand next to it
    assert [named["href"] for tag, named in heard.tags if tag == "a"][
        4
    ] == "../04_memory_coalescing/04_memory_coalescing.ipynb"
    first = repr(progress()).splitlines()[1]
    assert re.fullmatch(r"00_start_here +0 of +\d+ exercises +0 of +\d+ points +░+, 0 of \d+ in More", first)


def test_one_mistake_is_told_once_with_what_it_costs():
    cause = Cause("wrong", "a case")
    told = Finding("first", 0, 3, "failed", seen="12 elements differ", cause=cause, key="a")
    again = [Finding(f"again {n}", 0, n, "same_cause", seen="as above", cause=cause, key=str(n)) for n in (1, 2, 4)]
    right = Finding("right", 5, 5, "passed")
    text, html = (f(Verdict("a.b", 5, 15, [told, *again, right])) for f in (render.text, render.html))
    for shown in (text, html):
        assert "One mistake, 10 points." in shown and "3 more criteria" in shown and "0 / 7" in shown
        assert shown.count("again 2") == 1 and "as above" not in shown
    other = Finding("other", 0, 1, "failed", seen="wasteful", cause=Cause("waste", "line 2"))
    assert "One mistake" not in render.text(Verdict("a.b", 5, 16, [told, *again, right, other]))
    assert "as above" in render.text(Verdict("a.b", 5, 9, [told, again[0], right])), "a single one is shown as it is"
