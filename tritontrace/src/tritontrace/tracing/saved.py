"""A trace as JSON holds it, there and back: as_data() and from_data(). docs/schema.md says what each name means.

What shows counts (table, source, page, assertions) shows them of a trace that was read back as well. Pictures and the L2 model need each
step of each program, which is not saved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from importlib.resources import files
from typing import Any, TypeVar

from tritontrace.compiled.warps import from_data as warps_from_data
from tritontrace.messages import say
from tritontrace.results import Access, Fault, Flops, Footprint, Launch, LineFlops, Multiplied, Note, Passes, Simulated
from tritontrace.tracing.faults import Faults
from tritontrace.tracing.recorded import Recorded
from tritontrace.tracing.report import place, reads_per_byte
from tritontrace.tracing.traced import Trace
from tritontrace.tracing.warps import slow
from tritontrace.ttir.sources import Source

T = TypeVar("T")
SCHEMA = 1  # of as_data: a number that grows when a name in it changes


def as_data(trace: Recorded) -> dict[str, Any]:
    """Return everything that was counted, as JSON can hold it: docs/schema.md has each name.

    Sizes are in bytes, shares from 0 to 1. A fault stands in the launch in which it was seen first.

    >>> data = as_data(t)
    >>> data["schema"], data["bytes"], data["launches"][0]["grid"], data["launches"][0]["lines"][0]["sectors"]
    (1, 8000, [4, 1, 1], 125)
    """
    return {
        "schema": SCHEMA,
        "bytes": trace.bytes,
        "flops": trace.flops.total,
        "launches": [_launch(trace, number, launch) for number, launch in enumerate(trace.launches)],
        "masked_without_other": [
            {"kernel": kernel, "line": line, "where": place(trace, kernel, line)}
            for kernel, line in sorted(trace.poisoned)
        ],
        "notes": [{**asdict(note), "where": place(trace, note.kernel, note.line)} for note in trace.notes],
        "kernels": {name: _kernel(trace, name) for name in trace.sources},
    }


def _launch(trace: Recorded, number: int, launch: Launch) -> dict[str, Any]:
    def moved(op: str) -> int:
        return sum(access.bytes for access in launch.accesses if access.op == op)

    total = _sum(launch.accesses)
    return {
        "kernel": launch.kernel,
        "where": place(trace, launch.kernel, 1),
        "grid": list(launch.grid),
        "programs": launch.programs,
        "sampled_from": launch.sampled_from,
        "stopped_from": launch.stopped_from,
        "configuration": launch.configuration,
        "configurations": launch.configurations,
        "bytes": {op: moved(op) for op in ("load", "store", "atomic")},
        "sectors": total.sectors,
        "efficiency": total.efficiency,
        "flops": asdict(launch.flops),
        "line_flops": [{"where": place(trace, each.function, each.line), **asdict(each)} for each in launch.line_flops],
        "busiest_bytes": launch.busiest_bytes,
        "tf32": launch.tf32,
        "tensors": [
            {**asdict(footprint), "reads_per_byte": reads_per_byte(launch, footprint)}
            for footprint in launch.footprints
        ],
        "lines": [_access(trace, access) for access in launch.accesses],
        "faults": [
            {
                "kind": fault.kind,
                "kernel": fault.kernel,
                "line": fault.line,
                "source": fault.source,
                "where": place(trace, fault.kernel, fault.line),
                "tensor": fault.tensor,
                "between": fault.between,
                "sentence": fault.sentence,
            }
            for fault in trace.faults_of(number)
        ],
        "simulated": asdict(launch.simulated) if launch.simulated else None,
        "warps": asdict(launch.warps) | {"slow": [asdict(each) for each in slow(launch)]} if launch.warps else None,
    }


def _access(trace: Recorded, access: Access) -> dict[str, Any]:
    counted = {name: value for name, value in asdict(access).items() if name != "request"}
    return {"where": place(trace, access.function, access.line), **counted, "efficiency": access.efficiency}


def _sum(accesses: Iterable[Access]) -> Access:
    return sum(accesses, Access("", "load"))


def _kernel(trace: Recorded, name: str) -> dict[str, Any]:
    """The text of a kernel from its `def` on, and of the functions that it calls."""
    source = trace.sources[name]
    return {
        "file": place(trace, name, 1).rpartition(":")[0],
        "first_line": source.first_line,
        "source": [*source.lines],
        "helpers": {helper: [*each.lines] for helper, each in trace.helpers.get(name, {}).items()},
    }


# ----------------------------------------------------------------------------------------------------- and back


class _Told(Faults):
    """Faults that are known already, each with the number of the launch in which it was seen first."""

    def __init__(self, told: list[tuple[Fault, int]]):
        super().__init__()
        self._told = told

    def report(self) -> list[Fault]:
        return [fault for fault, _ in self._told]

    def first_seen(self) -> list[int]:
        return [number for _, number in self._told]


def from_data(data: Mapping[str, Any]) -> Trace:
    """Return the trace that as_data made this of, or `tritontrace --format json`: its counts, faults and sources.

    Raises ValueError where `data` has another schema.

    >>> import json
    >>> again = from_data(json.loads(json.dumps(as_data(t))))
    >>> again.bytes, again.table() == t.table()
    (8000, True)
    >>> from_data({"schema": 0})
    Traceback (most recent call last):
        ...
    ValueError: This has schema 0, and this tritontrace reads 1: trace the script again.
    """
    if data.get("schema") != SCHEMA:
        raise ValueError(say("asked.trace.schema", schema=repr(data.get("schema")), known=SCHEMA))
    trace = Trace()
    for name, kernel in data["kernels"].items():
        file = kernel["file"]
        trace.sources[name] = Source(name, kernel["first_line"], tuple(kernel["source"]), library=False, file=file)
        trace.helpers[name] = {
            helper: Source(helper, 1, tuple(lines), library=False, file="")
            for helper, lines in kernel["helpers"].items()
        }
    trace.launches = [_launched(launch) for launch in data["launches"]]
    trace.poisoned = {(each["kernel"], each["line"]) for each in data["masked_without_other"]}
    trace.fault_log = _Told(
        [(_made(Fault, fault), number) for number, launch in enumerate(data["launches"]) for fault in launch["faults"]]
    )
    trace.fault_log.notes = [_made(Note, note) for note in data.get("notes", [])]
    return trace


def _launched(data: Mapping[str, Any]) -> Launch:
    return Launch(
        data["kernel"],
        (data["grid"][0], data["grid"][1], data["grid"][2]),
        data["programs"],
        [_made(Access, {"function": data["kernel"], **each}) for each in data["lines"]],
        [_made(Footprint, each) for each in data["tensors"]],
        _line_flops(data),
        data["busiest_bytes"],
        tf32=data["tf32"],
        simulated=_simulated(found) if (found := data.get("simulated")) else None,
        warps=warps_from_data(warps) if (warps := data.get("warps")) else None,
        sampled_from=data.get("sampled_from", 0),
        stopped_from=data.get("stopped_from", 0),
        configuration=data.get("configuration", ""),
        configurations=data.get("configurations", 0),
    )


def _line_flops(data: Mapping[str, Any]) -> list[LineFlops]:
    """The operations of each line; where older data have none, the launch's together as those of line 0."""
    together = {"function": data["kernel"], "line": 0, "source": "", "flops": data["flops"]}
    return [
        LineFlops(each["function"], each["line"], each["source"], Flops(**each["flops"]))
        for each in data.get("line_flops", [together])
    ]


def _simulated(data: Mapping[str, Any]) -> Simulated:
    made = _made(Simulated, data)
    made.products = [Multiplied(**{**each, "shape": tuple(each["shape"])}) for each in data["products"]]
    made.passes = [Passes(**each) for each in data["passes"]]
    return made


def _made(cls: type[T], data: Mapping[str, Any]) -> T:
    """An object of what `data` has of its fields."""
    known = {each.name for each in fields(cls)}  # pyright: ignore[reportArgumentType] - a dataclass
    return cls(**{name: value for name, value in data.items() if name in known})


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of as_data, and of what the command writes with `--format json`.

    >>> schema()["properties"]["schema"]
    {'const': 1}
    """
    return json.loads(files("tritontrace").joinpath("schema.json").read_text("utf-8"))
