"""Each forbidden thing is tried from inside a real child, with bubblewrap and without, and fails; honest work does not."""

import errno
import importlib
import os
import py_compile
import re
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from course_lib.execution import gpu_lock
from grader.child import landlock, sandbox, seccomp
from grader.child.zygote import Zygote
from tritontrace.replay import child, wire

SECRET = "secret-of-this-course"


@pytest.fixture(scope="module", params=["bubblewrap", "Landlock and seccomp alone"])
def zygote(request):
    """A zygote in each of the two sandboxes, if this machine offers it."""
    alone = request.param != "bubblewrap"
    if alone and not (landlock.version() and seccomp.available()):
        pytest.skip("no Landlock or no seccomp on this machine")
    if not alone and not sandbox.bubblewrap_works():
        pytest.skip("no bubblewrap on this machine")
    zygote = Zygote()
    with pytest.MonkeyPatch.context() as patch:
        if alone:
            patch.setattr(sandbox, "bubblewrap", lambda: ())
        assert tried(zygote, "return 1") == 1  # it starts here
    zygote.alone, zygote.first = alone, zygote.process
    yield zygote
    assert zygote.process is zygote.first, "something that a child did has ended the zygote"
    zygote.close()


def probe(zygote, source, *, seconds=10.0):
    """Run `probe()` of the source inside a recorder: its result, or the sentence of its end."""
    reply = recorded(zygote, textwrap.dedent(source), seconds=seconds)
    if reply["error"]:
        return reply["error"]
    (part,) = reply["result"]
    if part["error"]:
        return part["error"]
    (call,) = part["logs"][0]["calls"]
    return call["error"] or call["result"]


def recorded(zygote, *sources, seconds=10.0):
    """The zygote's reply, with a part for each source that defines `probe`."""
    rest = {"entry": "probe", "calls": [[{}]], "called": "", "without": []}
    parts = [{"cells": [["<cell 1>", source]], **rest} for source in sources]
    return zygote.ask({"role": "record", "parts": parts, "seconds": seconds})


def tried(zygote, statement, **more):
    body = textwrap.indent(textwrap.dedent(statement), "    ")
    return probe(zygote, f"import ctypes, os, signal, socket, sys, time\n\n\ndef probe():\n{body}", **more)


# ----------------------------------------------------------------------------------------------- what is forbidden

FORBIDDEN = {
    "a TCP connection": "socket.create_connection(('127.0.0.1', 22), timeout=1)",
    "a UDP packet": "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))",
    "a local socket": "socket.socket(socket.AF_UNIX).connect('/run/docker.sock')",
    "a netlink socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "a process": "os.fork()",
    "a program": "os.execv('/bin/sh', ['sh', '-c', 'true'])",
    "a program beside this one": "import subprocess\nsubprocess.run(['/bin/true'])",
    "a spawned program": "os.posix_spawn('/bin/true', ['true'], {})",
    "a signal to its parent": "os.kill(os.getppid(), 0)",
    "a signal to everybody": "os.kill(-1, signal.SIGKILL)",
    "a signal to its group": "os.killpg(0, signal.SIGKILL)",
    "a new limit for its parent": "import resource\nresource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))",
    "a higher limit for itself": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (10_000, 10_000))",
    "its parent's priority": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "being root": "os.setuid(0) if os.getuid() else os.chown('/', 0, 0)",
    "a file in the home": "open(os.path.expanduser('~root/x'), 'w')",
    "a file in /tmp": "open('/tmp/left-behind', 'w')",
    "a file in /dev/shm": "open('/dev/shm/left-behind', 'w')",
    "a file of the course": f"open({str(sandbox.ROOT / 'course_lib' / 'checking.py')!r}, 'a')",
    "the passwords": "open('/etc/shadow').read()",
    "the network's connections": "open('/proc/self/net/tcp')",
    "those of its thread": "open(f'/proc/self/task/{os.getpid()}/net/tcp')",
    "the sockets of this machine": "open('/proc/net/unix')",
    "its own environment as it was": "open('/proc/self/environ')",
    "its parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "its parent's environment": "open(f'/proc/{os.getppid()}/environ', 'rb')",
    "the kernel's memory": "open('/proc/kcore', 'rb')",
    "the kernel's log": "os.open('/dev/kmsg', 0)",
    "the exercises": f"open({str(sandbox.ROOT / 'course_lib' / 'exercises' / 'coalescing.py')!r})",
    "the solutions": f"os.listdir({str(sandbox.ROOT / 'solutions')!r})",
    "the judge": f"open({str(sandbox.ROOT / 'grader' / 'judging' / 'judge.py')!r})",
    "the hidden cases": f"os.listdir({str(sandbox.ROOT / 'grader' / 'judging' / 'hidden')!r})",
    "an import of the exercises": "import course_lib.exercises",
    "what was measured": f"open({str(sandbox.ROOT / 'course_lib' / 'measured' / 'tiling.json')!r})",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_child_is_refused(zygote, what):
    said = tried(zygote, FORBIDDEN[what])
    refusals = (
        r"raised (PermissionError|FileNotFoundError|OSError: \[Errno 30\]|ModuleNotFoundError|ValueError: not allowed)"
    )
    assert re.match(refusals, str(said)), said


