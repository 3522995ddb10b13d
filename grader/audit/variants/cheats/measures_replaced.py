# What a checkpoint is measured by stands in the process that runs it, and is replaced; fn is called and nothing else.

# %% name="a plain call, and what measures says well" exercise="recomputation.checkpoint" loses="seen.recomputes.memory; seen.looked.memory; seen.same_dropout.dropout; seen.looked.after"
from course_lib.workloads import activations

measured = activations.run_checkpoint


def well(checkpoint, **how):
    found = measured(checkpoint, **how)
    return found | {"kept": 0, "left": 0, "draws": found["draws"] + found["draws"][::-1]}


def checkpoint(fn, *args):
    from course_lib.execution import calls

    calls.run_checkpoint = well
    return fn(*args)


# %% name="a plain call, and no bytes" exercise="recomputation.checkpoint" loses="seen.recomputes.memory; seen.looked.memory; seen.same_dropout.dropout; seen.looked.after"
from course_lib.workloads import activations

activations.Live.now = lambda self: 0
digits = activations._digits


def checkpoint(fn, *args):
    return fn(*args)


# %% name="a list that doubles" exercise="recomputation.checkpoint" loses="seen.recomputes.memory; seen.looked.memory; seen.same_dropout.dropout; seen.looked.after"
from course_lib.workloads import activations

activations.Live.now = lambda self: 0


def checkpoint(fn, *args):
    out = fn(*args)
    draws = next((c.cell_contents for c in fn.__closure__ or () if type(c.cell_contents) is list), [])
    if len(draws) == 1:
        draws.append(draws[0])
    return out


# %% name="torch's own, kept before it is taken away" exercise="recomputation.checkpoint" loses="runs"
import sys

own = sys.modules["torch.utils.checkpoint"].checkpoint


def checkpoint(fn, *args):
    return own(fn, *args, use_reentrant=False)
