"""A work log as text, in a notebook, and as a page of its own."""

from __future__ import annotations

import base64
import inspect
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path

from course_lib.catalogue import say
from course_lib.exercise import Exercise
from course_lib.exercises.rounds import ROUNDS
from course_lib.work_logs import picture
from course_lib.work_logs.log import Round, WorkLog, arguments_of, task_of
from course_lib.workloads.stated import COUNTED, evaluated

CELL = "text-align:right;padding:2px 12px 2px 0"
STYLE = "body{font-family:sans-serif;max-width:60em;margin:2em auto;padding:0 1em}table{border-collapse:collapse}"


@dataclass
class FirstVersion:
    """Display of the version that a work log begins with: its source, and what it moves."""

    exercise: Exercise

    @property
    def source(self) -> str:
        """Return the source of its kernels, and of the function that launches them."""
        text = Path(inspect.getfile(task_of(self.exercise).first)).read_text("utf-8")
        kernels = text[text.index("@triton.jit") : text.index(f"\n\n\n{self.exercise.entry} = ")]
        return re.sub("  # pyright.*", "", kernels)

    def __repr__(self) -> str:
        task = task_of(self.exercise)
        size = task.traced(*arguments_of(self.exercise))
        counts = ", ".join(f"{name} {count:,}" for name, count in size.counts[0].items())
        return f"{self.source}\n\n# on {size.name}: {counts}"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


@dataclass
class Page:
    """Display of the rounds of a work log, with their counts and remarks."""

    exercise: Exercise
    log: WorkLog

    @property
    def summary(self) -> str:
        """Return a sentence on how many rounds are right, and on which size they were traced."""
        counts = {"held": self.log.held, "rounds": len(self.log.rounds), "needed": ROUNDS}
        return say("shown.work_log.summary", **counts, size=self.log.size.name)

    def rows(self, each: Round) -> list[tuple[str, ...]]:
        """List (name, count of the version before, formula as it was saved, its value, count of the version) for each number of a round."""
        return [(name, f"{each.before[name]:,}", *self._stated(each, name), _count(each, name)) for name in COUNTED]

    def _stated(self, each: Round, name: str) -> tuple[str, str]:
        formula = each.first.formulas.get(name, "")
        try:
            return formula, f"{evaluated(formula, self.log.size.sizes):,.0f}"
        except ValueError:
            return formula, "-"

    def remarks(self, each: Round) -> list[str]:
        """List sentences on when a round was stated, whether that changed after its trace, and what is wrong."""
        stated = say("shown.work_log.stated", date=each.first.date, before=each.first.before)
        remarks = [stated if any(each.first.formulas.values()) else say("shown.work_log.nothing_stated")]
        if each.first.traced and each.first.formulas != each.stated:
            now = [f"{name} {formula}" for name, formula in each.stated.items()]
            remarks.append(say("shown.work_log.changed", now=now))
        held = say("shown.work_log.not_held", problem=each.problem) if each.problem else say("shown.work_log.held")
        return [*remarks, held]

    def __repr__(self) -> str:
        lines = [f"{self.exercise.id}: {self.summary}"]
        for number, each in enumerate(self.log.rounds, 1):
            lines += ["", f"Round {number}: {each.change}"]
            lines += [
                f"  {name:<9}before {before:>11}   stated {formula:<30} = {value:>11}   traced {seen:>11}"
                for name, before, formula, value, seen in self.rows(each)
            ]
            lines += [f"  {remark}" for remark in self.remarks(each)]
            lines += [str(each.changed)] if each.changed else []
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        sections = (self._section(number, each) for number, each in enumerate(self.log.rounds, 1))
        return f"<p><b>{escape(self.exercise.id)}</b>: {escape(self.summary)}</p>{self._picture()}{''.join(sections)}"

    def _picture(self) -> str:
        """The picture as a bitmap, which code hosts and printers show, too."""
        if not self.log.rounds:
            return ""
        drawn = picture.rounds(self.log)
        data = base64.b64encode(drawn._repr_png_()).decode()
        return f'<p><img alt="{escape(drawn.words)}" style="max-width:100%" width="720" src="data:image/png;base64,{data}"></p>'

    def _section(self, number: int, each: Round) -> str:
        heads = "".join(
            f"<th scope='col' style='{CELL}'>{head}</th>" for head in ("", "before", "stated", "that is", "traced")
        )
        rows = "".join(
            f"<tr><th scope='row' style='{CELL}'>{name}</th><td style='{CELL}'>{before}</td><td style='{CELL}'><code>{escape(formula)}"
            f"</code></td><td style='{CELL}'>{value}</td><td style='{CELL}'>{seen}</td></tr>"
            for name, before, formula, value, seen in self.rows(each)
        )
        remarks = "".join(f"<p>{escape(remark)}</p>" for remark in self.remarks(each))
        changed = (
            f"<details><summary>Line by line</summary>{each.changed._repr_html_()}</details>" if each.changed else ""
        )
        return f"<h4>Round {number}: {escape(each.change)}</h4><table><tr>{heads}</tr>{rows}</table>{remarks}{changed}"

    def document(self) -> str:
        """Render a whole HTML page, for printing and for handing on."""
        title = escape(f"Work log: {self.exercise.id}")
        body = self._repr_html_().replace("<details>", "<details open>")  # what is shut is not printed
        return (
            f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{title}</title><style>{STYLE}</style></head>"
            f"<body><h1>{title}</h1>{body}</body></html>\n"
        )


def _count(each: Round, name: str) -> str:
    return f"{each.counts[name]:,}" if each.counts else "-"
