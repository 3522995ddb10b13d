"""Functions that exercises count, time and differentiate.

counted.py        functions to be counted and timed, by name; a simulated GPU and the real one
activations.py    functions to be differentiated, and what autograd keeps of them
chains.py         elementwise operations, cut into kernels
torch_attention.py attention in torch, for a unit 10 without unit 09
"""

from course_lib.workloads.counted import RealGPU, SimulatedGPU, workload

__all__ = ["RealGPU", "SimulatedGPU", "workload"]
