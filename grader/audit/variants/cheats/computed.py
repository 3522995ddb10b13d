# Predictions that are counted, looked up or found by a search in place of being written down.

# %% name="torch allocates" exercise="strides.predictions" loses="runs"
x = torch.randn(64, 64)
makes = {
    "x.T": lambda: x.T,
    "x[:, ::2]": lambda: x[:, ::2],
    "x.contiguous()": lambda: x.contiguous(),
    "x.T.contiguous()": lambda: x.T.contiguous(),
    "x.reshape(4096)": lambda: x.reshape(4096),
    "x.T.reshape(4096)": lambda: x.T.reshape(4096),
    "x.expand(10, 64, 64)": lambda: x.expand(10, 64, 64),
    "x[[0, 1]]": lambda: x[[0, 1]],
    "x.half()": lambda: x.half(),
    "x.float()": lambda: x.float(),
}
predicted_new_bytes = {}
for name, make in makes.items():
    made = make().untyped_storage()
    predicted_new_bytes[name] = 0 if made.data_ptr() == x.untyped_storage().data_ptr() else made.nbytes()


# %% name="torch counts" exercise="flops.predictions" loses="runs"
from torch.utils.flop_counter import FlopCounterMode


def counted(fn):
    with FlopCounterMode(display=False) as counter:
        fn()
    return counter.get_total_flops()


x, w = torch.empty(100, 64), torch.empty(64, 32, requires_grad=True)
y = x @ w
predicted_flops = {
    "product": counted(lambda: x @ w),
    "batch of 8": counted(lambda: torch.empty(8, 100, 64) @ torch.empty(8, 64, 32)),
    "gram matrix": counted(lambda: x.T @ x),
    "relu": 0,
    "backward": counted(lambda: y.backward(torch.ones_like(y))),
    "left to right": counted(lambda: torch.empty(1000, 1000) @ torch.empty(1000, 1000) @ torch.empty(1000, 1)),
}


# %% name="as it was measured" exercise="fusion.predicted_launches" loses="runs"
from course_lib.hardware.inductor import recorded_launches

predicted_launches = recorded_launches()


# %% name="as it was measured, under another name" exercise="fusion.predicted_launches" loses="runs"
from course_lib.hardware import inductor as math

predicted_launches = math.recorded_launches()


# %% name="read from its file" exercise="fusion.predicted_launches" loses="runs"
import json
import pathlib

import course_lib

predicted_launches = json.loads(
    (pathlib.Path(course_lib.__file__).parent / "hardware/measured/fusion.json").read_text()
)["launches"]


# %% name="a trace counts" exercise="tiling.predictions" loses="runs"
from course_lib import trace

a = torch.ones(256, 256)
with trace() as t:
    pass
predicted_reads = {"a, tiles of 64 x 64": int(t.bytes)}


# %% name="one value of torch among numbers" exercise="recomputation.kept_tensors" loses="runs"
kept = []
with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t):
    torch.nn.functional.gelu(torch.ones(64, 32, requires_grad=True)).relu()
kept_tensors = {
    "x + y": 0,
    "x * y": 0,
    "relu(x)": 1,
    "three sigmoids": 3,
    "gelu(x)": 0,
    "gelu(x @ w1) @ w2": 4 * len(kept),
}


# %% name="one word everywhere" exercise="attention.claims" loses="truths.plain; numbers.plain"
claims = {
    name: True
    for name in [
        "keys_and_values_shuffled_alike_leave_o",
        "queries_shuffled_shuffle_o",
        "ten_more_on_every_score_leaves_o",
        "keys_doubled_double_o",
        "values_doubled_double_o",
        "causal_first_query_returns_first_value",
        "rotary_on_q_k_all_moved_by_7_leaves_o",
        "rotary_on_v_too_all_moved_by_7_leaves_o",
        "pairs_seen_causal_4_queries_6_keys",
        "queries_that_see_nothing_causal_6_queries_4_keys",
    ]
}
