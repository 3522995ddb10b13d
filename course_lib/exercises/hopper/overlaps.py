"""Criteria of pipelines: who fetches and who multiplies, and what runs beside what. None asks for a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course_lib.criteria import CostCriterion
from course_lib.exercise import Finding, Trial
from course_lib.exercises.sm.criteria import Share, simulations
from tritontrace.results import Multiplied
from tritontrace.words import number, plural

ROOM = 1.05  # more bytes than a fair share
LARGEST_PART = 0.75  # of the products that one of two consumers may do


def products(trial: Trial) -> list[Multiplied]:
    """The products of all launches of a trial."""
    return [product for found in simulations(trial) for product in found.products]


@dataclass
class Specialised(CostCriterion):
    """A partition that multiplies nothing fetches by TMA, and at least this many others share the products."""

    missed = "not specialised"
    consumers: int
    points: float
    group: str = "performance"

    @property
    def title(self) -> str:
        return f"one partition fetches, {self.consumers} multiply"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            for found in simulations(trial):
                done = Counter(product.who for product in found.products)
                both = sorted(done.keys() & set(found.fetchers))
                if both:
                    return self.lost(
                        f"{both[0]} fetches and multiplies",
                        expected="a partition that only fetches",
                        detail="Let one partition issue all copies, and nothing else: it runs ahead of those that multiply.",
                    )
                if not found.fetchers:
                    return self.lost("no partition fetches by TMA", expected="one that does nothing else")
                if len(done) < self.consumers or max(done.values()) > LARGEST_PART * done.total():
                    seen = f"{plural(len(done), 'partition multiplies', 'partitions multiply')}"
                    share = "Each consumer multiplies rows of its own, from the same tiles: none does the work of the other."
                    return self.lost(seen, expected=f"{self.consumers}, each a fair share", detail=share)
        return self.earned(f"{', '.join(found.fetchers)} fetches; {' and '.join(sorted(done))} multiply")


@dataclass
class Persistent(CostCriterion):
    """A launch has as many programs as the call says, and the busiest makes one tile more than the others at most.

    programs, tiles   the arguments of a call -> how many programs a launch must have, and how many tiles they share
    """

    missed = "a wrong number of programs, or one that does most of the work"
    programs: Callable[..., int]
    tiles: Callable[..., int]
    points: float
    title: str = "the given number of programs share the tiles"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        for trial in group:
            asked, tiles = (count(**trial.inputs[-1]) for count in (self.programs, self.tiles))
            for launch in trial.evidence.launches:
                if launch.programs != asked:
                    detail = "Launch as many programs as are asked for, and let each go on to further tiles: tile += programs."
                    seen = plural(launch.programs, "program")
                    return self.lost(seen, expected=f"{asked} on {trial.case.name}", detail=detail)
                moved = sum(f.read_bytes + f.written_bytes for f in launch.footprints)
                share = math.ceil(tiles / asked) / tiles
                if launch.busiest_bytes > ROOM * share * moved:
                    seen = f"the busiest program moves {number(launch.busiest_bytes)} of {number(moved)} bytes"
                    detail = "Deal the tiles out evenly: program p takes tile p, then p + programs, and so on."
                    expected = f"at most {100 * share:.0f} % of them on {trial.case.name}"
                    return self.lost(seen, expected=expected, detail=detail)
        return self.earned(plural(asked, "program"))


@dataclass
class BesideStores(CostCriterion):
    """Products are issued while a result leaves by TMA: at least so many. needed: the arguments of a call -> that number."""

    missed = "nothing runs while a tile is stored"
    needed: Callable[..., int]
    points: float
    title: str = "the next tile's products begin while the last one is stored"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        beside = 0
        for trial in group:
            beside, needed = sum(product.stores > 0 for product in products(trial)), self.needed(**trial.inputs[-1])
            if beside < needed:
                expected = f"at least {needed} on {trial.case.name}"
                seen = f"{plural(beside, 'product')} while a store was under way"
                detail = "Do not wait for a store at once: wait before its tile in shared memory is written again."
                return self.lost(seen, expected=expected, detail=detail)
        return self.earned(plural(beside, "product"))


@dataclass
class Ahead(Share):
    """Products are issued while another one of the same partition is under way: this part of them, by their work."""

    missed = "each product waits for the previous one"
    of = "products beside another one of their partition"
    advice = (
        "Issue the product of the next scores first, and only then wait for the one that is under way: mma_wait(1)."
    )
    points: float
    least: float = 0.35  # of the products of n tiles (n - 1) / 2n can be
    title: str = "the next scores are issued before the last product is waited for"
    group: str = "performance"

    def part(self, group: Sequence[Trial]) -> float:
        return min(map(self._part, group))

    @staticmethod
    def _part(trial: Trial) -> float:
        def work(chosen: Sequence[Multiplied]) -> float:
            return float(sum(m * n * k for m, n, k in (product.shape for product in chosen)))

        return work([p for p in products(trial) if p.own]) / max(1.0, work(products(trial)))


@dataclass
class NoMoreProducts(CostCriterion):
    """Tensor cores multiply what a call needs, and nothing for show. needs: the arguments of a call -> multiply-adds."""

    missed = "more products than are needed"
    needs: Callable[..., int]
    points: float
    title: str = "no more products than are needed"
    group: str = "performance"

    def count(self, group: Sequence[Trial]) -> Finding:
        done = 0
        for trial in group:
            done, needed = sum(found.multiply_adds for found in simulations(trial)), self.needs(**trial.inputs[-1])
            if done > needed:
                seen = f"{number(done)} multiply-adds"
                detail = "Does a partition multiply what another one multiplies as well, or what nobody reads?"
                return self.lost(seen, expected=f"at most {number(needed)} on {trial.case.name}", detail=detail)
        return self.earned(f"{number(done)} multiply-adds")


@dataclass
class BesideProducts(Share):
    """Exponentials are computed while a product of the same partition is under way: at least this part of them."""

    missed = "exponentials wait for products"
    of = "exponentials"
    advice = "Issue a product before the softmax, and wait for it only after the exponentials."
    least: float
    points: float
    title: str = "exponentials are computed while a product runs"
    group: str = "performance"

    def part(self, group: Sequence[Trial]) -> float:
        return min((found.beside_products for trial in group for found in simulations(trial)), default=0.0)
