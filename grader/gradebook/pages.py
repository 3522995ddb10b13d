"""Render what students wrote as HTML, for pages that instructors read: nothing in it is active, and a child with limits
renders it.

A page's cells are rendered all at once, in one child (bounded.py), before nbconvert asks for them one by one; what most
submissions share, the text that was handed out, is rendered once. Where the child dies, the student's cells are shown as
plain text.
"""

from __future__ import annotations

import html
import re
from collections import OrderedDict
from collections.abc import Iterable

from bleach.sanitizer import Cleaner
from nbconvert.exporters import HTMLExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
from nbformat import NotebookNode
from nbgrader.preprocessors import NbGraderPreprocessor

from course_lib.exercise import Verdict
from grader.judging.bounded import TooMuch, bounded

MAX_RENDERED = (
    20_000  # characters of a cell, four times the longest honest one; renderers take the square of what is nested
)
KEPT = 1024  # rendered cells
LINKS = ("http", "https", "mailto")
SourceCell = tuple[str, str]  # "markdown" or "code", source

_TAGS = """
    a abbr b blockquote br code del details div dd dl dt em h1 h2 h3 h4 h5 h6 hr i img kbd li ol p pre s small span
    strong sub summary sup table tbody td th thead tr u ul
"""


def _harmless(tag: str, name: str, value: str) -> bool:
    """Whether the attribute is harmless: it does not look like a part of the page, and no image tells its owner who
    opened the page."""
    if name == "class":
        return re.fullmatch(r"highlight( hl-\w+)?|[a-z][a-z0-9]?", value) is not None  # of highlighted code
    if name == "src":
        return tag == "img" and value.startswith("data:image/")
    if name == "href":
        return tag == "a" and _leads_to_a_page(value)
    return name in ("title", "align") or (name in ("alt", "width") and tag == "img")


def _leads_to_a_page(link: str) -> bool:
    """A link that holds its page itself (data:) would show it under the instructor's eyes as if it were somebody's."""
    plain = re.sub(r"[\x00-\x20\x7f-\xa0\s\ufffd]+", "", html.unescape(link)).lower()  # as a browser reads it
    before, colon, _ = re.split(r"[/?#]", plain, maxsplit=1)[0].partition(":")
    return not colon or before in LINKS


# --------------------------------------------------------------------------------------------- in a child


def _markdown(source: str) -> str:
    """Markdown -> HTML. Cleaned after rendering, so that `a < b` in code and in formulas stays what it is."""
    cleaner = Cleaner(tags=set(_TAGS.split()), attributes=_harmless, protocols=[*LINKS, "data"], strip=True)
    renderer = IPythonRenderer(escape=False, exclude_anchor_links=True)
    return cleaner.clean(MarkdownWithMath(renderer=renderer).render(source))


def _code(source: str) -> str:
    return Highlight2HTML(pygments_lexer="python")(source)


def _rendered(kind: str, source: str) -> str:
    if len(source) > MAX_RENDERED:
        return plain(source)
    try:
        return _markdown(source) if kind == "markdown" else _code(source)
    except RecursionError:
        return plain(source)


def plain(source: str) -> str:
    """Render a cell as typed, escaped and cut to a readable length, as HTML."""
    rest = len(source) - MAX_RENDERED
    more = f"\n... and {rest} more characters" if rest > 0 else ""
    return f'<div class="highlight"><pre>{html.escape(source[:MAX_RENDERED])}{more}</pre></div>'


# --------------------------------------------------------------------------------------------- here

_known: OrderedDict[SourceCell, str] = OrderedDict()  # the latest


def render(cells: Iterable[SourceCell]) -> None:
    """Render cells into the cache, in one child process."""
    wanted = list(dict.fromkeys(cells))
    missing = [cell for cell in wanted if cell not in _known]
    for cell in wanted:
        if cell in _known:
            _known.move_to_end(cell)
    if not missing:
        return
    try:
        pages = bounded(lambda: [_rendered(*cell) for cell in missing])
    except TooMuch:
        pages = [plain(source) for _, source in missing]
    for cell, page in zip(missing, pages, strict=True):
        _known[cell] = page
    while len(_known) > max(KEPT, len(wanted)):
        _known.popitem(last=False)


def _page(kind: str, source: str) -> str:
    render([(kind, source)])
    return _known[kind, source]


class Render(NbGraderPreprocessor):
    """Preprocessor that renders all cells of a notebook at once."""

    def preprocess(self, nb: NotebookNode, resources: dict) -> tuple[NotebookNode, dict]:
        render([("code" if cell.cell_type == "code" else "markdown", cell.source) for cell in nb.cells])
        return nb, resources


def safe_markdown(source: str) -> str:
    """Convert Markdown to HTML without anything active, as nbconvert's filter of that name would."""
    return _page("markdown", source)


def highlighted(source: str, language: str | None = None, metadata: dict | None = None) -> str:
    """Highlight Python as HTML, as nbconvert's filter of that name would."""
    return _page("code", source)


def numbered(source: str, verdict: Verdict | None) -> str:
    """Highlight Python with the cell's own line numbers; lines that a verdict blames are lit."""
    before, pre, rest = highlighted(source).partition("<pre>")
    code, end, after = rest.rpartition("</pre>")
    first = len(source) - len(source.lstrip("\n")) if "<span></span>" in code else 0  # which the colours leave out
    code, lit = code.replace("<span></span>", "", 1).rstrip("\n").split("\n"), _blamed(verdict)
    lines = [f'<span class="line{" lit" * (n in lit)}">{line}</span>' for n, line in enumerate(code, first + 1)]
    return f'<div style="--first:{first + 1}">{before}{pre}{"".join(lines)}{end}{after}</div>'


def _blamed(verdict: Verdict | None) -> set[int]:
    """Lines of the cell that lost points."""
    findings = verdict.findings if verdict else ()
    return {f.at.number for f in findings if f.at and f.status in ("failed", "partial")}


class FeedbackPage(HTMLExporter):
    """HTMLExporter without its last step, which parses the whole page again to add `alt` to images: that takes longer than all the others
    together."""

    def from_notebook_node(self, nb: NotebookNode, resources: dict | None = None, **kw) -> tuple[str, dict]:
        resources = self._init_resources(resources)
        kinds = WidgetsDataTypeFilter(notebook_metadata=self._nb_metadata, parent=self, resources=resources)
        self.register_filter("filter_data_type", kinds)
        page, resources = super(HTMLExporter, self).from_notebook_node(nb, resources, **kw)
        return re.sub(r"<img(?![^>]*\balt=)", '<img alt=""', page), resources