CALLS = {  # number on x86_64 and arguments of calls that Python has no function for
    "ptrace": (101, 16, "os.getppid()", 0, 0),
    "process_vm_readv": (310, "os.getppid()", 0, 0, 0, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "umount2": (166, 0, 0),
    "pivot_root": (155, 0, 0),
    "chroot": (161, "b'/'"),
    "unshare": (272, 0x10000000),
    "setns": (308, 0, 0),
    "clone with a new user namespace": (56, 0x10000000 | 17, 0, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "init_module": (175, 0, 0, 0),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "keyctl": (250, 0, 0, 0, 0, 0),
    "add_key": (248, "b'user'", "b'x'", "b'y'", 1, -3),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 8, 0),
    "pidfd_open": (434, "os.getppid()", 0),
    "fanotify_init": (300, 0, 0),
    "open_by_handle_at": (304, 0, 0, 0),
    "seccomp's x32 twin of getpid": (0x40000000 + 39,),
}


@pytest.mark.skipif(seccomp.COLUMN != 0, reason="numbers of x86_64")
def test_the_kernels_other_calls_are_refused(zygote):
    tries = [f"    found[{name!r}] = call({', '.join(map(str, call))})" for name, call in CALLS.items()]
    source = [
        "import ctypes, os",
        "libc = ctypes.CDLL(None, use_errno=True)",
        "def call(*arguments):",
        "    ctypes.set_errno(0)",
        "    libc.syscall(*arguments)",
        "    return ctypes.get_errno()",
        "def probe():",
        "    found = {}",
        *tries,
        "    return found",
    ]
    found = probe(zygote, "\n".join(source))
    assert found["dict"].pop("seccomp's x32 twin of getpid") == errno.ENOSYS
    assert found["dict"] == dict.fromkeys(found["dict"], errno.EPERM) and len(found["dict"]) == len(CALLS) - 1


def test_nothing_of_others_can_be_read(zygote, tmp_path):
    private = tmp_path / "submitted" / "bob" / "unit.ipynb"
    private.parent.mkdir(parents=True)
    private.write_text(SECRET)
    (tmp_path / "secret").write_text(SECRET)
    for path in (private, tmp_path / "secret"):
        assert re.match(r"raised (PermissionError|FileNotFoundError)", tried(zygote, f"open({str(path)!r})")), path
    found = tried(zygote, f"os.symlink({str(tmp_path / 'secret')!r}, 'link')\nopen('link').read()")
    assert re.match(r"raised (PermissionError|FileNotFoundError)", found)
    everything = "return [k for o in __import__('gc').get_objects() if type(o) is dict for k in o if k == 'secret']"
    assert tried(zygote, everything) == {"list": []}
    assert "GRADER_HOME" not in tried(zygote, "return ' '.join(os.environ)")


def test_one_child_finds_nothing_of_the_last(zygote):
    assert tried(zygote, "open('mine', 'w').write('the answer')\nreturn os.path.exists('mine')") is True
    assert tried(zygote, "return os.listdir('.')") == {"list": []}
    around = tried(zygote, "try:\n    return os.listdir('..')\nexcept OSError:\n    return 'refused'")
    assert around == "refused"


# ----------------------------------------------------------------------------------------------- limits


def test_an_endless_loop_ends(zygote):
    assert "did not finish within 1 seconds" in tried(zygote, "while True:\n    pass", seconds=1.0)


ASLEEP = {
    "sleeps": "time.sleep(100)",
    "naps": "while True:\n    time.sleep(0.01)",
    "waits for a lock": "import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()",
    "waits for a pipe": "os.read(os.pipe()[0], 1)",
    "waits for a thread": "import threading\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()\n"
    "threading.Event().wait()",
}


@pytest.mark.parametrize("what", ASLEEP)
def test_who_waits_for_nothing_is_not_waited_for(zygote, what):
    started = time.monotonic()
    assert "did nothing but wait for 3 seconds" in tried(zygote, ASLEEP[what], seconds=10.0)
    assert time.monotonic() - started < 20


def test_who_computes_is_not_asleep_however_long_it_takes_on_the_clock():
    assert child.run(lambda: sum(range(10**7)), seconds=20.0, waiting=0.3)[0] == sum(range(10**7))

    def in_a_thread():
        thread = threading.Thread(target=lambda: sum(range(3 * 10**7)))
        thread.start()
        thread.join()
        return 1

    assert child.run(in_a_thread, seconds=20.0, waiting=0.3)[0] == 1


def test_processor_time_is_limited():
    def work():
        while True:
            pass

    with pytest.raises(child.ChildLost, match="more processor time"):
        child.run(work, seconds=20, prepare=lambda: sandbox.confine("/tmp", cpu_seconds=1))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become nobody, whose processes are counted")
def test_a_fork_bomb_ends_early_where_processes_are_counted(monkeypatch):
    def prepare():
        os.setresuid(sandbox.NOBODY, sandbox.NOBODY, sandbox.NOBODY)
        monkeypatch.setattr(sandbox, "assemblers", list)
        monkeypatch.setattr(sandbox, "readable", lambda gpu: [Path("/usr")])  # this Python may be root's alone
        monkeypatch.setattr(sandbox, "PROCESSES", 50)
        sandbox.confine("/tmp", cpu_seconds=10, compiles=True)

    def bomb():
        for _ in range(3000):
            if os.fork() == 0:
                os.closerange(3, 256)  # the pipe that the answer goes through
                time.sleep(30)
                os._exit(0)

    with pytest.raises(ValueError, match="Resource temporarily unavailable"):
        child.run(bomb, seconds=20, prepare=prepare)


def test_memory_is_limited(zygote):
    assert tried(zygote, "return len(bytearray(1 << 36))").startswith("raised MemoryError")
    assert tried(zygote, "import mmap\nmmap.mmap(-1, 1 << 36)").startswith("raised OSError: [Errno 12]")


def test_files_are_limited(zygote):
    assert tried(zygote, "with open('big', 'wb') as f:\n    f.truncate(1 << 30)").startswith(
        "raised OSError: [Errno 27]"
    )
    assert "Errno 24" in tried(zygote, "found = [open('/dev/null') for _ in range(1000)]\nreturn len(found)")
    assert tried(zygote, "open('small', 'w').write('ok')\nreturn open('small').read()") == "ok"


def test_all_files_together_are_limited(zygote):
    if zygote.alone or "--size" not in sandbox.bubblewrap():
        pytest.skip("only bubblewrap, from 0.7 on, limits a folder")
    fill = "for i in range(20):\n    open(f'{i}', 'wb').write(bytes(60 << 20))"
    assert "[Errno 28]" in tried(zygote, fill)
    assert tried(zygote, "open('next', 'wb').write(bytes(60 << 20))\nreturn 1") == 1  # the next finds it empty


def test_threads_are_limited_where_the_kernel_counts_them(zygote):
    counted = tried(zygote, "return os.getuid()") == sandbox.NOBODY or (os.getuid() != 0 and not zygote.alone)
    if not counted:
        pytest.skip("the kernel does not count root's processes")
    bomb = (
        "import threading\nthreading.stack_size(64 << 10)\nhold = threading.Event()\n"
        "for n in range(5000):\n    threading.Thread(target=hold.wait, daemon=True).start()\nreturn n"
    )
    assert "can't start new thread" in tried(zygote, bomb)


def test_a_flood_of_output_is_cut(zygote):
    source = "def probe():\n    for _ in range(1000):\n        print('x' * 100_000)\n    return 1"
    (part,) = recorded(zygote, source)["result"]
    assert part["error"] == "" and len(part["printed"]) == child.PRINTED


def test_a_folder_made_to_resist_is_removed(zygote):
    deep = "for _ in range(3000):\n    os.mkdir('d')\n    os.chdir('d')\nreturn 1"
    closed = "os.makedirs('a/b')\nopen('a/b/c', 'w')\nos.chmod('a/b', 0)\nos.chmod('a', 0)\nreturn os.getcwd()"
    assert tried(zygote, deep) == 1
    folder = tried(zygote, closed)
    if zygote.alone:
        while list(Path(zygote.folder).glob("exercise-*")):  # of a deep one a reply does not wait for the end
            time.sleep(0.1)
        assert not Path(folder).exists()
    assert tried(zygote, f"return os.path.exists({folder!r})") is False


def test_a_reply_does_not_wait_until_all_is_removed(tmp_path):
    source = """
        import sys
        from grader.child import zygote

        zygote.REMOVAL = "sleep 60"
        zygote.remove(sys.argv[1], 0.01)
        (process,) = zygote._removals
        zygote._end_orphans()
        assert process.poll() is None, "it is no orphan of a submission"
        process.kill()
        process.wait()
        zygote._end_orphans()
        assert zygote._removals == []
    """
    (tmp_path / "a file").touch()
    subprocess.run([sys.executable, "-c", textwrap.dedent(source), tmp_path], check=True, cwd=sandbox.ROOT)


# ----------------------------------------------------------------------------------------------- what still works


def test_honest_things_work(zygote):
    source = """
    import math, os, platform, random, tempfile, threading, time
    import numpy as np
    import torch

    def probe():
        found = []
        thread = threading.Thread(target=lambda: found.append(1))
        thread.start()
        thread.join()
        with tempfile.TemporaryFile() as file:
            file.write(b'x')
        x = torch.randn(64, 64, requires_grad=True)
        (x @ x).sum().backward()
        np.linalg.svd(np.eye(8))
        platform.platform(), random.random(), time.sleep(0.001), math.pi
        os.kill(os.getpid(), 0)
        return found
    """
    assert probe(zygote, source) == {"list": [1]}


def test_the_assembler_runs_in_a_replayer_and_no_other_program_does(tmp_path):
    """The child is confined as a replayer is. (What it runs of a student's cannot even say this.)"""
    ptxas = next(p for p in sandbox.assemblers() if p.name == "ptxas")

    def work():
        found = [subprocess.run([ptxas, "--version"], capture_output=True, text=True).returncode]
        for attempt in (
            lambda: subprocess.run(["/bin/true"]),
            lambda: os.unshare(0x10000000),
            lambda: os.listdir("/root"),
        ):
            try:
                attempt()
                found.append("done")
            except (AttributeError, PermissionError) as error:
                found.append(type(error).__name__)
        return found

    if not (landlock.version() and seccomp.available()):
        pytest.skip("no Landlock or no seccomp on this machine")
    prepare = lambda: sandbox.confine(str(tmp_path), cpu_seconds=10, compiles=True)  # noqa: E731
    expected = [
        0,
        "PermissionError",
        "PermissionError" if hasattr(os, "unshare") else "AttributeError",
        "PermissionError",
    ]
    assert child.run(work, seconds=20, prepare=prepare)[0] == expected


# ----------------------------------------------------------------------------------------------- which sandbox


def test_without_a_sandbox_grading_is_refused_unless_the_risk_is_accepted(monkeypatch):
    for level in ("none", "Landlock", "seccomp"):
        monkeypatch.setattr(sandbox, "level", lambda level=level: level)
        with pytest.raises(sandbox.NoSandbox, match="Install the package `bubblewrap`, or grade with --accept-risk"):
            sandbox.require(False)
        assert sandbox.require(True) == level
    for level in ("bubblewrap", "Landlock + seccomp"):
        monkeypatch.setattr(sandbox, "level", lambda level=level: level)
        assert sandbox.require(False) == level


@pytest.mark.parametrize("fails", ["exit 1", 'case "$*" in *"--proc /proc"*) exit 1; esac'])
def test_a_bubblewrap_that_fails_is_none(monkeypatch, tmp_path, fails):
    """The second as in Podman, which allows namespaces, and none of them its own /proc."""
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{fails}\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sandbox.bubblewrap.__wrapped__() == ()
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: ())
    assert sandbox.wrap(["python"]) == ["python"]


