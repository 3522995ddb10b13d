"""The plugin of pytest: `traced` in the tests of somebody else's kernels."""

import textwrap
import tomllib
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

KERNEL = """
import torch
import triton
import triton.language as tl

from tritontrace import gpu
from tritontrace.testing import assert_bytes_at_most


@triton.jit
def copy(x_ptr, out_ptr, wrap, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs % wrap, tl.load(x_ptr + offs))


def run(wrap=1024):
    x = torch.ones(1024, device="cuda")
    out = torch.empty_like(x)
    copy[(8,)](x, out, wrap, BLOCK=128)
    return out
"""


@pytest.fixture
def outcome(pytester):
    """source of a test -> (its outcomes, what pytest prints)."""

    def outcome(source):
        pytester.makepyfile(KERNEL + textwrap.dedent(source))
        result = pytester.runpytest_inprocess("-p", "tritontrace.pytest_plugin", "-p", "no:cacheprovider")
        return result.parseoutcomes(), result.stdout.str()

    return outcome


def test_it_is_found_where_the_library_is_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"tritontrace.pytest_plugin": "tritontrace.pytest_plugin"}


def test_a_right_kernel_passes_and_is_counted(outcome):
    found, _ = outcome("""
        def test_copy(traced):
            assert run().sum() == 1024
            assert traced.bytes == 8192
            assert_bytes_at_most(traced, 8192)
    """)
    assert found == {"passed": 1}


def test_a_race_fails_the_test_by_itself_with_the_line(outcome):
    found, said = outcome("def test_copy(traced): run(wrap=128)")
    assert found == {"failed": 1}
    assert "12: race: kernel `copy`, line 3" in said and "pytest_pyfunc_call" not in said


def test_what_a_test_asserts_is_heard_first(outcome):
    found, said = outcome("""
        def test_copy(traced):
            run(wrap=128)
            assert_bytes_at_most(traced, 1)
    """)
    assert found == {"failed": 1} and "AssertionError: 8,192 bytes moved, 1 allowed" in said


def test_a_test_may_name_the_card(outcome):
    found, _ = outcome("""
        import pytest

        @pytest.fixture
        def traced_gpu():
            return gpu.datasheet("A100 80GB")

        def test_copy(traced):
            assert torch.cuda.get_device_properties(0).multi_processor_count == 108
    """)
    assert found == {"passed": 1}


def test_another_fixture_of_that_name_is_left_alone(outcome):
    found, _ = outcome("""
        import pytest

        @pytest.fixture
        def traced():
            return 3

        def test_three(traced):
            assert traced == 3
    """)
    assert found == {"passed": 1}
