"""Plans for an autograde: what it is about to judge anew, and what the marks were before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.exercises import UNITS
from grader.cohort import copies, frozen
from grader.cohort.changes import ChangedMarks
from grader.gradebook import amended, counts, results
from grader.gradebook.results import Entry
from grader.judging import verdicts

NAMES = 30  # students that a sentence names


@dataclass(frozen=True)
class Plan:
    """The plan of one autograde of a unit.

    students   whose submissions are judged and entered;  said  sentences to show before
    anew       whether what was graded is judged by other code, exercises or points
    """

    home: Path
    unit: str
    students: Collection[str]
    said: Sequence[str]
    changes: ChangedMarks
    anew: bool

    def snapshot(self) -> Path | None:
        """Copy the gradebook, where marks may change; return the copy, or None."""
        if not self.anew:
            return None
        return copies.snapshot(
            self.home, self.unit, verdicts.code_version(UNITS[self.unit]), resumed=self.changes.resumed
        )

    def entered(self, student: str) -> None:
        """Log the changes in the student's entry, if there was one before."""
        if student in self.changes.before:
            self.changes.entered(results.entry(self.home, self.unit, student))

    def changed(self) -> dict[str, str]:
        """Return the changes by student, for those who had been graded and have other points now. Call `changes.shown` when they have been
        read."""
        return self.changes.told(_entries(self.home, self.unit))


def planned(
    home: Path,
    unit: str,
    found: Mapping[str, Path],
    only: Collection[str] = (),
    device: str = verdicts.NO_GPU,
    places: Sequence[str] = (),
) -> Plan:
    """Plan which of the submissions found are judged. only: the students to judge, even in a unit that is frozen; all if empty.

    device   the GPU that judges, as verdicts.device() has it;  places = verdicts.place() of each worker

    Raises ValueError, with a sentence, if one of them has handed in nothing, or if one alone cannot be judged: the gradebook has one
    structure for all.
    """
    if missing := sorted(set(only) - set(found)):
        raise ValueError(f"{', '.join(missing)}: no submission of {unit} under submitted/.")
    if only and amended.is_due(home, unit) and any(results.entered(home, unit, s) for s in found if s not in only):
        raise ValueError(
            f"{unit} has other exercises or points than when it was graded, which changes everybody's marks: run "
            f"`python -m grader autograde {unit}` without --student first. Nothing was changed."
        )
    students, said, entries = set(only) or set(found), [], _entries(home, unit)
    entered = {s: known for s in found if (known := results.entered(home, unit, s))}
    again = {s for s in entered if found[s].lstat().st_mtime > results.entered_path(home, unit, s).stat().st_mtime}
    code = verdicts.code_version(UNITS[unit])
    old = {s for s in entered if entered[s].get("code") != code}
    moved = {s for s in set(entered) - old if entered[s].get("conditions") != verdicts.conditions(device)}
    structure, since, exported = amended.is_due(home, unit), frozen.since(home, unit), frozen.exported(home, unit)
    if since and not only:
        students -= set(entered)
        said.append(
            f"{unit} is frozen since {since}: the marks of {len(entered)} students stay as they are, and {len(students)} "
            f"submissions are judged. `python -m grader freeze {unit} --thaw` ends that; --student NAME judges one."
        )
        said += [f"{s} has handed in again since; --student {s} judges it." for s in sorted(again)]
    elif exported and not only and (stay := {s for s in (old | moved) - again if s in entries and entries[s].marked}):
        students -= stay
        said.append(
            f"The marks of {unit} were exported on {exported}, and the course, torch, Triton or the machine has changed since: the "
            f"marks of {len(stay)} students stay as they are. `python -m grader autograde {unit} --dry-run` says whose would change; "
            f"`python -m grader freeze {unit} --thaw` lets them."
        )
    if structure and set(entered) - students:
        raise ValueError(
            f"{unit} has other exercises or points than when it was graded, which changes everybody's marks, and they are to stay as "
            f"they are. Nothing was changed. `python -m grader freeze {unit} --thaw` lets them change, and `autograde {unit} "
            "--dry-run` says before whose would."
        )
    if anew := old & students:
        said.append(
            f"The course, torch or Triton has changed since {len(anew)} of {len(students)} submissions were judged: they are "
            "judged anew, and marks may change; who was concerned is listed at the end. "
            f"`python -m grader freeze {unit}` keeps marks as they are, and --dry-run only says whose would change."
        )
    said += _elsewhere(moved & students, students, entries, places)
    anew |= moved & students
    return Plan(home, unit, students, said, ChangedMarks(home, unit, entries), bool(entered and (anew or structure)))


def upcoming(home: Path, unit: str) -> list[str]:
    """Say what an autograde will do to everybody's maximum, and whether it will refuse that, for a dry run, which refuses nothing."""
    before, now = sum(amended.worth_in_the_book(home, unit).values()), counts.of(home, unit).out_of
    if not (ids := amended.changed(home, unit)):
        return []
    sentences = [f"{', '.join(ids)}: not as when {unit} was graded, and for everybody."]
    if now != before:
        sentences.append(
            f"The maximum of {unit} changes from {before:g} to {now:g} points for everybody: a mark that stays as it is becomes "
            "another percentage."
        )
    if day := frozen.since(home, unit) or frozen.exported(home, unit):
        sentences.append(
            f"Marks were exported or frozen on {day}, so `python -m grader autograde {unit}` refuses this until `python -m grader freeze "
            f"{unit} --thaw`."
        )
    return sentences


def _elsewhere(
    moved: Collection[str], students: Collection[str], entries: Mapping[str, Entry], places: Sequence[str]
) -> list[str]:
    """Say whose marks can change since they are judged on another machine than before, and whether those that judge are alike."""
    here, sentences = Counter(places), []
    if moved:
        who = f"all {len(moved)}" if set(moved) == set(students) else f"{', '.join(sorted(moved)[:NAMES])}"
        more = f" and {len(moved) - NAMES} more" if len(moved) > NAMES and who[:3] != "all" else ""
        before = sorted({on for s in moved if s in entries for on in entries[s].on})
        sentences.append(
            f"Judged before on {'; '.join(before) or 'another machine'}, and now on {'; '.join(here)}: {who}{more}. They are judged anew, "
            "and marks can change: extra credit for speed, and results at the edge of what rounding may do."
        )
    if len(here) > 1:
        each = "; ".join(f"{count} on {place}" for place, count in here.most_common())
        sentences.append(
            f"The workers are not alike: {each}. A mark at the edge of what rounding may do can depend on who judges; the table says on "
            "what each was given."
        )
    return sentences


def _entries(home: Path, unit: str) -> dict[str, Entry]:
    try:
        return {entry.student: entry for entry in results.gradebook(home, unit)}
    except results.NotGraded:
        return {}
