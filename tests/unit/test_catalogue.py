"""The sentences of the course: each is said by some code, with its parameters, and a check says them in another language as well."""

from pathlib import Path

from sentences import misfits

import course_lib
from tritontrace.messages import Catalogue

PACKAGE = Path(course_lib.__file__).parent


def test_each_sentence_is_said_and_with_its_parameters():
    assert misfits(Catalogue.read(PACKAGE / "catalogue").sentences, PACKAGE.rglob("*.py")) == []