def test_bubblewrap_shows_the_course_without_its_exercises(monkeypatch):
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: ("bwrap", "--unshare-all"))
    command = sandbox.wrap(["python"])
    bound = [command[i + 1] for i, word in enumerate(command) if word == "--ro-bind"]
    course = str(sandbox.ROOT / "course_lib")
    assert f"{course}/checking.py" in bound and f"{course}/exercises" not in bound and course not in bound
    assert (
        str(sandbox.ROOT / "grader" / "judging" / "judge.py") not in bound
        and "/etc" not in bound
        and "/sys" not in bound
    )
    assert command[-2:] == ["--", "python"]


def test_only_the_timed_half_sees_the_gpu(monkeypatch):
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: ("bwrap", "--unshare-all"))
    monkeypatch.setattr(sandbox, "gpu_devices", lambda: [Path("/dev/nvidia0")])
    assert "/dev/nvidia0" not in sandbox.wrap(["python"])
    command = sandbox.wrap(["python"], gpu=True)
    assert command[command.index("--dev-bind") + 1] == "/dev/nvidia0" and "/sys" in command


def test_what_a_timed_kernel_prints_is_not_the_answer():
    """tl.device_print writes to descriptor 1, past Python."""
    fake = """
        import os
        from course_lib.evidence import Timing
        from course_lib.execution import gpu_process, timed
        timed.twists.named = lambda *names: None
        timed.time_here = lambda *given: os.write(1, b"forged") and Timing("large", "copy", 0.5, 0.1, "GPU", "")
        gpu_process.main()
    """
    message = gpu_lock.framed(wire.pack({"asked": "time", "exercise": "x", "log": {}, "seed": 1, "twist": ""}))
    command = [sys.executable, "-c", textwrap.dedent(fake)]
    done = subprocess.run(command, input=message, capture_output=True, cwd=sandbox.ROOT)
    assert wire.unpack(done.stdout)["gpu"] == "GPU" and b"forged" in done.stderr


