"""Mutation testing: is every small change of the code noticed by a test?

    python mutate.py mutants.toml [--sample N] [--seed S] [--only TEXT] [--jobs N] [--seconds S] [--resume FILE] [--list]

mutants.toml names modules and the test files nearest to each. A mutant is a module with one change: a comparison, an operator,
a number, `and` for `or`, a `not` or a statement less. Its tests run until one fails, in a copy of the sources of its own. A mutant
that no test notices has survived: it needs a test, or stands in mutants.toml with the reason why it may. Others fail the command.

The order is drawn from the seed, so that a sample is the same everywhere, and what --seconds leaves over is done by the same
command later: --resume FILE holds a JSON line for each mutant that is done, and those are not run again while their module is
the same. Nothing but Python, pytest and what the tests need must be installed.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import dataclasses
import hashlib
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_SECONDS = 1800.0  # of the tests of a module
PATIENCE, GRACE = (
    3.0,
    30.0,
)  # a mutant's tests may take so many times what they take without it, and so many seconds more
MEMORY = 24 << 30  # bytes of address space: a loop that makes lists for ever shall end


# ------------------------------------------------------------------------------------------------ what stands in mutants.toml


@dataclass(frozen=True)
class Module:
    """A module to change, and the test files that must notice. skip: functions, by their qualified names, that stay as they are."""

    path: str
    tests: tuple[str, ...]
    skip: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Plan:
    """What mutants.toml says. Paths are relative to `root`.

    copied      files and folders that the tests need;  pythonpath  those of them in which packages lie
    preloaded   modules, none of them to change, that are imported once, before a process for each mutant is forked
    allowed     str(mutant) -> why it may survive
    """

    root: Path
    copied: tuple[str, ...]
    pythonpath: tuple[str, ...]
    preloaded: tuple[str, ...]
    modules: tuple[Module, ...]
    allowed: dict[str, str]


def read(path: Path) -> Plan:
    """The plan in a file. Exits with a sentence if it names a file that does not exist."""
    data = tomllib.loads(path.read_text("utf-8"))
    root = (path.parent / data["root"]).resolve()
    modules = tuple(
        Module(each["path"], tuple(each["tests"]), frozenset(each.get("skip", ()))) for each in data["modules"]
    )
    named = {*data["copied"], *(m.path for m in modules), *(test for m in modules for test in m.tests)}
    if missing := sorted(name for name in named if not (root / name).exists()):
        sys.exit(f"{path.name} names files that do not exist: {', '.join(missing)}.")
    allowed = {change: group["reason"] for group in data.get("survivors", ()) for change in group["mutants"]}
    return Plan(root, tuple(data["copied"]), tuple(data["pythonpath"]), tuple(data["preloaded"]), modules, allowed)


# ------------------------------------------------------------------------------------------------------------ making mutants


@dataclass(frozen=True)
class Mutant:
    """A module with one change.

    function  where it is, by its qualified name, "" at the top of the module;  source  the whole module's, changed
    change    the statement before and after, by its text, so that it outlives an edit elsewhere: "`a < b` -> `a <= b`"; "(2)" for
              the second statement of that text in the function
    """

    module: Module
    function: str
    change: str
    source: str = field(repr=False)

    def __str__(self) -> str:
        return f"{self.module.path}, {self.function or 'top'}, {self.change}"


OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip
OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
UNTESTED = {"__repr__", "__str__", "_repr_html_"}  # functions that make text


def alternatives(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what may stand in a node's place."""
    match node:
        case ast.BinOp(left, op, right) if type(op) in OPERATORS and not (_is_text(left) or _is_text(right)):
            yield ast.BinOp(left, OPERATORS[type(op)](), right)
        case ast.Compare(left, ops, others):
            for index, op in enumerate(ops):
                yield ast.Compare(left, [*ops[:index], OPERATORS[type(op)](), *ops[index + 1 :]], others)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(OPERATORS[type(op)](), values)
        case ast.UnaryOp(ast.Not() | ast.USub() | ast.Invert(), operand):
            yield operand
        case ast.Constant(bool()):
            yield ast.Constant(not node.value)
        case ast.Constant(int() | float() as number):
            yield ast.Constant(number + 1)
        case ast.Call(ast.Name(name), arguments, keywords) if name in OTHER_NAMES:
            yield ast.Call(ast.Name(OTHER_NAMES[name], ast.Load()), arguments, keywords)
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Break() | ast.Continue():
            yield ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()], _):
            yield ast.Pass()


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _conditions(node: ast.AST) -> list[ast.expr]:
    """The conditions of a node that are a name or a call, which nothing but a `not` can change."""
    tests: list[ast.expr] = []
    match node:
        case ast.If(test) | ast.While(test) | ast.IfExp(test):
            tests = [test]
        case ast.comprehension(_, _, ifs):
            tests = list(ifs)
    return [test for test in tests if isinstance(test, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))]


