"""Installed from its folder into a bare environment, the library traces a script by its command."""

import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest
from bare import environment, install

ROOT = Path(__file__).resolve().parents[1]
BUILT_WITH = "setuptools"
SCRIPT = """
import torch, triton, triton.language as tl

@triton.jit
def add(x_ptr, y_ptr, o_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(o_ptr + i, tl.load(x_ptr + i, mask=m, other=0.0) + tl.load(y_ptr + i, mask=m, other=0.0), mask=m)

x, y = torch.ones(2, 1000, device="cuda")
add[(8,)](x, y, torch.empty_like(x), 1000, BLOCK=128)
"""


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """The folder of commands of an environment that has this library, and what it needs, of the one that runs the tests."""
    if find_spec(BUILT_WITH) is None:
        pytest.skip(f"{BUILT_WITH} is not there to build with")
    here = tmp_path_factory.mktemp("bare")
    python = environment(here)
    source = here / "tritontrace"
    kept = [path for name in ("src", "pyproject.toml", "README.md", "LICENSE") if (path := ROOT / name).exists()]
    source.mkdir()  # a build leaves folders beside what it builds
    subprocess.run(["cp", "-r", *map(str, kept), str(source)], check=True)
    install(python, source)
    return python.parent


@pytest.mark.slow
def test_its_command_traces_a_script(bare, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    command = [str(bare / "tritontrace"), "--gpu", "H200", "script.py"]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "1 launch, 8 programs, 8,000 bytes loaded, 4,000 bytes stored" in ran.stdout
    where = [str(bare / "python"), "-c", "import tritontrace; print(tritontrace.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout
    assert Path(found.strip()).is_relative_to(bare.parent), "it is the copy that was installed"
    schema = [str(bare / "python"), "-c", "from tritontrace.tracing import schema; print(schema()['title'])"]
    assert subprocess.run(schema, cwd=tmp_path, env=environment, capture_output=True, check=True).stdout
