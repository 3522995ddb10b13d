"""Outputs of cells: from which code, which GPU and which day each one is.

A code cell that has run says so in its metadata (course_lib/metadata.py: CellRun). The hash there is that of the cell and of what it
reads (dependencies.py). So an edited text costs no output, and an edited demo its own and those of the cells that read what it defines.

Where a cell needs a GPU, its output gives way only to another run on a GPU; if the code has changed meanwhile, it stays and is
listed as `older`.
"""

from __future__ import annotations

import copy
import json
import os
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path

from nbformat import NotebookNode

from course_lib import logbook, metadata, render
from course_lib.exercise import Verdict
from course_lib.metadata import CellRun
from course_lib.render.cells import KEEP_VERDICTS, VERDICT
from grader.building.dependencies import Inputs, inputs
from tritontrace import picture
from tritontrace.replay import wire

STATE, VIEW = "application/vnd.jupyter.widget-state+json", "application/vnd.jupyter.widget-view+json"


class Failed(Exception):
    """Raised where a cell raised an error: which cell, and its message."""

    def __init__(self, cell: str, said: str):
        super().__init__(said)
        self.cell = cell


@dataclass
class Due:
    """The ids of cells that have yet to run, by the reason.

    missing    none, or it was dropped with the code that made it
    older      made on a GPU by older code: it stays until a GPU makes another
    without    made on a machine without a GPU, though the cell needs one
    """

    missing: list[str] = field(default_factory=list)
    older: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)


def due(nb: NotebookNode, need_gpu: Collection[str]) -> Due:
    """Find the cells that have yet to run. need_gpu: the ids of the cells that need a GPU."""
    found, cells = Due(), _by_id(nb)
    now = inputs(list(cells.values()))
    for name, cell in cells.items():
        ran = metadata.read(cell.metadata, CellRun)
        gpu = ran.gpu if ran else ""
        if not ran or ran.inputs != now[name].digest:
            (found.older if gpu and name in need_gpu else found.missing).append(name)
        elif name in need_gpu and not gpu:
            found.without.append(name)
    return found


def keep(nb: NotebookNode, old: NotebookNode, need_gpu: Collection[str]) -> None:
    """Copy the outputs that still hold from the old notebook: those of unchanged code and inputs, and those that only a GPU may replace."""
    cells, before = _by_id(nb), _by_id(old)
    for name in cells.keys() & before.keys():
        _take(cells[name], before[name])
    for name in due(nb, need_gpu).missing:
        _take(cells[name], NotebookNode(outputs=[], execution_count=None, metadata={}))
    _finish(nb, old)


def renew(nb: NotebookNode, root: Path, need_gpu: Collection[str], *, again: bool = False) -> None:
    """Run the cells that are due on this machine, with the cells that they read; with `again`, all that it can run."""
    import torch

    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    cells, state = _by_id(nb), due(nb, need_gpu)
    now = inputs(list(cells.values()))
    chosen = set(cells) if again else {*state.missing, *state.older, *(state.without if gpu else ())}
    if not gpu:
        chosen -= {name for name in need_gpu if (ran := metadata.read(cells[name].metadata, CellRun)) and ran.gpu}
    if not chosen:
        return
    whole, running = copy.deepcopy(nb), _with_what_they_read(chosen, now)
    whole.cells = [cell for name, cell in _by_id(whole).items() if name in running]
    whole.metadata.pop("widgets", None)
    execute(whole, root)
    made = _by_id(whole)
    for name in chosen:
        _take(cells[name], made[name])
        metadata.write(cells[name].metadata, CellRun(now[name].digest, gpu, date.today().isoformat()))
    _finish(nb, nb, whole)


def asks_for_progress(cell: NotebookNode) -> bool:
    """Whether a cell's value is the table of progress."""
    return cell.source.rstrip().endswith("progress()")


def redraw(nb: NotebookNode, unit: str) -> None:
    """Render each verdict again from the data in its output, and each table of progress from the verdicts before it, so that all look as
    this version draws them. Fields that a verdict did not have then are empty."""
    empty, points = wire.to_tree(Verdict("", 0.0, 0.0, [])), {}
    for cell in _by_id(nb).values():
        for output in cell.outputs:
            if (data := output.get("data", {})) and VERDICT in data:
                verdict = wire.from_tree(Verdict, empty | json.loads(data[VERDICT]))
                data["text/plain"], data["text/html"] = render.text(verdict), render.html(verdict)
                points |= logbook.points_of(verdict)
            elif data and asks_for_progress(cell):
                where = data["text/plain"].rpartition("\n")[2]  # the run's own words on the file that it kept them in
                table = logbook.progress_with(points, unit, where)
                data["text/plain"], data["text/html"] = repr(table), table._repr_html_()


def execute(nb: NotebookNode, root: Path) -> None:
    """Run a notebook in place, in an empty folder, with the other units' notebooks beside it, as a student has them. Raises Failed if a
    cell does."""
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    paths = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "here"
        folder.mkdir()
        for unit in filter(Path.is_dir, (root / "solutions").iterdir() if (root / "solutions").is_dir() else ()):
            (Path(scratch) / unit.name).symlink_to(unit)
        where = {"metadata": {"path": str(folder)}}
        client = NotebookClient(nb, timeout=600, kernel_name="python3", record_timing=False, resources=where)
        own = {
            "PYTHONPATH": paths,
            picture.STILL: "1",
            KEEP_VERDICTS: "1",
            "COURSE_PROGRESS": str(folder / ".progress.json"),
        }  # not that of whoever builds
        reached = []
        client.on_cell_execute = lambda cell, cell_index: reached.append(cell.id)
        try:
            client.execute(env=os.environ | own)
        except CellExecutionError as error:
            raise Failed(reached[-1], f"{error.ename}: {error.evalue}") from error
        except (CellTimeoutError, DeadKernelError) as error:
            raise Failed(reached[-1], str(error).partition("\n")[0]) from error


def _by_id(nb: NotebookNode) -> dict[str, NotebookNode]:
    """The code cells, in order."""
    return {cell.id: cell for cell in nb.cells if cell.cell_type == "code"}


def _with_what_they_read(chosen: Collection[str], now: Mapping[str, Inputs]) -> set[str]:
    found, todo = set(), set(chosen)
    while todo:
        found.add(name := todo.pop())
        todo |= now[name].cells - found
    return found


def _take(cell: NotebookNode, executed: NotebookNode) -> None:
    """Copy one notebook's outputs, with the notes on them, into the other."""
    cell.outputs, cell.execution_count = executed.outputs, executed.execution_count
    metadata.drop(cell.metadata)
    if ran := metadata.read(executed.metadata, CellRun):
        metadata.write(cell.metadata, ran)


def _finish(nb: NotebookNode, *executed: NotebookNode) -> None:
    """Count executions as if all cells had run at once, and keep only the widgets that are shown."""
    todo = []
    for number, cell in enumerate(_by_id(nb).values(), 1):
        if metadata.read(cell.metadata, CellRun):
            cell.execution_count = number
        for output in cell.outputs:
            if "execution_count" in output:
                output.execution_count = number
            if VIEW in output.get("data", {}):
                todo.append(output.data[VIEW]["model_id"])
    states, shown = {}, {}
    for other in executed:
        states |= other.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    while todo:
        model = todo.pop()
        if model in states and model not in shown:
            shown[model] = states[model]
            todo += re.findall(r"IPY_MODEL_(\w+)", json.dumps(states[model]))
    nb.metadata.pop("widgets", None)
    if shown:
        nb.metadata["widgets"] = NotebookNode({STATE: {"state": shown, "version_major": 2, "version_minor": 0}})