def mutants(plan: Plan, module: Module) -> list[Mutant]:
    """Every mutant of a module, each text once, from top to bottom."""
    text = (plan.root / module.path).read_text("utf-8")
    lines = [line.encode() for line in text.splitlines(keepends=True)]
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    whole, found = b"".join(lines), {}
    for function, statement, place in _statements(ast.parse(text), module.skip):
        for node in _own_nodes(statement):
            others = [*alternatives(node)]
            negated = [(test, ast.UnaryOp(ast.Not(), test)) for test in _conditions(node)]
            for old, new in [*((node, other) for other in others), *negated]:
                begin = starts[old.lineno - 1] + old.col_offset  # type: ignore[attr-defined]
                end = starts[old.end_lineno - 1] + old.end_col_offset  # type: ignore[attr-defined]
                written = ast.unparse(ast.fix_missing_locations(copy.deepcopy(new)))
                written = written if isinstance(new, ast.stmt) else f"({written})"
                padding = b"\n" * (0 if isinstance(new, ast.stmt) else whole[begin:end].count(b"\n"))
                inside = written[:-1].encode() + padding + written[-1:].encode()  # lines below keep their numbers
                source = (whole[:begin] + inside + whole[end:]).decode()
                after = _head(copy.deepcopy(statement, {id(old): new}))
                found.setdefault(source, Mutant(module, function, f"{place} -> `{after}`", source))
    return list(found.values())


def _statements(tree: ast.Module, skip: frozenset[str]) -> Iterator[tuple[str, ast.stmt, str]]:
    """Yield (function, statement, "`its text`", with a number if it is not the first of that text in this function)."""
    counted: Counter[tuple[str, str]] = Counter()

    def visit(body: Sequence[ast.stmt], within: str) -> Iterator[tuple[str, ast.stmt, str]]:
        for statement in body:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                name = f"{within}.{statement.name}".lstrip(".")
                if statement.name not in UNTESTED and name not in skip:
                    yield from visit(statement.body, name)
                continue
            if isinstance(statement, (ast.Import, ast.ImportFrom, ast.Assert)) or _is_for_types(statement):
                continue
            text = _head(statement)
            counted[within, text] += 1
            count = counted[within, text]
            yield within, statement, f"`{text}`" + (f" ({count})" if count > 1 else "")
            for name in ("body", "orelse", "finalbody"):
                yield from visit(getattr(statement, name, ()), within)
            for part in [*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())]:
                yield from visit(part.body, within)

    yield from visit(tree.body, "")


