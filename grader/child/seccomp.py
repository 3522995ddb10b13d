"""System calls that a child may make: an allow-list, which the child itself installs for good.

A child computes, reads files, starts threads. Whatever else the kernel offers (sockets, ptrace, mounts, namespaces, keys,
bpf, io_uring, other processes' memory, limits and signals) answers "operation not permitted", for root too. A call too
new to be known here answers "no such call", so that a newer C library falls back on an older one.

The filter is a classic BPF program over struct seccomp_data (linux/seccomp.h, linux/filter.h).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# name, its number on x86_64, its number on aarch64 (asm/unistd_64.h, asm-generic/unistd.h)
FILES = """
    read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, preadv 295 69, pwritev 296 70,
    open 2 -, openat 257 56, creat 85 -, close 3 57, close_range 436 436, lseek 8 62, stat 4 -, fstat 5 80, lstat 6 -,
    newfstatat 262 79, statx 332 291, statfs 137 43, fstatfs 138 44, access 21 -, faccessat 269 48, faccessat2 439 439,
    readlink 89 -, readlinkat 267 78, getdents 78 -, getdents64 217 61, getcwd 79 17, chdir 80 49, fchdir 81 50,
    mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -, renameat 264 38,
    renameat2 316 276, link 86 -, linkat 265 37, symlink 88 -, symlinkat 266 36, truncate 76 45, ftruncate 77 46,
    fallocate 285 47, fsync 74 82, fdatasync 75 83, flock 73 32, fcntl 72 25, dup 32 23, dup2 33 -, dup3 292 24,
    pipe 22 -, pipe2 293 59, ioctl 16 29, umask 95 166, chmod 90 -, fchmod 91 52, fchmodat 268 53, utimensat 280 88,
    copy_file_range 326 285, sendfile 40 71, fadvise64 221 223, memfd_create 319 279, eventfd2 290 19, poll 7 -,
    ppoll 271 73, select 23 -, pselect6 270 72, epoll_create1 291 20, epoll_ctl 233 21, epoll_wait 232 -,
    epoll_pwait 281 22
"""
MEMORY = """
    brk 12 214, mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, madvise 28 233, mincore 27 232, msync 26 227,
    membarrier 324 283, get_mempolicy 239 236, mbind 237 235
"""
ITSELF = """
    clone 56 220, futex 202 98, set_robust_list 273 99, get_robust_list 274 100, set_tid_address 218 96, rseq 334 293,
    sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121, sched_getscheduler 145 120,
    sched_get_priority_max 146 125, sched_get_priority_min 147 126, getcpu 309 168, gettid 186 178, getpid 39 172,
    getppid 110 173, getpgrp 111 -, getpgid 121 155, getsid 124 156, getuid 102 174, geteuid 107 175, getgid 104 176,
    getegid 108 177, getresuid 118 148, getresgid 120 150, getgroups 115 158, getpriority 140 141, getrusage 98 165,
    getrlimit 97 163, prlimit64 302 261, sysinfo 99 179, uname 63 160, times 100 153, time 201 -, gettimeofday 96 169,
    clock_gettime 228 113, clock_getres 229 114, nanosleep 35 101, clock_nanosleep 230 115, setitimer 38 103,
    getitimer 36 102, alarm 37 -, getrandom 318 278, arch_prctl 158 -, prctl 157 167, capget 125 90,
    rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136, rt_sigtimedwait 128 137,
    rt_sigsuspend 130 133, sigaltstack 131 132, kill 62 129, tgkill 234 131, restart_syscall 219 128, pause 34 -,
    exit 60 93, exit_group 231 94
"""
PROCESSES = "fork 57 -, vfork 58 -, execve 59 221, wait4 61 260, waitid 247 95, setsid 112 157, setpgid 109 154"
GPU = """
    mlock 149 228, mlock2 325 284, munlock 150 229, sched_setaffinity 203 122, socket 41 198, connect 42 203, bind 49 200,
    listen 50 201
