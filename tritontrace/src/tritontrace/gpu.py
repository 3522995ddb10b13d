"""The GPU: which one this is, and what its datasheet promises.

`current()` is the GPU of this machine or None; `current_or_h200()` always answers, with an H200's datasheet where there is
none, so that every calculation also runs on a laptop. Importing this does not start CUDA.

All tensor-core figures are dense. Datasheets print twice as much, with an asterisk: "with sparsity".
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from functools import cache

__all__ = [
    "BLOCKS_PER_SM",
    "DATASHEETS",
    "GB",
    "GPU",
    "SHARED_BYTES",
    "THREADS_PER_SM",
    "KiB",
    "MiB",
    "current",
    "current_or_h200",
    "datasheet",
    "match",
    "num_sms",
    "planned_for",
]

KiB, MiB, GB = 1 << 10, 1 << 20, 10**9

# Shared memory by architecture, bytes: of one SM, and the most that one block (a Triton program) may have.
SHARED_BYTES = {
    "sm_70": (96 * KiB, 96 * KiB),
    "sm_75": (64 * KiB, 64 * KiB),
    "sm_80": (164 * KiB, 163 * KiB),
    "sm_86": (100 * KiB, 99 * KiB),
    "sm_89": (100 * KiB, 99 * KiB),
    "sm_90": (228 * KiB, 227 * KiB),
    "sm_100": (228 * KiB, 227 * KiB),
    "sm_120": (100 * KiB, 99 * KiB),
}
THREADS_PER_SM = {"sm_75": 1024, "sm_86": 1536, "sm_89": 1536, "sm_120": 1536}  # 2048 elsewhere
BLOCKS_PER_SM = {
    "sm_75": 16,
    "sm_86": 16,
    "sm_89": 24,
    "sm_120": 24,
}  # 32 elsewhere; CUDA C++ Programming Guide, Compute Capabilities


@dataclass(frozen=True)
class GPU:
    """One GPU: sizes in bytes, bandwidth in bytes/s, arithmetic in dense FLOP/s (None where the hardware cannot).

    fp16 and bf16 are matrix products accumulated in fp32 on tensor cores; fp32 is arithmetic on ordinary cores.
    measured   whether this is the machine's own GPU, with SMs and memory as the driver reports them

    >>> h200 = datasheet("H200")
    >>> h200.architecture, h200.sms, h200.hbm_bandwidth, h200.shared_bytes_per_block
    ('sm_90', 132, 4800000000000.0, 232448)
    >>> h200.bf16_flops / h200.hbm_bandwidth  # FLOPs for each byte, from which on products are the limit
    206.125
    """

    name: str
    architecture: str
    sms: int
    hbm_bytes: int
    hbm_bandwidth: float
    l2_bytes: int
    fp32_flops: float
    tf32_flops: float | None
    fp16_flops: float | None
    bf16_flops: float | None
    measured: bool = False

    @property
    def shared_bytes_per_sm(self) -> int:
        return SHARED_BYTES[self.architecture][0]

    @property
    def shared_bytes_per_block(self) -> int:
        return SHARED_BYTES[self.architecture][1]

    @property
    def threads_per_sm(self) -> int:
        return THREADS_PER_SM.get(self.architecture, 2048)

    @property
    def sm_limits(self) -> dict[str, int]:
        """Return the room that an SM has for programs, and the units in which it is allocated: warps, programs, registers, and shared
        memory in bytes. Registers lie in `partitions` equal parts, and a warp has all of its own in one of them, in units of
        `register_unit`. Each program takes `reserved_bytes` of shared memory besides its own, and the sum is rounded up to
        `shared_unit`.

        Source: cuda_occupancy.h of the CUDA toolkit, which is NVIDIA's own calculator.
        """
        old = int(self.architecture.removeprefix("sm_")) < 80
        return {
            "warps": self.threads_per_sm // 32,
            "programs": BLOCKS_PER_SM.get(self.architecture, 32),
            "registers": self.registers_per_sm,
            "partitions": 4,
            "register_unit": 256,
            "shared_bytes": self.shared_bytes_per_sm,
            "reserved_bytes": 0 if old else KiB,
            "shared_unit": 256 if old else 128,
        }

    @property
    def registers_per_sm(self) -> int:
        """Return the number of 32-bit registers of an SM: 256 KiB on every architecture here."""
        return 65536

    @property
    def registers_per_thread(self) -> int:
        return 255


def _gpu(name, architecture, sms, hbm_gb, bandwidth_gb, l2_mib, fp32, *products: float | None) -> GPU:
    """Make a GPU from a datasheet's numbers, arithmetic in TFLOP/s; products: in tf32, fp16 and bf16."""
    tf32, fp16, bf16 = (None if figure is None else figure * 1e12 for figure in products)
    sizes = int(hbm_gb * GB), bandwidth_gb * 1e9, int(l2_mib * MiB)
    return GPU(name, architecture, sms, *sizes, fp32 * 1e12, tf32, fp16, bf16)