def _is_for_types(statement: ast.stmt) -> bool:
    match statement:
        case ast.If(ast.Name("TYPE_CHECKING")) | ast.If(ast.Attribute(_, "TYPE_CHECKING")):
            return True
        case ast.Assign([ast.Name("__all__")], _) | ast.Assign(_, ast.Call(ast.Name("TypeVar" | "NewType"))):
            return True
    return False


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and what is in it, down to the next statement, without annotations, patterns and texts."""
    yield node
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return  # -1 becomes 1 alone: numpy takes any other negative size for it
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if name in ("annotation", "returns", "decorator_list", "pattern") or not isinstance(child, ast.AST):
                continue
            if isinstance(child, ast.keyword) and child.arg == "strict":
                continue  # zip(strict=True) is an assertion: nothing changes without it
            if isinstance(child, ast.match_case) and child.guard:
                yield from _own_nodes(child.guard)
            if not isinstance(child, (ast.stmt, ast.JoinedStr, ast.match_case, ast.ExceptHandler)):
                yield from _own_nodes(child)


def _head(statement: ast.AST) -> str:
    return ast.unparse(ast.fix_missing_locations(statement)).partition("\n")[0]


# --------------------------------------------------------------------------------------------------------- running the tests


class First:
    """A plugin of pytest's that writes down which tests fail."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)


