"""Four layers that keep a submission's processes to themselves.

    bubblewrap   around the zygote: no network, a read-only system, a private home and /tmp, nobody else's processes
    Landlock     in each child: one folder to write to, the course and the system to read, and no other file
    seccomp      in each child: computing, reading and writing; no sockets, no processes, no signals to others
    limits       in each child: time, memory (MEMORY of zygote.py), files, processes; it is no longer root if it was

Each holds without the others. bubblewrap, or Landlock and seccomp together, are enough to grade with; with less,
grading is refused unless the instructor accepts the risk.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import os
import resource
import shutil
import site
import stat
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Collection, Iterator, Sequence
from glob import glob
from importlib.machinery import all_suffixes
from pathlib import Path

from grader import ENGINE, ROOT
from grader.child import landlock, seccomp

# trap: of course_lib oracles, cases and what is to be predicted; with them goes what an exercise is `without`
HIDDEN = ("exercises/*", "hardware/measured")
NAMES_ALONE = "__init__.py"  # of what is hidden: which units there are
SYSTEM = "/usr /lib /lib64 /bin"
SETTINGS = "ld.so.cache ld.so.conf ld.so.conf.d alternatives localtime nsswitch.conf passwd group fonts"  # of /etc
DEVICES = "null zero full random urandom"
# of /proc/self: what else is there tells of the network and of others
OF_ITSELF = "maps stat statm status io cgroup mountinfo"
FACTS = "/proc/cpuinfo /proc/meminfo /sys/devices/system"
ASSEMBLERS = "triton/backends/nvidia/bin/ptxas*"
NEEDED = ("torch", "triton", "numpy")  # a folder of sys.path with one of them is shown; so is one with any distribution

OPEN_FILES, FILE_BYTES = 256, 64 << 20
TMP_BYTES = 256 << 20  # in memory, all that bubblewrap lets a zygote and its children write
PROCESSES = 512  # threads count; a compiler may start one for each core
NOBODY = 65534


class NoSandbox(RuntimeError):
    """Raised, with instructions, where this machine offers no sandbox and the risk was not accepted."""


# ------------------------------------------------------------------------------------------ what this machine offers


def level() -> str:
    """Return what this machine offers, by trial: "bubblewrap + Landlock + seccomp", a part of that, or "none"."""
    names = ["bubblewrap"] if bubblewrap_works() else []
    names += ["Landlock"] if landlock.version() else []
    names += ["seccomp"] if seccomp.available() else []
    return " + ".join(names) or "none"


def enough(found: str) -> bool:
    """Whether a level keeps files and the network out of reach."""
    return "bubblewrap" in found or ("Landlock" in found and "seccomp" in found)


def require(accept_risk: bool, *private: Path) -> str:
    """Return the sandbox level. Raises NoSandbox if it is not enough, or would show `private` folders, and the risk is not accepted."""
    found = level()
    if accept_risk:
        return found
    if not enough(found):
        raise NoSandbox(
            "This machine can keep submissions apart neither by bubblewrap nor by Landlock and seccomp. Install the "
            "package `bubblewrap`, or grade with --accept-risk if you trust every submission."
        )
    if shown := exposed([ROOT, *private]):
        raise NoSandbox(
            f"{shown[0]} lies under a folder that student code may read, such as /usr. Move the course, for example to "
            "/srv, or grade with --accept-risk if you trust every submission."
        )
    return found


def bubblewrap_works() -> bool:
    """Whether bubblewrap can be started here."""
    return bool(bubblewrap())


@functools.cache
def bubblewrap() -> tuple[str, ...]:
    """Return the part of a bubblewrap command that makes namespaces here, before the mounts; () if none works.

    Root makes them without a user namespace, so that the zygote can become nobody: no kernel counts root's processes.
    """
    if not shutil.which("bwrap"):
        return ()
    common = ("bwrap", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    to_leave_root = ("--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID")
    apart: list[tuple[str, ...]] = [("--unshare-all",)]
    if os.geteuid() == 0:
        apart.insert(0, (*to_leave_root, "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"))
    for namespaces in apart:
        for size in (("--size", str(TMP_BYTES)), ()):  # bubblewrap 0.6 knows no size
            apart_here = (*common, *namespaces, "--perms", "1777", *size, "--tmpfs", "/tmp")
            # /proc: a container may let us make namespaces, and yet refuse their own /proc
            tried = [*apart_here, "--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev", "true"]
            if subprocess.run(tried, capture_output=True, timeout=20).returncode == 0:
                return apart_here
    return ()


def root_can_leave() -> bool:
    """Whether `become_nobody` will work in a zygote that root starts here."""
    if not bubblewrap():
        return all(map(_open_to_all, readable()))
    return "CAP_SETUID" in bubblewrap() and all(_open_to_all(path, above=False) for path in readable())


def readable(*, gpu: bool = False) -> list[Path]:
    """List the paths that a child may read: the system's libraries, this Python, the engine, course_lib without its exercises.

    gpu: what the timed half reads. It judges what it has timed, and runs only what was compiled, so it has the exercises.
    """
    paths = [Path(p) for p in SYSTEM.split()]
    paths += [Path("/etc", name) for name in SETTINGS.split()] + [Path("/dev", name) for name in DEVICES.split()]
    facts = [*FACTS.split(), *(f"/proc/self/{name}" for name in OF_ITSELF.split())]
    paths += [Path(p) for p in facts] if not gpu else [Path("/proc"), Path("/sys")]
    python = {Path(sys.prefix), Path(sys.base_prefix), *packages(), *_libraries()}
    hidden = {path for pattern in HIDDEN for path in (ROOT / "course_lib").glob(pattern) if path.name != NAMES_ALONE}
    course = _course(set() if gpu else hidden)
    own = [ENGINE / "tritontrace", *(ROOT / "grader" / name for name in ("__init__.py", "child"))]
    return [p for p in [*paths, *sorted(python), *course, *own] if os.path.exists(p)]


def _course(hidden: set[Path]) -> list[Path]:
    """The files and folders of course_lib without these. A folder that holds one of them is replaced by all others in it."""
    above = {folder for path in hidden for folder in path.parents}

    def seen(folder: Path) -> Iterator[Path]:
        for path in sorted(folder.iterdir()):
            if path in hidden:
                continue
            if path in above:
                yield from seen(path)
            else:
                yield path

    return list(seen(ROOT / "course_lib"))


# trap: what is forgotten here is a PermissionError in a student's code
def packages() -> list[Path]:
    """List the folders in which this Python finds installed packages, and those to which their links lead.

    The first are of sys.path: of this environment, of PYTHONPATH, of lines in .pth files. Into the second lead links, of
    packages or of single files, also of the standard library. A folder with the course in it is none: what is hidden there would be shown.
    They are looked for once in a process, and a zygote's children know what it knows.
    """
    return list(_packages(tuple(sys.path)))


@functools.cache
def _packages(places: Sequence[str]) -> Sequence[Path]:
    own = [Path(p) for p in (*site.getsitepackages(), site.getusersitepackages()) if os.path.isdir(p)]
    found = dict.fromkeys(own)
    for folder in map(Path, filter(os.path.isdir, places)):
        inside = any(map(folder.is_relative_to, found))  # as setuptools puts its own there
        if not inside and _holds_packages(folder) and not _holds_the_course(folder):
            found[folder] = None
    linked = (path for folder in [*found, _standard_library()] for path in _behind_links(folder))
    return tuple(found | dict.fromkeys(path for path in linked if not _holds_the_course(path)))


def _holds_packages(folder: Path) -> bool:
    entries = _entries(folder)
    return any(path.name in NEEDED or path.suffix in (".dist-info", ".egg-info") for path in entries)


def _holds_the_course(folder: Path) -> bool:
    """Whether the course lies in a folder, or its engine, which `readable` shows by itself."""
    folder = folder.resolve()
    return ROOT.is_relative_to(folder) or folder == ENGINE


# trap: Debian's has a sitecustomize.py in /etc. Whoever asks for a file of Python's that the sandbox does not show gets no verdict
def _standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _behind_links(folder: Path) -> Iterator[Path]:
    """The places to which links in a folder of packages lead: a package, or all of a distribution that is linked file by file."""
    for entry in _entries(folder):
        if entry.is_symlink():
            yield entry.resolve()
        elif entry.suffix == ".dist-info" and (record := entry / "METADATA").is_symlink():
            yield record.resolve().parent.parent


def of_python(names: Collection[str]) -> list[Path]:
    """Select from these files and modules the readable code of Python and of its packages, as files."""
    roots = [_standard_library(), *packages()]
    found = []
    for name in names:
        if os.path.isabs(name):
            found.append(Path(os.path.normpath(name)))
        elif all(part.isidentifier() for part in name.split(".")):
            stems = (Path(folder, *name.split(".")) for folder in sys.path if os.path.isdir(folder))
            found += [Path(f"{stem}{end}") for stem in stems for end in ("/__init__.py", *all_suffixes())]
    code = (
        path for path in dict.fromkeys(found) if path.suffix in all_suffixes() and any(map(path.is_relative_to, roots))
    )
    return [path for path in code if os.path.isfile(path) and os.access(path, os.R_OK)]


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:  # it may be on sys.path, and closed to us
        return []


def _libraries() -> list[Path]:
    """Folders where the loader looks first, as `module load` sets them."""
    folders = filter(os.path.isdir, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    return [Path(p) for p in folders if not _holds_the_course(Path(p))]


def files_of(module: str) -> list[Path]:
    """List the files that hold the code of a module, source and bytecode; of a package, all that lies in it. [] if there is no such
    module."""
    found = importlib.util.find_spec(module)
    if found is None or not found.origin:
        return []
    if found.submodule_search_locations:
        return [path for folder in found.submodule_search_locations for path in Path(folder).resolve().rglob("*")]
    source = Path(found.origin).resolve()
    # of a link, too: Python keeps what it makes next to it
    folders = {source.parent, Path(found.origin).parent.resolve()}
    return [source, *(path for folder in folders for path in folder.glob(f"__pycache__/{source.stem}.*"))]


@functools.cache
def shown_without(modules: Sequence[str], gpu: bool) -> tuple[list[Path], list[Path]]:
    """Return `around` of what a child without some modules may read. A zygote asks before it forks the child: there it is known."""
    return around(readable(gpu=gpu), [file for module in modules for file in files_of(module)])


def around(paths: Sequence[Path], hidden: Collection[Path]) -> tuple[list[Path], list[Path]]:
    """Return (what to mount in place of `paths` so that `hidden` files are left out, the folders that were split up for it)."""
    shown, apart, seen = [], [], set()
    waiting = list(paths)
    while waiting:
        path = waiting.pop()
        real = path.resolve()  # a link in a folder may lead to one that holds a hidden file
        if not any(file.is_relative_to(real) for file in hidden):
            shown.append(path)
        elif real.is_dir() and real not in seen:
            seen.add(real)
            apart.append(real)
            waiting += real.iterdir()
    return shown, apart


def exposed(private: Sequence[Path]) -> list[Path]:
    """Select the private folders that lie under a readable path, which the sandbox would not hide."""
    return [p for p in private if any(p.resolve().is_relative_to(r.resolve()) for r in readable())]


def wrap(command: Sequence[str], *, gpu: bool = False) -> list[str]:
    """Return the command wrapped in bubblewrap: no network, a read-only system, a private /tmp and home, nothing else in sight."""
    if not bubblewrap_works():
        return list(command)
    shown = [path for path in readable(gpu=gpu) if path.parts[1] not in ("dev", "proc", "sys")]
    folders = {parent for path in shown for parent in path.parents} - {Path("/"), Path("/tmp")}
    arguments = [*bubblewrap(), "--dir", "/tmp/home"]
    for folder in sorted(folders):  # open to all; those that a bind makes by itself would be root's alone
        arguments += ["--dir", str(folder)]
    for path in shown:
        arguments += ["--ro-bind", str(path), str(path)]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for device in gpu_devices() if gpu else []:
        arguments += ["--dev-bind", str(device), str(device)]
    arguments += ["--remount-ro", "/dev"]  # /dev/shm would be memory that nothing limits
    arguments += ["--ro-bind", "/sys", "/sys"] if gpu else []
    arguments += ["--chdir", "/tmp/home", "--setenv", "HOME", "/tmp/home", "--setenv", "TMPDIR", "/tmp"]
    return [*arguments, "--", *command]


def environment(folder: str) -> dict[str, str]:
    """Return the environment of a wrapped Python: nothing of the instructor's, all that is written goes to `folder`."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH") if name in os.environ}
    folder = "/tmp" if bubblewrap_works() else folder
    wanted = [os.path.abspath(p) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    shown = [p for p in wanted if any(map(Path(p).is_relative_to, packages()))]
    python_path = os.pathsep.join([str(ROOT), str(ENGINE), *shown])
    if site.ENABLE_USER_SITE:
        kept["PYTHONUSERBASE"] = site.getuserbase()  # else Python looks in the sandbox's home
    # few threads: a class is graded by many processes; no bytecode: the system is read-only
    kept |= {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": python_path, "USER": "student"}
    return kept | {"HOME": folder, "TMPDIR": folder, "TRITON_CACHE_DIR": os.path.join(folder, "triton")}


def gpu_devices() -> list[Path]:
    """List the device files of NVIDIA GPUs."""
    return [Path(p) for p in sorted(glob("/dev/nvidia*"))]


# ------------------------------------------------------------------------------------------ inside the sandbox


def become_nobody() -> bool:
    """Change this process from root to nobody, who owns $TMPDIR, if nobody can read what it needs; return whether it did."""
    if os.geteuid() != 0 or not all(map(_open_to_all, readable())):
        return False
    folder = os.environ.get("TMPDIR", "/tmp")
    try:
        if os.stat(folder).st_mode & stat.S_ISVTX == 0:
            os.chown(folder, NOBODY, NOBODY)
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:  # a user namespace with root alone in it
        return False
    return True


def _open_to_all(path: Path, *, above: bool = True) -> bool:
    """Whether every account may read the path and, with `above`, come to it."""
    needed = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    way = all(parent.stat().st_mode & stat.S_IXOTH for parent in path.resolve().parents) if above else True
    return bool(way) and path.stat().st_mode & needed == needed


def processes_are_counted() -> bool:
    """Whether a limit on processes holds here and counts only the sandbox's own processes: never for root.

    Either this is nobody, or an account that is alone in bubblewrap's user namespace.
    """
    if os.getuid() == NOBODY:
        return True
    return os.getuid() != 0 and Path("/proc/self/uid_map").read_text().split()[2] == "1"


def confine(
    folder: str, *, cpu_seconds: int, compiles: bool = False, gpu: bool = False, without: Sequence[str] = ()
) -> None:
    """Confine a child before a student's code runs: limits, and Landlock and seccomp where there are any.

    folder      the one place the child may write to
    compiles    it may start the assembler that Triton's compiler needs; no other program, and without this none
    gpu         it may use the GPU, and start the host's compiler and linker, with which Triton makes its launchers
    without     modules whose files it may not read; only Landlock sees to that
    """
    os.chdir(folder)
    limits = {
        resource.RLIMIT_CPU: (cpu_seconds, cpu_seconds + 2),  # a signal that says why, then the end
        resource.RLIMIT_FSIZE: (FILE_BYTES, FILE_BYTES),
        resource.RLIMIT_NOFILE: (OPEN_FILES, OPEN_FILES) if not gpu else (4096, 4096),
        resource.RLIMIT_CORE: (0, 0),
    }
    if processes_are_counted():
        limits[resource.RLIMIT_NPROC] = (PROCESSES, PROCESSES)
    for limit, values in limits.items():
        resource.setrlimit(limit, values)
    drop_capabilities()
    if landlock.version():
        # CUDA names its threads through /proc/self
        write = [*gpu_devices(), Path("/proc/self")] if gpu else []
        programs = [Path("/usr"), *assemblers()] if gpu else assemblers() if compiles else []
        shown, apart = shown_without(tuple(without), gpu=gpu)
        # bytecode that somebody else wrote meanwhile has had another name
        shown, apart = ([path for path in known if path.exists()] for known in (shown, apart))
        landlock.restrict(read=shown, write=[Path(folder), Path("/dev/null"), *write], execute=programs, look=apart)
    if seccomp.available():
        seccomp.restrict(processes=compiles or gpu, gpu=gpu)


def assemblers() -> list[Path]:
    """List the programs that Triton's compiler starts, and the loader that starts them."""
    found = [Path(p) for folder in packages() for p in glob(os.path.join(folder, ASSEMBLERS))]
    return found + [Path(p) for p in glob("/lib64/ld-linux*") + glob("/lib/ld-linux*")]


def drop_capabilities() -> None:
    """Drop root's capabilities (capset(2), version 3 of its structures)."""
    header, none = struct.pack("<Ii", 0x20080522, 0), bytes(24)
    ctypes.CDLL(None).capset(ctypes.c_char_p(header), ctypes.c_char_p(none))
