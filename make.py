"""Do what `make` does, in plain Python: `make lab` and `python3 make.py lab` are the same.

    lab      open the course in JupyterLab; your work is in work/ (`python3 make.py lab --no-browser` passes options on)
    hub      a JupyterHub with the course and nbgrader's exchange, on this machine (`python3 make.py hub --port=8001` passes
             options on): docs/jupyterhub.md
    demo     grade a sample class without a GPU and show its gradebook
    quick    while you work: lint, types, and the tests of trace, check and observe and of one unit, in a few minutes
    types    pyright over course_lib and grader; needs no network once it is installed
    test     lint, unit tests and one unit end to end
    coverage what `test` runs, or the tests that are named, and how much of the code they reach
    test-browser  the notebooks and formgrader in a headless Chromium; CHROMIUM names one, else the system's or playwright's
    verify   everything else that needs no GPU: every variant of the kill matrix, every notebook executed
    unit     one unit's tests and kill matrix, or of one exercise the kill matrix alone: `make unit UNIT=05_tiling
             EXERCISE=matmul`, `python3 make.py unit 05_tiling matmul`
    versions the trace's tests under every Triton named in pyproject.toml (or those given), unpacked into .versions/; under those
             that a class may have, also the tests of recording, replaying and compiling
    build    solutions/NN_topic.py -> notebooks (executed; give units as arguments)
    site     the course as pages for self-study, in build/site/html: units with their outputs, guides, measurements, names
    format   ruff's formatter and fixes
    constraints  constraints.txt anew: the newest version of each package that pyproject.toml does not pin

Each sets itself up: a virtual environment in .venv, everything installed that it needs. Python 3.11 or newer and git
are all it assumes.
"""

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"
PYTHON = VENV / "bin" / "python"
STUDENTS_LAB = ROOT / "course_lib" / "jupyter"  # settings: without nbgrader's buttons, which are an instructor's


# The server's own reports would carry ours out of sight, and warn of what no student can act on, such as that a notebook is
# not trusted yet. Its address is shown at every level
QUIET = "--log-level=ERROR"


def main() -> int:
    command, *arguments = sys.argv[1:] or ["help"]
    targets = {
        "lab": lab,
        "hub": hub,
        "demo": demo,
        "quick": quick,
        "types": types,
        "test": test,
        "coverage": coverage,
        "test-browser": test_browser,
        "verify": verify,
        "unit": unit,
        "versions": versions,
        "build": build,
        "site": site,
        "format": format_code,
        "constraints": constraints,
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
    """A .venv with the course and these extras, installed anew only when pyproject.toml, constraints.txt or the extras change."""
    wanted = hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + CONSTRAINTS.read_bytes()).hexdigest()
    wanted += f" {ROOT}"  # an environment does not survive being moved
    stamp = VENV / "installed"
    lines = stamp.read_text().splitlines() if stamp.exists() and PYTHON.exists() else []
    if lines and lines[0] == wanted and set(extras) <= set(lines[1:]):
        return
    if not lines or lines[0].split()[1:] != [str(ROOT)]:
        import venv

        # symlinks, as the command makes them: copies fail over an environment of symlinks
        venv.create(VENV, with_pip=True, symlinks=True)
    have = sorted(set(extras) | set(lines[1:]))
    print("Installing into .venv; the first time this downloads torch and takes some minutes.", flush=True)
    target = f"{ROOT}[{','.join(have)}]" if have else str(ROOT)
    if subprocess.call([PYTHON, "-m", "pip", "install", "--quiet", "-c", CONSTRAINTS, "--editable", target]):
        sys.exit("The installation failed; pip's message above says why. `make` again goes on from here.")
    stamp.write_text("\n".join([wanted, *have]))


def call(*command: str, **environment: str) -> int:
    return subprocess.call([str(c) for c in command], env=os.environ | environment)


