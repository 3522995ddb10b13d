"""The GPU: which it is, how fast it is, and what one H200 showed, for readers without one.

hierarchy.py      how fast its memories are
throughput.py     how fast products and copies are
profiles.py       four profiles to read, and what the same GPU does at best
inductor.py       the kernels that torch.compile writes
measured/         all that from one H200
measurements.py   reads and writes measured/
"""
