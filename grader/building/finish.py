"""Finishing a page with what neither Sphinx nor its theme does: names of folds, icons without a megabyte of them, styles that some page
uses, pictures that load when they are near, a description, and a search in what is written alone."""

from __future__ import annotations

import html
import re
import struct
from pathlib import Path

from grader.building import social

ICONS = "_static/scripts/fontawesome.js"  # course.css draws the few that the theme shows
LINES = "<p>Line by line: run the cell, or <code>strides log</code>.</p>"  # of a work log, a hundred kilobytes a page
SENTENCES = 200  # characters of a description


def pages(folder: Path, address: str = "") -> None:
    """Finish all pages in a folder that Sphinx wrote. address: of the site, needed for the social card's tag."""
    social.write(folder)
    card = f'<meta property="og:image" content="{address}/{social.FILE}"/>' if address else ""
    for path in folder.rglob("*.html"):
        if "_static" not in path.parts:
            path.write_text(page(path.read_text("utf-8"), path.parent, card), "utf-8")
    used = set(re.findall(r"[\w-]+", "".join(path.read_text("utf-8") for path in _using(folder))))
    for path in (folder / "_static").rglob("*.css"):
        path.write_text(styles(path.read_text("utf-8"), used), "utf-8")
    for path in [folder / ICONS, *(folder / "_static").rglob("*.map")]:
        path.unlink(missing_ok=True)
    search = folder / "_static" / "searchtools.js"  # shows what stands around a word: of the menu, too
    search.write_text(search.read_text("utf-8").replace('[role="main"]', ".bd-article"), "utf-8")


def styles(text: str, used: set[str]) -> str:
    """Remove the rules of a style sheet whose every selector names a class that no page and no script uses."""

    def rule(match: re.Match[str]) -> str:
        selectors = match["selectors"].split(",")
        return match[0] if any(set(re.findall(r"\.(-?[a-zA-Z_][\w-]*)", each)) <= used for each in selectors) else ""

    return re.sub(r"(?P<selectors>[^{}@;]*\.[^{}@;]*)\{[^{}]*\}", rule, re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))


def _using(folder: Path) -> list[Path]:
    """The files that name classes: pages, and scripts but for the one of all icons."""
    return [path for kind in ("html", "js") for path in folder.rglob(f"*.{kind}") if path != folder / ICONS]


def page(text: str, folder: Path, more: str = "") -> str:
    """Return the page with its folds named, its pictures sized and lazy, its icons gone and a description. more: tags for its head."""
    text = re.sub(r"<script[^>]*fontawesome\.js[^>]*></script>", "", text)
    text = text.replace('<summary aria-label="Toggle hidden content">', "<summary>")
    text = re.sub(
        r"(>([^<]+)</a><details[^>]*>)<summary>(?=<span class=\"toctree)", r'\1<summary aria-label="pages of \2">', text
    )
    text = re.sub(r"<details><summary>Line by line</summary>.*?</details>", LINES, text, flags=re.DOTALL)
    text = re.sub(r"<img [^>]*>", lambda tag: _lazy(tag[0], folder), text)
    if words := description(text):
        given = f'<meta name="description" content="{words}"/><meta property="og:description" content="{words}"/>'
        more = f"{given}{more}"
    return text.replace("</title>", f"</title>\n{more}", 1)


def description(text: str) -> str:
    """Return the first sentences of a page, escaped for an attribute; "" for a page without a paragraph."""
    article = text.partition("<article")[2]
    for paragraph in re.findall(r"<p>(.*?)</p>", article, flags=re.DOTALL):
        words = " ".join(html.unescape(re.sub(r"<[^>]+>", "", paragraph)).split())
        if len(words) > 60:
            return html.escape(words if len(words) <= SENTENCES else words[:SENTENCES].rpartition(" ")[0] + " …")
    return ""


def _lazy(tag: str, folder: Path) -> str:
    """The tag of a picture that is loaded when it is near, and whose place is kept until then: its size is that of the file, a PNG,
    or in proportion to the width that the tag says."""
    file = re.search(r'src="([^":]+\.png)"', tag)
    if not file or not (path := folder / file[1]).exists():
        return tag
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    given = re.search(r'width="(\d+)"', tag)
    size = f'height="{round(int(given[1]) * height / width)}"' if given else f'width="{width}" height="{height}"'
    return tag.replace("<img ", f'<img loading="lazy" {size} ', 1)
