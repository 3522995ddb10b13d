"""A line of a notebook's cell is named as the notebook numbers the cell, wherever its text was put."""

import subprocess
import sys

from tritontrace.tracing.report import place_in
from tritontrace.ttir.sources import Source

CELLS = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell()
InteractiveShell._instance = shell
shell.compile.get_code_name = lambda code, transformed, number: f"/tmp/ipykernel_1/{number}.py"
shell.run_cell("import torch, triton, triton.language as tl", store_history=True)
shell.run_cell('''@triton.jit
def copy(x, y, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(y + i, tl.load(x + i))
''', store_history=True)
shell.run_cell('''from tritontrace import as_data, trace
with trace() as t:
    copy[(1,)](torch.zeros(32), torch.zeros(32), BLOCK=32)
print([line["where"] for line in as_data(t)["launches"][0]["lines"]])
''', store_history=True)
"""


def test_a_cell_has_the_number_that_a_notebook_shows():
    ran = subprocess.run([sys.executable, "-c", CELLS], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "['In[2]:4', 'In[2]:4']"


def test_what_no_notebook_knows_keeps_its_name():
    assert place_in(Source("copy", 1, ("def copy():", "    pass"), False, "<cell 3>"), 2) == "<cell 3>:2"
