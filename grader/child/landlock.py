"""Landlock: a process confines itself to some files, for good, with no privilege and nothing installed (linux/landlock.h)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Sequence
from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
RULE_PATH_BENEATH, PR_SET_NO_NEW_PRIVS = 1, 38
EXECUTE, READ, LIST = 0b0001, 0b1100, 0b1000  # execute; read_file, read_dir; read_dir
FILE_RIGHTS = (
    0b1100_0000_0000_0111  # those that a plain file can have: execute, write, read, truncate, ioctl on a device
)
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}  # how many rights each version of the ABI knows; 16 from the fifth on


def version() -> int:
    """Return the kernel's Landlock ABI, 0 if there is none."""
    return max(0, ctypes.CDLL(None).syscall(CREATE_RULESET, None, 0, 1))


def restrict(
    *, read: Sequence[Path], write: Sequence[Path] = (), execute: Sequence[Path] = (), look: Sequence[Path] = ()
) -> None:
    """Confine this process to these paths, and, where the kernel can, forbid TCP and signals to processes outside.

    read, execute   files and folders, with all that is in them; write means everything, except starting programs
    look            folders whose files have names, and no contents unless they are among the others
    Raises OSError if the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    abi = version()
    rights = (1 << RIGHTS.get(abi, 16)) - 1
    tcp = 0b11 if abi >= 4 else 0
    scopes = 0b11 if abi >= 6 else 0  # abstract sockets, signals
    attributes = struct.pack("<QQQ", rights, tcp, scopes)[: 8 if abi < 4 else 16 if abi < 6 else 24]
    ruleset = _checked(libc.syscall(CREATE_RULESET, ctypes.c_char_p(attributes), len(attributes), 0))
    for paths, granted in ((read, READ), (execute, READ | EXECUTE), (write, rights & ~EXECUTE), (look, LIST)):
        for path in paths:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
            allowed = granted if path.is_dir() else granted & FILE_RIGHTS
            rule = struct.pack("<Qi", allowed & rights, descriptor)
            _checked(libc.syscall(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0))
            os.close(descriptor)
    _checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    _checked(libc.syscall(RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
