"""What `make` does, in plain Python: `make lab` and `python3 make.py lab` are the same.

    lab      open the course in JupyterLab; your work is in work/ (`python3 make.py lab --no-browser` passes options on)
    demo     grade a sample class without a GPU and show its gradebook
    test     lint, unit tests and one unit end to end
    verify   everything else that needs no GPU: every variant of the kill matrix, every notebook executed
    versions the trace's tests under every Triton named in pyproject.toml (or those given), unpacked into .versions/
    build    solutions/NN_topic.py -> notebooks (executed; give units as arguments)
    format   ruff's formatter and fixes

Each sets itself up: a virtual environment in .venv, everything installed that it needs. Python 3.11 or newer and git
are all it assumes.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"


def main() -> int:
    command, *arguments = sys.argv[1:] or ["help"]
    targets = {
        "lab": lab,
        "demo": demo,
        "test": test,
        "verify": verify,
        "versions": versions,
        "build": build,
        "format": format_code,
    }
    if command not in targets:
        print(__doc__)
        return 0 if command in ("help", "-h", "--help") else 2
    problem = missing()
    if problem:
        print(problem)
        return 1
    os.chdir(ROOT)
    return targets[command](*arguments)


def missing() -> str:
    """One sentence on what this machine lacks, or ""."""
    if sys.version_info < (3, 11):
        return f"Python 3.11 or newer is needed; this is {sys.version.split()[0]}. Try: python3.12 make.py ..."
    if sys.platform != "linux":
        return "Triton runs on Linux alone. On Windows use WSL2; elsewhere Docker or a hosted notebook."
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "Python's `venv` is missing. On Debian and Ubuntu: sudo apt install python3-venv"
    return ""


def setup(*extras: str) -> None:
    """A .venv with the course and these extras, installed anew only when pyproject.toml or the extras change."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    wanted += f" {ROOT}"  # an environment does not survive being moved
    stamp = VENV / "installed"
    lines = stamp.read_text().splitlines() if stamp.exists() and PYTHON.exists() else []
    if lines and lines[0] == wanted and set(extras) <= set(lines[1:]):
        return
    if not lines or lines[0].split()[1:] != [str(ROOT)]:
        import venv

        venv.create(VENV, with_pip=True)
    have = sorted(set(extras) | set(lines[1:]))
    print("Installing into .venv; the first time this downloads torch and takes some minutes.", flush=True)
    target = f"{ROOT}[{','.join(have)}]" if have else str(ROOT)
    if subprocess.call([PYTHON, "-m", "pip", "install", "--quiet", "--editable", target]):
        sys.exit("The installation failed; pip's message above says why. `make` again goes on from here.")
    stamp.write_text("\n".join([wanted, *have]))


def call(*command: str, **environment: str) -> int:
    return subprocess.call([str(c) for c in command], env=os.environ | environment)


def lab(*options: str) -> int:
    setup("grader")
    for unit in sorted(p for p in (ROOT / "notebooks").iterdir() if p.is_dir()):
        mine = ROOT / "work" / unit.name
        if not mine.exists():
            shutil.copytree(unit, mine)
            print(f"work/{unit.name}: new")
    root = ["--allow-root"] if os.geteuid() == 0 else []  # as in most containers
    return call(VENV / "bin" / "jupyter", "lab", "--notebook-dir", ROOT / "work", *root, *options)


def demo() -> int:
    setup("grader")
    return call(PYTHON, "-m", "grader", "demo")


def test() -> int:
    setup("tests")
    return (
        call(PYTHON, "-m", "ruff", "check", ".")
        or call(PYTHON, "-m", "ruff", "format", "--check", ".")
        or call(PYTHON, "-m", "pytest", "-m", "not slow and not gpu")
    )


def verify() -> int:
    setup("tests")
    return call(PYTHON, "-m", "pytest", "-m", "slow and not gpu")


def versions(*wanted: str) -> int:
    setup("tests")
    import tomllib

    matrix = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["triton-versions"]
    results = {}
    for version in wanted or matrix:
        if version not in matrix:
            print(f"Triton {version} is not in pyproject.toml's [tool.triton-versions]: {', '.join(matrix)}.")
            return 2
        folder = ROOT / ".versions" / version
        if not (folder / "complete").exists():
            packages = [f"triton=={version}", *matrix[version]]
            if call(PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", folder, *packages):
                return 1
            (folder / "complete").touch()
        print(f"Triton {version}", flush=True)
        tests = [PYTHON, "-m", "pytest", "tests/trace", "-m", "not gpu", "-p", "no:cacheprovider"]
        cache = str(folder / "cache")  # what one version compiled is nothing to another
        results[version] = call(*tests, PYTHONPATH=str(folder), TRITON_CACHE_DIR=cache, PYTHONDONTWRITEBYTECODE="1")
    print("\n".join(f"Triton {v:<8} {'passed' if code == 0 else 'FAILED'}" for v, code in results.items()))
    return max(results.values())


def build(*units: str) -> int:
    setup("grader")
    return call(PYTHON, "-m", "grader", "build", *units)


def format_code() -> int:
    setup("tests")
    return call(PYTHON, "-m", "ruff", "check", "--fix", ".") or call(PYTHON, "-m", "ruff", "format", ".")


if __name__ == "__main__":
    sys.exit(main())
