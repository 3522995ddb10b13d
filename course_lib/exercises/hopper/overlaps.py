"""Criteria of pipelines: who fetches and who multiplies, and what runs beside what. None asks for a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.catalogue import say
from course_lib.criteria import CostCriterion
from course_lib.exercise import Finding, Trial
from course_lib.exercises.sm.criteria import Share, simulations
from tritontrace.results import Multiplied

ROOM = 1.05  # more bytes than a fair share
LARGEST_PART = 0.75  # of the products that one of two consumers may do


def products(trial: Trial) -> list[Multiplied]:
    """List the products that all launches of a trial issued, as simulated."""
    return [product for found in simulations(trial) for product in found.products]


@dataclass
class Specialised(CostCriterion):
    """Criterion: a partition that multiplies nothing fetches by TMA, and at least this many others share the products."""

    missed = say("hopper.specialised.missed")
    consumers: int
    points: float
    group: str = "performance"

    @property
    def title(self) -> str:
        return say("hopper.specialised.title", consumers=self.consumers)

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            for found in simulations(trial):
                done = Counter(product.who for product in found.products)
                both = sorted(done.keys() & set(found.fetchers))
                if both:
                    return self.lost(
                        say("hopper.specialised.both", partition=both[0]),
                        expected=say("hopper.specialised.expected"),
                        detail=say("hopper.specialised.advice"),
                    )
                if not found.fetchers:
                    return self.lost(say("hopper.specialised.none"), expected=say("hopper.specialised.one"))
                if len(done) < self.consumers or max(done.values()) > LARGEST_PART * done.total():
                    seen = say("hopper.specialised.few", partitions=len(done))
                    share = say("hopper.specialised.shares")
                    return self.lost(
                        seen, expected=say("hopper.specialised.fair", consumers=self.consumers), detail=share
                    )
        return self.earned(say("hopper.specialised.holds", fetchers=[*found.fetchers], consumers=[*sorted(done)]))


@dataclass
class Persistent(CostCriterion):
    """Criterion: a launch has as many programs as the call says, and the busiest makes at most one tile more than the others.

    programs, tiles   the arguments of a call -> how many programs a launch must have, and how many tiles they share
    """

    missed = say("hopper.persistent.missed")
    programs: Callable[..., int]
    tiles: Callable[..., int]
    points: float
    title: str = say("hopper.persistent.title")
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            asked, tiles = (count(**trial.inputs[-1]) for count in (self.programs, self.tiles))
            for launch in trial.evidence.launches:
                if launch.programs != asked:
                    detail = say("hopper.persistent.launch")
                    seen = say("criteria.programs.count", programs=launch.programs)
                    return self.lost(
                        seen,
                        expected=say("hopper.persistent.expected", programs=asked, case=trial.case.name),
                        detail=detail,
                    )
                moved = sum(f.read_bytes + f.written_bytes for f in launch.footprints)
                share = math.ceil(tiles / asked) / tiles
                if launch.busiest_bytes > ROOM * share * moved:
                    seen = say("hopper.persistent.busiest", busiest=launch.busiest_bytes, moved=moved)
                    detail = say("hopper.persistent.deal")
                    expected = say("hopper.persistent.at_most", share=100 * share, case=trial.case.name)
                    return self.lost(seen, expected=expected, detail=detail)
        again = dict.fromkeys(line for run in simulations(trial) for line in run.restarts)
        detail = say("hopper.persistent.restarts", lines=[*again]) if again else ""
        return self.earned(say("criteria.programs.count", programs=asked), detail=detail)


@dataclass
class BesideStores(CostCriterion):
    """Criterion: products are issued while a result leaves by TMA, at least this many. needed: the arguments of a call -> that number."""

    missed = say("hopper.beside_stores.missed")
    needed: Callable[..., int]
    points: float
    title: str = say("hopper.beside_stores.title")
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        beside = 0
        for trial in group:
            beside, needed = sum(product.stores > 0 for product in products(trial)), self.needed(**trial.inputs[-1])
            if beside < needed:
                expected = say("hopper.beside_stores.expected", needed=needed, case=trial.case.name)
                seen = say("hopper.beside_stores.seen", products=beside)
                detail = say("hopper.beside_stores.wait")
                return self.lost(seen, expected=expected, detail=detail)
        return self.earned(say("hopper.beside_stores.products", products=beside))


@dataclass
class Ahead(Share):
    """Criterion: this share of the products that a call needs, by their work, is issued while another one of the same partition is in
    flight. needs: the arguments of a call -> multiply-adds. What is multiplied besides is told by NoMoreProducts alone."""

    missed = say("hopper.ahead.missed")
    of = say("hopper.ahead.of")
    advice = say("hopper.ahead.advice")
    needs: Callable[..., int]
    points: float
    least: float = 0.35  # of the products of n tiles (n - 1) / 2n can be
    title: str = say("hopper.ahead.title")
    group: str = "performance"

    def part(self, group: Sequence[Trial]) -> float:
        return min(map(self._part, group))

    def _part(self, trial: Trial) -> float:
        def work(chosen: Sequence[Multiplied]) -> float:
            return float(sum(m * n * k for m, n, k in (product.shape for product in chosen)))

        needed = min(work(products(trial)), self.needs(**trial.inputs[-1]))
        return min(1.0, work([p for p in products(trial) if p.own]) / max(1.0, needed))


@dataclass
class NoMoreProducts(CostCriterion):
    """Criterion: tensor cores multiply what a call needs, and no more. needs: the arguments of a call -> multiply-adds."""

    missed = say("hopper.no_more_products.missed")
    needs: Callable[..., int]
    points: float
    title: str = say("hopper.no_more_products.title")
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        done = 0
        for trial in group:
            done, needed = sum(found.multiply_adds for found in simulations(trial)), self.needs(**trial.inputs[-1])
            if done > needed:
                seen = say("hopper.no_more_products.seen", done=done)
                detail = say("hopper.no_more_products.twice")
                return self.lost(
                    seen,
                    expected=say("hopper.no_more_products.at_most", needed=needed, case=trial.case.name),
                    detail=detail,
                )
        return self.earned(say("hopper.no_more_products.seen", done=done))


@dataclass
class BesideProducts(Share):
    """Criterion: at least this share of the exponentials is computed while a product of the same partition is in flight."""

    missed = say("hopper.beside_products.missed")
    of = say("hopper.beside_products.of")
    advice = say("hopper.beside_products.advice")
    least: float
    points: float
    title: str = say("hopper.beside_products.title")
    group: str = "performance"

    def part(self, group: Sequence[Trial]) -> float:
        return min((found.beside_products for trial in group for found in simulations(trial)), default=0.0)
