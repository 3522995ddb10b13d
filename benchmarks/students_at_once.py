"""Measure a lesson on a JupyterHub of this machine, by `python benchmarks/students_at_once.py --students 8`.

The hub has the settings of docs/jupyterhub.md. Each student logs in, and a server starts; fetches unit 04; imports the course in a
kernel; checks ten published answers; saves the notebook, submits it, and closes the kernel. --arrive says within how many seconds all
have come, --pause how many seconds a student thinks before each check. What is lost is a check without full points, or whatever gave
no answer within ten minutes. The table goes to benchmarks/results/students_at_once.md. It needs what `make hub` installs.

To see what two cores do, in Linux: `taskset -c 0,1 python benchmarks/students_at_once.py --students 60 --arrive 300 --pause 10`
"""

from __future__ import annotations

import argparse
import json
import os
import random
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import nbformat  # noqa: E402
import requests  # noqa: E402
import websocket  # noqa: E402
from grading import memory_of  # noqa: E402

import grader  # noqa: E402
from course_lib.exercise import Exercise  # noqa: E402
from grader import published  # noqa: E402
from grader.audit import samples  # noqa: E402
from strides import lab  # noqa: E402

UNIT, COURSE = "04_memory_coalescing", "strides-to-flashattention"
CHECKS, PATIENCE = 10, 600
RESULT = ROOT / "benchmarks" / "results" / "students_at_once.md"
SETTINGS = """
load_subconfig({settings!r})
c.JupyterHub.services = [*c.JupyterHub.services, {{"name": "lesson", "api_token": {token!r}}}]
scopes = ["admin:users", "admin:servers", "access:servers"]
c.JupyterHub.load_roles = [*c.JupyterHub.load_roles, {{"name": "lesson", "scopes": scopes, "services": ["lesson"]}}]
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_port = {hub_port}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_port}"
"""


@dataclass
class Work:
    """Seconds of one student's server to start, of the first import, of each check and of the submission; what was lost of these."""

    server: float = 0.0
    importing: float = 0.0
    checks: list[float] = field(default_factory=list)
    submission: float = 0.0
    lost: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Hub:
    """A hub that runs: its address, a token that may act for every student, and its process."""

    address: str
    token: str
    pid: int

    def asked(self, method: str, path: str, **options: Any) -> Any:
        """Return what it answers as data, None if that is nothing. Raises requests.HTTPError if it refuses."""
        headers = {"Authorization": f"token {self.token}"}
        reply = requests.request(method, self.address + path, headers=headers, timeout=PATIENCE, **options)
        reply.raise_for_status()
        return reply.json() if reply.content else None


@contextmanager
def running(folder: Path) -> Iterator[Hub]:
    """A hub while the context lasts, with its files in `folder` and the unit released."""
    exchange, token, sockets = folder / "hub" / "exchange", secrets.token_hex(), [socket.socket() for _ in range(3)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    port, hub_port, proxy_port = (each.getsockname()[1] for each in sockets)
    for each in sockets:
        each.close()
    settings, config = ROOT / "grader" / "hub" / "jupyterhub_config.py", folder / "config.py"
    config.write_text(
        SETTINGS.format(settings=str(settings), token=token, port=port, hub_port=hub_port, proxy_port=proxy_port)
    )
    environment = os.environ | {"HUB_HOME": str(folder / "hub"), "GRADER_HOME": str(folder / "grades")}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with (folder / "log").open("w") as log:
        command = [sys.executable, "-m", "jupyterhub", "--config", config]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT)
    try:
        while "JupyterHub is now running" not in (said := (folder / "log").read_text()):
            if process.poll() is not None:
                sys.exit(f"The hub does not start:\n{said}")
            time.sleep(0.2)
        for_instructor = environment | {
            "HUB_EXCHANGE": str(exchange),
            "COURSE": str(ROOT),
            "JUPYTER_CONFIG_PATH": os.pathsep.join(map(str, [settings.parent, lab.SETTINGS, ROOT / "grader"])),
        }
        release = [sys.executable, "-m", "nbgrader", "release_assignment", UNIT]
        subprocess.run(release, cwd=ROOT, env=for_instructor, check=True, capture_output=True)
        yield Hub(f"http://127.0.0.1:{port}", token, process.pid)
    finally:
        process.terminate()
        process.wait(PATIENCE)  # it stops the servers first


class Kernel:
    """A kernel of a student's server, for a context."""

    def __init__(self, hub: Hub, base: str) -> None:
        self.hub, self.base = hub, base
        self.id = hub.asked("POST", f"{base}/api/kernels", json={"name": "python3", "path": UNIT})["id"]
        address = hub.address.replace("http", "ws", 1) + f"{base}/api/kernels/{self.id}/channels"
        self.socket = websocket.create_connection(
            address, header=[f"Authorization: token {hub.token}"], timeout=PATIENCE
        )

    def __enter__(self) -> Kernel:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
        self.hub.asked("DELETE", f"{self.base}/api/kernels/{self.id}")

    def run(self, code: str) -> str:
        """Return what code prints and shows. Raises RuntimeError if it fails."""
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "username": "",
            "session": "",
            "version": "5.3",
        }
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
        self.socket.send(json.dumps(message))
        shown, failed, waiting = [], "", {"execute_reply", "idle"}
        while waiting:
            answer = json.loads(self.socket.recv())
            if answer["parent_header"].get("msg_id") != header["msg_id"]:
                continue
            content = answer["content"]
            match answer["msg_type"]:
                case "stream":
                    shown.append(content["text"])
                case "display_data" | "execute_result":
                    shown.append(str(content["data"]))
                case "error":
                    failed = f"{content['ename']}: {content['evalue']}"
                case "execute_reply":
                    waiting.discard("execute_reply")
                case "status" if content["execution_state"] == "idle":
                    waiting.discard("idle")
        if failed:
            raise RuntimeError(failed)
        return "".join(shown)


