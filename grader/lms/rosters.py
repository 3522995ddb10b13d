"""Class lists, read from the CSV that an LMS exports. enrolled.py keeps what they say; exports.py fills them in.

    Canvas   the gradebook: Student, or LastName and FirstName; ID, SIS User ID, SIS Login ID, Section
             the groups: name, canvas_user_id, user_id, login_id, sections, group_name
    Moodle   an assignment's grading worksheet: Identifier ("Participant 123"), Full name, Email address, Grade
             a course's participants: First name, Last name, Email address, Groups

Canvas has one language in its files, Moodle that of who exports. A column is known by what the instructor says, by its
name in four languages, or by what stands in it.

(Sources: Canvas's lib/gradebook_exporter.rb, Moodle's mod/assign/gradingtable.php and language packs.)
"""

from __future__ import annotations

import csv
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

FIELDS = {
    "id": "ID, canvas_user_id",
    "identifier": "Identifier, Identifiant, Identificador",
    "name": "Student, Name, Full name, Vollständiger Name, Nom complet, Nombre completo",
    "first": "First name, Vorname, Prénom, Nombre",
    "last": "Last name, Surname, Nachname, Nom, Nom de famille, Apellido, Apellidos",
    "email": "Email address, Email, E-Mail-Adresse, Adresse de courriel, Courriel, Adresse e-mail, Adresse électronique,"
    "Dirección de correo, Dirección de correo electrónico, Dirección Email, Correo electrónico, Correo",
    "login": "SIS Login ID, login_id, Username, Anmeldename, Nom d'utilisateur, Nombre de usuario",
    "sis": "SIS User ID, user_id, ID number, ID-Nummer, Numéro d'identification, Número de ID, Número de identificación",
    "section": "Section, Sections",
    "group": "group_name, Group, Groups, Gruppe, Gruppen, Groupe, Groupes, Grupo, Grupos",
    "modified": "Last modified (submission), Zuletzt geändert (Abgabe), Dernière modification (travail remis),"
    "Última modificación (entrega)",
    "grade": "Grade, Bewertung, Note, Calificación",
    "maximum": "Maximum Grade, Bestwertung, Note maximale, Calificación máxima",
    "feedback": "Feedback comments, Feedback als Kommentar, Feedback als Kommentare, Feedback par commentaires,"
    "Comentarios de retroalimentación",
}
LMS = {  # what it calls its columns, in English
    "canvas": {"name": "Student", "id": "ID", "sis": "SIS User ID", "login": "SIS Login ID", "section": "Section"},
    "moodle": {
        "identifier": "Identifier",
        "name": "Full name",
        "email": "Email address",
        "sis": "ID number",
        "grade": "Grade",
        "maximum": "Maximum Grade",
        "feedback": "Feedback comments",
    },
}
NUMBERED = re.compile(r"(\D+)\d+")  # "Participant 123", "Teilnehmer/in123"
EMAIL = re.compile(r"([^@\s]+@[^@\s]+)")
CANVAS_TEST = re.compile(r"[0-9a-f]{40}")  # the login of "Student, Test", by whom an instructor sees what students see


MONTHS = "jan ene, feb fév, mar mär, apr avr abr, may mai, jun juin, jul juil, aug aoû ago, sep, oct okt, nov, dec dez déc dic"
TIME = r"\D*?(?P<hour>\d{1,2}):(?P<minute>\d{2})(?:\s*(?P<half>[AaPp])\.?[Mm])?"
DATES = (  # in Moodle's languages, and as the US write it
    r"(?P<day>\d{1,2})\.?\s+(?:de\s+)?(?P<month>[^\W\d]+)\.?\s+(?:de\s+)?(?P<year>\d{4})",
    r"(?P<month>[^\W\d]+)\s+(?P<day>\d{1,2}),\s+(?P<year>\d{4})",
)


class NotARoster(ValueError):
    """Raised, with a message, where the file is not what an LMS exports, or its columns are not known."""


