"""A proof in words: a row for each access, and below it each counterexample and what stands in the way of a proof."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tritontrace.proving.proofs import Claim, Proof, ProvedLaunch
from tritontrace.proving.shapes import MOST
from tritontrace.words import plural

ABOUT = ("inside its tensor", "one program for each element")
Where = Callable[[str, int], str]  # a kernel and a line of it -> "add.py:12"


def table(proof: Proof, where: Where) -> str:
    """Render the launches, a row for each access, then a sentence for each that is not proved."""
    lines = []
    for launch in proof.launches:
        lines.append(f"{launch.kernel}, grid {launch.grid}, at {where(launch.kernel, 0)}: {_domain(launch)}")
        lines += _rows(launch, where)
    for launch in proof.launches:
        lines += [
            f"{where(launch.kernel, claim.site.line)}: {sentence(claim)}"
            for claim in launch.claims
            if claim.outcome != "proved"
        ]
    return "\n".join(line.rstrip() for line in [*lines, summary(proof)])


def summary(proof: Proof) -> str:
    """Count the claims of each outcome, and state what all of them take for granted."""
    claims = [claim for launch in proof.launches for claim in launch.claims]
    counted = [f"{sum(c.outcome == outcome for c in claims):,} {outcome}" for outcome in ("proved", "not decided")]
    refuted = plural(sum(c.outcome == "counterexample" for c in claims), "counterexample")
    return f"{counted[0]}, {refuted}, {counted[1]}, for tensors of up to {MOST:,} elements"


def sentence(claim: Claim) -> str:
    """Return the sentence on why a claim is not proved."""
    if claim.fault is not None:
        sizes = ", ".join(f"{name} = {number}" for name, number in claim.sizes.items())
        perhaps = "" if claim.smallest else " (perhaps for smaller sizes, too)"
        return f"wrong for {sizes or 'every size'}{perhaps}: {claim.fault.sentence}"
    return f"not decided ({claim.about}), because of {claim.because}"


def _domain(launch: ProvedLaunch) -> str:
    result = f"where {', '.join(launch.domain)}" if launch.domain else "for all sizes"
    return result + "".join(f"; {one}" for one in launch.guessed)


def _rows(launch: ProvedLaunch, where: Where) -> Iterator[str]:
    by_access: dict[tuple[int, str, str], dict[str, Claim]] = {}
    for claim in launch.claims:
        by_access.setdefault((claim.site.line, claim.op, claim.tensor), {})[claim.about] = claim
    rows = [["line", "op", "tensor", *ABOUT]]
    for (line, op, tensor), claims in sorted(by_access.items()):
        outcomes = [claims[about].outcome if about in claims else "" for about in ABOUT]
        rows.append([where(launch.kernel, line).rpartition(":")[2], op, tensor, *outcomes])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
