"""People in the class: what rosters say, kept where nbgrader's gradebook has a field for it, else in roster.json next to it.

    gradebook.db    name, email, and the LMS's id
    roster.json     student -> further ids, login, section, group

The LMS's id is the identity: whoever is known by the same id is that student, whatever the name is now. Moodle counts
participants anew in each assignment, so a student may have several.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from grader import disk
from grader.gradebook import results
from grader.gradebook.results import Entry
from grader.judging.submission import as_letters
from grader.lms.rosters import Person

MAX_STUDENT = 100  # letters
MAX_BYTES = 240  # of those letters: a folder's name may have 255


@dataclass(frozen=True)
class Member:
    """A roster's facts about a student besides name and email. ids: the LMS's."""

    ids: list[str] = field(default_factory=list)
    login: str = ""
    sis: str = ""
    section: str = ""
    group: str = ""


class PersonKeys(NamedTuple):
    """Keys by which somebody is known: the LMS's ids, and what else only one person has (login, email, number, student id)."""

    ids: Sequence[str]
    names: Sequence[str]


class Absent(NamedTuple):
    """A person in the class who has not handed in anything."""

    student: str
    name: str


@dataclass
class Enrolled:
    """Result of an import of a roster.
    students, new    in the class by this roster, and who of them is new to the gradebook;  remarks  sentences"""

    students: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


def members(home: Path) -> dict[str, Member]:
    """Return what rosters have said of each student, for everybody in one."""
    kept = disk.read(home / "roster.json")
    return {student: Member(**told) for student, told in kept.items()}


def known(home: Path) -> dict[str, str]:
    """Map each LMS id to the student with it. An id that several students have is left out."""
    if not (home / "gradebook.db").exists():
        return {}
    kept, by_id = members(home), defaultdict(set)
    with results.book(home) as book:
        for student in book.students:
            for id in {student.lms_user_id or "", *kept.get(student.id, Member()).ids}:
                by_id[id].add(student.id)
    return {id: min(students) for id, students in by_id.items() if id and len(students) == 1}


def student_id(name: str) -> str:
    """Convert a name to a folder's and nbgrader's student id: letters with their marks, digits, dashes, dots, underscores, @."""
    kept = re.compile(r"[\w.@-]")
    told = "".join(c if kept.match(letter) else " " for c, letter in zip(name, as_letters(name), strict=True))
    return "-".join(told.split()).strip(".-")[:MAX_STUDENT].encode()[:MAX_BYTES].decode(errors="ignore")


def missing(home: Path, unit: str, entries: Iterable[Entry]) -> list[Absent]:
    """List those who are in a roster and in the gradebook, and have handed in nothing in this unit, by id."""
    kept = members(home)
    if not kept:
        return []
    there = {entry.student for entry in entries}

    def handed_in(name: str) -> bool:
        return name in there or (home / "submitted" / name / unit / f"{unit}.ipynb").exists()

    with results.book(home) as book:
        return sorted(
            Absent(student.id, " ".join(filter(None, (student.first_name, student.last_name))) or student.id)
            for student in book.students
            if student.id in kept
            # the exchange calls them by their login
            if not any(map(handed_in, filter(None, (student.id, student_id(kept[student.id].login)))))
        )


def matched(people: Sequence[PersonKeys], students: Mapping[str, PersonKeys]) -> list[list[str]]:
    """Match people to students: for each person the students who they may be, none if nobody, several if there is a doubt.

    The LMS's id decides. By another name are found those whom no id finds; one that several of the people have finds nobody.
    """

    def folded(keys: Iterable[str]) -> set[str]:
        return {key.strip().casefold() for key in keys} - {""}

    by_id, by_name = defaultdict(set), defaultdict(set)
    for student, (ids, names) in students.items():
        for found, keys in ((by_id, ids), (by_name, names)):
            for key in folded(keys):
                found[key].add(student)
    keyed = [(folded(ids), folded((*ids, *names))) for ids, names in people]
    shared = {name for name, count in Counter(name for _, names in keyed for name in names).items() if count > 1}
    by_ids = [set().union(*(by_id.get(id, ()) for id in ids)) for ids, _ in keyed]
    elsewhere = set().union(*by_ids)
    told = []
    for (_, names), sure in zip(keyed, by_ids, strict=True):
        named = set().union(*(by_name.get(name, ()) for name in names - shared)) - elsewhere
        told.append(sorted(sure | {student for student in named if not sure or not any(students[student].ids)}))
    return told


