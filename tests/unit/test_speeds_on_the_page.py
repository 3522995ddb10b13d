"""The words of README.md and docs/measured.md about a GPU are those of the tables in benchmarks/results, and these are those of
the data from which units take their numbers."""

from __future__ import annotations

import re
from itertools import takewhile
from pathlib import Path

from course_lib.hardware.measurements import measured

ROOT = Path(__file__).resolve().parent.parent.parent
MEASURED = " ".join((ROOT / "docs" / "measured.md").read_text("utf-8").split())
README = " ".join((ROOT / "README.md").read_text("utf-8").split())


def table(page: str, first_column: str = "D") -> list[dict[str, str]]:
    """Return the rows of a page's table that begins with this column, by the names of its columns."""
    return _rows((ROOT / "benchmarks" / "results" / page).read_text("utf-8"), first_column)


def _rows(text: str, first_column: str = "D") -> list[dict[str, str]]:
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(f"| {first_column} "))
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in takewhile(lambda line: line.startswith("|"), lines[first:])
    ]
    until = next((number for number, row in enumerate(rows[2:], 2) if len(row) != len(rows[0])), len(rows))
    return [dict(zip(rows[0], row, strict=True)) for row in rows[2:until]]


def attention() -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The rows of the page on attention: forward, and backward."""
    page = (ROOT / "benchmarks" / "results" / "attention.md").read_text("utf-8")
    return tuple(_rows(page.partition(f"## {way}")[2]) for way in ("Forward", "Backward"))  # pyright: ignore[reportReturnType]


def span(rows: list[dict[str, str]], column: str, which: int) -> str:
    """Say from which to which number a column goes. which: of the kernels whose ratios a cell holds."""
    ratios = sorted(float(row[column].split(" / ")[which]) for row in rows)
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}"


def test_readme_page_and_table_say_the_same_of_attention():
    forward, backward = attention()
    own, fastest = (span(forward, "of FA-2", which) for which in (0, 1))
    assert len(forward) == len(backward) == 12
    assert f"The kernel that unit 09 ends with runs at {own} times the speed of torch 2.11's FlashAttention-2" in README
    assert f"runs at {own} times the speed of torch's FlashAttention-2" in MEASURED
    assert f"The faster variants of this forward run at {fastest} times that speed" in MEASURED
    assert f"backward of unit 10 runs at {span(backward, 'of FA-2', 0)} times" in MEASURED
    long = [[row for row in rows if int(row["length"]) >= 4096] for rows in (forward, backward)]
    for rows, which, whose in ((long[0], 1, "fastest forward"), (long[1], 0, "backward")):
        cudnn, fa4 = (span(rows, column, which) for column in ("of cuDNN", "of FA-4"))
        assert re.search(rf"{whose} has {cudnn} of cuDNN's speed and {fa4} of FlashAttention-4's", MEASURED)


def test_the_table_on_attention_is_of_the_data_that_units_cite():
    for rows, key in zip(attention(), ("forward", "backward"), strict=True):
        recorded = {
            (str(e["d"]), str(e["length"]), "causal" if e["causal"] else "full"): e for e in measured("attention")[key]
        }
        shown = {(row["D"], row["length"], row["mask"]): row for row in rows}
        assert shown.keys() == recorded.keys()
        for which, row in shown.items():
            for name, found in recorded[which]["contenders"].items():
                assert row[name] in ("", f"{found['tflops']:.0f}"), (which, name)


def test_as_many_kernels_were_counted_as_the_pages_say():
    count = len(measured("trace_vs_counters")["launches"])
    assert f"{count} kernels were traced on a CPU and run on an H200" in README
    assert f"{count} kernels of the course were traced on a CPU and run on an H200" in MEASURED


def test_the_table_of_answers_is_of_the_data_that_verdicts_cite():
    rows = {row["exercise"]: row for row in table("answers.md", "exercise")}
    recorded = measured("answers")["answers"]
    assert rows.keys() == recorded.keys()
    for name, entry in recorded.items():
        ratio = f"{entry['ratio']:.2f} ± {entry['spread']:.2f}" if "ratio" in entry and "problem" not in entry else ""
        assert rows[name]["ratio"] == (ratio or entry.get("problem", "")), name
        assert rows[name]["microseconds"] == (f"{entry['microseconds']:,.1f}" if "ratio" in entry else ""), name


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
