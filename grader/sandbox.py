"""What keeps a submission's processes to themselves: bubblewrap around the zygote, Landlock and limits in each child.

Levels, best first: "bubblewrap + Landlock", "bubblewrap", "Landlock", "none". With none, grading is refused unless the
instructor accepts the risk.
"""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import shutil
import site
import struct
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from grader import ROOT

HIDDEN = ("exercises",)  # of course_lib: oracles and cases, nothing for a process that runs student code
ZYGOTE_FILES = ("__init__.py", "zygote.py", "sandbox.py")
OPEN_FILES, FILE_BYTES = 256, 64 << 20

# Landlock, linux/landlock.h
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH, NO_NEW_PRIVS = 1, 38
READ = 0b1101  # execute, read_file, read_dir
FILE_RIGHTS = 0b100_0000_0000_0111  # execute, write_file, read_file, truncate


class NoSandbox(RuntimeError):
    """This machine offers no sandbox and the risk was not accepted. The message says what to do."""


def level() -> str:
    """The best this machine offers, found by trying it."""
    names = ["bubblewrap"] if bubblewrap_works() else []
    names += ["Landlock"] if landlock_version() else []
    return " + ".join(names) or "none"


def require(accept_risk: bool, *private: Path) -> str:
    """The level, or NoSandbox if there is none, or if it would show `private` folders, and the risk is not accepted."""
    found = level()
    shown = exposed([ROOT, *private])
    if found != "none" and shown and not accept_risk:
        raise NoSandbox(
            f"{shown[0]} lies under a folder that student code may read, such as /usr. Move the course, for example to "
            "/srv, or grade with --accept-risk if you trust every submission."
        )
    if found == "none" and not accept_risk:
        raise NoSandbox(
            "This machine can keep submissions apart neither by bubblewrap nor by Landlock. Install the package "
            "`bubblewrap`, or grade with --accept-risk if you trust every submission."
        )
    return found


@functools.cache
def bubblewrap_works() -> bool:
    if not shutil.which("bwrap"):
        return False
    command = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    return subprocess.run(command, capture_output=True, timeout=20).returncode == 0


def readable() -> list[Path]:
    """What a child may read: the system's libraries, this Python, course_lib without its exercises."""
    system = [Path(p) for p in ("/usr", "/lib", "/lib64", "/bin", "/etc", "/dev", "/proc", "/sys")]
    python = {Path(p) for p in (sys.prefix, sys.base_prefix, *site.getsitepackages(), site.getusersitepackages())}
    course = [p for p in (ROOT / "course_lib").iterdir() if p.name not in HIDDEN]
    zygote = [ROOT / "grader" / name for name in ZYGOTE_FILES]
    return [p for p in [*system, *sorted(python), *course, *zygote] if p.exists()]


def exposed(private: Sequence[Path]) -> list[Path]:
    """Those of the folders that lie under something readable, so that no sandbox of ours would hide what is in them."""
    return [p for p in private if any(p.resolve().is_relative_to(r.resolve()) for r in readable())]


def wrap(command: Sequence[str]) -> list[str]:
    """`command` inside bubblewrap: no network, a read-only system, a private /tmp and home, nothing else in sight."""
    if not bubblewrap_works():
        return list(command)
    arguments = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    arguments += ["--tmpfs", "/tmp", "--dir", "/tmp/home"]
    for path in readable():
        if path not in (Path("/dev"), Path("/proc"), Path("/sys")):
            arguments += ["--ro-bind", str(path), str(path)]
    arguments += ["--proc", "/proc", "--dev", "/dev", "--chdir", "/tmp/home", "--setenv", "HOME", "/tmp/home"]
    return [*arguments, "--", *command]


# ------------------------------------------------------------------------------------------ inside each child


def confine(folder: str, *, cpu_seconds: int) -> None:
    """Called in a child before anything of a student's runs: limits, and Landlock where there is any.

    folder: the one place the child may write to.
    """
    os.chdir(folder)
    for limit, value in (
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    if landlock_version():
        restrict(readable(), [Path(folder), Path("/dev/null")])


def landlock_version() -> int:
    """The kernel's Landlock ABI, 0 if there is none."""
    return max(0, ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, 1))


def restrict(read_only: Sequence[Path], writable: Sequence[Path]) -> None:
    """Confine this process to these paths for good, and, where the kernel can, forbid TCP and signals to others."""
    libc = ctypes.CDLL(None, use_errno=True)
    version = landlock_version()
    rights = (1 << {1: 13, 2: 14, 3: 15, 4: 15}.get(version, 16)) - 1
    tcp = 0b11 if version >= 4 else 0
    scopes = 0b11 if version >= 6 else 0  # abstract sockets, signals
    attributes = struct.pack("<QQQ", rights, tcp, scopes)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = _checked(libc.syscall(CREATE_RULESET, ctypes.c_char_p(attributes), len(attributes), 0))
    for paths, granted in ((read_only, READ), (writable, rights)):
        for path in paths:
            allowed = granted if path.is_dir() else granted & FILE_RIGHTS & rights
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            rule = struct.pack("<Qi", allowed, descriptor)
            _checked(libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0))
            os.close(descriptor)
    _checked(libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
