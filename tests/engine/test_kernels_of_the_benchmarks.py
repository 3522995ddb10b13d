"""Each kernel of benchmarks/course_kernels.py, whose counts are compared with a GPU's counters, is read whole: its operations lie on
its lines."""

import inspect

import pytest

from benchmarks import course_kernels as kernels
from tritontrace.ttir.frontend import front_of
from tritontrace.ttir.ir import walk


@pytest.mark.parametrize("launch", kernels.LAUNCHES, ids=lambda launch: launch.name)
def test_operations_lie_on_the_lines_of_the_kernel(launch):
    arguments = dict(zip(launch.kernel.arg_names, launch.arguments(), strict=False)) | launch.constants
    front = front_of(launch.kernel, arguments, {})
    lines, first = inspect.getsourcelines(launch.kernel.fn)
    blocks = front.module[launch.kernel.__name__].blocks
    own = {operation.place.line for operation in walk(blocks) if operation.place.file == kernels.__file__}
    assert own <= set(range(first, first + len(lines))) and len(own) > 1
