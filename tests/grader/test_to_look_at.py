"""A class's flags in a terminal: what one student has twelve times is one line, and so is what thirty students have."""

from grader.gradebook import to_look_at


def missing(student, count):
    return [(student, f"toy.e{n}", f"The check cell of `toy.e{n}` is missing.") for n in range(count)]


def test_one_student_s_flags_of_a_kind_are_one_line():
    flags = [*missing("ada", 12), ("ada", "toy.e3", "Cell 4 is a raw cell; it was read as code.")]
    first, second = to_look_at.lines(flags)
    assert "ada" in first and "12 times" in first and "toy.e11" in first
    assert second == "to look at: ada: toy.e3: Cell 4 is a raw cell; it was read as code."


def test_several_sentences_about_one_exercise_are_each_a_line():
    names = [
        ("ada", "toy.e1", f"`{name}`, which it needs, is defined in no cell.") for name in ("tl", "triton", "torch")
    ]
    lines = to_look_at.lines([*names, names[0], ("ada", "toy.e2", names[0][2])])
    assert len(lines) == 3 and all(sum(flag[2] in line for line in lines) == 1 for flag in names)
    assert "2 times in toy.e1, toy.e2: `tl`" in " ".join(lines)


def test_what_many_students_have_is_one_line():
    flags = [flag for n in range(29) for flag in missing(f"s{n:02}", 1)]
    (line,) = to_look_at.lines(flags)
    assert "29 students" in line and "s00" in line and "s28" in line
    assert len(to_look_at.lines(flags[:3])) == 3


def test_no_more_lines_than_a_person_reads():
    flags = [(f"s{n:03}", "toy.e", f"Something that nobody else has: {'x' * n}.") for n in range(100)]
    told = to_look_at.lines(flags)
    assert len(told) == to_look_at.MOST + 1 and "70 more" in told[-1]
    assert to_look_at.lines([]) == []
