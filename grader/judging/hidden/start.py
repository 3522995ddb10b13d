"""Hidden cases of unit 00, and the plain text of its true-or-false statements.

course_lib holds each explanation sealed with its right answer, so that nobody reads it by accident. After a change here,
`python -m grader.judging.hidden.start` prints what belongs into course_lib/exercises/start.py.
"""

from __future__ import annotations

import random

from course_lib.exercise import Case
from course_lib.exercises.cases import fixed
from course_lib.exercises.sealed import sealed as seal
from course_lib.exercises.start import vector

MYTHS: dict[str, tuple[bool, str]] = {
    "tensor_core_is_fma": (
        False,
        "An FMA multiplies two numbers and adds a third. A tensor core multiplies two small matrices and adds a third: "
        "hundreds of FMAs in one instruction.",
    ),
    "faster_operations": (
        False,
        "Each operation takes longer than on a CPU. A GPU wins because it has many operations under way at once.",
    ),
    "more_warps_than_alus": (
        True,
        "While one warp waits for memory, another warp issues instructions. Without spare warps the ALUs would idle during each wait.",
    ),
    "warp_shares_instruction": (
        True,
        "The 32 lanes of a warp execute one instruction at a time, each on its own data. Unit 04 shows what an `if` then costs.",
    ),
    "caches_are_sram": (
        True,
        "Registers, shared memory, L1 and L2 lie on the chip and are SRAM: several transistors hold each bit, which needs no refresh.",
    ),
    "hbm_is_dram": (
        True,
        "HBM is DRAM: one transistor and one capacitor hold each bit, and the charge must be refreshed. It is denser than SRAM, and "
        "slower.",
    ),
    "compute_outgrew_memory": (
        True,
        "From V100 to B200 the FLOP/s of fp16 matrix products grew 18 times, and the bandwidth 8.9 times. See the plot of the generations.",
    ),
    "add_one_needs_flops": (
        False,
        "x + 1 moves 8 bytes for 1 FLOP, and an H200 could do 14 fp32 FLOPs for each byte it moves. Memory sets the "
        "time, so more FLOP/s change nothing.",
    ),
    "shared_memory_is_global": (
        False,
        "Shared memory belongs to one SM, and the threads of one program share it. All programs see L2 and HBM.",
    ),
    "program_is_thread": (
        False,
        "A Triton program runs on an SM as many threads: 128 of them with num_warps=4. Its blocks are divided among these threads.",
    ),
    "programs_in_order": (
        False,
        "The GPU starts programs as SMs become free, and nobody knows which ends first. A kernel must be right in any order.",
    ),
    "masked_store_writes_zero": (
        False,
        "A masked position of a store touches nothing, so memory keeps what it held before.",
    ),
    "launch_returns_early": (
        True,
        "A launch only queues the work. Python goes on at once; torch.cuda.synchronize() waits for the GPU.",
    ),
    "eager_compiles": (
        False,
        "Eager PyTorch calls kernels that were compiled when PyTorch was built. New kernels are compiled by torch.compile.",
    ),
    "ptx_is_translated": (
        True,
        "PTX is no chip's machine code. An assembler (ptxas, or the driver at load time) translates it into SASS for the GPU at hand.",
    ),
    "sass_runs_everywhere": (
        False,
        "Each GPU generation has a new ISA. SASS for sm_80 means nothing to an sm_90 chip. PTX can be translated for both.",
    ),
    "cubin_is_a_language": (
        False,
        "A cubin is a file in the ELF format, like a Linux program. The machine code inside it is SASS.",
    ),
    "similar_dot_near_one": (
        False,
        "The dot product of similar vectors is near their squared length: about 64 for 64 standard normal numbers.",
    ),
    "weight_near_one": (
        True,
        "Softmax makes weights that sum to 1, so a dot product well above the others gets a weight near 1.",
    ),
    "attention_compares_embeddings": (
        False,
        "Attention compares queries with keys. Both are learned projections of the same vectors, and the two projections differ.",
    ),
    "residual_adds": (
        True,
        "A layer computes an update and adds it: x = x + f(x). The sum is handed on to the next layer.",
    ),
    "unembedding_widens": (
        True,
        "It maps a vector of the model's width, 768 in GPT-2 small, to one number for each of 50,257 tokens.",
    ),
    "gpus_before_cuda": (
        True,
        "The GeForce 256 of 1999 was sold as a GPU, and CUDA came in 2007. In between, people wrote their sums as pictures.",
    ),
    "matmul_needs_tensor_cores": (
        False,
        "Larsen and McAllister did so in 2001, with matrices as textures. Tensor cores came with the V100 in 2017.",
    ),
    "dennard_holds": (
        False,
        "This was Dennard's law, and it ended about 2005, because leakage does not shrink. Since then speed has come from"
        " more units side by side.",
    ),
    "sram_shrinks": (
        False,
        "TSMC's N3E keeps the SRAM cell of N5, 0.021 square micrometres, although its logic is denser.",
    ),
    "hbm_is_wide": (
        True,
        "A stack of HBM3 has 1024 data wires, each slower than a wire of GDDR6X. So many wires are possible because they are"
        " short, and lie on a piece of silicon.",
    ),
    "tensor_core_has_isa": (
        False,
        "A tensor core is a unit of the SM, as an ALU is. The warps of a program use it with an instruction, mma or wgmma.",
    ),
    "registers_compute": (
        False,
        "Registers only hold numbers. ALUs, tensor cores and the special-function unit compute; they read registers and"
        " write to them.",
    ),
    "eager_returns_to_cpu": (
        False,
        "Results stay in the GPU's memory. Only launches come from the CPU, and it runs ahead of the GPU.",
    ),
    "softmax_is_nonlinear": (
        True,
        "Softmax and normalisation divide by a number that depends on their input, so neither is linear.",
    ),
    "clusters_share": (
        True,
        "From the Hopper generation on, the programs of a thread-block cluster run side by side, and they can. Triton does not offer it.",
    ),
    "gates_remember": (
        True,
        "Two crossed NAND gates have two stable states. Which of the two they are in depends on the last input that was 0, so "
        "they remember it.",
    ),
    "tensor_core_takes_tensors": (
        False,
        "A tensor core multiplies two small matrices and adds a third. Loops cut larger shapes into such matrices; in Triton tl.dot does "
        "this. The name comes from the frameworks' word for arrays.",
    ),
}


