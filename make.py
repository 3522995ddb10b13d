"""Do what `make` does, in plain Python: `make lab` and `python3 make.py lab` are the same.

    lab      open the course in JupyterLab; your work is in work/ (`python3 make.py lab --no-browser` passes options on)
    hub      a JupyterHub with the course and nbgrader's exchange, on this machine; options are JupyterHub's (`python3 make.py hub
             --JupyterHub.bind_url=http://127.0.0.1:9000`): docs/jupyterhub.md
    tutor    install a server of hints, checks and traces for your assistant, and print its command: AGENTS.md
    demo     grade a sample class without a GPU and show its gradebook
    lint     style, spelling and the ledger
    quick    while you work: lint, types, and the tests of trace, check and execution and of one unit, in a few minutes
    types    pyright over course_lib and grader; needs no network once it is installed
    ledger   lines of each room; fails where one passes its ceiling in tests/ledger.toml
    test     lint, unit tests and one unit end to end; `python3 make.py test tests/check` runs the tests named, and nothing else
    coverage what `test` runs, or the tests that are named, and how much of the code they reach
    test-browser  the notebooks and formgrader in a headless Chromium; CHROMIUM names one, else the system's or playwright's
    verify   everything else that needs no GPU: kill matrices (a sample of variants; SHARE=1: all), every notebook executed
    unit     one unit's tests and kill matrix, or of one exercise the kill matrix alone: `make unit UNIT=05_tiling
             EXERCISE=matmul`, `python3 make.py unit 05_tiling matmul`
    versions the trace's tests under every Triton named in tritontrace/pyproject.toml (or those given), unpacked into
             .versions/; under those that a class may have, also the tests of recording, replaying and compiling
    mutations  small changes of the engine or of the course's judge: is each noticed by a test? `python3 make.py mutations engine
             --sample 60` passes options on; tritontrace/tests/mutate.py says which there are
    build    solutions/NN_topic.py -> notebooks (executed; give units as arguments)
    site     the course as pages for self-study, in build/site/html: units with their outputs, guides, measurements, names
    release  what people get who have no clone, in build/release: wheels, sdists, zips, notes, checksums; of a clean clone whose
             changelogs give their news a version
    format   ruff's formatter and fixes
    constraints  constraints.txt anew: the newest version of each package that pyproject.toml does not pin

Each sets itself up: a virtual environment in .venv, everything installed that it needs. Python 3.11 or newer and git
are all it assumes. If a conda or virtual environment is active and has the course, it is used instead. TORCH=cpu, TORCH=cuda
or TORCH=system (the torch that this Python has) chooses torch's build; by itself, `make` takes the one for this machine.
"""

import hashlib
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
CONSTRAINTS = ROOT / "constraints.txt"
ENGINE = ROOT / "tritontrace"  # the library that traces kernels, installed beside the course
PYTHON = VENV / "bin" / "python"


