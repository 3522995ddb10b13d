"""The doctor's rows: what stops grading, what is less than it could be, and what to do about it."""

import inspect
import io
import subprocess
import zipfile

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from grader import doctor
from grader.child import landlock, memory, sandbox, seccomp
from tritontrace.profiling import nsight


def row(name, folder, **more):
    return next(row for row in doctor.examine(folder, **more) if row.what.strip() == name)


@pytest.fixture
def bare(monkeypatch):
    """A machine with no sandbox at all."""
    monkeypatch.setattr(sandbox, "bubblewrap", lambda: ())
    monkeypatch.setattr(landlock, "version", lambda: 0)
    monkeypatch.setattr(seccomp, "available", lambda: False)
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)


def test_every_gap_has_an_advice_and_nothing_is_written(tmp_path):
    rows = doctor.examine(tmp_path)
    assert all(row.advice for row in rows if row.stops)
    assert {"torch", "Triton", "nbgrader", "sandbox", "free disk", "gradebook", "secret"} <= {row.what for row in rows}
    assert any(row.what.startswith("GPU") for row in rows)
    assert list(tmp_path.iterdir()) == []


def test_without_a_sandbox_the_doctor_says_what_to_install(bare, tmp_path):
    found = row("sandbox", tmp_path)
    assert found.stops and found.here == "none" and "--accept-risk" in found.advice
    assert "Install the package `bubblewrap`" in row("bubblewrap", tmp_path).advice


