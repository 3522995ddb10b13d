"""Unit 00. What each variant must lose stands next to it; () means full marks."""

from course_lib.exercises.start import FIRST
from grader.audit.variants import kinds

wrong, honest = kinds("start")

EVEN, RAGGED, NO_WAIT = "correct.even", "correct.ragged", "correct.no wait"
WHOLE, PARTIAL, SMALL = "correct.whole", "correct.ragged", "correct.small"
TRUE = [
    "statement.more_warps_than_alus.plain",
    "statement.warp_shares_instruction.plain",
    "statement.caches_are_sram.plain",
    "statement.hbm_is_dram.plain",
    "statement.compute_outgrew_memory.plain",
    "statement.launch_returns_early.plain",
    "statement.ptx_is_translated.plain",
    "statement.weight_near_one.plain",
    "statement.residual_adds.plain",
    "statement.unembedding_widens.plain",
    "statement.gpus_before_cuda.plain",
    "statement.hbm_is_wide.plain",
    "statement.softmax_is_nonlinear.plain",
    "statement.clusters_share.plain",
    "statement.gates_remember.plain",
]
FALSE = [
    "statement.tensor_core_is_fma.plain",
    "statement.faster_operations.plain",
    "statement.add_one_needs_flops.plain",
    "statement.shared_memory_is_global.plain",
    "statement.program_is_thread.plain",
    "statement.programs_in_order.plain",
    "statement.masked_store_writes_zero.plain",
    "statement.eager_compiles.plain",
    "statement.sass_runs_everywhere.plain",
    "statement.cubin_is_a_language.plain",
    "statement.similar_dot_near_one.plain",
    "statement.attention_compares_embeddings.plain",
    "statement.matmul_needs_tensor_cores.plain",
    "statement.dennard_holds.plain",
    "statement.sram_shrinks.plain",
    "statement.tensor_core_has_isa.plain",
    "statement.registers_compute.plain",
    "statement.eager_returns_to_cpu.plain",
    "statement.tensor_core_takes_tensors.plain",
]
TRACED = "correct.plain"
ANY, HALF, ONCE = "correct.ragged", "correct.float16", "traffic.performance"
PLAIN, OWN = "correct.plain", "triton_did_the_work"
PLACE = "tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)"
SHARED = "shared_work.performance"


def first(keys: list[str]) -> list[str]:
    """Return those of the main path."""
    return [key for key in keys if key.split(".")[1] in FIRST]


def others(keys: list[str]) -> list[str]:
    """Return those of More."""
    return [key for key in keys if key.split(".")[1] not in FIRST]