def lab(*options: str) -> int:
    setup("grader")
    units = sorted(p for p in (ROOT / "notebooks").iterdir() if (p / f"{p.name}.ipynb").exists())
    for said in filter(None, [hand_out(unit, ROOT / "work" / unit.name) for unit in units]):
        print(said)
    unit = unit_to_open()
    first = f"{unit}/{unit}.ipynb" if (ROOT / "work" / unit / f"{unit}.ipynb").exists() else unit  # it may be renamed
    print(f"JupyterLab opens work/{first}, which is next. Ctrl+C here, twice, ends it.", flush=True)
    quiet = [QUIET, *["--allow-root"] * (os.geteuid() == 0)]  # root: as in most containers
    settings = os.pathsep.join(filter(None, [str(STUDENTS_LAB), os.environ.get("JUPYTER_CONFIG_PATH")]))
    jupyter, folder = VENV / "bin" / "jupyter", ROOT / "work"
    opens = f"--LabApp.default_url=/lab/tree/{first}"
    return call(jupyter, "lab", "--notebook-dir", folder, opens, *quiet, *options, JUPYTER_CONFIG_PATH=settings)


def unit_to_open() -> str:
    """Ask the course's own account of progress which unit is next; the first one, if it cannot say."""
    asked = [PYTHON, "-c", "from course_lib import progress; print(progress().unit)"]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True).stdout.strip()
    return said or min(path.name for path in (ROOT / "notebooks").iterdir() if path.is_dir())


def hand_out(unit: Path, mine: Path) -> str:
    """Copies a unit for the student to work in. What is there already stays as it is: a notebook with newer code goes next to
    it, under a name of its own. Says in a sentence what is new to who has worked in it, or ""."""
    given = unit / f"{unit.name}.ipynb"
    version, note = hashlib.sha256(given.read_bytes()).hexdigest(), mine / ".handed_out"
    known = note.read_text().split() if note.exists() else []  # version, and code of that version
    if version in known:
        return ""
    code = code_of(given)
    if not mine.exists():
        shutil.copytree(unit, mine)
        name_this_python(mine / given.name)
        said = ""
    elif code in known:  # a blank copy next to the work would be handed in by mistake
        said = f"work/{unit.name}: only text has changed: stay in yours. The newer text: notebooks/{unit.name}/{given.name}"
    elif known:
        newer = next(path for n in itertools.count(2) if not (path := mine / f"{unit.name}_{n}.ipynb").exists())
        shutil.copy(given, newer)
        name_this_python(newer)
        said = (
            f"work/{unit.name}: the course has a newer version, {newer.name}. Yours is untouched. Code has changed: copy your "
            "solutions over and go on in the newer one, or stay in yours. Hand in one."
        )
    else:
        said = ""  # copied before there were notes: which version it was is not known
    note.write_text(f"{version}\n{code}\n")
    return said


def name_this_python(notebook: Path) -> None:
    """Write into a copy which Python runs it, in the words of its kernel: JupyterLab would, and call the notebook changed as
    soon as it is open."""
    content = json.loads(notebook.read_text("utf-8"))
    content.setdefault("metadata", {})["language_info"] = {
        "codemirror_mode": {"name": "ipython", "version": sys.version_info.major},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": f"ipython{sys.version_info.major}",
        "version": sys.version.split()[0],
    }
    notebook.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")


