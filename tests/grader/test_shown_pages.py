"""Pages of what students wrote hold nothing active, and cost no more than a child."""

import pytest

from grader.gradebook import pages
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
