"""tritontrace diff old.py new.py: what the kernels of two scripts move, line by line.

Each is a script, which is traced in a process of its own, or a file that `tritontrace --format json` has written. What stands
behind `--` is for the scripts. Exit status: 0, 1 if the second has a new fault or moves more than
--at-most allows, 2 if they cannot be compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tritontrace.diffs import show
from tritontrace.diffs.compare import NotComparable, compare

FINE, WORSE, NOT_COMPARED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `tritontrace diff`, write the diff, and return the exit status.

    >>> main(["no_such_script.py", "nor_this.py"])  # says on stderr that there is no such file
    2
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    at = given.index("--") if "--" in given else len(given)
    options = _parser().parse_args(given[:at])
    options.arguments = given[at + 1 :]
    if options.output and not options.output.parent.is_dir():
        return _cannot(f"There is no folder {options.output.parent} to write {options.output.name} to.")
    try:
        reports = [_report(path, options) for path in (options.before, options.after)]
        _readable(options.before, reports[0])
        _readable(options.after, reports[1])
        diff = compare(*reports)
    except NotComparable as problem:
        return _cannot(str(problem))
    at_most: float | None = options.at_most
    over = diff.exceeded(at_most) if at_most is not None else []
    remarks = [show.excess(one, at_most or 0) for one in over]
    match options.format:
        case "json":
            limits = {
                "at_most": at_most,
                "exceeded": [{**vars(one), "ratio": one.ratio if one.before else None} for one in over],
            }
            text = json.dumps({**diff.to_dict(), **limits}, indent=1) + "\n"
        case "html":
            text = show.page(diff, remarks)
        case "markdown":
            text = show.markdown(diff, remarks)
        case _:
            text = show.table(diff, remarks) + "\n"
    if options.output:
        options.output.write_text(text, "utf-8")
    else:
        sys.stdout.write(text)
    return WORSE if diff.new_faults or over else NOT_COMPARED if any(diff.stopped) else FINE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tritontrace diff", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("before", type=Path, help="a script, or what `tritontrace --format json` wrote")
    parser.add_argument("after", type=Path, help="likewise")
    parser.add_argument(
        "--at-most",
        type=_ratio,
        metavar="RATIO",
        help="fail if bytes or sectors of all, or of one kernel, grow beyond it",
    )
    parser.add_argument("--format", choices=("table", "json", "html", "markdown"), default="table", help="of the diff")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the diff there instead of showing it")
    for name in ("gpu", "sms", "seconds"):
        parser.add_argument(f"--{name}", help=f"as for `tritontrace --{name}`, for both scripts")
    return parser


def _ratio(text: str) -> float:
    number = float(text)
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no ratio: 1 allows what there was before")
    return number


def _report(path: Path, options: argparse.Namespace) -> Any:
    if not path.is_file():
        raise NotComparable(f"There is no file {path}.")
    if path.suffix == ".py":
        return _traced(path, options)
    try:
        return json.loads(path.read_text("utf-8"))
    except ValueError:
        raise NotComparable(f"{path} is neither a script nor JSON.") from None


def _readable(path: Path, report: Mapping[str, Any]) -> None:
    """Say which file it is that cannot be compared."""
    try:
        compare(report, report)
    except NotComparable as problem:
        raise NotComparable(f"{path} {problem}.") from None
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise NotComparable(
            f"{path} is no report that this version reads ({type(problem).__name__}: {problem})."
        ) from None


def _traced(script: Path, options: argparse.Namespace) -> Any:
    """Trace a script in a process of its own, so that the modules it imports are its own ones, too."""
    given = [f"--{name}={value}" for name in ("gpu", "sms", "seconds") if (value := getattr(options, name)) is not None]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder, "report.json")
        command = [sys.executable, "-m", "tritontrace", *given, "--format", "json", "-o", str(found), str(script)]
        done = subprocess.run([*command, *options.arguments], stdout=subprocess.DEVNULL)
        if not found.is_file():
            raise NotComparable(f"{script} could not be traced (exit status {done.returncode}).")
        return json.loads(found.read_text("utf-8"))


def _cannot(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return NOT_COMPARED