def enrol(home: Path, people: list[Person], *, by_login: bool = False, replace: bool = False) -> Enrolled:
    """Enter a class list into the gradebook. Whoever is known keeps their student id, work and marks.

    by_login    newcomers are called by their login, as nbgrader's exchange calls them; else as `import` would
    replace     who is not among the people leaves the class
    """
    done, kept = Enrolled(), members(home)
    with results.book(home) as book:
        there = {}
        for student in book.students:
            member = kept.get(student.id, Member())
            ids = [id for id in dict.fromkeys((*member.ids, student.lms_user_id)) if id]
            there[student.id] = PersonKeys(ids, (student.id, student.email or "", member.login, member.sis))
        chosen = _chosen(people, there, by_login, done)
        for id, person in chosen.items():
            told = {
                "first_name": person.first,
                "last_name": person.last,
                "email": person.email,
                "lms_user_id": person.id,
            }
            book.update_or_create_student(id, **{name: value for name, value in told.items() if value})
            before, ids = kept.get(id, Member()), there[id].ids if id in there else ()
            kept[id] = Member(
                ids=[id for id in dict.fromkeys((*ids, person.id)) if id],
                login=person.login or before.login,
                sis=person.sis or before.sis,
                section=before.section if person.section is None else person.section,
                group=before.group if person.group is None else person.group,
            )
    done.students, done.new = sorted(chosen), sorted(set(chosen) - set(there))
    others = sorted((set(kept) & set(there)) - set(chosen))
    if replace:
        kept = {id: kept[id] for id in chosen}
    elif others:
        done.remarks.append(
            f"In the class, and not in this file: {', '.join(others)}. If they have left, add --replace."
        )
    if not any(person.id for person in people):
        done.remarks.append(
            "This file has no ids of the LMS, by which its export of submissions says who is who: "
            "import Canvas's gradebook or Moodle's grading worksheet as well."
        )
    disk.write({home / "roster.json": json.dumps({id: asdict(m) for id, m in sorted(kept.items())}, indent=1).encode()})
    return done


def _chosen(people: list[Person], there: Mapping[str, PersonKeys], by_login: bool, done: Enrolled) -> dict[str, Person]:
    """Match students with people, and add a remark on each person who is left out."""
    called = [_called(person, by_login) for person in people]
    told = [
        PersonKeys([person.id], (person.login, person.email, person.sis, name))
        for person, name in zip(people, called, strict=True)
    ]
    claims = defaultdict(list)
    for person, name, found in zip(people, called, matched(told, there), strict=True):
        if len(found) > 1:
            sure = [student for student in found if person.id in there[student].ids]
            counts = f"{sure[0]} has the LMS's id, and is in the class" if len(sure) == 1 else "left out"
            mend = "Remove who does not count (`nbgrader db student remove NAME --force`)."
            done.remarks.append(f"{person.name} is known as {' and '.join(found)}: {counts}. {mend}")
            found = sure
            if len(sure) != 1:
                continue
        if not found and name in there:
            done.remarks.append(f"{person.name} would be called {name}, as somebody else is; left out.")
        elif not found and not name:
            done.remarks.append(f"{person.name} has no {'login' if by_login else 'id, login or email'}; left out.")
        else:
            claims[found[0] if found else name].append(person)
    for student, persons in claims.items():
        if len(persons) > 1:
            names = " and ".join(person.name for person in persons)
            done.remarks.append(f"{names} would both be {student}; both were left out.")
    return {student: persons[0] for student, persons in claims.items() if len(persons) == 1}


def _called(person: Person, by_login: bool) -> str:
    """The student id of a newcomer; with the LMS's id as `import` makes it from the name of a file."""
    if by_login:
        return student_id(person.login)
    if person.moodle:
        return student_id(f"{person.first} {person.last}_{person.id}")
    if person.id:
        return student_id(f"{student_id(person.last + person.first).replace('-', '').lower()}_{person.id}")
    return student_id(person.login or person.email)
