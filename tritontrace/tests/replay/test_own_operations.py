"""Functions that a host makes operations of torch."""

import pytest
import torch
from sentences import mentions
from test_record_replay import N, doubled_into, evidence_of, is_doubled

from tritontrace.replay.recording import record


@torch.library.custom_op("tritontrace_tests::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return doubled_into(torch.empty(N, device="cuda"), x)


@torch.library.custom_op("tritontrace_tests::doubled_to", mutates_args={"out"})
def doubled_to(x: torch.Tensor, out: torch.Tensor) -> None:
    doubled_into(out, x)


@torch.library.triton_op("tritontrace_tests::doubled_by_triton", mutates_args={})
def doubled_by_triton(x: torch.Tensor) -> torch.Tensor:
    return doubled_into(torch.empty_like(x), x)


@torch.library.custom_op("tritontrace_tests::doubled_on", mutates_args=(), device_types="cpu")
def doubled_on(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@doubled_on.register_kernel("cuda")
def _(x):
    return doubled_into(torch.empty_like(x), x)


library = torch.library.Library("tritontrace_tests_old", "DEF")
library.define("doubled(Tensor x) -> Tensor")
library.impl("doubled", lambda x: doubled_into(torch.empty_like(x), x), "CompositeExplicitAutograd")


def into_its_own(x):
    out = torch.empty_like(x)
    doubled_to(x, out)
    return out


@pytest.mark.parametrize(
    "function",
    [
        lambda x: doubled(x),
        lambda x: torch.ops.tritontrace_tests.doubled(x),
        lambda x: doubled_by_triton(x),
        lambda x: doubled_on(x),
        into_its_own,
    ],
    ids=["custom_op", "by its name", "triton_op", "one kernel for each device", "into an argument"],
)
def test_they_are_what_they_do(function):
    assert is_doubled(*evidence_of(function))


def test_one_that_computes_is_no_way_out():
    @torch.library.custom_op("tritontrace_tests::with_torch", mutates_args=())
    def with_torch(x: torch.Tensor) -> torch.Tensor:
        return x + x

    assert mentions(evidence_of(with_torch)[0].refused, "replay.operation.add")


def test_one_made_otherwise_is_named_as_what_it_is():
    log = record(lambda x: torch.ops.tritontrace_tests_old.doubled(x), [{"x": torch.ones(N)}])
    assert "calls `tritontrace_tests_old::doubled`, which torch.library.Library made" in log["calls"][0]["error"]
    assert "torch.library.custom_op" in log["calls"][0]["error"]
