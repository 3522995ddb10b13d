"""Functions that exercises count, time and differentiate.

counted.py        functions to be counted and timed, by name; a simulated GPU and the real one
activations.py    functions to be differentiated, and what autograd keeps of them
gradients.py      gradients for a given gradient of the output
gpt.py            a model with slots: a toy on a laptop, a billion parameters on a GPU
shared_heads.py   attention for heads that share k and v, of functions for one head each
in_transformers.py the course's attention in models of the library transformers
launched.py       the kernels of a model as launches, which leave autograd no history
text.py           a text to train on, of which the best loss is known
rehearsals.py     training on a small scale, in which a check calls a student's function
checkpointed.py   a run that stops, and goes on in another process
stated.py         what the rounds of a work log state, as formulas
chains.py         elementwise operations, cut into kernels
torch_attention.py attention in torch, for a unit 10 without unit 09
"""

from course_lib.workloads.counted import RealGPU, SimulatedGPU, workload

__all__ = ["RealGPU", "SimulatedGPU", "workload"]
