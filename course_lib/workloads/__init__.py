"""Functions that exercises count, time and differentiate.

counted.py        functions to be counted and timed, by name; a simulated GPU and the real one
activations.py    functions to be differentiated, and what autograd keeps of them
gpt.py            a model with slots: a toy on a laptop, a billion parameters on a GPU
training.py       a training loop for it: data in a file, a run that can be stopped, the raw kernels of a model
chains.py         elementwise operations, cut into kernels
torch_attention.py attention in torch, for a unit 10 without unit 09
"""

from course_lib.workloads.counted import RealGPU, SimulatedGPU, workload

__all__ = ["RealGPU", "SimulatedGPU", "workload"]