def test_where_the_instructor_stands_nothing_is_imported_from(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("raise SystemExit('a submission was imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: ())
    zygote = Zygote()
    assert tried(zygote, "return 1") == 1
    zygote.close()
    assert not zygote.folder


def test_call_numbers_are_the_kernels():
    """Against this machine's own header, where it is installed."""
    headers = list(Path("/usr/include").glob("**/asm/unistd_64.h"))
    if not headers or seccomp.COLUMN != 0:
        pytest.skip("no kernel headers")
    truth = dict(re.findall(r"#define __NR_(\w+) (\d+)", headers[0].read_text()))
    tables = [seccomp.FILES, seccomp.MEMORY, seccomp.ITSELF, seccomp.PROCESSES, seccomp.GPU]
    mine = dict(seccomp.numbers(tables))
    assert mine == {name: int(truth[name]) for name in mine} and len(mine) > 150
    assert sum(len(re.findall(r"\w+ (?:\d+|-) (?:\d+|-)", table)) for table in tables) == len(mine)


MODULES = ["torch.utils.flop_counter", "torch.utils.checkpoint", "course_lib.workloads.chains"]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_that_is_taken_away_is_no_file_either(tmp_path, module):
    """The module cannot be read; what lies next to it, and Python's way to it, are as they were."""
    source, *compiled = sandbox.files_of(module)
    beside = next(p for p in source.parent.iterdir() if p.suffix == ".py" and p != source)

    def look():
        sandbox.confine(str(tmp_path), cpu_seconds=10, without=[module])
        unread = [str(path) for path in [source, *compiled] if not refused(path)]
        return [unread, refused(beside), importlib.import_module("wave").__name__]

    def refused(path):
        try:
            return not path.read_bytes()
        except PermissionError:
            return True

    if not landlock.version():
        pytest.skip("only Landlock hides single files")
    assert child.run(look, seconds=10)[0] == [[], False, "wave"]


def test_what_comes_or_goes_once_files_are_known_opens_nothing_and_stops_nobody(tmp_path, monkeypatch):
    if not landlock.version():
        pytest.skip("only Landlock hides single files")
    folder, readable = tmp_path / "package", sandbox.readable()
    folder.mkdir()
    names = ("hidden.py", "gone.py", "stays.py", "later.py")
    for name in names[:3]:
        (folder / name).write_text(SECRET)
    monkeypatch.setattr(sandbox, "readable", lambda gpu: [*readable, folder])
    monkeypatch.setattr(sandbox, "files_of", lambda module: [folder / "hidden.py"])
    sandbox.shown_without(("a module of this test",), gpu=False)
    (folder / "gone.py").unlink()
    (folder / "later.py").write_text(SECRET)

    def opened():
        (tmp_path / "own").mkdir()
        sandbox.confine(str(tmp_path / "own"), cpu_seconds=10, without=["a module of this test"])
        found = []
        for name in names:
            with suppress(PermissionError, FileNotFoundError):
                found += [name] if (folder / name).read_text() == SECRET else []
        return found

    assert child.run(opened, seconds=10)[0] == ["stays.py"]


def test_a_link_does_not_lead_around_what_is_hidden(tmp_path):
    real = tmp_path / "lib" / "python"
    real.mkdir(parents=True)
    (real / "hidden.py").touch()
    (real / "other.py").touch()
    (tmp_path / "lib64").symlink_to(tmp_path / "lib")
    (real / "again").symlink_to(tmp_path)
    shown, apart = sandbox.around([tmp_path], [real / "hidden.py"])
    assert (shown, set(apart)) == ([real / "other.py"], {tmp_path, real, real.parent})


def test_of_exercises_and_measurements_nothing_is_readable_but_the_units_names():
    course = sandbox.ROOT / "course_lib"
    py_compile.compile(course / "exercises" / "cases.py")  # whatever PYTHONDONTWRITEBYTECODE says
    shown = [path for path in sandbox.readable() if path.is_relative_to(course)]
    assert course / "exercises" / "__init__.py" in shown and course / "hardware" / "throughput.py" in shown
    inside = [*(course / "exercises").rglob("*"), *(course / "hardware" / "measured").rglob("*")]
    assert (course / "exercises" / "__pycache__") in inside
    seen = {path for path in inside for each in shown if path.is_relative_to(each)}
    assert seen == {course / "exercises" / "__init__.py"}
    assert set(inside) <= {path for path in inside for each in sandbox.readable(gpu=True) if path.is_relative_to(each)}
