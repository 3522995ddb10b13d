"""What unit 04 recognises in results."""

from course_lib.exercise import Evidence, Trial
from course_lib.exercises import coalescing as C


def trials(sum_of):
    found = []
    for case in C.column_sum.cases[:5]:
        arguments = case.arguments(3)
        found.append(Trial(case, [arguments], Evidence(case.name, outputs=[sum_of(arguments["x"].float())])))
    return found


def test_a_total_that_is_replaced_is_the_sum_of_the_last_rows():
    last = C.mistakes.the_last_rows_alone(trials(lambda x: x[(len(x) - 1) // 32 * 32 :].sum(0)))
    assert "`total =` where `total +=` is meant?" in last
    for other in (lambda x: x.sum(0), lambda x: x[:64].sum(0), lambda x: x.sum(1), lambda x: None):
        assert C.mistakes.the_last_rows_alone(trials(other)) == ""
