"""A Diff as people read it: a row for each line whose traffic or FLOPs changed, as text, as Markdown, as HTML."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from html import escape

from tritontrace.diffs.data import COMPUTE, FLOPS, Changes, Excess, Kernel, LineChange, Side
from tritontrace.words import plural

COLUMNS = ("line", "op", "tensor", "instructions", "bytes", "sectors", "per byte", "FLOPs")
TEXT_COLUMNS = 3  # flush left; numbers are flush right
ARROW = " → "
WORDS = {"bytes": "the bytes", "sectors": "the sectors"}
SAME = "Its text is the same: the arguments, a constant or the grid make the difference."
MIXED = "Several kernels are called so, and their lines are mixed: the sums are right, the lines may be another one's."
REORDERED = "All sums are equal, and its launches count something else one by one."


# ------------------------------------------------------------------------------------------------ what is to be shown


def ratio(before: float, after: float) -> str:
    """Format a ratio: "×1.8"; "" where nothing changed."""
    if before == after:
        return ""
    return f"×{after / before:.3g}" if before and after else "new" if after else "gone"


def _change(before: int, after: int) -> str:
    if before == after:
        return f"{after:,}"
    return f"{before:,}{ARROW}{after:,} ({ratio(before, after)})"


def _either(side: Side | None, other: Side | None, what: str) -> str:
    a, b = (getattr(each, what) if each else "" for each in (side, other))
    return a if a == b or not b else b if not a else f"{a}{ARROW}{b}"


def _per_byte(line: LineChange) -> str:
    a, b = (_times(side.per_byte) if side and side.distinct else "" for side in (line.before, line.after))
    return a if a == b else f"{a or '-'}{ARROW}{b or '-'}"


def _times(number: float) -> str:
    return f"{number:.3g}" if number < 100 else f"{number:,.0f}"


def cells(line: LineChange) -> tuple[str, ...]:
    """Return the cells of the row for one operation on one tensor by one statement, or for what a statement computes."""
    counts = ("instructions", "bytes", "sectors")
    moved = ["" if line.op == COMPUTE else _change(*line.counted(name)) for name in counts]
    return (
        _either(line.before, line.after, "where"),
        line.op,
        _either(line.before, line.after, "tensor"),
        *moved,
        _per_byte(line),
        _change(*line.counted(FLOPS)) if line.op == COMPUTE else "",
    )


def heading(diff: Changes, kernel: Kernel) -> str:
    """Return a kernel's names, launches, grids and FLOPs, as far as they changed."""
    old, new = kernel.names
    name = f"{old}, now {new}" if old and new and old != new else kernel.name
    parts = [name if all(kernel.names) else f"{name}, {_lacks(diff, kernel)}"]
    a, b = kernel.launches
    parts.append(plural(b or a, "launch", "launches") if a == b or not a or not b else f"{a}{ARROW}{b} launches")
    grids = [sorted({tuple(grid) for grid in of}) for of in kernel.grids]
    if all(kernel.names) and grids[0] != grids[1]:
        parts.append(f"grid {_grids(grids[0])}{ARROW}{_grids(grids[1])}")
    flops = [sum(of.values()) for of in kernel.flops]
    if any(flops):
        parts.append(f"{_change(*flops)} FLOPs")
    equal = sum(line.equal for line in kernel.lines)
    if kernel.status == "equal":
        parts.append("equal")
    elif equal:
        parts.append(f"{plural(equal, 'line')} unchanged, not shown")
    return ", ".join(parts)


def _lacks(diff: Changes, kernel: Kernel) -> str:
    """Say where a kernel is not: a version that did not come to its end may just not have reached it."""
    lacking = 0 if kernel.status == "added" else 1
    return "not reached" if diff.stopped[lacking] else kernel.status


def _grids(grids: list[tuple]) -> str:
    return " and ".join(str(grid) for grid in grids) if len(grids) <= 2 else f"of {len(grids)} kinds"


def notes(kernel: Kernel) -> list[str]:
    """List sentences that may explain a kernel's change."""
    if kernel.status != "changed":
        return []
    found = [sentence for sentence, holds in ((MIXED, kernel.mixed), (REORDERED, kernel.reordered)) if holds]
    if kernel.helpers:
        return [*found, f"Called by it and changed: {', '.join(f'`{name}`' for name in kernel.helpers)}."]
    return [*found, SAME] if kernel.same_text else found


