"""docs/gpu.md says of each card what its datasheet says, as the course knows it."""

from pathlib import Path

from tritontrace.gpu import GPU, datasheet

ROOT = Path(__file__).resolve().parents[2]
CARDS = ("T4", "A10G", "L4", "RTX 4090", "A100 80GB", "H100 SXM", "H200", "B200")


def as_written(card: GPU) -> str:
    """The row of a card."""
    products = f"{card.bf16_flops / 1e12:.0f}" if card.bf16_flops else "none"
    memory, shared = f"{card.hbm_bytes / 1e9:.0f} GB", f"{card.shared_bytes_per_block >> 10} KiB"
    cells = [card.name, card.architecture, card.sms, memory, f"{card.hbm_bandwidth / 1e9:,.0f} GB/s"]
    cells += [f"{card.l2_bytes >> 20} MiB", shared, products]
    return f"| {' | '.join(map(str, cells))} |"


def test_the_table_of_cards_is_that_of_the_datasheets():
    lines = (ROOT / "docs" / "gpu.md").read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| card | architecture |"))
    assert lines[first + 2 : first + 2 + len(CARDS)] == [as_written(datasheet(name)) for name in CARDS]


def test_each_card_is_told_apart_in_the_table_below():
    below = (ROOT / "docs" / "gpu.md").read_text("utf-8").partition("| card | what differs")[2]
    assert all(name.removesuffix(" 80GB").removesuffix(" SXM") in below for name in CARDS)
