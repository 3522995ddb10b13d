"""Fixtures of pytest, which finds them wherever this is installed: a test of a Triton kernel, traced, without a GPU.

    def test_softmax_reads_and_writes_once(traced):
        softmax(x)
        assert_bytes_at_most(traced, 2 * x.nbytes)

Every run of pytest imports this, so torch and the trace are imported by the tests that ask for them alone.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tritontrace.gpu import GPU
    from tritontrace.tracing import Trace


@pytest.fixture
def traced_gpu() -> GPU | None:
    """Fixture: the GPU that host code sees, whose number of SMs a persistent kernel asks for: this machine's, or an H200. A test module may
    override it: `return gpu.datasheet("A100 80GB")`."""
    return None


@pytest.fixture
def traced(traced_gpu: GPU | None) -> Iterator[Trace]:
    """Fixture: the trace of a test's kernels, which run on this CPU, as on a GPU. What a kernel does that a GPU would get wrong fails the
    test; one that wants to see faults opens `trace()` itself."""
    from tritontrace.tracing import trace
    from tritontrace.tracing.as_on_a_gpu import as_on_a_gpu

    with as_on_a_gpu(traced_gpu), trace() as found:
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Check for faults when the test's function has ended: in a fixture they would be an error beside a test that passed."""
    __tracebackhide__ = True
    result = yield
    if "traced" in pyfuncitem.funcargs:
        from tritontrace.testing import assert_no_faults
        from tritontrace.tracing import Trace

        found = pyfuncitem.funcargs["traced"]
        if isinstance(found, Trace) and found.launches:
            assert_no_faults(found)
    return result
