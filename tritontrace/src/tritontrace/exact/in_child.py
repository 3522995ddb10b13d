"""A function evaluated in one process and compared in another: what it gave is plain data in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from tritontrace.exact.equivalence import RUNS, Case, FieldRun, Output, Reference, run_in_a_field
from tritontrace.exact.field import field
from tritontrace.exact.launches import Memory, NotApplicable
from tritontrace.messages import say


def evaluated(function: Callable, case: Case) -> dict[str, Any]:
    """Evaluate a call in exact arithmetic, and return a tree of plain data and tensors: see Evaluated.

    Raises NotApplicable, and what a trace raises.

    >>> sorted(evaluated(lambda x: x + x, (torch.ones(4),))["0"])
    ['chosen', 'lost', 'outputs', 'results']
    """
    runs = {str(attempt): run_in_a_field(function, case, attempt, follow=True, lines=False) for attempt in range(RUNS)}
    if runs["0"].chosen:
        runs["reversed"] = run_in_a_field(function, case, 0, reverse=True)
    return {name: _as_tree(run) for name, run in runs.items()}


def _as_tree(run: FieldRun) -> dict[str, Any]:
    outputs = [
        {"name": o.name, "float": o.tensor.is_floating_point(), "values": torch.from_numpy(o.values.copy())}
        for o in run.outputs
    ]
    chosen = torch.tensor(sorted(run.chosen), dtype=torch.int64)
    return {"outputs": outputs, "results": run.results, "lost": sorted(run.lost), "chosen": chosen}


class Evaluated(Reference):
    """The tree of `evaluated`, to be compared with functions on that case: equivalent(Evaluated(tree), g, [case]).

    place    of several results this one alone, as if the function returned no other

    >>> case = (torch.ones(4),)
    >>> doubled = Evaluated(evaluated(lambda x: x + x, case))
    >>> [equivalent(doubled, g, [case]).outcome for g in (lambda x: 2 * x, lambda x: x * x)]
    ['equal', 'different']
    """

    def __init__(self, tree: Mapping[str, Any], place: int | None = None) -> None:
        self._tree, self._place = tree, place

    def kept(self, case: Case, attempt: int, reverse: bool = False, follow: bool = False) -> FieldRun:
        """Return the run of that number. Raises NotApplicable if it was not sent along."""
        tree = self._tree.get("reversed" if reverse else str(attempt))
        if tree is None:
            raise NotApplicable(say("exact.host.too_few_fields"))
        outputs = [_output(o) for o in tree["outputs"]]
        results, others = outputs[: tree["results"]], outputs[tree["results"] :]
        if self._place is not None and len(results) > 1:
            results = [replace(results[self._place], name="result 0")]
        chosen = set(tree["chosen"].tolist())
        numbers = Memory(field(attempt, reverse))
        return FieldRun([*results, *others], len(results), [], [], set(tree["lost"]), chosen, numbers)


def _output(tree: Mapping[str, Any]) -> Output:
    kind = torch.empty(0) if tree["float"] else torch.empty(0, dtype=torch.int64)
    return Output(tree["name"], kind, np.asarray(tree["values"]), None, [])