def title(diff: Changes) -> str:
    """Return the names of what was traced: "old.py → new.py"."""
    old, new = diff.titles
    return f"{old}{ARROW}{new}"


def summary(diff: Changes) -> list[str]:
    """List sentences on whether anything changed, the sums, and caveats."""
    named = (("bytes moved", diff.bytes), ("sectors", diff.sectors), ("FLOPs", diff.flops))
    sums = ", ".join(f"{_change(*counts)} {name}" for name, counts in named)
    found = [f"Equal: {sums}." if diff.equal else f"{sums}."]
    for which, sentence in zip(("first", "second"), diff.stopped, strict=True):
        if sentence:
            found.append(f"The {which} did not come to its end: {sentence}")
    a, b = diff.cards
    if a != b and None not in (a, b):
        found.append(f"They were traced as on different GPUs: {_card(a)} and {_card(b)}.")
    return found


def _card(card: dict) -> str:
    return f"{card['name']} with {card['sms']} SMs"


def faults(diff: Changes) -> list[str]:
    """List a sentence for each fault that is new, and each that is gone."""
    named = (("New fault", diff.new_faults), ("Gone", diff.gone_faults))
    return [f"{word}: {one.where}: {one.kind}: {one.sentence}" for word, found in named for one in found]


def excess(one: Excess, at_most: float) -> str:
    """Return a sentence on a count that grew more than is allowed: "moves 1.8 times the bytes"."""
    who = f"Kernel `{one.kernel}` moves" if one.kernel else "All kernels together move"
    times = f"{one.ratio:.3g} times {WORDS[one.count]}" if one.before else f"{one.count} where there were none"
    return f"{who} {times}: {one.after:,} instead of {one.before:,}; {at_most:g} times is allowed."


# ----------------------------------------------------------------------------------------------------- text