def main() -> int:
    command, *arguments = sys.argv[1:] or ["help"]
    targets = {
        "lab": lab,
        "hub": hub,
        "tutor": tutor,
        "demo": demo,
        "quick": quick,
        "lint": lint,
        "types": types,
        "ledger": ledger,
        "test": test,
        "coverage": coverage,
        "test-browser": test_browser,
        "verify": verify,
        "unit": unit,
        "versions": versions,
        "mutations": mutations,
        "build": build,
        "site": site,
        "release": release,
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
    if sys.platform == "win32":
        return "Windows has no Triton and no fork, which checks need. Use WSL2, which is Linux: docs/installing.md."
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return "Python's `venv` is missing. On Debian and Ubuntu: sudo apt install python3-venv"
    return ""


def setup(*extras: str) -> None:
    """Have an environment with the course and these extras: the active one, if it has them, else .venv, installed anew only when
    pyproject.toml, constraints.txt, the extras or torch's build change."""
    global VENV, PYTHON
    if active := active_environment(extras):
        VENV, PYTHON = active, active / "bin" / "python"
        return
    stamp = VENV / "installed"
    lines = stamp.read_text().splitlines() if stamp.exists() and PYTHON.exists() else []
    _, before, where = [*lines[0].split(" ", 2), "", ""][:3] if lines else ("", "", "")
    build = torch_build(before)
    wanted = stamp_of(ROOT, build)
    if lines and lines[0] == wanted and set(extras) <= set(lines[1:]):
        return
    other = before != build and before in BUILDS
    if where == str(ROOT) and other:  # one build satisfies pip as well as another
        too_many = ["torch", "triton"] if build == "system" else ["torch"]
        subprocess.call([PYTHON, "-m", "pip", "uninstall", "--quiet", "--yes", *too_many])
    have = sorted(set(extras) | set(lines[1:]))
    if where != str(ROOT) or (other and "system" in (before, build)):
        make_environment(build)
    print("Installing into .venv; the first time this takes some minutes.", flush=True)
    dependencies(*have, build=build)
    both = ["--editable", ENGINE, "--editable", ROOT]
    if subprocess.call([PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", *both]):
        sys.exit(NOT_INSTALLED)
    stamp.write_text("\n".join([wanted, *have]))


def stamp_of(folder: Path, build: str) -> str:
    """Return the first line of .venv/installed of a copy of this clone in `folder`, where all is installed that both projects and
    the constraints declare. An environment does not survive being moved."""
    declared = (ROOT / "pyproject.toml", ENGINE / "pyproject.toml", CONSTRAINTS)
    return f"{hashlib.sha256(b''.join(path.read_bytes() for path in declared)).hexdigest()} {build} {folder}"


NOT_INSTALLED = "The installation failed; pip's message above says why. `make` again goes on from here."


def active_environment(extras: Sequence[str]) -> Path | None:
    """The conda or virtual environment that is active, if this clone's course is installed in it with these extras."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        folder = Path(os.environ.get(name) or VENV)
        python = folder / "bin" / "python"
        if folder.resolve() == VENV.resolve() or not python.exists():
            continue
        names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needed(*extras)]
        # -I: what lies in this folder is not installed yet
        asked = (
            f"import importlib.metadata as m, course_lib; [m.version(n) for n in {names}]; print(course_lib.__file__)"
        )
        said = subprocess.run([python, "-I", "-c", asked], capture_output=True, text=True).stdout.strip()
        if said and Path(said).parents[1] == ROOT:
            return folder
    return None


BUILDS = "cpu", "cuda", "system"  # of torch; the last: what this machine's Python has, whichever that is
DRIVER = Path("/proc/driver/nvidia/version")
UV = "uv==0.13.9"
# to download, and of all that is installed
SIZES = {
    "cpu": "0.2 GB to download, and 2.2 GB on the disk with everything else",
    "cuda": "about 3 GB to download, and 5.5 GB on the disk with everything else",
}


def torch_build(before: str = "") -> str:
    """Which of BUILDS to install: $TORCH; else "cuda" where NVIDIA's driver is or was `before`; else "cpu"."""
    named = os.environ.get("TORCH", "")
    if named and named not in BUILDS:
        sys.exit(f"TORCH={named} is none of {', '.join(BUILDS)}.")
    if named == "system" and not find_spec("torch"):
        sys.exit(f"TORCH=system takes the torch of this machine's Python, and {sys.executable} has none.")
    return named or ("cuda" if driver() or before == "cuda" else "cpu")


def driver() -> bool:
    """Whether NVIDIA's driver is here; the program alone in WSL2."""
    return DRIVER.exists() or shutil.which("nvidia-smi") is not None


def make_environment(build: str) -> None:
    import venv

    # symlinks, as the command makes them: copies fail over an environment of symlinks
    venv.create(VENV, with_pip=True, symlinks=True, system_site_packages=build == "system")
    (VENV / "installed").write_text(f"nothing {build} {ROOT}")


def dependencies(*extras: str, build: str) -> None:
    """Install all that the course needs besides itself and its engine."""
    lines = needed(*extras)
    if build == "system":
        lines = [line for line in lines if not re.match(r"(torch|triton)\b", line)]
    elif not installed(pin := next(line for line in lines if line.startswith("torch=="))):
        print(f"torch's {build.upper()} build comes first: {SIZES[build]}.", flush=True)
        if build == "cpu" or driver():  # uv asks the driver which CUDA build it takes
            torch_by_uv(pin, build)
    if pip_install("-c", CONSTRAINTS, *lines):
        sys.exit(NOT_INSTALLED)


DOWNLOAD = re.compile(
    r"\s*(?:Downloading|Using cached) (?:\S*/)?(?P<file>[^\s/]+) \((?P<size>[\d.]+) (?P<unit>[kMG]?B)\)"
)
MEGABYTES = {"B": 1e-6, "kB": 1e-3, "MB": 1.0, "GB": 1e3}


def pip_install(*what: str | Path) -> int:
    """Run `pip install` and return its status. On a terminal one line says what it downloads, and how much that is so far."""
    asked = [PYTHON, "-m", "pip", "install", "--progress-bar=off", *what]
    megabytes, shown = 0.0, sys.stdout.isatty()
    with subprocess.Popen(asked, stdout=subprocess.PIPE, text=True, errors="replace") as pip:
        for line in pip.stdout or ():
            if found := DOWNLOAD.match(line):
                megabytes += float(found["size"]) * MEGABYTES[found["unit"]]
                said = f"{found['file'].partition('-')[0]}, {found['size']} {found['unit']}; {megabytes:,.0f} MB so far"
            elif line.startswith("Installing collected packages: "):
                said = f"unpacking {line.count(',') + 1} packages, {megabytes:,.0f} MB"
            else:
                continue
            if shown:
                print(f"\r\033[K  {said[:100]}", end="", flush=True)  # in place of the line before
    if shown:
        print("\r\033[K", end="", flush=True)
    return pip.returncode


def installed(pin: str) -> bool:
    """Whether .venv has this version of a package, in whichever build."""
    name, _, version = pin.partition("==")
    return any(VENV.glob(f"lib/python*/site-packages/{name}-{version}[.+]*"))


def torch_by_uv(pin: str, build: str) -> None:
    """Install torch by uv, which knows PyTorch's own indexes, and which of their CUDA builds suits the driver. Where they do not
    answer within seconds, torch is left to pip."""
    subprocess.call([PYTHON, "-m", "pip", "install", "--quiet", UV])
    backend = "cpu" if build == "cpu" else "auto"
    asked = [VENV / "bin" / "uv", "pip", "install", "--python", PYTHON, f"--torch-backend={backend}", pin]
    patience = {"UV_HTTP_TIMEOUT": "5", "UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "0"}
    try:
        failed = subprocess.call(asked, env=os.environ | patience)
    except OSError:
        failed = True
    if failed:
        print(f"PyTorch's own index does not answer: torch comes from PyPI, with CUDA, {SIZES['cuda']}.", flush=True)


def needed(*extras: str) -> list[str]:
    """The lines of both pyproject.toml that ask a package index for something, with these extras."""
    course, engine = (pyproject(folder)["project"] for folder in (ROOT, ENGINE))
    found, todo = [], [*course["dependencies"], *(f"{course['name']}[{extra}]" for extra in extras)]
    while todo:
        name, own = re.match(r"([\w-]+)(?:\[([\w,-]+)\])?", line := todo.pop(0)).groups()
        project = {course["name"]: course, engine["name"]: engine}.get(name)
        if project is None:
            found.append(line)
            continue
        todo += [] if project is course else engine["dependencies"]
        for extra in (own or "").split(",") if own else ():
            todo += project["optional-dependencies"][extra]
    return list(dict.fromkeys(found))


def call(*command: str, **environment: str) -> int:
    return subprocess.call([str(c) for c in command], env=os.environ | environment)


def lab(*options: str) -> int:
    setup("grader")
    return call(PYTHON, "-m", "strides", "lab", *options)


def hub(*options: str) -> int:
    setup("hub")
    settings = ROOT / "grader" / "hub" / "jupyterhub_config.py"
    print("JupyterHub starts; its address follows, and docs/jupyterhub.md goes on. Ctrl+C here ends it.", flush=True)
    os.execv(
        PYTHON, [str(c) for c in (PYTHON, "-m", "jupyterhub", "--config", settings, *options)]
    )  # gets signals itself


def tutor() -> int:
    setup("grader", "tutor")
    print(f"Add this command to your assistant, as AGENTS.md shows: {VENV / 'bin' / 'strides'} tutor")
    return 0


def demo() -> int:
    setup("grader")
    return call(PYTHON, "-m", "strides", "demo")


# a grader works in processes of its own, for which its test waits; a file's tests share what they set up
TWO_AT_A_TIME = ("-n", "2", "--dist", "loadfile")


def ledger() -> int:
    return call(sys.executable, ROOT / "tests" / "ledger.py")


def lint() -> int:
    """Style, spelling and size."""
    setup("tests")
    return (
        call(PYTHON, "-m", "ruff", "check", ".")
        or call(PYTHON, "-m", "ruff", "format", "--check", ".")
        or call(VENV / "bin" / "codespell")
        or ledger()
    )


QUICK = ("tritontrace/tests/trace", "tests/check", "tests/execution", "tests/unit/test_exercises_tiling.py")


def types() -> int:
    """Types, as .venv's packages have them. Its node comes as a wheel; another one on the PATH may be too old, and news of newer
    versions would be asked of the network."""
    setup("tests")
    settings = {"PYRIGHT_PYTHON_GLOBAL_NODE": "0", "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return call(VENV / "bin" / "pyright", "--pythonpath", PYTHON, **settings)


def quick() -> int:
    return lint() or types_and_tests(*QUICK)


def types_and_tests(*tests: str) -> int:
    """Check types beside the tests, of whose two cores one waits often; tests: those to run, all if none are named."""
    with ThreadPoolExecutor(1) as aside:
        typed = aside.submit(types)
        tested = pytest(*tests)
    if typed.result():
        print("pyright's errors stand above, among the tests.")
    return tested or typed.result()


def test(*tests: str) -> int:
    setup("tests")
    return pytest(*tests) if tests else lint() or types_and_tests()


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
    return call(PYTHON, "-m", "pytest", *TWO_AT_A_TIME, "tests/browser")


def verify() -> int:
    setup("tests")
    return call(PYTHON, "-m", "pytest", "-m", "slow and not gpu", *TWO_AT_A_TIME)


def unit(name: str = "", exercise: str = "") -> int:
    setup("tests")
    units = [path.name for path in sorted((ROOT / "notebooks").iterdir()) if path.is_dir()]
    if name not in units:
        print(f"Which unit? There are: {', '.join(units)}.")
        return 2
    module = module_of(name)
    chosen = ["--exercise", exercise] if exercise else []
    of_unit = ["-k", selection_of(name, module, exercise), "tests/grader/test_units.py"]
    return (
        (0 if exercise else pytest(f"tests/unit/test_exercises_{module}.py"))
        or pytest(*of_unit)
        or call(PYTHON, "-m", "grader", "kill-matrix", name, *chosen)
    )


def selection_of(unit: str, module: str, exercise: str = "") -> str:
    """What pytest's -k takes for the tests of a unit and of its exercises, or of one exercise, 'matmul' or 'tiling.matmul'.

    >>> selection_of("06_fusion", "fusion"), selection_of("06_fusion", "fusion", "swiglu")
    ('06_fusion or [fusion.', '[fusion.swiglu]')
    """
    if exercise:
        return f"[{module}.{exercise.rpartition('.')[2]}]"
    return f"{unit} or [{module}."


def module_of(unit: str) -> str:
    """The name that a unit's modules bear in every room."""
    asked = f"from course_lib.exercises import UNITS; print(UNITS[{unit!r}])"
    return subprocess.run([PYTHON, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()


OF_A_TRACE = ("tritontrace/tests/trace", "tests/engine/test_kernels_of_the_benchmarks.py")
OF_A_REPLAY = ("tritontrace/tests/replay", "tritontrace/tests/compiled", "tests/execution")


def versions(*wanted: str) -> int:
    setup("tests")
    tool = pyproject(ENGINE)["tool"]
    matrix, whole = tool["triton-versions"], tool["triton-of-a-replay"]["versions"]
    results = {}
    for version in wanted or matrix:
        if version not in matrix:
            print(
                f"Triton {version} is not in tritontrace/pyproject.toml's [tool.triton-versions]: {', '.join(matrix)}."
            )
            return 2
        folder = ROOT / ".versions" / version
        if not (folder / "complete").exists():
            packages = [f"triton=={version}", *matrix[version]]
            if call(PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", folder, *packages):
                return 1
            (folder / "complete").touch()
        print(f"Triton {version}", flush=True)
        more = OF_A_REPLAY if version in whole else ()
        tests = [PYTHON, "-m", "pytest", *OF_A_TRACE, *more, "-m", "not gpu", "-p", "no:cacheprovider"]
        settings = {
            "PYTHONPATH": str(folder),
            "TRITON_CACHE_DIR": str(folder / "cache"),  # what one version compiled is nothing to another
            "TRITON_DEFAULT_FP_FUSION": "1",  # as it is; 3.9 warns where nobody says so
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        results[version] = call(*tests, **settings)
    print("\n".join(f"Triton {v:<8} {'passed' if code == 0 else 'FAILED'}" for v, code in results.items()))
    return max(results.values())


def mutations(part: str = "", *options: str) -> int:
    plans = {"engine": ENGINE / "tests" / "mutants.toml", "course": ROOT / "tests" / "mutants.toml"}
    if part not in plans:
        print(f"Mutants of what? There are: {', '.join(plans)}.")
        return 2
    setup("tests")
    return call(PYTHON, ENGINE / "tests" / "mutate.py", plans[part], *options)


def build(*units: str) -> int:
    setup("grader")
    return call(PYTHON, "-m", "grader", "build", *units)


def site() -> int:
    setup("site")
    return call(PYTHON, "-m", "grader.building.site", ROOT / "build" / "site")


def release() -> int:
    setup("grader")
    return call(PYTHON, "-m", "grader.building.release", ROOT / "build" / "release")


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
    asked = ["--dry-run", "--ignore-installed", "--quiet", "--report", "-", str(ENGINE), f"{ROOT}[browser,site,hub]"]
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
    pinned = {canonical(re.split("==|\\[", line)[0]) for line in lines if "==" in line} | {canonical(project["name"])}
    found = {canonical(each["metadata"]["name"]): each["metadata"]["version"] for each in report["install"]}
    others = (name for name in sorted(found.keys() - pinned) if not name.startswith(("nvidia-", "cuda-")))
    return [f"{name}=={found[name].partition('+')[0]}" for name in others]  # 2.13.0 of 2.13.0+cpu


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def pyproject(folder: Path = ROOT) -> dict:
    import tomllib  # since Python 3.11; `missing` must be able to say so to an older one

    return tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))


if __name__ == "__main__":
    sys.exit(main())
