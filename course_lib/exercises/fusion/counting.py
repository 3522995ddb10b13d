"""Bytes and launches of chains of operations, counted and predicted."""

from __future__ import annotations

from collections.abc import Sequence

from course_lib.catalogue import say
from course_lib.criteria import Correct, correct
from course_lib.exercise import Case, Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.fusion.mistakes import STORES_ONE, one_store_each
from course_lib.hardware import inductor
from course_lib.mistakes import every, miscounted
from course_lib.workloads.chains import CHAINS, traced_bytes


def chain(name: str, group: str, fused: Sequence[int], n: int = 1000, itemsize: int = 4) -> Case:
    """Make a case about a chain of operations, cut into kernels."""
    given = {"n": n, "ops": CHAINS[name], "itemsize": itemsize, "fused": list(fused)}
    return Case(f"{name} in kernels of {list(fused)}", group, lambda g: given)


chain_bytes = Exercise(
    id="fusion.chain_bytes",
    signature="chain_bytes(n: int, ops: list[list[str]], itemsize: int, fused: list[int]) -> int",
    kind="formula",
    effort=Effort(minutes=15, lines=8, difficulty=3),
    track="more",
    cases=[
        *(chain(name, "one by one", [1] * len(ops)) for name, ops in CHAINS.items()),
        *(chain(name, "all in one", [len(ops)], itemsize=2) for name, ops in CHAINS.items()),
        chain("sin² + cos²", "cuts", [2, 3]),
        chain("sin² + cos²", "cuts", [4, 1], 777, 2),
        chain("sin² + cos²", "cuts", [1, 3, 1]),
        chain("bias, GELU, dropout, residual", "cuts", [2, 1, 1]),
        chain("SwiGLU", "cuts", [1, 1, 2]),
        chain("SwiGLU", "cuts", [3, 1], 64, 8),
    ],
    oracle=traced_bytes,
    without=["course_lib.workloads.chains"],
    criteria=correct("fusion.chain_bytes", {"one by one": 2, "all in one": 2, "cuts": 2}),
    mistakes=[every(one_store_each, STORES_ONE)],
)

predicted_launches = Exercise(
    id="fusion.predicted_launches",
    signature="predicted_launches: dict[str, int]",
    kind="values",
    effort=Effort(minutes=10, lines=7, difficulty=2),
    cases=[fixed("seven functions", "plain")],
    oracle=lambda: inductor.recorded_launches(),
    criteria=[Correct("plain", 7, say("fusion.predicted_launches.title_plain"))],
    mistakes=[
        miscounted(
            {
                **{("sin2_plus_cos2", n): say("fusion.predicted_launches.element_by_element") for n in range(2, 6)},
                **{("softmax", n): say("fusion.predicted_launches.a_whole_row") for n in range(2, 6)},
                **{("add_rmsnorm", n): say("fusion.predicted_launches.two_results") for n in range(2, 8)},
                ("product_gelu", 1): say("fusion.predicted_launches.a_librarys_product"),
                ("over_its_sum", 1): say("fusion.predicted_launches.the_whole_sum_first"),
                ("over_its_sum", 2): say("fusion.predicted_launches.parts_of_the_sum"),
                ("print_between", 1): say("fusion.predicted_launches.print_wants_it"),
                ("print_between", 3): say("fusion.predicted_launches.print_is_no_kernel"),
                ("attention", 1): say("fusion.predicted_launches.products_stay_apart"),
                ("attention", 2): say("fusion.predicted_launches.products_stay_apart"),
                **{("attention", n): say("fusion.predicted_launches.softmax_between") for n in range(4, 8)},
            }
        )
    ],
)
