"""The compiler for a Hopper GPU finds in right kernels the barriers, copies and products that the simulator saw."""

import re

import pytest
import torch
from runs import ATTENTION, KERNELS, MATMUL, by_tma, copied, module_of, persistent, specialised
from runs import attention as attend

from tritontrace.compiled import _assembled, compile_for

WGMMA_K = 16  # of 16-bit numbers, in one instruction


def arguments(name):
    """(module, kernel, arguments, constants) of a launch, as runs.py makes it."""
    half = torch.float16
    if name == "overlapped":
        module = module_of(ATTENTION)
        q = torch.zeros(1, 1, 384, 64, dtype=half)
        return (
            module,
            module.overlapped,
            (*module.descriptors(q, q, q, q), torch.zeros(384), 0.125, 384, 1),
            {"CAUSAL": False},
        )
    if name == "persistent":
        module = module_of(MATMUL)
        a, b, c = (
            torch.zeros(200, 152, dtype=half),
            torch.zeros(152, 304, dtype=half),
            torch.zeros(200, 304, dtype=half),
        )
        numbers = (200, 304, 152)
        return (
            module,
            module.persistent,
            (*module.descriptors(a, b, c, False, False), *[None] * 5, *numbers),
            {"A_T": False, "B_T": False, "SCALED": False},
        )
    module = module_of(KERNELS)
    if name == "copied":
        x = torch.zeros(320, 64, dtype=half)
        return module, module.copied, (module.tiles_of(x), module.tiles_of(x)), {"COUNT": 5}
    rows = 128 if name == "specialised" else 64
    a, b = (module.tiles_of(torch.zeros(*shape, dtype=half)) for shape in ((rows, 320), (320, 64)))
    return module, getattr(module, name), (a, b, torch.zeros(rows, 64), 64), {"STEPS": 5}


RUNS = {"overlapped": attend, "persistent": persistent, "copied": copied, "by_tma": by_tma, "specialised": specialised}


IN_PTX = {
    "barrier": r"mbarrier\.init",
    "TMA load": r"cp\.async\.bulk\.tensor\.2d\.shared",
    "TMA store": r"cp\.async\.bulk\.tensor\.2d\.global",
    "wgmma": r"wgmma\.mma_async",
}
IN_TTGIR = {
    "TMA load": "ttng.async_tma_copy_global_to_local ",
    "TMA store": "ttng.async_tma_copy_local_to_global ",
    "wgmma": "ttng.warp_group_dot ",
}


@pytest.mark.parametrize("name", RUNS)
def test_barriers_copies_and_products(name):
    module, kernel, values, constants = arguments(name)
    report, _ = RUNS[name](module, orders=("eager",))
    found = compile_for(kernel, *values, num_warps=4, **constants)
    assert found.accepted, found.complaint
    assert bool(report.counts.wgmma) == any("wgmma" in each for each in found.tensor_instructions)
    assert report.shared_bytes <= found.shared_bytes <= report.shared_bytes + 1024
    built = _assembled(kernel, values, {"num_warps": 4, **constants}, "sm_90").asm
    in_ttgir = {
        what: built["ttgir"].count(text) for what, text in IN_TTGIR.items()
    }  # calls are inlined, loops as written
    assert in_ttgir == {what: report.instructions[what] for what in IN_TTGIR}
    in_ptx = {what: len(re.findall(pattern, built["ptx"])) for what, pattern in IN_PTX.items()}
    assert in_ptx["barrier"] == report.counts.barriers // (2 if name == "persistent" else 1)  # programs
    if name in UNROLLED:
        assert in_ptx["TMA load"] == report.counts.tma_loads
    by_site = {(product.who, product.spot): product.shape[2] // WGMMA_K for product in report.products}
    assert in_ptx["wgmma"] == sum(by_site.values())


UNROLLED = {"copied", "specialised"}  # by LLVM: each copy is an instruction of its own