"""
CLONE3 = 435  # its flags lie in memory, where no filter can see them: the C library is sent back to clone
NEWEST = 450  # the last call that this list was written with

CLONE_THREAD, NEW_NAMESPACES, AF_UNIX = 0x10000, 0x7E020000, 1
COLUMN, AUDIT_ARCH = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}.get(platform.machine(), (None, 0))

LOAD, AND, EQUAL, AT_LEAST, RETURN = 0x20, 0x54, 0x15, 0x35, 0x06  # BPF: word at, and k, == k, >= k, return k
# offsets in struct seccomp_data; of an argument the low half counts, as it does in the kernel
NUMBER, ARCH, ARGUMENTS = 0, 4, 16
ALLOW, ERROR = 0x7FFF0000, 0x00050000
SECCOMP = {"x86_64": 317, "aarch64": 277}
GET_ACTION_AVAIL, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 2, 38, 22, 2


class Only(NamedTuple):
    """Rule that allows a system call only with `argument & mask == value`."""

    argument: int
    mask: int
    value: int


def available() -> bool:
    """Whether this kernel supports seccomp filters, and the system call numbers of this machine are known here."""
    if COLUMN is None:
        return False
    action = ctypes.c_uint32(ERROR)
    return ctypes.CDLL(None).syscall(SECCOMP[platform.machine()], GET_ACTION_AVAIL, 0, ctypes.byref(action)) == 0


def restrict(*, processes: bool = False, gpu: bool = False) -> None:
    """Restrict this process, for good, to the system calls it needs. Raises OSError if the kernel takes no filter.

    processes   it may start others, wait for them and signal them: the compiler runs an assembler
    gpu         and talk to NVIDIA's driver
    """
    program = b"".join(_program(processes, gpu))
    buffer = ctypes.create_string_buffer(program, len(program))
    descriptor = struct.pack("<HxxxxxxQ", len(program) // 8, ctypes.addressof(buffer))  # struct sock_fprog
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, descriptor, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"seccomp: {os.strerror(number)}")


def _program(processes: bool, gpu: bool) -> Iterator[bytes]:
    exactly = 0xFFFFFFFF
    rules = {"prlimit64": Only(0, exactly, 0)}  # 0 is itself; the limits of others are theirs
    if processes:
        rules["clone"] = Only(0, NEW_NAMESPACES, 0)
    else:
        rules["clone"] = Only(0, CLONE_THREAD, CLONE_THREAD)
        rules["kill"] = rules["tgkill"] = Only(0, exactly, os.getpid())
    if gpu:
        rules["socket"] = Only(0, exactly, AF_UNIX)

    yield _step(LOAD, ARCH)
    yield _step(EQUAL, AUDIT_ARCH, yes=1)
    yield _step(RETURN, ERROR | errno.EPERM)
    yield _step(LOAD, NUMBER)
    for name, number in numbers([FILES, MEMORY, ITSELF] + [PROCESSES] * processes + [GPU] * gpu):
        if rule := rules.get(name):
            yield _step(EQUAL, number, no=5)
            yield _step(LOAD, ARGUMENTS + 8 * rule.argument)
            yield _step(AND, rule.mask)
            yield _step(EQUAL, rule.value, no=1)
            yield _step(RETURN, ALLOW)
            yield _step(RETURN, ERROR | errno.EPERM)
        else:
            yield _step(EQUAL, number, no=1)
            yield _step(RETURN, ALLOW)
    yield _step(EQUAL, CLONE3, yes=1)
    yield _step(AT_LEAST, NEWEST + 1, no=1)
    yield _step(RETURN, ERROR | errno.ENOSYS)
    yield _step(RETURN, ERROR | errno.EPERM)


def numbers(tables: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield (name, number on this machine) of each system call in the tables."""
    assert COLUMN is not None  # as `available` has said
    for name, *columns in re.findall(r"(\w+) (\d+) (\d+|-)", ",".join(tables)):
        if columns[COLUMN] != "-":
            yield name, int(columns[COLUMN])


def _step(code: int, k: int, *, yes: int = 0, no: int = 0) -> bytes:
    """One instruction, struct sock_filter; yes, no: how many to skip after a comparison."""
    return struct.pack("<HBBI", code, yes, no, k)