def table(diff: Changes, remarks: list[str] | None = None) -> str:
    """Render a heading for each kernel, and a row for each operation whose counts changed; the sums and the faults below."""
    changed = {id(kernel): [cells(line) for line in kernel.lines if not line.equal] for kernel in diff.kernels}
    rows = [COLUMNS, *(row for rows in changed.values() for row in rows)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [title(diff)]
    if len(rows) > 1:
        lines.append(_aligned(COLUMNS, widths))
    for kernel in diff.kernels:
        lines.append(heading(diff, kernel))
        lines += [_aligned(row, widths) for row in changed[id(kernel)]]
        lines += [f"  {note}" for note in notes(kernel)]
    return "\n".join(line.rstrip() for line in [*lines, *summary(diff), *faults(diff), *(remarks or [])])


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    padded = [c.ljust(w) if i < TEXT_COLUMNS else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]
    return "  " + "  ".join(padded)


# ----------------------------------------------------------------------------------------------------- Markdown


def markdown(diff: Changes, remarks: list[str] | None = None) -> str:
    """Render the same for a pull request: a table for each kernel that changed, those that are equal in one line."""
    parts = [f"**Traffic, {title(diff)}**", *summary(diff)]
    for kernel in diff.kernels:
        if kernel.status == "equal":
            continue
        rows = [cells(line) for line in kernel.lines if not line.equal]
        parts.append(_plain(heading(diff, kernel)))
        if rows:
            rule = ["---"] * TEXT_COLUMNS + ["---:"] * (len(COLUMNS) - TEXT_COLUMNS)
            parts.append(
                "\n".join("| " + " | ".join(_plain(cell) for cell in row) + " |" for row in [COLUMNS, rule, *rows])
            )
        parts += notes(kernel)
    equal = [f"`{kernel.name}`" for kernel in diff.kernels if kernel.status == "equal"]
    if equal:
        parts.append(f"Equal: {', '.join(equal)}.")
    return "\n\n".join([*parts, *(f"- {sentence}" for sentence in [*faults(diff), *(remarks or [])])]) + "\n"


def _plain(cell: str) -> str:
    return re.sub(r"([|_*])", r"\\\1", cell)


# ----------------------------------------------------------------------------------------------------- HTML

CELL = "padding: 2px 10px; color: inherit; background: transparent"
MONO = f"font-family: var(--jp-code-font-family, monospace); white-space: pre; {CELL}"
RULE = "border: 0; border-bottom: 1px solid var(--jp-border-color2, currentColor)"


def html(diff: Changes, remarks: list[str] | None = None) -> str:
    """Render the table, then the text of each changed kernel, as a diff, with what each statement moves; no mark is by colour alone."""
    notes_ = "".join(f"<p>{escape(text)}</p>" for text in [*summary(diff), *faults(diff), *(remarks or [])])
    bodies = "".join(_body(diff, kernel) for kernel in diff.kernels)
    texts = "".join(_text(kernel) for kernel in diff.kernels if kernel.status != "equal")
    return (
        f'<div style="color: var(--jp-content-font-color1, inherit); overflow-x: auto"><p><b>{escape(title(diff))}</b></p>{notes_}'
        f'<table style="border-collapse: collapse"><thead><tr style="{RULE}">{_row(COLUMNS, "th")}</tr></thead>{bodies}</table>'
        f"{texts}</div>"
    )


def _body(diff: Changes, kernel: Kernel) -> str:
    head = f'<tr><th scope="rowgroup" colspan="{len(COLUMNS)}" style="text-align: left; {CELL}">{escape(heading(diff, kernel))}</th></tr>'
    rows = "".join(f"<tr>{_row(cells(line), 'td')}</tr>" for line in kernel.lines if not line.equal)
    said = "".join(
        f'<tr><td colspan="{len(COLUMNS)}" style="{CELL}">{escape(note)}</td></tr>' for note in notes(kernel)
    )
    return f"<tbody>{head}{rows}{said}</tbody>"


def _row(row: tuple[str, ...], tag: str) -> str:
    aligns = ["left"] * TEXT_COLUMNS + ["right"] * (len(row) - TEXT_COLUMNS)
    return "".join(
        f'<{tag} style="text-align: {align}; {CELL}">{escape(cell)}</{tag}>'
        for cell, align in zip(row, aligns, strict=True)
    )


def _text(kernel: Kernel) -> str:
    rows = "".join(
        "".join(
            [
                "<tr>",
                *(f'<td style="text-align: right; {MONO}">{escape(count)}</td>' for count in counts),
                f'<td style="{MONO}">{escape(line)}</td></tr>',
            ]
        )
        for *counts, line in annotated(kernel)
    )
    caption = f'<caption style="text-align: left; color: inherit">{escape(kernel.name)}: bytes, FLOPs, and the text as a diff</caption>'
    return f'<table style="border-collapse: collapse; margin-top: 10px">{caption}<tbody>{rows}</tbody></table>'


def annotated(kernel: Kernel) -> Iterator[tuple[str, str, str]]:
    """Yield each statement as a diff has it, "- " and "+ " where it changed, behind its bytes and its FLOPs before and after."""
    sums: dict[tuple[int, int], Counter[str]] = {}
    for line in kernel.lines:
        for side, each in enumerate((line.before, line.after)):
            if each:
                sums.setdefault((side, int(each.where.rpartition(":")[2])), Counter()).update(each.counts)
    for text in kernel.text:
        old, new = (sums.get(key, Counter()) for key in ((0, text.before), (1, text.after)))
        if not text.changed:
            bytes_, flops = (
                _change(old[name], new[name]) if old[name] or new[name] else "" for name in ("bytes", FLOPS)
            )
            yield bytes_, flops, f"  {text.after:>4} {text.new}"
            continue
        for number, words, sign, counts in ((text.before, text.old, "-", old), (text.after, text.new, "+", new)):
            if number:
                bytes_, flops = (f"{counts[name]:,}" if counts[name] else "" for name in ("bytes", FLOPS))
                yield bytes_, flops, f"{sign} {number:>4} {words}"


def page(diff: Changes, remarks: list[str] | None = None) -> str:
    """Render an HTML page that stands alone, light or dark as the reader's system is."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title(diff))}</title><style>'
        ":root { color-scheme: light dark } body { font: 15px/1.5 system-ui, sans-serif; margin: 2em }"
        f"</style></head><body>{html(diff, remarks)}</body></html>\n"
    )
