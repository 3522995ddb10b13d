"""Tell what this machine offers for grading, and what to do about each gap: `python -m grader doctor`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import stat
import subprocess
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.markup import escape
from rich.table import Table

from course_lib.exercises import UNITS
from grader import ENGINE, ROOT, exercises, home
from grader.child import landlock, memory, sandbox, seccomp

PROOF = "04_memory_coalescing"  # the unit that is judged where no other is asked for
INSTALL_COMPILER = "install the package `gcc` (apt, dnf) or conda's `c-compiler`, or name one in the variable CC"
FREE_DISK, FREE_GPU = 2e9, 8e9  # bytes: a class of 100 with its feedback; what the timed cases use
USER_NAMESPACES = "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "/proc/sys/kernel/unprivileged_userns_clone"


class Check(NamedTuple):
    """One row of the report: what this machine offers, and, if that is a gap, what to do."""

    what: str
    here: str
    advice: str = ""
    stops: bool = False  # grading is refused, or would fail, until it is done


def table(rows: list[Check]) -> Table:
    """Render the rows as a table: what stops grading in red, what is less than it could be in yellow."""
    shown = Table("", "what", "here", "what to do", title="What this machine offers for grading")
    for row in rows:
        mark = "[red]✗[/]" if row.stops else "[yellow]![/]" if row.advice else "[green]✓[/]"
        shown.add_row(mark, *map(escape, (row.what, row.here, row.advice)))
    return shown


def examine(folder: Path | None = None, *, accept_risk: bool = False) -> list[Check]:
    """List every check of this machine, for grading in `folder` (default: the grader's home). Writes nothing."""
    folder = folder or home()
    return [*_software(), *_sandbox(folder, accept_risk), *_gpu(), *_place(folder)]


def prove(
    units: Sequence[str] | None = None, folder: Path | None = None, *, accept_risk: bool = False
) -> Iterator[Check]:
    """Yield a row for each unit: whether its published solutions earn full points here, judged as submissions are. Takes seconds.

    units    default: those that have submissions in `folder`, else PROOF. Raises ValueError if there is no such unit
    """
    units = units or list(_waiting(folder or home())) or [PROOF]
    for unit in units:
        exercises(unit)
    if not (accept_risk or sandbox.enough(sandbox.level())) or not _version("torch") or not _version("triton"):
        return  # its row says what to do
    from grader.cohort import canary
    from grader.judging.judge import Judge

    for unit in units:
        with tempfile.TemporaryDirectory() as name:
            try:
                judge = Judge(Path(name), accept_risk=accept_risk)
            except sandbox.NoSandbox:
                return  # likewise
            try:
                canary.prove(judge, unit)
                yield Check("judging", f"the published solutions of {unit} earn everything")
            except canary.Broken as broken:
                yield Check(
                    "judging", f"the published solutions of {unit} do not earn everything", str(broken), stops=True
                )
            finally:
                judge.close()


# ----------------------------------------------------------------------------------------------- software


def _software() -> Iterator[Check]:
    yield Check("Python", platform.python_version())
    yield Check("torch", _version("torch") or "not installed", *_missing("torch", "torch"))
    triton = _version("triton")
    course, engine = (tomllib.loads((at / "pyproject.toml").read_text("utf-8")) for at in (ROOT, ENGINE.parent))
    tested = sorted(map(_numbers, engine["tool"]["triton-versions"]))
    if not triton:
        yield Check("Triton", "not installed", *_missing("triton", "triton"))
    elif tested[0] <= _numbers(triton) <= tested[-1]:
        yield Check("Triton", f"{triton}: the tracer fits")
    else:
        oldest, newest = (".".join(map(str, version)) for version in (tested[0], tested[-1]))
        pin = next(d for d in course["project"]["dependencies"] if d.startswith("triton"))
        sentence = f"The tracer is tested on {oldest} to {newest}; `pip install '{pin.partition(';')[0]}'`."
        yield Check("Triton", triton, sentence, stops=_numbers(triton) < tested[0])
    yield Check("C compiler", *_compiler())
    numpy = _version("numpy")
    clash = triton and _numbers(triton) <= (3, 6) and _numbers(numpy) >= (2, 4)
    yield Check("numpy", numpy, f"Triton {triton} needs numpy below 2.4 for some kernels." if clash else "")
    yield Check("nbgrader", _version("nbgrader") or "not installed", *_missing("nbgrader", "-e '.[grader]'"))
    cluster = "" if _version("distributed") else "Only for a cluster: `pip install -e '.[cluster]'`."
    yield Check("dask.distributed", _version("distributed") or "not installed", cluster)


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _missing(package: str, what: str) -> tuple[str, bool]:
    return ("", False) if _version(package) else (f"`pip install {what}`", True)


def _compiler() -> tuple[str, str]:
    """(here, advice): what Triton would compile a kernel's launcher with, as it looks for one."""
    found = os.environ.get("CC") or shutil.which("clang") or shutil.which("gcc")
    return (found, "") if found else ("none", f"Triton launches no kernel on a GPU without one: {INSTALL_COMPILER}.")


def _numbers(version: str) -> tuple[int, int]:
    """(3, 7) for "3.7.1"; (0, 0) for what is no version."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


# ----------------------------------------------------------------------------------------------- sandbox


def _sandbox(folder: Path, accept_risk: bool) -> Iterator[Check]:
    level = sandbox.level()
    try:
        sandbox.require(accept_risk, folder)
        yield Check(
            "sandbox", level, "" if "bubblewrap" in level else "Enough to grade with. bubblewrap would also limit disk."
        )
    except sandbox.NoSandbox as problem:
        yield Check("sandbox", level, str(problem), stops=True)
    yield Check("  bubblewrap", *_bubblewrap())
    abi = landlock.version()
    older = "ABI 6 (Linux 6.12) also keeps signals in; bubblewrap and seccomp do so here." if 0 < abi < 6 else ""
    none = "Files are apart by bubblewrap alone. It needs Linux 5.13, and `landlock` in the kernel's lsm= list."
    yield Check("  Landlock", f"ABI {abi}" if abi else "none", "" if abi >= 6 else older or none)
    known = seccomp.COLUMN is not None
    why = "This kernel takes no filters." if known else f"Its filter is not written for {platform.machine()}."
    fine = seccomp.available()
    yield Check("  seccomp", "yes" if fine else "no", "" if fine else why)
    yield Check("  processes", *_processes())


def _bubblewrap() -> tuple[str, str]:
    if found := sandbox.bubblewrap():
        version = subprocess.run(["bwrap", "--version"], capture_output=True, text=True).stdout.split()[-1]
        no_size = "Version 0.7 or newer would also limit what is written to /tmp." if "--size" not in found else ""
        return version, no_size
    if not shutil.which("bwrap"):
        return "not installed", "Install the package `bubblewrap` (apt, dnf)."
    restricted, allowed = (Path(p).read_text().strip() if Path(p).exists() else "" for p in USER_NAMESPACES)
    if restricted == "1":
        remedy = "`sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or its AppArmor profile."
    elif allowed == "0":
        remedy = "`sudo sysctl kernel.unprivileged_userns_clone=1`"
    elif any(map(os.path.exists, ("/.dockerenv", "/run/.containerenv"))):  # Docker's, and Podman's
        remedy = "The container's profile forbids them; Landlock and seccomp do without."
    else:
        remedy = "User namespaces are switched off: user.max_user_namespaces, or a container's profile."
    return "may not make namespaces", remedy


def _processes() -> tuple[str, str]:
    limit = f"{sandbox.PROCESSES} a sandbox, threads included"
    if os.geteuid() == 0:
        if sandbox.root_can_leave():
            return f"{limit}; this is root, students' code runs as nobody", ""
        return "no kernel counts root's", "Grade as an ordinary user, or make Python and the course readable by all."
    return (
        (limit, "")
        if sandbox.bubblewrap_works()
        else ("limited by memory and time", "With bubblewrap they are counted.")
    )


# ----------------------------------------------------------------------------------------------- GPU


def _gpu() -> Iterator[Check]:
    import torch

    from tritontrace.profiling import bench

    if not torch.cuda.is_available():
        sees = "The driver is here: is this torch a CPU build?" if sandbox.gpu_devices() else ""
        yield Check("GPU", "none", sees or "Not needed. Speed, which is extra credit, is not measured.")
        return
    for number in range(torch.cuda.device_count()):
        old = "" if bench.has_gpu() else "Speed is measured on sm_80 and newer."
        architecture = "sm_{}{}".format(*torch.cuda.get_device_capability(number))
        yield Check(f"GPU {number}", f"{torch.cuda.get_device_name(number)}, {architecture}", old)
        free, total = torch.cuda.mem_get_info(number)
        busy = (
            "Another process uses it: correctness is graded all the same, speed would be noise."
            if free < 0.9 * total
            else ""
        )
        small = "Timed cases may not fit; stop what else uses it." if free < FREE_GPU else busy
        yield Check("  memory", f"{free / 1e9:.0f} of {total / 1e9:.0f} GB free", small)
    yield Check("counters", *_counters())


DRIVER, ITSELF = Path("/proc/driver/nvidia/params"), Path("/proc/self/status")
SYS_ADMIN = 1 << 21  # of Linux's capabilities
ALLOW = (
    "`profile` shows times and no counters. To allow them, the machine's owner writes `options nvidia "
    "NVreg_RestrictProfilingToAdminUsers=0` into a file in /etc/modprobe.d and boots again; a container needs `--cap-add=SYS_ADMIN`."
)


def _counters() -> tuple[str, str]:
    """(here, advice): whether Nsight Compute is here, and may read the GPU's counters."""
    from tritontrace.profiling import nsight

    if not nsight.is_here():
        return (
            "no `ncu`",
            "`profile` shows times and no counters. Nsight Compute is part of the CUDA toolkit: put `ncu` on the PATH.",
        )
    admins_only = re.search(r"^RmProfilingAdminOnly: (\d)", _read(DRIVER), re.M)
    rights = re.search(r"^CapEff:\s*(\w+)", _read(ITSELF), re.M)
    if admins_only and admins_only[1] == "0":
        return "everybody may read them", ""
    if rights and int(rights[1], 16) & SYS_ADMIN:
        return "this account may read them", ""
    return ("administrators alone may read them" if admins_only else "the driver does not say who may read them"), ALLOW


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


# ----------------------------------------------------------------------------------------------- place


def _place(folder: Path) -> Iterator[Check]:
    there = next(p for p in (folder, *folder.parents) if p.exists())
    free = shutil.disk_usage(there).free
    room = f"Make room: a class of 100 needs about {FREE_DISK / 1e9:g} GB." if free < FREE_DISK else ""
    yield Check("free disk", f"{free / 1e9:.0f} GB", room)
    book = folder / "gradebook.db"
    if not os.access(book if book.exists() else there, os.W_OK):
        yield Check(
            "gradebook",
            f"{book} cannot be written",
            f"Give {book.parent} to your account, or set GRADER_HOME.",
            stops=True,
        )
    else:
        yield Check("gradebook", str(book) if book.exists() else f"{book}, made on first use")
    yield Check("secret", *_secret(folder / "secret"))
    yield from (Check("pack", *advised) for path in _packs(folder) if (advised := _pack(path)))
    yield Check("memory", *_memory(len(os.sched_getaffinity(0))))
    counts = ", ".join(f"{count} of {unit}" for unit, count in _waiting(folder).items())
    place = f"Put them at {folder}/submitted/STUDENT/UNIT/UNIT.ipynb."
    yield Check("submissions", counts or "none", "" if counts else place)


def _memory(workers: int) -> tuple[str, str]:
    """(here, advice): what `autograde` keeps to with so many workers, and whether there is as much."""
    needed, free = memory.COMMAND + workers * memory.WORKER, memory.free()
    fits = max(1, (free - memory.COMMAND) // memory.WORKER)
    here = f"{free / 1e9:.1f} GB free; {workers} workers keep to {needed / 1e9:.1f} between submissions, {memory.WORKER / 1e9:.2g} each"
    return here, f"Take fewer: `autograde --workers {fits}`." if free < needed else ""


def _waiting(folder: Path) -> dict[str, int]:
    """Unit -> how many submissions of it there are; without those that have none."""
    found = {unit: len(list((folder / "submitted").glob(f"*/{unit}/{unit}.ipynb"))) for unit in UNITS}
    return {unit: count for unit, count in found.items() if count}


def _secret(path: Path) -> tuple[str, str, bool]:
    """(here, advice, stops): readable by its owner alone, of the right length, not in git."""
    try:
        status = path.stat()
    except OSError:
        return "made on first use", "", False
    if status.st_uid != os.geteuid():
        return f"belongs to uid {status.st_uid}", f"Grade from that account, or `chown` {path}.", os.geteuid() != 0
    if stat.S_IMODE(status.st_mode) & 0o077:
        return "others may read it", f"`chmod 600 {path}`, and if students have accounts here, make a new one.", False
    if not re.fullmatch(r"[0-9a-f]{64}\s*", path.read_text(errors="replace")):
        return (
            "damaged",
            f"It should be 64 hexadecimal digits. Restore {path}, or remove it: seeds will be others.",
            True,
        )
    if _git(path, "ls-files", "--error-unmatch"):
        return (
            "committed to git",
            f"Everybody with the repository has it: `git rm --cached {path.name}`, and make a new one.",
            False,
        )
    return "readable by its owner alone", "", False


def _packs(folder: Path) -> list[Path]:
    """The packs that hold the secret, where `grader pack` writes them or has written them."""
    zips = {path.resolve() for place in (folder / "packs", ROOT, Path.cwd()) for path in place.glob("*.zip")}

    def holds_it(path: Path) -> bool:
        try:
            with zipfile.ZipFile(path) as pack:
                return "class/secret" in pack.namelist()
        except (OSError, zipfile.BadZipFile):
            return False

    return sorted(filter(holds_it, zips))


def _pack(path: Path) -> tuple[str, str] | None:
    """(here, advice) for a pack that others could come by."""
    if _git(path, "ls-files", "--error-unmatch"):
        return f"{path.name} is committed to git", "It holds the secret: `git rm --cached` it, and make a new secret."
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        return f"others may read {path.name}", f"It holds the secret: `chmod 600 {path}`."
    if _git(path, "rev-parse", "--git-dir") and not _git(path, "check-ignore", "-q"):
        return f"git does not ignore {path.name}", f"It holds the secret, and `git add` takes it: move {path} away."
    return None


def _git(path: Path, *words: str) -> bool:
    """Whether git, where there is one, answers yes about this file."""
    try:
        return subprocess.run(["git", *words, path.name], cwd=path.parent, capture_output=True).returncode == 0
    except OSError:  # there is none
        return False
