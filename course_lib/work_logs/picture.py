"""The picture of a work log: what each version moves, and what was stated of it."""

from __future__ import annotations

from matplotlib.ticker import MaxNLocator, StrMethodFormatter

from course_lib.catalogue import say
from course_lib.work_logs.log import WorkLog
from course_lib.workloads.stated import COUNTED, evaluated
from tritontrace.colours import EDGE, OTHERS, OURS
from tritontrace.picture import WIDTH, Picture, bare, on_white


@on_white
def rounds(log: WorkLog) -> Picture:
    """Draw bytes, sectors and launches of the first version and of each round as bars, and what was stated as lines across."""
    figure = Picture(WIDTH, 2.8)
    traced = {0: log.size.counts[0]} | {n: each.counts for n, each in enumerate(log.rounds, 1) if each.counts}
    for ax, name in zip(figure.subplots(1, len(COUNTED)), COUNTED, strict=True):
        ax.bar([*traced], [counts[name] for counts in traced.values()], color=OURS, edgecolor=EDGE, width=0.6)
        places = _stated(log, name)
        ax.hlines(
            [*places.values()],
            [n - 0.4 for n in places],
            [n + 0.4 for n in places],
            color=OTHERS,
            linewidth=3,
            label="stated",
        )
        ax.set_xticks(range(len(log.rounds) + 1), ["first", *map(str, range(1, len(log.rounds) + 1))])
        ax.set_xlabel("round")
        ax.set_title(name)
        ax.yaxis.set_major_locator(MaxNLocator(4, integer=True))
        ax.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        ax.set_ylim(0, 1.1 * max(*places.values(), *(counts[name] for counts in traced.values()), 1))
        bare(ax)
    figure.axes[-1].legend(loc="upper right", frameon=False)
    figure.caption(_in_words(log))
    return figure


def _stated(log: WorkLog, name: str) -> dict[int, float]:
    """Number of a round -> what it stated, of those that stated something."""
    places = {}
    for number, each in enumerate(log.rounds, 1):
        try:
            places[number] = evaluated(each.first.formulas[name], log.size.sizes)
        except ValueError:
            continue
    return places


def _in_words(log: WorkLog) -> str:
    last = [log.size.counts[0], *(each.counts for each in log.rounds if each.counts)][-1]
    first = log.size.counts[0]
    fell = [say("shown.work_log.fell", name=name, first=first[name], last=last[name]) for name in COUNTED]
    return say("shown.work_log.caption", size=log.size.name, fell=fell, held=log.held, rounds=len(log.rounds))
