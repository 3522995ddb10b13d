"""The GPU: which it is, how fast it is, and what one H200 showed, for readers without one.

gpu.py            which GPU this is, and datasheets
bench.py          timed ratios
hierarchy.py      how fast its memories are
throughput.py     how fast products and copies are
nsight.py         counters of Nsight Compute
inductor.py       the kernels that torch.compile writes
measured/         all that from one H200
measurements.py   reads and writes measured/
"""
