"""The pictures of README and guides that need no GPU: `python docs/pictures.py`, or with the names of some. Three minutes.

docs/verdict.png             what `check` shows for a transpose of one row a program; needs Chromium
docs/verdict_dark.png        the same, where the system's theme is dark;  verdict_narrow.png, verdict_narrow_dark.png  on a phone
docs/feedback.png            what a student gets whose transpose forgets its last, partial tiles; likewise
docs/report.png              the class report of the sample class, which is graded for it; likewise
docs/heatmap.png             causal attention on Triton's interpreter: how often each element of k is loaded
docs/mystery_plot.png        matmul speed by size as recorded on an H200, and unit 05's model of it
docs/trace_vs_counters.png   what the trace predicts against what an H200's counters said

The functions are the published solutions and the variants. benchmarks/attention.py draws its own picture.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(DOCS.parent))

from course_lib import figures, render, trace  # noqa: E402
from course_lib.exercises import find  # noqa: E402
from course_lib.figures import counters  # noqa: E402
from grader.building import hero  # noqa: E402
from grader.judging.judge import Judge  # noqa: E402
from grader.published import answer, published, solution_cell  # noqa: E402
from grader.reporting import report as class_report  # noqa: E402
from tritontrace.picture import Picture  # noqa: E402

PAGE = """<!doctype html><meta charset=utf-8><meta name=color-scheme content="light dark">
<body style='font: 14px sans-serif; margin: 8px'>"""
DARK = "--blink-settings=preferredColorScheme=0"
# of a page in the browser, in pixels
SIZES = {
    **dict.fromkeys(("verdict", "verdict_dark"), (920, 406)),
    **dict.fromkeys(("verdict_narrow", "verdict_narrow_dark"), (360, 708)),
    "feedback": (920, 610),
    "report": (1200, 1140),
}


def verdict() -> str:
    return hero.verdict()


def feedback() -> str:
    """As the grader judges: on inputs whose values stay hidden."""
    exercise = find("coalescing.transpose")
    forgetful = solution_cell(exercise.id).replace("(triton.cdiv(M, BLOCK),", "(max(M // BLOCK, 1),")
    return render.html(Judge(accept_risk=True).judge(exercise, answer(exercise.id, forgetful), 1))


def report() -> str:
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "grader", "demo", "--folder", folder], cwd=DOCS.parent, check=True)
        return class_report.write(Path(folder, "grader"), "04_memory_coalescing").read_text("utf-8")


def heatmap() -> Picture:
    """Keys lie along the columns, as a view with other strides: the picture is wide then."""
    q, v, keys = torch.randn(256, 64), torch.randn(256, 64), torch.randn(64, 256)
    with trace() as t:
        published("flash.flash_attention_forward")(q, keys.T, v, causal=True)
    return t.heatmap(keys)


def mystery_plot() -> Picture:
    return figures.tiling.predicted_against_measured(published("tiling.predicted_throughput"))


def trace_vs_counters() -> Picture:
    return counters.predicted_against_counted()


def save(drawn: Picture | str, path: Path) -> None:
    """A picture as it is; HTML as a headless Chromium shows it."""
    if not isinstance(drawn, str):
        drawn.savefig(path)
        return
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        sys.exit(f"{path.name} needs Chromium: install it, or name the other pictures.")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(drawn if "<html" in drawn else PAGE + drawn, "utf-8")
        options = "--headless", "--no-sandbox", "--hide-scrollbars", f"--user-data-dir={folder}/profile"
        width, height = SIZES[path.stem]
        taken = f"--window-size={width},{height}", "--force-device-scale-factor=2", f"--screenshot={path}"
        theme = (DARK,) if path.stem.endswith("_dark") else ()
        subprocess.run([browser, *options, *theme, *taken, page.as_uri()], check=True, capture_output=True)


PICTURES = dict.fromkeys(("verdict", "verdict_dark", "verdict_narrow", "verdict_narrow_dark"), verdict) | {
    draw.__name__: draw for draw in (feedback, report, heatmap, mystery_plot, trace_vs_counters)
}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        if name not in PICTURES:
            sys.exit(f"There is no picture {name!r} here. There are: {', '.join(PICTURES)}.")
        save(PICTURES[name](), DOCS / f"{name}.png")
        print(f"docs/{name}.png")
