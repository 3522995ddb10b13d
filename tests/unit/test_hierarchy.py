"""Measured memories: what is recorded is read off where it should be, and the kernels do what they say, as far as a compiler can tell."""

from __future__ import annotations

import json

import pytest
import torch

from course_lib.hardware import hierarchy, measurements
from course_lib.hardware.measurements import measured
from tritontrace import gpu
from tritontrace.compiled import ptx_for, sass_for

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
H200 = gpu.datasheet("H200")


def recording() -> dict:
    """A machine with three flat steps."""
    steps = [(256 * KiB, 40.0), (60 * MiB, 260.0), (GiB, 600.0)]
    wait = [(n, next(c for end, c in steps if n <= end)) for n in hierarchy.powers(4 * KiB, GiB)]
    return {
        "machine": "NVIDIA H200",
        "date": "2026-11-21",
        "l2_bytes": 60 * MiB,
        "fma": [4.0, 2e-9],
        "latency": [[n, c, c / 2e9] for n, c in wait],
        "l1_bandwidth": 30e12,
        "bandwidth": [[n, 7e12 if n <= 60 * MiB else 4e12] for n in hierarchy.powers(MiB, 4 * GiB)],
        "add_one": [[n, 1e-5] for n in hierarchy.ADD_ONE],
    }


@pytest.fixture
def kept(tmp_path, monkeypatch):
    monkeypatch.setattr(measurements, "FOLDER", tmp_path)
    measurements.measured.cache_clear()
    yield tmp_path / "memory_hierarchy.json"
    measurements.measured.cache_clear()


def test_each_level_is_read_where_it_is_flat():
    found = recording()
    assert hierarchy.level(found, "L1") == (40, 2e-8, 30e12)
    assert hierarchy.level(found, "L2") == (260, 1.3e-7, 7e12)
    assert hierarchy.level(found, "memory") == (600, 3e-7, 4e12)


def test_powers():
    assert hierarchy.powers(4, 17) == [4, 8, 16] and hierarchy.powers(4, 16) == [4, 8, 16]


def test_a_recording_is_of_one_kind_of_card_alone(kept):
    kept.write_text(json.dumps(recording()))
    assert hierarchy.of(H200)["machine"] == "NVIDIA H200"
    assert hierarchy.of(gpu.datasheet("H100 SXM")) is None


def test_what_is_recorded_has_three_levels_in_order():
    found = measured("memory_hierarchy")
    cycles, _, rates = zip(*(hierarchy.level(found, name) for name in ("L1", "L2", "memory")), strict=True)
    assert found["fma"][0] < cycles[0] < cycles[1] < cycles[2]
    assert rates[0] > rates[1] > rates[2] > 0.5 * H200.hbm_bandwidth
    assert [n for n, _ in found["add_one"]] == hierarchy.ADD_ONE


def test_timing_leaves_the_number_of_threads_alone(two_threads):
    assert all(seconds > 0 for _, seconds in hierarchy.add_one_seconds([1, 64], "cpu"))
    assert torch.get_num_threads() == 2


def test_each_load_of_a_chase_takes_its_address_from_the_one_before():
    out = torch.empty(3, dtype=torch.int64)
    ptx = ptx_for(hierarchy.chase_kernel, 1 << 40, out, 100, 1000, gpu="sm_90", num_warps=1)
    loads = [line for line in ptx.splitlines() if "ld.global" in line]
    assert loads and all(".ca.b64" in line for line in loads) and "%clock64" in ptx and "%globaltimer" in ptx
    try:
        sass = sass_for(hierarchy.chase_kernel, 1 << 40, out, 100, 1000, gpu="sm_90", num_warps=1)
    except ValueError:
        pytest.skip("no disassembler here")
    assert "SRZ" not in sass, "an address was cleared before it was used"


def test_reads_pass_by_l1_or_use_it():
    x, out = torch.empty(1 << 20), torch.empty(528)
    for modifier in (".cg", ".ca"):
        ptx = ptx_for(hierarchy.read_kernel, x, out, 32, 100, 528, CACHE=modifier, BLOCK=8192, gpu="sm_90", num_warps=8)
        loads = [line for line in ptx.splitlines() if "ld.global" in line]
        assert len(loads) == 8 and all(f"{modifier}.v4.b32" in line for line in loads)


def test_what_is_written_is_given_back_as_readers_get_it(kept):
    recorded = measurements.write("memory_hierarchy", {"ratio": 1.03547, "sizes": (1, 2)}, digits=4)
    assert recorded == {"ratio": 1.035, "sizes": [1, 2]} == measurements.measured("memory_hierarchy")
    measurements.write("memory_hierarchy", {"ratio": 2.0})
    assert measurements.measured("memory_hierarchy") == {"ratio": 2.0}, "not what was read before"
