"""The words of docs/measured.md about speed are those of the tables in benchmarks/results."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = " ".join((ROOT / "docs" / "measured.md").read_text("utf-8").split())


def table(page: str, first_column: str = "D") -> list[dict[str, str]]:
    """Return the rows of a page's table that begins with this column, by the names of its columns."""
    lines = (ROOT / "benchmarks" / "results" / page).read_text("utf-8").splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"| {first_column} "))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[first:] if line.startswith("|")]
    until = next((number for number, row in enumerate(rows[2:], 2) if len(row) != len(rows[0])), len(rows))
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:until]]


def span(rows: list[dict[str, str]], column: str, which: int) -> str:
    """Say from which to which number a column goes. which: of the kernels whose ratios a cell holds."""
    ratios = sorted(float(row[column].split(" / ")[which]) for row in rows)
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}"


def test_the_forward_pass_has_the_speed_that_the_page_says():
    rows = table("attention_forward_h100.md")
    assert len(rows) == 12
    long, short = ([row for row in rows if (int(row["length"]) >= 4096) == far] for far in (True, False))
    assert f"{span(long, 'of FA-4', 1)} of FlashAttention-4's speed from 4096 tokens on" in MEASURED
    assert f"and {span(short, 'of cuDNN', 1)} of cuDNN's at 1024" in MEASURED


def test_the_backward_pass_has_the_speed_that_the_page_says():
    rows = table("attention_backward_h100.md")
    assert len(rows) == 12
    assert (
        f"{span(rows, 'of FA-4', 1)} of FlashAttention-4's speed and {span(rows, 'of cuDNN', 1)} of cuDNN's" in MEASURED
    )


def test_the_product_has_the_speed_that_the_page_says():
    ratios = {"": {}, "windows": {}, "copied first": {}}
    for row in table("matmul.md", "M x K x N"):
        kind = row["what"] if row["what"] in ratios else "copied first" if "copied first" in row["what"] else ""
        if "float8" not in row["what"]:
            ratios[kind][row["M x K x N"], row["what"]] = float(row["ratio"].split()[0])
    one, two = (" x ".join([side] * 3) for side in ("1024", "2048"))
    large = [ratio for (size, _), ratio in ratios[""].items() if size not in (one, two)]
    assert f"{min(large):.2f} to {max(large):.2f} of cuBLAS's speed from a size of 4096 on" in MEASURED
    assert f"({ratios[''][two, '']:.2f} at a size of 2048, and" in MEASURED
    assert f"{min(ratios['windows'].values()):.2f} on windows of larger matrices" in MEASURED
    copied = ratios["copied first"].values()
    assert f"{min(copied):.1f} to {max(copied):.1f} times cuBLAS's speed" in MEASURED


def test_one_token_takes_as_long_as_the_readme_says():
    rows = {
        row["keys lie"]: row
        for row in table("decode.md", "texts")
        if (row["texts"], row["keys of each"]) == ("1", "65536")
    }
    together, paged = (float(rows[where]["us"]) for where in ("one after another", "in pages of 16"))
    of_a_copy = float(rows["one after another"]["of a copy"].split()[0])
    assert f"takes {1 / of_a_copy:.2f} times as long as a copy of as many bytes" in MEASURED
    assert f"and {100 * (paged / together - 1):.0f} % longer if the keys lie in pages of 16" in MEASURED


def test_a_wrong_span_would_be_found():
    assert span([{"x": "0.5 / 1.0"}, {"x": "0.7 / 0.25"}], "x", 1) == "0.25 to 1.00"
