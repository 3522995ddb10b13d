"""The GPU: which one this is, and what datasheets say."""

import subprocess
import sys

import pytest

from tritontrace import gpu


@pytest.mark.parametrize(
    "device_name, gigabytes, expected",
    [
        ("Tesla T4", 15, "T4"),
        ("Tesla V100-SXM2-16GB", 16, "V100"),
        ("NVIDIA A100-SXM4-40GB", 42, "A100 40GB"),
        ("NVIDIA A100-SXM4-80GB", 85, "A100 80GB"),
        ("NVIDIA A100 80GB PCIe", 85, "A100 80GB"),
        ("NVIDIA L4", 23, "L4"),
        ("NVIDIA A10G", 23, "A10G"),
        ("NVIDIA L40S", 48, "L40S"),
        ("NVIDIA H100 80GB HBM3", 85, "H100 SXM"),
        ("NVIDIA H100 PCIe", 85, "H100 PCIe"),
        ("NVIDIA H200", 150, "H200"),
        ("NVIDIA B200", 190, "B200"),
        ("NVIDIA GeForce RTX 3090", 25, "RTX 3090"),
        ("NVIDIA GeForce RTX 4090", 25, "RTX 4090"),
        ("NVIDIA GeForce RTX 5090", 34, "RTX 5090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 17, None),
        ("NVIDIA GeForce RTX 3090 Ti", 25, None),
        ("NVIDIA GeForce GTX 1080", 8, None),
        ("AMD Instinct MI300X", 192, None),
    ],
)
def test_names_as_drivers_give_them(device_name, gigabytes, expected):
    found = gpu.match(device_name, gigabytes * 10**9)
    assert (found and found.name) == expected


@pytest.mark.parametrize("card", gpu.DATASHEETS, ids=lambda card: card.name)
def test_datasheets_agree_with_the_architecture(card):
    assert card.architecture in gpu.SHARED_BYTES
    assert card.shared_bytes_per_block <= card.shared_bytes_per_sm
    # fp32 FLOP/s = SMs x cores x 2 x clock; a clock outside this range means a wrong figure or a sparse one
    cores = 64 if card.architecture in ("sm_70", "sm_75", "sm_80") else 128
    assert 1.2e9 < card.fp32_flops / (card.sms * cores * 2) < 2.7e9
    assert card.fp16_flops > card.fp32_flops
    if card.bf16_flops:
        assert card.bf16_flops == card.fp16_flops
        # tf32 runs at half the rate of bf16, dense
        assert card.tf32_flops / card.bf16_flops == pytest.approx(0.5, abs=0.02)
    assert (card.bf16_flops is None) == (card.tf32_flops is None) == (card.architecture < "sm_80" and card.sms < 100)


def test_there_is_always_a_datasheet():
    found = gpu.current_or_h200()
    assert found.sms > 0 and gpu.num_sms() == found.sms
    assert gpu.current() in (None, found)


def test_an_unknown_datasheet():
    with pytest.raises(ValueError, match="there are sm_75, T4, sm_70, V100"):
        gpu.datasheet("K80")


def test_importing_it_starts_nothing():
    script = "import torch, tritontrace.gpu; assert not torch.cuda.is_initialized()"
    subprocess.run([sys.executable, "-c", script], check=True)
