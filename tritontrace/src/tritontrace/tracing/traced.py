"""trace(), and the trace as people see it: what was seen of launches, with its table, source and pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import torch

from tritontrace.gpu import planned_for
from tritontrace.results import Slow, Warps
from tritontrace.tracing import show
from tritontrace.tracing.launcher import Launcher
from tritontrace.tracing.opening import opened
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.warps import ask, slow
from tritontrace.tracing.work import Work
from tritontrace.ttir.launching import Order

if TYPE_CHECKING:
    from tritontrace.picture import Picture


class Trace(Recorded):
    """The result of `with trace() as t:`: the data of Recorded, and views of it.

    >>> t.bytes, t.loads.sectors, t.stores.efficiency  # 1,000 elements of 4 bytes, in and out
    (8000, 125, 1.0)
    >>> t.reread("x_ptr"), t.flops.total, t.faults
    (1.0, 0, [])
    >>> print(t.source())
             bytes efficiency  copy
                                 1 def copy(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
                                 2     i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
             4,000       100%    3     x = tl.load(x_ptr + i, mask=i < n)
             4,000       100%    4     tl.store(y_ptr + i, x, mask=i < n)
    """

    def table(self) -> str:
        """Render one row for each kernel, tensor and operation; the line that wastes most is marked."""
        return show.table(self)

    __str__ = __repr__ = table

    def _repr_html_(self) -> str:
        return show.html(self)

    def source(self) -> show.Annotated:
        """Return the kernels' source with bytes and efficiency next to each line: text, and HTML where a notebook shows it."""
        return show.annotated(self)

    def warps(self, gpu: str | None = None, seconds: float = 120) -> list[Warps]:
        """Ask the compiler how the warps of each launch access memory: see compiled.warps_for. None of this is asked by a trace itself.

        gpu   such as "A100 80GB" or "sm_80": by default this one, or an H200;  seconds  for all that must be compiled

        Returns the Warps of each launch. From then on the table names the lines that are slow for what they say, the source has
        their numbers beside it, and as_data writes them. Raises ValueError for a trace that was read back.

        >>> with trace() as asked:
        ...     _ = copy[(4,)](x, y, 1000, BLOCK=256)
        >>> (found,) = asked.warps()
        >>> [(each.op, each.lane_bytes, each.beside_bytes) for each in found.requests]  # since 1,000 is no multiple of 16
        [('load', 4, 8), ('store', 4, 8)]
        """
        return ask(self, gpu or planned_for().architecture, seconds)

    @property
    def slow(self) -> list[Slow]:
        """List lines that are slow because of the compiled code, once `warps` has been called: of all launches, each line once."""
        return list(dict.fromkeys(each for launch in self.launches for each in slow(launch)))

    def heatmap(
        self,
        tensor: torch.Tensor,
        program: int | tuple[int, ...] | None = None,
        launch: int | None = None,
        op: Literal["load", "store"] | None = None,
    ) -> Picture:
        """Draw how often each element was loaded, or stored: see draw.heatmap."""
        from tritontrace.tracing import draw  # matplotlib takes a while, and few draw

        return draw.heatmap(self, tensor, program, launch, op)

    def order(self, tensor: torch.Tensor | None = None, launch: int = -1) -> Picture:
        """Draw the order in which a GPU starts programs, over the grid or over a tensor: see draw.order."""
        from tritontrace.tracing import draw

        return draw.order(self, tensor, launch)

    def timeline(self, program: int | tuple[int, ...] = 0, launch: int = -1) -> Picture:
        """Draw what one program loads and stores, step by step: see draw.timeline."""
        from tritontrace.tracing import draw

        return draw.timeline(self, program, launch)


@contextmanager
def trace(
    names: dict[str, torch.Tensor] | None = None,
    order: Order = None,
    inputs: Iterable[torch.Tensor] = (),
    work: Work | None = None,
    other: Literal["undefined", "zero"] = "undefined",
    sample: int | None = None,
) -> Iterator[Trace]:
    """Run every kernel launched inside on this CPU, as the compiler reads it, and count what it does to memory.

    names   what to call tensors, by name; by default the kernel's parameter names
    order   the order of the programs: None as a GPU starts them (x fastest), "shuffled", or a function from the number
            of programs to a permutation of them. A kernel whose result depends on it has a race.
    inputs  tensors that kernels should leave as they are: a store to one is a fault
    work    what all launches may do; beyond that a KernelError, work.TooSlow
    other   what a masked load without `other` gives: nothing that may reach memory, as Triton says, or 0, as NVIDIA's GPUs do
    sample  of a launch with more programs, run so many alone: the first, the last, and others evenly between. Counts are of these,
            results have gaps, and a race with a program that did not run is not seen

    Tensors may have any shape, strides and dtype, and lie in ordinary memory; the Trace counts bytes, and sectors of 32 bytes.
    Raises KernelFault if a kernel reaches outside a tensor, KernelError if it cannot be launched or raises, and RuntimeError if a
    trace is open already. What was counted until then remains.

    >>> with trace(names={"input": x}, order="shuffled") as found:
    ...     _ = copy[(4,)](x, y, 1000, BLOCK=256)
    >>> found.bytes, found.reread("input"), found.launches[0].programs
    (8000, 1.0, 4)

    >>> with trace() as found:
    ...     _ = copy[(4,)](x, torch.empty(900), 1000, BLOCK=256)
    Traceback (most recent call last):
        ...
    tritontrace.ttir.launching.KernelFault: kernel `copy`, line 4: ...
    """
    traced = Trace(names, inputs)
    with opened(Launcher(traced, order, work, zeros=other == "zero", sample=sample)):
        yield traced
