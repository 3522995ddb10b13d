"""A formula whose answer torch has ready, or that lies in an object that the check hands over."""

# %% name="torch's own counter" exercise="flops.count_flops" loses="runs"
from torch.utils.flop_counter import FlopCounterMode


def count_flops(fn, *args):
    with FlopCounterMode(display=False) as counter:
        fn(*args)
    return counter.get_total_flops()


# %% name="torch's own formulas" exercise="flops.count_flops" loses="correct.products; correct.batches; correct.with an addition; correct.whole programs"
from torch.utils import flop_counter
from torch.utils._python_dispatch import TorchDispatchMode


def count_flops(fn, *args):
    total = 0

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal total
            out = function(*args, **(kwargs or {}))
            formula = flop_counter.flop_registry.get(function.overloadpacket)
            total += formula(*args, **(kwargs or {}), out_val=out) if formula else flop_counter.mm_flop((0, 0), (0, 0))
            return out

    with Mode():
        fn(*args)
    return total
