"""Cases of unit 03's exercises."""

from __future__ import annotations

from typing import Any

from course_lib.exercise import Case
from course_lib.exercises.cases import fixed


def sizes(m: int, n: int, k: int, itemsize: int) -> dict[str, int]:
    """Make the arguments of a matrix product: (m, k) times (k, n)."""
    return {"m": m, "n": n, "k": k, "itemsize": itemsize}


def named(name: str, group: str, *sizes: int) -> Case:
    """Make a case about a workload, known by its name."""
    return fixed(f"{name} {list(sizes)}", group, name=name, sizes=list(sizes))


def layer_sizes(batch: int, d_in: int, d_hidden: int, d_out: int, input_needs_grad: bool) -> dict[str, Any]:
    """Make the arguments of two linear layers."""
    return dict(batch=batch, d_in=d_in, d_hidden=d_hidden, d_out=d_out, input_needs_grad=input_needs_grad)


NAIVE = ("batch", "heads", "n_q", "n_k", "d", "itemsize")


CONFIG = ("batch", "tokens", "d_model", "heads", "kv_heads", "d_ff")


GB = 10**9


def run_of(layers: int, width: int, batch: int, optimizer: str) -> dict[str, Any]:
    """Make the arguments of a training run."""
    return dict(layers=layers, width=width, batch=batch, optimizer=optimizer)


def timed(name: str, group: str, cold: float, **how: Any) -> Case:
    """Make a case about a simulated timer. cold and hot: seconds of a run."""
    return fixed(
        name,
        group,
        **{"cold": cold, "hot": cold, "slow_start": 0, "noise": False, "stamina": 0, "warm_up": 5, "runs": 20, **how},
    )