@pytest.fixture
def card(monkeypatch, tmp_path):
    """A machine with a card and `ncu`, whose driver and kernel say this of counters."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda number=0: "NVIDIA L4")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda number=0: (8, 9))
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda number=0: (22 << 30, 23 << 30))
    monkeypatch.setattr(nsight.shutil, "which", lambda name: f"/usr/bin/{name}")

    def say(driver, capabilities):
        for name, text in (("DRIVER", driver), ("ITSELF", f"CapEff:\t{capabilities}\n")):
            (tmp_path / name).write_text(text)
            monkeypatch.setattr(doctor, name, tmp_path / name)

    return say


ALL_RIGHTS, IN_A_CONTAINER, NONE = "000001ffffffffff", "00000000a80425fb", "0000000000000000"


@pytest.mark.parametrize(
    "driver, capabilities, allowed",
    [
        ("RmProfilingAdminOnly: 0\n", NONE, True),
        ("RmProfilingAdminOnly: 1\n", NONE, False),
        ("RmProfilingAdminOnly: 1\n", IN_A_CONTAINER, False),  # root, but not the machine's
        ("RmProfilingAdminOnly: 1\n", ALL_RIGHTS, True),
        ("", NONE, False),
    ],
)
def test_the_doctor_says_who_may_read_counters(card, tmp_path, driver, capabilities, allowed):
    card(driver, capabilities)
    found = row("counters", tmp_path)
    assert (found.advice == "") == allowed and not found.stops
    assert allowed or "NVreg_RestrictProfilingToAdminUsers=0" in found.advice
    assert row("GPU 0", tmp_path).here == "NVIDIA L4, sm_89"


def test_without_ncu_the_doctor_says_what_is_missing(card, monkeypatch, tmp_path):
    card("RmProfilingAdminOnly: 0\n", NONE)
    monkeypatch.setattr(nsight.shutil, "which", lambda name: None)
    assert row("counters", tmp_path).here == "no `ncu`"


def test_landlock_and_seccomp_alone_are_enough(bare, monkeypatch, tmp_path):
    monkeypatch.setattr(landlock, "version", lambda: 4)
    monkeypatch.setattr(seccomp, "available", lambda: True)
    found = row("sandbox", tmp_path)
    assert found.here == "Landlock + seccomp" and not found.stops and found.advice
    assert row("Landlock", tmp_path).here == "ABI 4"


def test_a_bubblewrap_that_may_not_work_names_the_switch(bare, monkeypatch, tmp_path):
    switch = tmp_path / "apparmor_restrict_unprivileged_userns"
    switch.write_text("1\n")
    monkeypatch.setattr(doctor.shutil, "which", lambda name: "/usr/bin/bwrap")
    monkeypatch.setattr(doctor, "USER_NAMESPACES", (str(switch), "/nowhere"))
    found = row("bubblewrap", tmp_path)
    assert found.here == "may not make namespaces" and "sysctl kernel.apparmor_restrict" in found.advice


@pytest.mark.parametrize(
    "version, stops, advice", [("3.6.0", False, False), ("3.3.1", True, True), ("4.0.0", False, True)]
)
def test_tritons_that_the_tracer_was_not_tested_on_are_named(monkeypatch, tmp_path, version, stops, advice):
    original = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: version if name == "triton" else original(name))
    found = row("Triton", tmp_path)
    assert (found.stops, bool(found.advice)) == (stops, advice)
    assert not advice or "pip install 'triton==" in found.advice


def test_a_missing_package_stops(monkeypatch, tmp_path):
    original = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "" if name == "nbgrader" else original(name))
    assert row("nbgrader", tmp_path)[1:] == ("not installed", "`pip install -e '.[grader]'`", True)


def test_the_secret_is_looked_at(tmp_path):
    secret = tmp_path / "secret"
    assert row("secret", tmp_path).here == "made on first use"
    secret.write_text("ab" * 32)
    secret.chmod(0o644)
    assert "chmod 600" in row("secret", tmp_path).advice
    secret.chmod(0o600)
    assert row("secret", tmp_path)[1:] == ("readable by its owner alone", "", False)
    secret.write_text("short")
    assert row("secret", tmp_path).stops
    for found in doctor.examine(tmp_path):
        assert "short" not in " ".join(map(str, found))


def test_a_gradebook_that_cannot_be_written_stops(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    found = row("gradebook", tmp_path / "not" / "there")
    assert found.stops and "GRADER_HOME" in found.advice


def test_little_disk_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 1_000_000_000}))
    assert row("free disk", tmp_path).advice.startswith("Make room")


def test_the_command_fails_if_something_stops_grading(monkeypatch):
    from grader.__main__ import app

    rows = [doctor.Check("one", "[red]here[/red]"), doctor.Check("two", "gone", "do it", stops=True)]
    monkeypatch.setattr(doctor, "examine", lambda **more: rows)
    monkeypatch.setattr(doctor, "prove", lambda units, **more: [])
    stopped = CliRunner().invoke(app, ["doctor"])
    monkeypatch.setattr(doctor, "examine", lambda **more: rows[:1])
    assert (stopped.exit_code, CliRunner().invoke(app, ["doctor"]).exit_code) == (1, 0)
    page = io.StringIO()
    Console(file=page, width=100).print(doctor.table(rows))
    assert "[red]here[/red]" in page.getvalue() and "✗" in page.getvalue()


def test_triton_s_c_compiler_is_looked_for_as_triton_does(monkeypatch, tmp_path):
    from triton.runtime import build

    for named, there in (("", ()), ("", ("gcc",)), ("", ("gcc", "clang")), ("/opt/cc", ("gcc",))):
        monkeypatch.setenv("CC", named)
        monkeypatch.setattr(
            doctor.shutil, "which", lambda name, there=there: f"/usr/bin/{name}" if name in there else None
        )
        here, advice = doctor._compiler()
        assert here == (named or (f"/usr/bin/{there[-1]}" if there else "none")) and bool(advice) == (
            not named and not there
        )
    assert "CC environment variable" in inspect.getsource(build), "Triton still asks for it by that name"
    assert row("C compiler", tmp_path).here == "/opt/cc"


def test_an_accepted_risk_stops_nothing(bare, tmp_path):
    """A pack for a service without a sandbox is built with it, if its instructor says so."""
    stops = {accepted: row("sandbox", tmp_path, accept_risk=accepted).stops for accepted in (False, True)}
    assert stops == {False: True, True: False}


def test_a_pack_that_others_could_come_by_is_named(tmp_path, monkeypatch):
    """A pack holds the secret in clear."""
    clone, home = tmp_path / "clone", tmp_path / "class"
    clone.mkdir()
    (home / "packs").mkdir(parents=True)
    for folder in (clone, home / "packs"):
        with zipfile.ZipFile(folder / "gradescope_04.zip", "w") as pack:
            pack.writestr("class/secret", "ab" * 32)
    with zipfile.ZipFile(clone / "export.zip", "w") as other:
        other.writestr("notebook.ipynb", "{}")
    monkeypatch.chdir(clone)

    def git(*words):
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=clone, check=True)

    git("init", "-q")
    (home / "packs" / "gradescope_04.zip").chmod(0o644)
    (clone / "gradescope_04.zip").chmod(0o600)
    rows = [row for row in doctor.examine(home) if row.what == "pack"]
    assert len(rows) == 2
    assert {"chmod 600" in row.advice for row in rows} == {True, False} and "git add" in "".join(r.advice for r in rows)
    (home / "packs" / "gradescope_04.zip").chmod(0o600)
    git("add", "gradescope_04.zip")
    (committed,) = (row for row in doctor.examine(home) if row.what == "pack")
    assert "git rm --cached" in committed.advice
    git("rm", "-q", "--cached", "gradescope_04.zip")
    (clone / ".gitignore").write_text("*.zip\n")
    assert not [row for row in doctor.examine(home) if row.what == "pack"]


def test_memory_that_does_not_suffice_for_all_workers_names_how_many_it_does_for(monkeypatch, tmp_path):
    need = memory.COMMAND + 2 * memory.WORKER
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda pid: range(4))
    monkeypatch.setattr(memory, "free", lambda: need + 1)
    found = row("memory", tmp_path)
    assert "--workers 2" in found.advice and not found.stops
    monkeypatch.setattr(memory, "free", lambda: 10 * need)
    assert row("memory", tmp_path).advice == ""


def test_a_container_with_less_memory_than_the_machine_counts(monkeypatch, tmp_path):
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    whole = memory.free()
    (tmp_path / "memory.current").write_text("600")
    (tmp_path / "memory.max").write_text("max")
    assert memory.free() > whole / 2
    (tmp_path / "memory.max").write_text("1000")
    assert memory.free() == 400