@dataclass(frozen=True)
class Person:
    """A person in a class list.

    id    the number by which the LMS names submissions;  moodle = it is Moodle's, which is another in each assignment
    section, group    None if no column says it
    """

    id: str = ""
    first: str = ""
    last: str = ""
    email: str = ""
    login: str = ""
    sis: str = ""
    section: str | None = None
    group: str | None = None
    moodle: bool = False

    @property
    def name(self) -> str:
        full = ", ".join(filter(None, (self.last, self.first)))
        return full or next(filter(None, (self.login, self.email, self.id, self.sis)), "a row without a name")


@dataclass(frozen=True)
class Roster:
    """A class list as a table."""

    path: Path
    columns: list[str]
    rows: list[dict[str, str]]
    fields: dict[str, str]

    def of_lms(self, lms: str, *needed: str) -> list[dict[str, str]]:
        """Return the rows by the English names of an LMS's columns; others keep theirs. Raises NotARoster without the `needed` fields."""
        for field in needed:
            if field not in self.fields and not (field == "name" and "last" in self.fields):
                raise NotARoster(f"{self.path} has no column {LMS[lms][field]!r}{self._there(field)}")
        names = {column: name for name, column in self.names(lms).items()}
        rows = [{names.get(column, column): value for column, value in row.items()} for row in self.rows]
        if lms == "canvas" and "name" not in self.fields:
            parts = [self.fields[field] for field in ("last", "first") if field in self.fields]
            rows = [{"Student": ", ".join(filter(None, (row.pop(part) for part in parts)))} | row for row in rows]
        return rows

    def names(self, lms: str) -> dict[str, str]:
        """Map the English name of an LMS's column to the column in the file."""
        return {name: self.fields[field] for field, name in LMS[lms].items() if field in self.fields}

    def people(self) -> list[Person]:
        """List everybody in the roster, once. Raises NotARoster if it names nobody, or does not say who they are in the LMS."""
        if not {"name", "last"} & set(self.fields):
            raise NotARoster(f"{self.path} has no column with names{self._there('name')}")
        if not {"id", "identifier", "email", "login", "sis"} & set(self.fields):
            raise NotARoster(f"{self.path} has no column with ids, logins or email addresses{self._there('email')}")
        people = [person for row in self.rows if (person := self._person(row))]
        if not people:
            raise NotARoster(f"{self.path} names nobody.")
        return list(_once(people))

    def times(self) -> dict[str, datetime]:
        """Map each LMS id to when that person handed in, from Moodle's worksheet, in the time zone of who exported it, which is taken for
        this machine's. Raises NotARoster if no column has it."""
        if not {"id", "identifier"} & set(self.fields) or "modified" not in self.fields:
            raise NotARoster(f"{self.path} has no column with times of submissions{self._there('modified')}")
        column, id = self.fields["modified"], self.fields.get("identifier") or self.fields["id"]
        return {number(row[id]): when for row in self.rows if (when := _written(_clean(row[column])))}

    def _person(self, row: Mapping[str, str]) -> Person | None:
        told = {field: _clean(row[column]) for field, column in self.fields.items()}
        name, first, last = (told.get(field, "") for field in ("name", "first", "last"))
        if "Points Possible" in (name or last):
            return None
        if not first and not last:
            last, comma, first = (part.strip() for part in name.partition(","))
            if not comma:
                first, _, last = name.rpartition(" ")
        person = Person(
            id=number(told["identifier"]) if "identifier" in told else told.get("id", ""),
            first=first,
            last=last,
            **{field: told.get(field, "") for field in ("email", "login", "sis")},
            section=told.get("section"),
            group=told.get("group"),
            moodle="identifier" in told,
        )
        # Canvas has a row "Manual Posting"
        nobody = not any((person.id, first, last, person.email, person.login, person.sis))
        tester = person.name == "Student, Test" and (
            CANVAS_TEST.fullmatch(person.login) or not (person.sis or person.login)
        )
        return None if nobody or tester else person

    def _there(self, field: str) -> str:
        columns = ", ".join(self.columns)[:200]
        return f"; it has: {columns}. If one of these is that, say so: --field {field}=COLUMN."


def _clean(cell: str) -> str:
    """A cell in one line, its accents composed as those of `import` are."""
    printable = "".join(c if c.isprintable() else " " for c in unicodedata.normalize("NFC", cell))
    return " ".join(printable.split())