def code_of(notebook: Path) -> str:
    """A hash of a notebook's code cells."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    return hashlib.sha256(json.dumps([c["source"] for c in cells if c["cell_type"] == "code"]).encode()).hexdigest()


def hub(*options: str) -> int:
    setup("hub")
    settings = ROOT / "grader" / "hub" / "jupyterhub_config.py"
    print("JupyterHub starts; its address follows, and docs/jupyterhub.md goes on. Ctrl+C here ends it.", flush=True)
    return call(PYTHON, "-m", "jupyterhub", "--config", settings, *options)


def demo() -> int:
    setup("grader")
    return call(PYTHON, "-m", "grader", "demo")


# a grader works in processes of its own, for which its test waits; a file's tests share what they set up
TWO_AT_A_TIME = ("-n", "2", "--dist", "loadfile")


def lint() -> int:
    """Style and spelling."""
    return (
        call(PYTHON, "-m", "ruff", "check", ".")
        or call(PYTHON, "-m", "ruff", "format", "--check", ".")
        or call(VENV / "bin" / "codespell")
    )


QUICK = ("tests/trace", "tests/check", "tests/observe", "tests/unit/test_exercises_tiling.py")


def types() -> int:
    """Types, as .venv's packages have them. Its node comes as a wheel; another one on the PATH may be too old, and news of newer
    versions would be asked of the network."""
    setup("tests")
    settings = {"PYRIGHT_PYTHON_GLOBAL_NODE": "0", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return call(VENV / "bin" / "pyright", "--pythonpath", PYTHON, **settings)


def quick() -> int:
    """Types are checked beside the tests: that takes one core most of a minute."""
    setup("tests")
    if code := lint():
        return code
    with ThreadPoolExecutor(1) as aside:
        typed = aside.submit(types)
        tested = pytest(*QUICK)
    if typed.result():
        print("pyright's errors stand above, among the tests.")
    return tested or typed.result()


def test() -> int:
    setup("tests")
    return lint() or types() or pytest()


def pytest(*options: str) -> int:
    return call(PYTHON, "-m", "pytest", "-m", "not slow and not gpu", *TWO_AT_A_TIME, *options)


def coverage(*tests: str) -> int:
    setup("tests")
    return pytest("--cov", "--cov-report=term:skip-covered", *tests)


NO_BROWSER = (
    "Install the system's package `chromium`, or set the environment variable CHROMIUM to a Chromium or Chrome."
)


def chromium() -> str | None:
    """The browser that CHROMIUM names, or the system's; None: playwright's own, if there is one."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def test_browser() -> int:
    setup("browser", "site", "hub")
    if not chromium() and call(PYTHON, "-m", "playwright", "install", "chromium"):
        print(f"No browser, and none could be downloaded. {NO_BROWSER}")
        return 1
    return call(PYTHON, "-m", "pytest", "tests/browser")


def verify() -> int:
    setup("tests")
    return call(PYTHON, "-m", "pytest", "-m", "slow and not gpu", *TWO_AT_A_TIME)


def unit(name: str = "", exercise: str = "") -> int:
    setup("tests")
    if exercise:
        return call(PYTHON, "-m", "grader", "kill-matrix", name, "--exercise", exercise)
    units = [path.name for path in sorted((ROOT / "notebooks").iterdir()) if path.is_dir()]
    if name not in units:
        print(f"Which unit? There are: {', '.join(units)}.")
        return 2
    tests = [f"tests/unit/test_exercises_{module_of(name)}.py", "tests/grader/test_units.py"]
    return (
        pytest(tests[0])
        or call(PYTHON, "-m", "pytest", "-m", "not slow and not gpu", "-k", name, tests[1])
        or call(PYTHON, "-m", "grader", "kill-matrix", name)
    )


