"""Exercises on what autograd keeps for the backward pass."""

from __future__ import annotations

from course_lib.catalogue import say
from course_lib.criteria import Correct, correct
from course_lib.exercise import Effort, Exercise
from course_lib.exercises.cases import fixed
from course_lib.exercises.recomputation.oracles import kept_bytes
from course_lib.mistakes import every, miscounted

QUESTIONS = {
    "x + y": ("add", [64, 32]),
    "x * y": ("multiply", [64, 32]),
    "relu(x)": ("relu", [64, 32]),
    "three sigmoids": ("three sigmoids", [64, 32]),
    "gelu(x)": ("gelu", [64, 32]),
    "gelu(x @ w1) @ w2": ("mlp", [64, 32, 128]),
}

LONG = "twenty sigmoids"

kept_tensors = Exercise(
    id="recomputation.kept_tensors",
    signature="kept_tensors: dict[str, int]",
    kind="values",
    effort=Effort(minutes=5, lines=6, difficulty=2),
    cases=[fixed("six expressions", "plain")],
    oracle=lambda: {say: kept_bytes(*work) // (4 * 64 * 32) for say, work in QUESTIONS.items()},
    criteria=[Correct("plain", 3, say("recomputation.kept_tensors.title_plain"))],
    mistakes=[
        miscounted(
            {
                **{("x + y", n): say("recomputation.kept_tensors.of_a_sum") for n in (1, 2)},
                **{("x * y", n): say("recomputation.kept_tensors.of_a_product") for n in (1, 2)},
                ("relu(x)", 0): say("recomputation.kept_tensors.of_relu"),
                **{("three sigmoids", n): say("recomputation.kept_tensors.of_sigmoids") for n in (0, 1, 2)},
                ("gelu(x)", 1): say("recomputation.kept_tensors.of_gelu"),
                ("gelu(x @ w1) @ w2", 2): say("recomputation.kept_tensors.four_times_as_large"),
                ("gelu(x @ w1) @ w2", 4): say("recomputation.kept_tensors.of_the_mlp"),
                ("gelu(x @ w1) @ w2", 1): say("recomputation.kept_tensors.of_the_mlp"),
            }
        )
    ],
)

saved_bytes = Exercise(
    id="recomputation.saved_bytes",
    signature="saved_bytes(fn, *inputs) -> int",
    kind="formula",
    called="on a chain",
    effort=Effort(minutes=10, lines=9, difficulty=3),
    track="more",
    cases=[
        fixed("relu", "plain", name="relu", sizes=[30, 17]),
        fixed("three sigmoids", "plain", name="three sigmoids", sizes=[30, 17]),
        fixed("a gated GELU", "plain", name="gated gelu", sizes=[9, 40]),
        fixed("a sum", "inputs", name="add", sizes=[30, 17]),
        fixed("a product", "inputs", name="multiply", sizes=[30, 17]),
        fixed("an MLP", "inputs", name="mlp", sizes=[11, 8, 32]),
        fixed("one tensor, kept twice", "shared", name="one exponential, twice", sizes=[12, 5]),
        fixed("views of inputs", "shared", name="a product of views", sizes=[12, 5]),
        fixed("a row for all rows", "shared", name="a row for all", sizes=[12, 5]),
        fixed("half of a tensor", "shared", name="a product with half", sizes=[12, 5]),
        fixed("twenty sigmoids", "shared", name=LONG, sizes=[64, 128]),
        fixed("half precision", "others", name="sigmoid in half precision", sizes=[12, 5]),
        fixed("no gradients", "others", name="without grad", sizes=[12, 5]),
    ],
    oracle=kept_bytes,
    criteria=correct("recomputation.saved_bytes", {"plain": 2, "inputs": 1, "shared": 2, "others": 1}),
    mistakes=[
        every(
            lambda out, name, sizes: out == kept_bytes(name, sizes, inputs=True),
            say("recomputation.saved_bytes.inputs_count"),
        ),
        every(
            lambda out, name, sizes: (
                (out < kept_bytes(name, sizes)) if name == LONG else out == kept_bytes(name, sizes)
            ),
            say("recomputation.saved_bytes.keeps_nothing_and_meets_addresses_again"),
        ),
    ],
)