def cases(exercise_id: str, rng: random.Random) -> list[Case]:
    """Draw the hidden cases of an exercise."""
    n, block = rng.randrange(200, 5000), rng.choice((16, 32, 128))
    latency, work = rng.randrange(50, 700), rng.randrange(3, 60)
    large = rng.randrange(70_001, 140_000)  # more than a grid that was made for the public cases reaches
    match exercise_id.split(".")[1]:
        case "num_programs":
            return [fixed("a hidden n", "ragged", n=n * block + 1 + rng.randrange(block - 1), block=block)]
        case "warps_needed":
            return [fixed("a hidden wait", "ragged", latency=latency, work=work)]
        case "add_one":
            return [
                Case(f"{n} elements", "ragged", vector(n)),
                Case(f"{large} elements", "ragged", vector(large)),
                Case(f"{n} elements, float16", "float16", vector(n, "float16")),
            ]
        case "fixed_copy":
            return [
                Case(f"{n} elements", "ragged", vector(n)),
                Case(f"{3 * n + 1} elements", "ragged", vector(3 * n + 1)),
                Case(f"{large} elements", "ragged", vector(large)),
            ]
    return []  # true or false, and the predictions: their questions stand in the notebook


def sealed() -> str:
    """Return the source of the table SEALED, with the encrypted explanations."""
    lines = ["SEALED = {"]
    for key, (answer, text) in MYTHS.items():
        whole = seal(f"start.myths/{key}", answer, text)
        parts = [whole[i : i + 100] for i in range(0, len(whole), 100)]
        lines += [f'    "{key}": (', *(f'        "{part}"' for part in parts), "    ),"]
    return "\n".join([*lines, "}"])


if __name__ == "__main__":
    print(sealed())