def since(started: float) -> float:
    return time.monotonic() - started


def student(hub: Hub, name: str, arrive: float, pause: float) -> Work:
    """One student's lesson, after `arrive` seconds."""
    work, base = Work(), f"/user/{name}"
    time.sleep(arrive)
    try:
        started = time.monotonic()
        hub.asked("POST", f"/hub/api/users/{name}")
        hub.asked("POST", f"/hub/api/users/{name}/server")
        while not hub.asked("GET", f"/hub/api/users/{name}")["servers"].get("", {}).get("ready"):
            if since(started) > PATIENCE:
                raise TimeoutError("no server")
            time.sleep(1)
        work.server = since(started)
        unit = {"course_id": COURSE, "assignment_id": UNIT}
        hub.asked("POST", f"{base}/assignments/fetch", json=unit)
        with Kernel(hub, base) as kernel:
            started = time.monotonic()
            kernel.run("from course_lib import check, figures, gpu, hint, progress, trace")
            work.importing = since(started)
            for exercise in list(grader.exercises(UNIT).values())[:CHECKS]:
                time.sleep(pause)
                check(kernel, exercise, work)
            started = time.monotonic()
            path = f"{base}/api/contents/{UNIT}/{UNIT}.ipynb"
            notebook = samples.solved(nbformat.from_dict(hub.asked("GET", path)["content"]))
            hub.asked("PUT", path, json={"type": "notebook", "format": "json", "content": notebook})
            hub.asked("POST", f"{base}/assignments/submit", json=unit)
            work.submission = since(started)
    except (requests.RequestException, websocket.WebSocketException, OSError, RuntimeError, KeyError) as error:
        work.lost.append(f"{type(error).__name__}: {str(error)[:100]}")
    return work


def check(kernel: Kernel, exercise: Exercise, work: Work) -> None:
    """Check the published answer of an exercise."""
    code = "\n".join(text for _, text in published.answer(exercise.id, published.solution_cell(exercise.id)))
    started = time.monotonic()
    shown = kernel.run(f"{code}\ncheck({exercise.id!r}, {exercise.entry})")
    work.checks.append(since(started))
    if f"{exercise.points:g} / {exercise.points:g}" not in shown:
        work.lost.append(exercise.id)


def table(works: list[Work], seconds: float, gigabytes: float, submitted: int) -> dict[str, str]:
    """Return what was measured, by what it is."""

    def spread(values: list[float]) -> str:
        return f"{statistics.median(values):.1f}, {max(values):.1f}" if values else "none"

    lost = [each for work in works for each in work.lost]
    return {
        "all done after, s": f"{seconds:.0f}",
        "a server starts, s: median, slowest": spread([w.server for w in works]),
        "first import, s: median, slowest": spread([w.importing for w in works]),
        "a check, s: median, slowest": spread([each for w in works for each in w.checks]),
        "save and submit, s: median, slowest": spread([w.submission for w in works]),
        "memory of hub, servers and kernels at most, GB": f"{gigabytes:.2f}",
        "submissions in the exchange": f"{submitted} of {len(works)}",
        "lost": "; ".join(sorted(set(lost))) or "nothing",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--students", type=int, default=8)
    parser.add_argument("--arrive", type=float, default=0.0, help="seconds within which all come")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds before each check")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lesson-"))
    memory, over = [0.0], threading.Event()
    with running(folder) as hub:
        started = time.monotonic()

        def watch() -> None:
            while not over.wait(2):
                memory.append(memory_of(hub.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        arrivals = [random.Random(number).uniform(0, options.arrive) for number in range(options.students)]
        with ThreadPoolExecutor(options.students) as lesson:
            works = [
                *lesson.map(lambda n: student(hub, f"student{n}", arrivals[n], options.pause), range(options.students))
            ]
        seconds = since(started)
        over.set()
        watcher.join()
        submitted = len([*(folder / "hub" / "exchange" / COURSE / "inbound").iterdir()])
        rows = table(works, seconds, max(memory) / 1024, submitted)
        cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
        head = f"{date.today().isoformat()}, {options.students} students on one hub, {cores} cores, load {load:.1f} at the end; they come "
        head += f"within {options.arrive:g} s, do {CHECKS} checks each of {UNIT}, and think {options.pause:g} s before each."
        lines = "\n".join(f"| {what} | {value} |" for what, value in rows.items())
        text = f"# Students at once\n\n{head}\n\n| | |\n| --- | --- |\n{lines}\n"
        print(text)
        RESULT.write_text(text)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