def module_of(unit: str) -> str:
    """The name that a unit's modules bear in every room."""
    asked = f"from course_lib.exercises import UNITS; print(UNITS[{unit!r}])"
    return subprocess.run([PYTHON, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()


OF_A_CHECK = ("tests/observe", "tests/unit/test_compiled.py", "tests/unit/test_lower.py")


def versions(*wanted: str) -> int:
    setup("tests")
    matrix, whole = pyproject()["tool"]["triton-versions"], pyproject()["tool"]["triton-of-a-check"]["versions"]
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
        more = OF_A_CHECK if version in whole else ()
        tests = [PYTHON, "-m", "pytest", "tests/trace", *more, "-m", "not gpu", "-p", "no:cacheprovider"]
        settings = {
            "PYTHONPATH": str(folder),
            "TRITON_CACHE_DIR": str(folder / "cache"),  # what one version compiled is nothing to another
            "TRITON_DEFAULT_FP_FUSION": "1",  # as it is; 3.9 warns where nobody says so
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        results[version] = call(*tests, **settings)
    print("\n".join(f"Triton {v:<8} {'passed' if code == 0 else 'FAILED'}" for v, code in results.items()))
    return max(results.values())


def build(*units: str) -> int:
    setup("grader")
    return call(PYTHON, "-m", "grader", "build", *units)


def site() -> int:
    setup("site")
    return call(PYTHON, "-m", "grader.building.site", ROOT / "build" / "site")


def format_code() -> int:
    setup("tests")
    return call(PYTHON, "-m", "ruff", "check", "--fix", ".") or call(PYTHON, "-m", "ruff", "format", ".")


def constraints() -> int:
    """Asks pip what it would install into an empty environment today, with every extra, and installs nothing. Where a package's
    newest version does not take each patch of the oldest Python, pip is asked again for one of a major version before."""
    setup("browser", "site", "hub")
    project = pyproject()["project"]
    oldest = project["requires-python"].removeprefix(">=")
    print("pip resolves everything from nothing; this takes some minutes.", flush=True)
    asked = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-", f"{ROOT}[browser,site,hub]"]
    while True:
        ran = subprocess.run([PYTHON, "-m", "pip", "install", *asked], stdout=subprocess.PIPE, text=True)
        if ran.returncode:
            return ran.returncode
        report = json.loads(ran.stdout)
        if report["environment"]["python_version"] != oldest:  # a version for a newer one may not install there
            print(
                f"Constraints must hold for Python {oldest}. Remove .venv and run: python{oldest} make.py constraints"
            )
            return 1
        older = before_those_too_new(report, oldest)
        if not older:
            break
        asked += older
    CONSTRAINTS.write_text("\n".join([CONSTRAINTS_SAY, *left_open(report, project)]) + "\n")
    print("constraints.txt is new. `make test` installs what it says, and tests it.")
    return 0


def before_those_too_new(report: dict, oldest: str) -> list[str]:
    """What asks pip for an earlier major version of each package of a report that refuses the first patch of Python `oldest`. Debian 12
    has 3.11.2, and some packages want 3.11.5."""
    first = [int(part) for part in oldest.split(".")]
    found = []
    for package in (each["metadata"] for each in report["install"]):
        least = re.search(r">=\s*([\d.]+\d)", package.get("requires_python") or "")
        if least and [int(part) for part in least[1].split(".")] > [*first, 0, 0]:
            found.append(f"{package['name']}<{package['version'].partition('.')[0]}")
    return found


CONSTRAINTS_SAY = """\
# The tested version of each package that the course needs and pyproject.toml does not pin. `make` installs these, and
# `make constraints` renews this file. The nvidia-* and cuda-* packages of torch for GPUs are pinned by torch."""


def left_open(report: dict, project: dict) -> list[str]:
    """The lines name==version for what a report of pip's would install, without what the project pins or is."""
    lines = itertools.chain(project["dependencies"], *project["optional-dependencies"].values())
    pinned = {canonical(line.partition("==")[0]) for line in lines if "==" in line} | {canonical(project["name"])}
    found = {canonical(each["metadata"]["name"]): each["metadata"]["version"] for each in report["install"]}
    others = (name for name in sorted(found.keys() - pinned) if not name.startswith(("nvidia-", "cuda-")))
    return [f"{name}=={found[name].partition('+')[0]}" for name in others]  # 2.13.0 of 2.13.0+cpu


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def pyproject() -> dict:
    import tomllib  # since Python 3.11; `missing` must be able to say so to an older one

    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


if __name__ == "__main__":
    sys.exit(main())