def _written(cell: str) -> datetime | None:
    """A time as Moodle writes it: "Thursday, 3 December 2026, 9:15 AM". None if it is none, such as "-"."""
    if not (match := next(filter(None, (re.search(date + TIME, cell) for date in DATES)), None)):
        return None
    word, hour = match["month"].casefold(), int(match["hour"])
    month = next((m for m, begins in enumerate(MONTHS.split(", "), 1) if word.startswith(tuple(begins.split()))), 0)
    if match["half"]:
        hour = hour % 12 + 12 * (match["half"] in "Pp")
    try:
        return datetime(int(match["year"]), month, int(match["day"]), hour, int(match["minute"])).astimezone()
    except ValueError:
        return None


def number(identifier: str) -> str:
    """Return the digits of Moodle's participant number, whatever word precedes them."""
    return re.sub(r"\D", "", identifier)


def _once(people: Iterable[Person]) -> Iterable[Person]:
    """Put those with one id together: whoever is in several groups may have several rows."""
    by_id: dict[object, Person] = {}
    for row, person in enumerate(people):
        key = person.id or row
        before = by_id.get(key, person)
        both = {field: _both(getattr(before, field), getattr(person, field)) for field in ("section", "group")}
        by_id[key] = replace(before, **both)
    return by_id.values()


def _both(one: str | None, other: str | None) -> str | None:
    return one if one is None else ", ".join(dict.fromkeys(filter(None, (one, other))))


# ----------------------------------------------------------------------------------------------------- reading


def read(path: Path, said: Iterable[str] = ()) -> Roster:
    """Read a class list from CSV. said: "FIELD=COLUMN", where the instructor names a column. Raises NotARoster if it is no CSV."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = file.readline()
            file.seek(0)
            reader = csv.DictReader(file, restval="", delimiter=max(",;\t", key=header.count))
            rows = [{key: value for key, value in row.items() if key} for row in reader]
            columns = [name for name in reader.fieldnames or [] if name]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise NotARoster(f"{path} cannot be read as CSV ({error}).") from None
    return Roster(path, columns, rows, _fields(columns, rows, _said(path, columns, said)))


def _said(path: Path, columns: list[str], said: Iterable[str]) -> dict[str, str]:
    fields = {field: column for field, _, column in (pair.partition("=") for pair in said)}
    for field, column in fields.items():
        if field not in FIELDS:
            raise NotARoster(f"There is no field {field!r}. There are: {', '.join(FIELDS)}.")
        if column not in columns:
            raise NotARoster(f"{path} has no column {column!r}; it has: {', '.join(columns)[:200]}.")
    return fields


def _fields(columns: list[str], rows: list[dict[str, str]], said: dict[str, str]) -> dict[str, str]:
    """Find out what each column is: as said, by its name, or by what stands in it."""
    fields = dict(said)
    for column in columns:
        if (field := _NAMES.get(_plain(column))) and field not in fields and column not in fields.values():
            fields[field] = column

    def holds(column: str, pattern: re.Pattern[str]) -> list[str]:
        """The pattern's group in each cell that is not empty; [] if one of them does not match."""
        cells = [cell for row in rows if (cell := row[column].strip())]
        found = [match[1] for cell in cells if (match := pattern.fullmatch(cell))]
        return found if len(found) == len(cells) else []

    first = fields.get("id") or next((column for column in columns[:1] if column not in fields.values()), "")
    if first and first not in said.values() and "identifier" not in fields:  # Moodle's; also its German "ID"
        words = set(holds(first, NUMBERED))
        if len(words) == 1 and sum(map(str.isalpha, *words)) >= 3:
            fields = {field: column for field, column in fields.items() if column != first} | {"identifier": first}
    others = [column for column in columns if column not in fields.values()]
    if "email" not in fields and (addresses := [column for column in others if holds(column, EMAIL)]):
        fields["email"] = addresses[0]
    return fields


def _plain(name: str) -> str:
    """A column's name without case, accents, spaces and signs."""
    return "".join(c for c in unicodedata.normalize("NFKD", name).casefold() if c.isalnum())


_NAMES = {_plain(name): field for field, names in FIELDS.items() for name in names.split(",")}