# From NVIDIA's datasheets, SMs and L2 from the whitepaper of the architecture (Volta, Turing, Ampere GA100 and GA102, Ada,
# Hopper, Blackwell RTX). Where a datasheet prints one figure, "with sparsity", half of it stands here. GeForce cards and the
# A10G multiply fp16 and bf16 at half speed if they add in fp32, as training does; that is the figure here. Not from a
# datasheet of their own: the H200's L2 (its driver); the B200 (Blackwell Architecture Technical Brief, an HGX of 1000 W a
# GPU; its L2 the Blackwell Tuning Guide, its memory DGX B200); the A10G, of which
# no datasheet was found: an estimate from its chip, GA102.
#        name               arch      SMs   GB   GB/s  L2 MiB  fp32   tf32   fp16    bf16
DATASHEETS: tuple[GPU, ...] = (
    _gpu("T4", "sm_75", 40, 16, 320, 4, 8.1, None, 65.0, None),
    _gpu("V100", "sm_70", 80, 32, 900, 6, 15.7, None, 125.0, None),
    _gpu("A100 40GB", "sm_80", 108, 40, 1555, 40, 19.5, 156.0, 312.0, 312.0),
    _gpu("A100 80GB", "sm_80", 108, 80, 2039, 40, 19.5, 156.0, 312.0, 312.0),
    _gpu("L4", "sm_89", 58, 24, 300, 48, 30.3, 60.0, 121.0, 121.0),
    _gpu("A10G", "sm_86", 80, 24, 600, 6, 35.0, 35.0, 70.0, 70.0),
    _gpu("L40S", "sm_89", 142, 48, 864, 96, 91.6, 183.0, 362.0, 362.0),
    _gpu("H100 SXM", "sm_90", 132, 80, 3350, 50, 67.0, 494.7, 989.4, 989.4),
    _gpu("H100 PCIe", "sm_90", 114, 80, 2000, 50, 51.0, 378.0, 756.0, 756.0),
    _gpu("H200", "sm_90", 132, 141, 4800, 60, 67.0, 494.7, 989.4, 989.4),
    _gpu("B200", "sm_100", 148, 180, 8000, 126, 80.0, 1100.0, 2250.0, 2250.0),
    _gpu("RTX 3090", "sm_86", 82, 24, 936, 6, 35.6, 35.6, 71.0, 71.0),
    _gpu("RTX 4090", "sm_89", 128, 24, 1008, 72, 82.6, 82.6, 165.2, 165.2),
    _gpu("RTX 5090", "sm_120", 170, 32, 1792, 96, 104.8, 104.8, 209.5, 209.5),
)

NAMES = tuple(dict.fromkeys(name for gpu in DATASHEETS for name in (gpu.architecture, gpu.name)))


def datasheet(name: str) -> GPU:
    """Return the datasheet of a GPU named as in NAMES; of an architecture, its first one's. Raises ValueError with the names.

    >>> datasheet("A100 80GB").sms, datasheet("sm_89").name
    (108, 'L4')
    >>> datasheet("H300")
    Traceback (most recent call last):
        ...
    ValueError: no datasheet for 'H300'; there are ...
    """
    for gpu in DATASHEETS:
        if name in (gpu.name, gpu.architecture):
            return gpu
    raise ValueError(f"no datasheet for {name!r}; there are {', '.join(NAMES)}.")


def match(device_name: str, memory_bytes: int) -> GPU | None:
    """Return the datasheet for a name as the driver gives it, such as "NVIDIA H100 80GB HBM3", or None.

    The memory tells the two A100s apart; an H100 is the SXM card unless its name says PCIe.

    >>> match("NVIDIA H100 80GB HBM3", 80 * GB).name, match("NVIDIA A100-SXM4-40GB", 40 * GB).name, match("a CPU", 0)
    ('H100 SXM', 'A100 40GB', None)
    """
    words = set(re.split(r"[^A-Z0-9]+", device_name.upper()))
    model = {word for gpu in DATASHEETS for word in gpu.name.upper().split() if any(c.isdigit() for c in word)} & words
    model -= {"40GB", "80GB"}
    if "LAPTOP" in words or {"TI", "SUPER", "D"} & words or len(model) != 1:
        return None  # another chip under a similar name
    candidates = [gpu for gpu in DATASHEETS if model <= set(gpu.name.upper().split())]
    if "H100" in model:
        return datasheet("H100 PCIe" if "PCIE" in words else "H100 SXM")
    return min(candidates, key=lambda gpu: abs(gpu.hbm_bytes - memory_bytes))


def current() -> GPU | None:
    """Return this machine's GPU, or None without one (or with one of which we have no datasheet).

    SMs and memory are the driver's; bandwidth and FLOP/s the datasheet's.

    >>> current() is None or current().measured
    True
    """
    import torch

    if not torch.cuda.is_available() or torch.version.hip:
        return None
    device = torch.cuda.get_device_properties(torch.cuda.current_device())
    gpu = match(device.name, device.total_memory)
    if gpu is None:
        return None
    return replace(
        gpu,
        name=device.name,
        sms=device.multi_processor_count,
        hbm_bytes=device.total_memory,
        l2_bytes=getattr(device, "L2_cache_size", gpu.l2_bytes),
        measured=True,
    )


def current_or_h200() -> GPU:
    """Return this machine's GPU, or else an H200 as its datasheet describes it.

    >>> current_or_h200() == (current() or datasheet("H200"))
    True
    """
    return current() or datasheet("H200")


@cache
def planned_for() -> GPU:
    """Return what current_or_h200() was when this was first asked: before a process forks, since its children cannot ask CUDA.

    >>> planned_for() is planned_for()
    True
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of a GPU that a sandbox does not let it reach
        return current_or_h200()


def num_sms() -> int:
    """Return the number of streaming multiprocessors to spread persistent programs over: this GPU's, else an H200's.

    >>> num_sms() == current_or_h200().sms or current() is None
    True
    """
    import torch

    if torch.cuda.is_available():
        return torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    return current_or_h200().sms
