"""The way from a kernel to TTIR, the compiler front end's text, and on to that text as data. Trace and compiler start from here.

sources.py    the text of kernels, and which functions they call
launching.py  arguments, grid, order, errors
frontend.py   asks the front end, once for each kind of call;  printed.py  what differs between Tritons
parse.py      text -> ir.py's data: functions, blocks, operations, with the line and the variable of each
elements.py   how the elements of each type are held;  numerics.py  a GPU's arithmetic
hints.py      what a kernel promises the compiler
"""