WRONG = [
    # -------------------- warps_needed
    wrong("warps_needed", "forgets the one that waits", [EVEN, RAGGED, NO_WAIT], ("1 + triton", "triton")),
    wrong("warps_needed", "rounds down", [RAGGED], ("triton.cdiv(latency, work)", "latency // work")),
    wrong("warps_needed", "one too many", [EVEN, NO_WAIT], ("triton.cdiv(latency, work)", "latency // work + 1")),
    wrong("warps_needed", "rounds to the nearest", [RAGGED], ("triton.cdiv(latency, work)", "round(latency / work)")),
    wrong("warps_needed", "the other way round", [EVEN, RAGGED], ("(latency, work)", "(work, latency or 1) - (latency == 0) * work")),
    wrong("warps_needed", "at least two", [NO_WAIT], ("return 1 +", "return 1 + max(1,"), ("work)  #", "work))  #")),
    wrong("warps_needed", "a fraction", [RAGGED], ("triton.cdiv(latency, work)", "latency / work")),
    # -------------------- num_programs
    wrong("num_programs", "rounds down", [PARTIAL, SMALL], ("(n + block - 1) // block", "n // block")),
    wrong("num_programs", "one too many", [WHOLE, SMALL], ("(n + block - 1) // block", "n // block + 1")),
    wrong("num_programs", "at least one", [SMALL], ("(n + block - 1) // block", "max(1, (n + block - 1) // block)")),
    wrong("num_programs", "rounds to the nearest", [PARTIAL, SMALL], ("(n + block - 1) // block", "round(n / block)")),
    wrong("num_programs", "a fraction", [PARTIAL, SMALL], ("(n + block - 1) // block", "n / block")),
    wrong("num_programs", "rounds n up to a power of two", [PARTIAL], ("(n + block - 1)", "(n and triton.next_power_of_2(max(n, block)))")),
    wrong("num_programs", "off by one", [WHOLE, PARTIAL], ("(n + block - 1) // block", "min(1, n) * (1 + (n + block - 1) // block) - (0 < n < block)")),
    wrong("num_programs", "a power of two of blocks", [PARTIAL], ("(n + block - 1) // block", "(triton.next_power_of_2(n) // block if n >= block else min(n, 1))")),
    # -------------------- predictions
    wrong("predictions", "full blocks alone", [TRACED], ('"programs": 5', '"programs": 4')),
    wrong("predictions", "counts masked bytes", [TRACED], ("10_000", "10_240"), ("20_000", "20_480")),
    wrong("predictions", "one dtype for both", [TRACED], ("10_000", "20_000")),
    wrong("predictions", "masks one program too many", [TRACED], ("120,", "1144,")),
    wrong("predictions", "a program for each element", [TRACED], ('"programs": 5', '"programs": 5000')),
    wrong("predictions", "elements, not bytes", [TRACED], ("10_000", "5000"), ("20_000", "5000")),
    wrong("predictions", "a part of a program", [TRACED], ('"programs": 5', '"programs": 5000 / 1024')),
    wrong("predictions", "elements of the last program", [TRACED], ("120,", "904,")),
    wrong("predictions", "answers true", [TRACED], ("120,", "True,")),
    wrong("predictions", "in words", [TRACED], ("10_000", '"10 000"')),
    # -------------------- add_one
    wrong("add_one", "no mask at all", [ANY, HALF], (", mask=i < n", "")),
    wrong("add_one", "no mask on the load", [ANY, HALF], ("x_ptr + i, mask=i < n", "x_ptr + i")),
    wrong("add_one", "no mask on the store", [ANY, HALF], ("x + 1, mask=i < n", "x + 1")),
    wrong("add_one", "a mask that is off by one", [ANY, HALF], ("i < n", "i <= n")),
    wrong("add_one", "ignores the program id", [PLAIN], (PLACE, "tl.arange(0, BLOCK)")),
    wrong("add_one", "threads in the grid", [PLAIN], ("triton.cdiv(n, BLOCK),", "triton.cdiv(n, BLOCK), 32")),
    wrong("add_one", "only whole blocks", [ANY, HALF], ("triton.cdiv(n, BLOCK)", "max(1, n // BLOCK)")),
    wrong("add_one", "adds to the positions", [PLAIN], ("x + 1", "i + 1")),
    wrong("add_one", "adds two", [PLAIN], ("x + 1", "x + 2")),
    wrong("add_one", "always float32", [HALF, ONCE], ("torch.empty_like(x)", "torch.empty(n)")),
    wrong("add_one", "torch adds", [OWN], ("return out", "return x + 1")),
    wrong("add_one", "in place", [OWN], ("torch.empty_like(x)", "x")),
    wrong("add_one", "reads twice", [ONCE], ("    tl.store(", "    x = tl.load(x_ptr + i, mask=i < n)\n    tl.store(")),
    wrong("add_one", "every program does it all", [PLAIN], (PLACE, "tl.arange(0, BLOCK)"), ("1024", "triton.next_power_of_2(x.shape[0])"), ("triton.cdiv(n, BLOCK)", "4")),
    wrong("add_one", "64 programs for every n", [ANY], ("triton.cdiv(n, BLOCK),", "64,")),
    wrong("add_one", "one block that holds the plain case", [ANY, ONCE], ("1024", "8192"), ("triton.cdiv(n, BLOCK),", "1,")),
    wrong("add_one", "past the end, the start again", [ANY, HALF], (PLACE, f"({PLACE}) % n")),
    # -------------------- fixed_copy
    wrong("fixed_copy", "as broken as before", [PLAIN], ("out_ptr + i,", "out_ptr + tl.arange(0, BLOCK),"), ("triton.cdiv(n, BLOCK)", "n // BLOCK")),
    wrong("fixed_copy", "the grid forgotten", [ANY], ("triton.cdiv(n, BLOCK)", "n // BLOCK")),
    wrong("fixed_copy", "the program id forgotten", [PLAIN], (PLACE, "tl.arange(0, BLOCK)")),
    wrong("fixed_copy", "one huge block", [SHARED], (PLACE, "tl.arange(0, BLOCK)"), ("1024", "triton.next_power_of_2(x.shape[0])"), ("BLOCK=BLOCK)", "BLOCK=BLOCK, num_warps=32)")),
    wrong("fixed_copy", "blocks overlap", [PLAIN], (PLACE, "tl.program_id(0) * (BLOCK // 2) + tl.arange(0, BLOCK)"), ("triton.cdiv(n, BLOCK)", "triton.cdiv(n, BLOCK // 2)")),
    wrong("fixed_copy", "gaps between blocks", [PLAIN], ("tl.program_id(0) * BLOCK", "tl.program_id(0) * (BLOCK + 1)")),
    wrong("fixed_copy", "torch copies", [OWN], ("return out", "return x.clone()")),
    wrong("fixed_copy", "the input itself", [OWN], ("return out", "return x")),
    wrong("fixed_copy", "no mask", [ANY], (", mask=i < n", "")),
    wrong("fixed_copy", "reads twice", [ONCE], ("    tl.store(", "    x = tl.load(x_ptr + i, mask=i < n)\n    tl.store(")),
    wrong("fixed_copy", "64 programs for every n", [ANY], ("triton.cdiv(n, BLOCK),", "64,")),
    # -------------------- myths
    wrong("myths", "believes everything", first(FALSE), ("False", "True")),
    wrong("myths", "believes nothing", first(TRUE), ("True", "False")),
    wrong("myths", "answers in numbers", first(TRUE + FALSE), ("True", "1"), ("False", "0")),
    wrong("myths", "one answer left out", ["statement.program_is_thread.plain"], ('    "program_is_thread": False,\n', "")),
    wrong("myths", "one answer wrong", ["statement.programs_in_order.plain"], ('"programs_in_order": False', '"programs_in_order": True')),
    wrong("myths", "the words of the trade taken for the things", ["statement.shared_memory_is_global.plain"], ('"shared_memory_is_global": False', '"shared_memory_is_global": True')),
    # -------------------- more_myths
    wrong("more_myths", "believes everything", others(FALSE), ("False", "True")),
    wrong("more_myths", "believes nothing", others(TRUE), ("True", "False")),
    wrong("more_myths", "answers in numbers", others(TRUE + FALSE), ("True", "1"), ("False", "0")),
    wrong("more_myths", "one answer left out", ["statement.eager_compiles.plain"], ('    "eager_compiles": False,\n', "")),
    wrong("more_myths", "one answer wrong", ["statement.cubin_is_a_language.plain"], ('"cubin_is_a_language": False', '"cubin_is_a_language": True')),
    wrong("more_myths", "the words of the trade taken for the things", ["statement.unembedding_widens.plain"], ('"unembedding_widens": True', '"unembedding_widens": False')),
]  # fmt: skip

HONEST = [
    honest("warps_needed", "without Triton", ("triton.cdiv(latency, work)", "-(-latency // work)")),
    honest("num_programs", "with triton.cdiv", ("(n + block - 1) // block", "triton.cdiv(n, block)")),
    honest("add_one", "blocks of 256", ("1024", "256")),
    honest("add_one", "a value for masked positions", ("x_ptr + i, mask=i < n", "x_ptr + i, mask=i < n, other=0.0")),
    honest("fixed_copy", "blocks of 4096", ("1024", "4096")),
    honest("fixed_copy", "from the last program to the first", ("tl.program_id(0)", "(tl.num_programs(0) - 1 - tl.program_id(0))")),
    honest("myths", "with one more remark", ('myths = {\n    "faster', 'myths = {\n    "a remark": True,\n    "faster')),
    honest("more_myths", "with one more remark", ("myths = {\n    \"tensor_core", "myths = {\n    \"a remark\": True,\n    \"tensor_core")),
]  # fmt: skip

VARIANTS = WRONG + HONEST
