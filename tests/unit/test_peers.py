"""Peers of benchmarks/: measured where they can be imported, with a version; left out with a sentence where they cannot."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
import torch
from scripts import imported

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def scripts():
    with imported("peers", "fusion_peers") as modules:
        yield modules


def test_a_peer_that_cannot_be_imported_is_left_out_and_named(scripts):
    peers, _ = scripts
    absent = peers.Peer("Absent", "absent", ("no_such_module",))
    there = peers.Peer("Torch", "torch", ("torch", "torch.nn"))
    versions = peers.here([absent, there])
    assert versions == {"Absent": "", "Torch": torch.__version__}
    said = peers.told(versions)
    assert said == f"Peers: Torch {torch.__version__}. Not measured, since not importable there: Absent."


def test_a_broken_installation_is_an_absent_one(scripts, tmp_path, monkeypatch):
    peers, _ = scripts
    (tmp_path / "broken_peer.py").write_text("raise OSError('libcuda.so.1: cannot open shared object file')")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert peers.Peer("Broken", "torch", ("broken_peer",)).problem.startswith("libcuda.so.1")


def test_the_extra_names_every_peer(scripts):
    peers, _ = scripts
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["peers"]
    for peer in peers.ALL:
        assert any(requirement.startswith(peer.distribution) for requirement in extra)


def test_the_page_has_a_row_for_every_peer_and_is_what_the_command_prints(scripts):
    peers, _ = scripts
    page = peers.table(json.loads(peers.RECORD.read_text()))
    assert page == peers.TABLE.read_text()
    assert [row.split(" | ")[0] for row in page.splitlines()[6:]] == [f"| {peer.name}" for peer in peers.ALL]


def test_what_was_measured_stays_until_it_is_measured_again(scripts, tmp_path):
    peers, _ = scripts
    path, there = tmp_path / "peers.json", peers.Peer("Torch", "torch", ("torch",))
    absent = peers.Peer("Absent", "absent", ("no_such_module",))
    path.write_text('{"Torch": {"measured": "1.0, 2020-01-01, A"}}')

    def noted(**failed):
        peers.note([there, absent], failed, "B", path)
        return json.loads(path.read_text())

    assert noted(Torch="no such shape")["Torch"] == {"measured": "1.0, 2020-01-01, A", "why not": "no such shape"}
    now = noted()
    assert now["Torch"]["measured"].startswith(torch.__version__) and now["Torch"]["why not"] == ""
    assert now["Absent"] == {"why not": "No module named 'no_such_module'"}
    assert noted(Torch="no such shape")["Torch"] == now["Torch"], "at another shape it was measured today"


def test_a_peer_that_fails_to_make_its_function_is_told_of(scripts):
    peers, _ = scripts
    there, absent = peers.Peer("Torch", "torch", ("torch",)), peers.Peer("Absent", "absent", ("no_such_module",))
    made, why = peers.works({there: lambda n: n + 1, absent: None}, 1)
    assert made == {"Torch": 2} and list(why) == ["Absent"]
    assert peers.works({there: lambda n: n["a"]}, 1)[1] == {"Torch": "'int' object is not subscriptable"}


def test_peers_are_right_before_they_are_timed(scripts, monkeypatch):
    _, fusion_peers = scripts
    exercise = fusion_peers.exercises.fusion.EXERCISES["fusion.softmax"]
    x = torch.randn(4, 32)
    right, wrong = (lambda x: torch.softmax(x, 1)), (lambda x: torch.softmax(x, 0))

    def broken(x):
        raise ValueError("no rows of 32\nfor other rows see the guide")

    monkeypatch.setattr(fusion_peers.bench, "ratio", None)  # nothing is timed
    rows = [fusion_peers.against(exercise, {"x": x}, own, peer) for own, peer in ((wrong, right), (right, wrong))]
    assert [row["failed"] for row in rows] == ["own", "peer"]
    row = fusion_peers.against(exercise, {"x": x}, right, broken)
    shown = fusion_peers.line({"name": "softmax", "N": 32, "peer": "quack", "value": None} | row)
    assert shown.endswith("quack is not right: no rows of 32 |")