def run_tests(folder: Path, pythonpath: Sequence[str], options: Sequence[str], answer: Path) -> None:
    """In a process of its own: run pytest in a copy, write {"code", "failed"} to `answer` as JSON, and exit."""
    os.setsid()
    os.chdir(folder)
    sys.path[:0] = [str(folder / name) for name in pythonpath]
    os.environ["PYTHONPATH"] = os.pathsep.join([*sys.path[: len(pythonpath)], os.environ.get("PYTHONPATH", "")])
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"  # a mutant's must not be taken for the next one's
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    sys.dont_write_bytecode = True
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    sink = os.open(answer.with_suffix(".out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    import pytest

    first = First()
    code = pytest.main([*options, "-q", "-p", "no:cacheprovider", "-m", "not gpu and not slow"], plugins=[first])
    answer.write_text(json.dumps({"code": int(code), "failed": first.failed}))
    sys.stdout.flush()
    os._exit(0)


@dataclass
class Copy:
    """A copy of the sources, in which one mutant at a time is tested."""

    plan: Plan
    folder: Path

    @property
    def sources(self) -> Path:
        return self.folder / "sources"

    @classmethod
    def several(cls, plan: Plan, folder: Path, count: int) -> list[Copy]:
        """Make copies with bytecode, all alike."""
        first, leave_out = cls(plan, folder / "0"), shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
        for name in plan.copied:
            to = first.sources / name
            to.parent.mkdir(parents=True, exist_ok=True)
            if (plan.root / name).is_dir():
                shutil.copytree(plan.root / name, to, symlinks=True, ignore=leave_out)
            else:
                shutil.copy2(plan.root / name, to)
        compileall.compile_dir(first.sources, quiet=2)
        others = [cls(plan, folder / str(number)) for number in range(1, count)]
        for other in others:
            shutil.copytree(first.folder, other.folder, symlinks=True)
        return [first, *others]

    def begin(self, mutant: Mutant | None, options: Sequence[str], seconds: float) -> Run:
        """Start the tests of a mutant, or of the sources as they are."""
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        if mutant:
            (self.sources / mutant.module.path).write_text(mutant.source, "utf-8")
        process = multiprocessing.get_context("forkserver").Process(
            target=run_tests,
            args=(self.sources, self.plan.pythonpath, [*options, f"--basetemp={self.folder / 'tmp'}"], answer),
        )
        process.start()
        return Run(self, mutant, process, answer, time.monotonic(), seconds)

    def restore(self, mutant: Mutant | None) -> None:
        if mutant:
            shutil.copy(self.plan.root / mutant.module.path, self.sources / mutant.module.path)


@dataclass
class Run:
    """Tests under way."""

    copy: Copy
    mutant: Mutant | None
    process: Any
    answer: Path
    started: float
    seconds: float

    @property
    def took(self) -> float:
        return time.monotonic() - self.started

    @property
    def late(self) -> bool:
        return self.took > self.seconds

    def end(self) -> dict[str, Any]:
        """End it, and what it started. Returns {"code", "failed"}; code None if it was too late, -1 if the process was lost."""
        late = self.process.is_alive()
        if late:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                self.process.kill()
        self.process.join()
        self.copy.restore(self.mutant)
        if late:
            return {"code": None, "failed": []}
        return json.loads(self.answer.read_text()) if self.answer.exists() else {"code": -1, "failed": []}


@dataclass(frozen=True)
class Baseline:
    """What a module's tests do without a change. red: tests that fail on this machine anyway, and are left out."""

    seconds: float
    red: tuple[str, ...]


# ------------------------------------------------------------------------------------------------------- all mutants in turn


@dataclass(frozen=True)
class Outcome:
    """What became of a mutant: "killed", "survived" or "timed out". by: the first test that failed."""

    mutant: str
    module: str
    outcome: str
    seconds: float
    by: str
    source: str  # a hash of the mutated module

    @classmethod
    def of(cls, run: Run, ended: dict[str, Any]) -> Outcome:
        assert run.mutant is not None
        outcome = {None: "timed out", 0: "survived"}.get(ended["code"], "killed")
        by = next(iter(ended["failed"]), "")
        return cls(str(run.mutant), run.mutant.module.path, outcome, round(run.took, 1), by, digest(run.mutant))


def digest(mutant: Mutant) -> str:
    return hashlib.sha256(mutant.source.encode()).hexdigest()[:16]


class Ledger:
    """What is done already, as JSON lines in a file; without a file, in memory alone."""

    def __init__(self, path: Path | None) -> None:
        self.path, self.done, self.baselines = path, {}, {}
        for line in path.read_text("utf-8").splitlines() if path and path.exists() else ():
            entry = json.loads(line)
            if "tests" in entry:
                self.baselines[tuple(entry["tests"])] = Baseline(entry["seconds"], tuple(entry["red"]))
            else:
                self.done[entry["mutant"], entry["source"]] = Outcome(**entry)

    def add(self, outcome: Outcome) -> None:
        self.done[outcome.mutant, outcome.source] = outcome
        self._append(dataclasses.asdict(outcome))

    def add_baseline(self, tests: tuple[str, ...], baseline: Baseline) -> None:
        self.baselines[tests] = baseline
        self._append({"tests": tests, **dataclasses.asdict(baseline)})

    def _append(self, entry: dict[str, Any]) -> None:
        if self.path:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")


Task = tuple[Callable[[Copy], Run], Callable[[Run, dict[str, Any]], None]]  # starts tests; takes what became of them


def in_parallel(copies: Sequence[Copy], tasks: Sequence[Task], until: float) -> bool:
    """Do each task on a copy that is free. False if the time was up before all were done."""
    left, free, running = list(reversed(tasks)), list(copies), []
    try:
        while left or running:
            if time.monotonic() > until:
                return False
            while left and free:
                begin, done = left.pop()
                running.append((begin(free.pop()), done))
            for run, done in [(r, done) for r, done in running if r.late or not r.process.is_alive()]:
                running.remove((run, done))
                done(run, run.end())
                free.append(run.copy)
            time.sleep(0.05)
        return True
    finally:
        for run, _ in running:
            run.end()


def test_all(plan: Plan, chosen: Sequence[Mutant], ledger: Ledger, jobs: int, until: float) -> bool:
    """Test the mutants that are not in the ledger. False if the time was up before all were."""
    todo = [mutant for mutant in chosen if (str(mutant), digest(mutant)) not in ledger.done]
    tests = dict.fromkeys(m.module.tests for m in todo if m.module.tests not in ledger.baselines)
    multiprocessing.get_context("forkserver").set_forkserver_preload(["pytest", *plan.preloaded])
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        copies = Copy.several(plan, Path(folder), min(jobs, len(todo)) or 1)
        return in_parallel(copies, [unchanged(each, ledger) for each in tests], until) and in_parallel(
            copies, [changed(mutant, ledger) for mutant in todo], until
        )


def unchanged(tests: tuple[str, ...], ledger: Ledger) -> Task:
    """Run tests of the sources as they are, to see how long they take and which fail here anyway."""

    def note(run: Run, ended: dict[str, Any]) -> None:
        if ended["code"] not in (0, 1):
            print(run.answer.with_suffix(".out").read_text("utf-8", "replace")[-3000:])
            sys.exit(f"These tests do not run without a change: {' '.join(tests)}")
        ledger.add_baseline(tests, Baseline(round(run.took, 1), tuple(ended["failed"])))

    return lambda copy: copy.begin(None, tests, MOST_SECONDS), note


def changed(mutant: Mutant, ledger: Ledger) -> Task:
    """Run a mutant's tests until one fails."""

    def begin(copy: Copy) -> Run:
        baseline = ledger.baselines[mutant.module.tests]
        options = [*mutant.module.tests, "-x", *(f"--deselect={test}" for test in baseline.red)]
        return copy.begin(mutant, options, PATIENCE * baseline.seconds + GRACE)

    def note(run: Run, ended: dict[str, Any]) -> None:
        outcome = Outcome.of(run, ended)
        ledger.add(outcome)
        if outcome.outcome != "killed":
            print(f"{outcome.outcome}: {outcome.mutant}", flush=True)

    return begin, note


# ------------------------------------------------------------------------------------------------------------------- command


def report(plan: Plan, chosen: Sequence[Mutant], ledger: Ledger) -> list[str]:
    """Print a table by module. Returns the survivors that nobody has explained."""
    done = {m: ledger.done.get((str(m), digest(m))) for m in chosen}
    width = max((len(module.path) for module in plan.modules), default=0)
    print(f"{'':{width}}  killed  timed out  survived  of these allowed  not run")
    for module in plan.modules:
        outcomes = [outcome for mutant, outcome in done.items() if mutant.module == module]
        fates = Counter(outcome.outcome for outcome in outcomes if outcome)
        allowed = sum(o.outcome == "survived" and o.mutant in plan.allowed for o in outcomes if o)
        numbers = f"{fates['killed']:6}  {fates['timed out']:9}  {fates['survived']:8}  {allowed:16}"
        print(f"{module.path:{width}}  {numbers}  {outcomes.count(None):7}")
    for tests, baseline in ledger.baselines.items():
        if baseline.red:
            print(f"Left out, as they fail here without a change ({len(tests)} files): {', '.join(baseline.red)}")
    stale = [o.mutant for o in done.values() if o and o.outcome != "survived" and o.mutant in plan.allowed]
    if stale:
        print("Allowed to survive, and noticed now:", *stale, sep="\n  ")
    new = [o.mutant for o in done.values() if o and o.outcome == "survived" and o.mutant not in plan.allowed]
    if new:
        print(f"NOT EXPLAINED, {len(new)}: write a test, or a reason into the plan.", *new, sep="\n  ")
    return new


def main(arguments: Sequence[str] | None = None) -> int:
    """0: every mutant was noticed or may survive. 1: some survived. 3: the time was up; the same command goes on."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("plan", type=Path, help="which modules, which tests, and who may survive")
    parser.add_argument("--sample", type=int, help="test so many mutants, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="test mutants whose name has this text in it")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after that time")
    parser.add_argument("--resume", type=Path, help="JSON lines of what is done; made if it does not exist")
    parser.add_argument("--list", action="store_true", help="print the mutants, and run nothing")
    given = parser.parse_args(arguments)
    until = time.monotonic() + given.seconds
    plan = read(given.plan)
    chosen = [mutant for module in plan.modules for mutant in mutants(plan, module) if given.only in str(mutant)]
    random.Random(given.seed).shuffle(chosen)
    chosen = chosen[: given.sample]
    if given.list:
        print(*chosen, sep="\n")
        return 0
    ledger = Ledger(given.resume and given.resume.resolve())
    finished = test_all(plan, chosen, ledger, given.jobs, until)
    new = report(plan, chosen, ledger)
    return 1 if new and finished else 3 if not finished else 0


if __name__ == "__main__":
    sys.exit(main())
