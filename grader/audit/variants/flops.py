"""Unit 03. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("flops")

COST = ["correct.square", "correct.other"]
PREDICTED = ["correct.plain"]
COUNTED = [
    "correct.products",
    "correct.batches",
    "correct.with an addition",
    "correct.whole programs",
]
BACKWARD = ["correct.with", "correct.without"]
ATTENTION = ["correct.one head", "correct.many"]
BLOCK = ["holds.within_a_percent.plain", "holds.within_a_percent.shared keys"]
SCALE = ["holds.keeps_one_layer.one", "holds.keeps_twelve_layers.deep"]
ROOF = ["holds.is_the_earliest.compute", "holds.is_the_earliest.memory"]
USED = ["correct.plain", "correct.recompute"]
MEMORY = ["correct.sgd", "correct.states"]
STEADY, WARM, MEDIAN, COLD = (
    "timed.near_the_truth.steady",
    "timed.near_the_truth.warm-up",
    "timed.near_the_truth.median",
    "timed.near_the_truth.cold",
)

CUT, ROUNDS = "correct.plain", "correct.rounds"
KNOWS, COMPUTES = "holds.registers_its_parameters.plain", "holds.computes_with_them.plain"
TRAINS, FRESH = "holds.gets_gradients.other", "holds.starts_fresh.other"
MODULE = [KNOWS, COMPUTES, TRAINS, FRESH]
PARAMETER_LIST = "self.weights = torch.nn.ParameterList(weights)"

PLAIN, KERNEL, COMPILES, RAGGED = "correct.plain", "triton_did_the_work", "compiles", "correct.ragged"
FLOPS, BYTES = "flops_an_element.performance", "traffic.performance"
STEP = "        y = y * 0.75 + x  # an FMA\n"

DIAL = [
    wrong("dial", "one step too few", [PLAIN], ("range(n)", "range(n - 1)")),
    wrong("dial", "one step too many", [PLAIN], ("range(n)", "range(n + 1)")),
    wrong("dial", "y begins as 0", [PLAIN], ("    y = x\n", "    y = x * 0\n")),
    wrong("dial", "x is never added", [PLAIN], ("y * 0.75 + x", "y * 0.75")),
    wrong("dial", "no mask for the store", [RAGGED], ("tl.store(out_ptr + offs, y, mask=offs < N)", "tl.store(out_ptr + offs, y)")),
    wrong("dial", "whole blocks alone", [RAGGED], ("triton.cdiv(N, BLOCK)", "max(1, N // BLOCK)")),
    wrong("dial", "steps in half precision", [RAGGED], (STEP, "        y = (y * 0.75 + x).to(x_ptr.dtype.element_ty).to(tl.float32)\n")),
    wrong("dial", "the sum of the series", [FLOPS], ("    for _ in range(n):\n" + STEP, "    y = x * (4.0 - 3.0 * tl.exp2(n * -0.4150374992788438))\n")),
    wrong("dial", "steps nobody asked for", [FLOPS], (STEP, STEP + "        y = y * 0.5 + y * 0.5\n")),
    wrong("dial", "a launch for each step", [PLAIN], ("    dial_kernel[(triton.cdiv(N, BLOCK),)](x, out, N, n, BLOCK=BLOCK)", "    for _ in range(n):\n        dial_kernel[(triton.cdiv(N, BLOCK),)](x, out, N, 1, BLOCK=BLOCK)\n        x = out")),
    wrong("dial", "y goes through memory", [BYTES], (STEP, STEP + "        tl.store(out_ptr + offs, y, mask=offs < N)\n")),
    wrong("dial", "x is read again in each step", [BYTES], (STEP, "        y = y * 0.75 + tl.load(x_ptr + offs, mask=offs < N)\n")),
    wrong("dial", "a type that changes in the loop", [COMPILES], ("    y = x\n", "    y = 0\n")),
    wrong("dial", "torch does it", [KERNEL], source="def dial(x, n):\n    y = x.float()\n    for _ in range(n):\n        y = y * 0.75 + x\n    return y.to(x.dtype)\n"),
    honest("dial", "smaller blocks", ("x.numel(), 1024", "x.numel(), 256")),
    honest("dial", "x first", ("y * 0.75 + x", "x + 0.75 * y")),
    honest("dial", "n is a constant of the kernel", ("N, n, BLOCK: tl", "N, n: tl.constexpr, BLOCK: tl")),
]  # fmt: skip

MODULES = [
    wrong("truncated_init", "moved to the bound", [CUT], ("return weights", "weights = noise[0].clamp(-3, 3)\n    return weights")),
    wrong("truncated_init", "nothing is cut", [CUT], ("return weights", "weights = noise[0]\n    return weights")),
    wrong("truncated_init", "not scaled", [CUT], ("weights * fan_in**-0.5", "weights")),
    wrong("truncated_init", "scaled by fan_in", [CUT], ("fan_in**-0.5", "fan_in**-1")),
    wrong("truncated_init", "cut at 2", [CUT], ("< 3", "< 2")),
    wrong("truncated_init", "drawn again once", [ROUNDS], ("noise[1:]", "noise[1:2]")),
    wrong("truncated_init", "the bound after the scale", [CUT], ("weights = noise[0]", "weights = noise[0] * fan_in**-0.5"), ("again)", "again * fan_in**-0.5)"), ("return weights * fan_in**-0.5", "return weights")),
    wrong("truncated_init", "the last that lies within", [CUT], source="""
def truncated_init(noise, fan_in):
    weights = noise[0]
    for again in noise[1:]:
        weights = torch.where(again.abs() < 3, again, weights)
    return weights * fan_in**-0.5
"""),
    wrong("truncated_init", "needs two rounds", [ROUNDS], ("weights = noise[0]", "weights = noise[0] if len(noise) > 1 else noise[1]")),
    honest("truncated_init", "the first by argmax", source="""
def truncated_init(noise, fan_in):
    inside = (noise.abs() < 3).to(torch.uint8)
    return noise.gather(0, inside.argmax(0, keepdim=True))[0] / fan_in**0.5
"""),
    honest("truncated_init", "from the end", source="""
def truncated_init(noise, fan_in):
    weights = noise[-1]
    for earlier in reversed(noise[:-1].unbind(0)):
        weights = torch.where(earlier.abs() < 3, earlier, weights)
    return weights * (1 / fan_in) ** 0.5
"""),
    wrong("deep_linear", "a plain list", MODULE, (PARAMETER_LIST, "self.weights = [torch.nn.Parameter(w) for w in weights]")),
    wrong("deep_linear", "tensors, not parameters", MODULE, (PARAMETER_LIST, "self.weights = [w.requires_grad_() for w in weights]")),
    wrong("deep_linear", "buffers", MODULE, ("torch.nn.Parameter(torch.randn(width) * init_scale(width))", "torch.randn(width)")),
    wrong("deep_linear", "no super", MODULE, ("super().__init__()", "pass")),
    wrong("deep_linear", "one layer left out", [COMPUTES, TRAINS], ("in self.weights:", "in list(self.weights)[1:]:")),
    wrong("deep_linear", "detached on the way", [TRAINS], ("return x @ self.head", "return x.detach() @ self.head")),
    wrong("deep_linear", "no gradient at all", [TRAINS], ("return x @ self.head", "return (x @ self.head).detach()")),
    wrong("deep_linear", "not scaled", [FRESH], ("torch.randn(width, width) * init_scale(width)", "torch.randn(width, width)")),
    wrong("deep_linear", "all layers alike", [FRESH], ("weights = (torch.randn(width, width) * init_scale(width) for _ in range(layers))", "w = torch.randn(width, width) * init_scale(width)\n        weights = (w.clone() for _ in range(layers))")),
    wrong("deep_linear", "one weight for all layers", MODULE, ("for _ in range(layers))", "for _ in range(1))"), ("for w in self.weights:", "for w in [self.weights[0]] * 3:")),
    wrong("deep_linear", "(rows, 1)", [COMPUTES, TRAINS], ("x @ self.head", "(x @ self.head)[:, None]")),
    wrong("deep_linear", "another nonlinearity", [COMPUTES, TRAINS], ("x = x @ w", "x = torch.relu(x @ w)")),
    wrong("deep_linear", "a function", MODULE, source="""
def DeepLinear(width, layers):
    return lambda x: x.sum(1)
"""),
    honest("deep_linear", "linear layers", source="""
class DeepLinear(torch.nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.head = torch.nn.Linear(width, 1, bias=False)
        self.body = torch.nn.Sequential(*(torch.nn.Linear(width, width, bias=False) for _ in range(layers)))
        for layer in self.body:
            torch.nn.init.trunc_normal_(layer.weight, std=width**-0.5, a=-3 * width**-0.5, b=3 * width**-0.5)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)
"""),
    honest("deep_linear", "attributes by name", source="""
class DeepLinear(torch.nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.layers = layers
        for i in range(layers):
            setattr(self, f"w{i}", torch.nn.Parameter(torch.empty(width, width).normal_(std=width**-0.5)))
        self.register_parameter("head", torch.nn.Parameter(torch.ones(width)))

    def forward(self, x):
        for i in range(self.layers):
            x = torch.einsum("bi,ij->bj", x, getattr(self, f"w{i}"))
        return (x * self.head).sum(-1)
"""),
]  # fmt: skip

WRONG = [
    # -------------------- matmul_cost
    wrong("matmul_cost", "multiplications alone", COST, ("2 * m * n * k,", "m * n * k,")),
    wrong("matmul_cost", "k - 1 additions", COST, ("2 * m * n * k,", "m * n * (2 * k - 1),")),
    wrong("matmul_cost", "nothing is written", COST, (" + m * n)", ")")),
    wrong(
        "matmul_cost", "k and n change places", ["correct.other"], ("m * k + k * n + m * n", "m * n + n * k + m * n")
    ),
    wrong("matmul_cost", "the result is read, too", COST, (" + m * n)", " + 2 * m * n)")),
    wrong("matmul_cost", "read for each product", COST, ("m * k + k * n + m * n", "2 * m * n * k + m * n")),
    wrong("matmul_cost", "float32 whatever comes", COST, ("itemsize * (", "4 * (")),
    wrong("matmul_cost", "elements, not bytes", COST, ("itemsize * (", "(")),
    wrong("matmul_cost", "square alone", ["correct.other"], ("2 * m * n * k,", "2 * m**3,")),
    # -------------------- predictions
    wrong("predictions", "no factor of two", PREDICTED, ('"product": 2 * 100', '"product": 100')),
    wrong("predictions", "the batch is one", PREDICTED, ("8 * 2 * 100", "2 * 100")),
    wrong("predictions", "the gram matrix of rows", PREDICTED, ("2 * 64 * 64 * 100", "2 * 100 * 100 * 64")),
    wrong("predictions", "a ReLU counts", PREDICTED, ('"relu": 0', '"relu": 6400')),
    wrong("predictions", "twice forward, always", PREDICTED, ("2 * 64 * 32 * 100", "4 * 64 * 32 * 100")),
    wrong("predictions", "the second product is left out", PREDICTED, ("2 * 1000**3 + 2 * 1000 * 1000", "2 * 1000**3")),
    wrong("predictions", "the better order", PREDICTED, ("2 * 1000**3 + 2 * 1000 * 1000", "4 * 1000 * 1000")),
    # -------------------- count_flops
    wrong("count_flops", "multiplications alone", COUNTED, ("+= 2 * out.numel()", "+= out.numel()")),
    wrong("count_flops", "no batches", ["correct.batches"], ("        torch.ops.aten.bmm: 0,\n", "")),
    wrong(
        "count_flops",
        "no addmm",
        ["correct.with an addition", "correct.whole programs"],
        ("        torch.ops.aten.addmm: 1,\n", ""),
    ),
    wrong("count_flops", "no baddbmm", ["correct.with an addition"], ("        torch.ops.aten.baddbmm: 1,\n", "")),
    wrong(
        "count_flops",
        "the bias is the first matrix",
        ["correct.with an addition", "correct.whole programs"],
        ("torch.ops.aten.addmm: 1", "torch.ops.aten.addmm: 0"),
    ),
    wrong("count_flops", "the first size for k", COUNTED, ("a.shape[-1]", "a.shape[0]")),
    wrong(
        "count_flops",
        "the last product alone",
        ["correct.batches", "correct.with an addition", "correct.whole programs"],
        ("self.flops += 2", "self.flops = 2"),
    ),
    wrong("count_flops", "returns nothing from the mode", COUNTED, ("        return out\n", "")),
    wrong(
        "count_flops",
        "calls without the mode",
        COUNTED,
        ("    with Counter() as counter:\n        fn(*args)", "    counter = Counter()\n    fn(*args)"),
    ),
    # -------------------- backward_flops
    wrong(
        "backward_flops",
        "as much as forward",
        BACKWARD,
        ("2 * 2 * batch * d_hidden * d_out", "2 * batch * d_hidden * d_out"),
    ),
    wrong("backward_flops", "x always wants one", ["correct.without"], ("(2 if input_needs_grad else 1)", "2")),
    wrong(
        "backward_flops",
        "x never wants one",
        ["correct.with"],
        ("(2 if input_needs_grad else 1)", "1"),
    ),
    wrong("backward_flops", "the first layer is free without dx", ["correct.without"], ("else 1)", "else 0)")),
    wrong(
        "backward_flops",
        "with the forward pass",
        BACKWARD,
        ("return second", "return 2 * batch * d_hidden * (d_in + d_out) + second"),
    ),
    wrong(
        "backward_flops",
        "multiplications alone",
        BACKWARD,
        ("return second + first", "return second // 2 + first // 2"),
    ),
    wrong("backward_flops", "one row", ["correct.with", "correct.without"], ("batch * ", "")),
    # -------------------- attention_cost
    wrong("attention_cost", "one product", ATTENTION, ("2 * 2 * n_q", "2 * n_q")),
    wrong(
        "attention_cost",
        "as if fused",
        ATTENTION,
        ("(q + k + scores) + (scores + scores) + (scores + v + o)", "q + k + v + o"),
    ),
    wrong("attention_cost", "P is not read again", ATTENTION, ("(scores + v + o)", "(v + o)")),
    wrong("attention_cost", "S in place", ATTENTION, ("(scores + scores)", "scores")),
    wrong(
        "attention_cost",
        "one batch",
        ["correct.many"],
        ("return batch * heads * flops", "return heads * flops"),
    ),
    wrong("attention_cost", "all lengths alike", ATTENTION[1:], ("scores = n_q * n_k", "scores = n_q * n_q")),
    wrong(
        "attention_cost", "the softmax computes, too", ATTENTION, ("2 * 2 * n_q * n_k * d", "(4 * d + 5) * n_q * n_k")
    ),
    wrong("attention_cost", "the bytes of one head", ["correct.many"], ("batch * heads * elements", "elements")),
    wrong("attention_cost", "heads cut d", ["correct.many"], ("batch * heads * flops", "batch * flops")),
    wrong("attention_cost", "2 bytes", ["correct.many"], ("elements * itemsize", "elements * 2")),
    # -------------------- block_cost
    wrong("block_cost", "no attention", BLOCK, ("return projections + attention", "return projections")),
    wrong("block_cost", "every head has keys", ["holds.within_a_percent.shared keys"], ("* kv_heads // heads", "")),
    wrong("block_cost", "one product in the MLP", BLOCK, ("2 * d_model * d_ff", "d_model * d_ff")),
    wrong("block_cost", "the last product is missing", BLOCK, ("2 * d_model * d_model +", "d_model * d_model +")),
    wrong(
        "block_cost",
        "texts attend to each other",
        BLOCK,
        ("batch * 2 * 2 * tokens * tokens", "batch * batch * 2 * 2 * tokens * tokens"),
    ),
    wrong("block_cost", "S alone", BLOCK, ("batch * 2 * 2 * tokens", "batch * 2 * tokens")),
    wrong(
        "block_cost",
        "multiplications alone",
        BLOCK,
        ("return projections + attention", "return (projections + attention) / 2"),
    ),
    # -------------------- init_scale
    wrong("init_scale", "one over the width", SCALE, ("fan_in**-0.5", "1 / fan_in")),
    wrong("init_scale", "nothing", SCALE, ("fan_in**-0.5", "1.0")),
    wrong("init_scale", "the root, not one over it", SCALE, ("fan_in**-0.5", "fan_in**0.5")),
    wrong("init_scale", "a constant", SCALE, ("fan_in**-0.5", "0.02")),
    wrong("init_scale", "for a ReLU", SCALE, ("fan_in**-0.5", "(2 / fan_in) ** 0.5")),
    wrong("init_scale", "a uniform's bound", SCALE, ("fan_in**-0.5", "(3 / fan_in) ** 0.5")),
    # -------------------- intensity
    wrong("intensity", "upside down", ["holds.gives_back_the_flops.plain"], ("flops / nbytes", "nbytes / flops")),
    wrong("intensity", "rounded", ["holds.gives_back_the_flops.plain"], ("flops / nbytes", "flops // nbytes")),
    wrong("intensity", "a product", ["holds.gives_back_the_flops.plain"], ("flops / nbytes", "flops * nbytes")),
    wrong(
        "intensity",
        "for each element",
        ["holds.gives_back_the_flops.plain"],
        ("flops / nbytes", "flops / (nbytes / 4)"),
    ),
    wrong(
        "intensity",
        "the wrong way round",
        ["holds.gives_back_the_flops.plain"],
        ("flops, nbytes = cost", "nbytes, flops = cost"),
    ),
    wrong("intensity", "returns nothing", ["holds.gives_back_the_flops.plain"], ("return flops", "flops")),
    # -------------------- roofline_seconds
    wrong(
        "roofline_seconds",
        "one after the other",
        ROOF,
        (
            "max(flops / flops_per_second, nbytes / bytes_per_second)",
            "flops / flops_per_second + nbytes / bytes_per_second",
        ),
    ),
    wrong(
        "roofline_seconds",
        "arithmetic alone",
        ROOF[1:],
        ("max(flops / flops_per_second, nbytes / bytes_per_second)", "flops / flops_per_second"),
    ),
    wrong(
        "roofline_seconds",
        "memory alone",
        ROOF[:1],
        ("max(flops / flops_per_second, nbytes / bytes_per_second)", "nbytes / bytes_per_second"),
    ),
    wrong("roofline_seconds", "the shorter", ROOF, ("max(", "min(")),
    wrong(
        "roofline_seconds",
        "rates change places",
        ROOF,
        ("flops / flops_per_second, nbytes / bytes_per_second", "flops / bytes_per_second, nbytes / flops_per_second"),
    ),
    wrong("roofline_seconds", "milliseconds", ROOF, ("return max", "return 1000 * max")),
    wrong("roofline_seconds", "upside down", ROOF, ("flops / flops_per_second,", "flops_per_second / (flops + 1),")),
    # -------------------- utilisation
    wrong(
        "utilisation",
        "forward alone",
        USED,
        ("return 6 * one, (8 if recompute else 6)", "return 2 * one, (4 if recompute else 2)"),
    ),
    wrong(
        "utilisation",
        "MFU counts the second forward pass",
        USED[1:],
        ("return 6 * one", "return (8 if recompute else 6) * one"),
    ),
    wrong("utilisation", "MFU is always 8", USED, ("return 6 * one", "return 8 * one")),
    wrong("utilisation", "HFU is less", USED[1:], ("(8 if recompute", "(4.5 if recompute")),
    wrong("utilisation", "HFU is MFU", USED[1:], ("(8 if recompute else 6)", "6")),
    wrong("utilisation", "HFU is always 8", USED[:1], ("(8 if recompute else 6)", "8")),
    wrong("utilisation", "recomputes everything", USED[1:], ("(8 if", "(12 if")),
    wrong("utilisation", "one GPU", USED, ("(gpus * peak_flops)", "peak_flops")),
    wrong("utilisation", "percent", USED, ("one = parameters", "one = 100 * parameters")),
    wrong("utilisation", "MFU alone", USED, ("return 6 * one, (8 if recompute else 6) * one", "return 6 * one")),
    # -------------------- training_days
    wrong("training_days", "forward alone", ["holds.delivers.plain"], ("6 * parameters", "2 * parameters")),
    wrong("training_days", "hours", ["holds.delivers.plain"], ("(24 * 60 * 60)", "(60 * 60)")),
    wrong("training_days", "the peak", ["holds.delivers.plain"], (" * mfu)", ")")),
    wrong(
        "training_days",
        "better with a lower MFU",
        ["holds.delivers.plain"],
        ("peak_flops * mfu", "peak_flops / mfu"),
    ),
    wrong("training_days", "one GPU", ["holds.delivers.plain"], ("(gpus * peak_flops", "(peak_flops")),
    wrong(
        "training_days",
        "whole days",
        ["holds.delivers.plain"],
        ("return seconds / (24 * 60 * 60)", "return round(seconds / 86400)"),
    ),
    # -------------------- largest_model
    wrong("largest_model", "a share of a parameter", ["holds.just_fits.plain"], ("//", "/")),
    wrong(
        "largest_model",
        "rounds up",
        ["holds.just_fits.plain"],
        ("gpus * memory_bytes // bytes_per_parameter", "-(-gpus * memory_bytes // bytes_per_parameter)"),
    ),
    wrong("largest_model", "always 16", ["holds.just_fits.plain"], ("// bytes_per_parameter", "// 16")),
    wrong("largest_model", "one GPU", ["holds.just_fits.plain"], ("gpus * memory", "memory")),
    wrong(
        "largest_model",
        "each GPU for itself",
        ["holds.just_fits.plain"],
        ("gpus * memory_bytes // bytes_per_parameter", "gpus * (memory_bytes // bytes_per_parameter)"),
    ),
    wrong("largest_model", "parameters alone", ["holds.just_fits.plain"], ("// bytes_per_parameter", "// 4")),
    # -------------------- training_memory
    wrong("training_memory", "2 bytes", MEMORY, ("parameters = 4 *", "parameters = 2 *")),
    wrong("training_memory", "Adam keeps one average", MEMORY[1:], ('"adam": 2', '"adam": 1')),
    wrong("training_memory", "AdaGrad keeps two sums", MEMORY[1:], ('"adagrad": 1', '"adagrad": 2')),
    wrong("training_memory", "momentum is free", MEMORY[1:], ('"momentum": 1', '"momentum": 0')),
    wrong("training_memory", "the output is kept, too", MEMORY, ("4 * layers * batch", "4 * (layers + 1) * batch")),
    wrong("training_memory", "the data is not", MEMORY, ("4 * layers * batch", "4 * (layers - 1) * batch")),
    wrong("training_memory", "no gradients", MEMORY, ("return parameters, parameters,", "return parameters, 0,")),
    wrong("training_memory", "one layer's activations", MEMORY, ("4 * layers * batch", "4 * batch")),
    # -------------------- measure
    wrong("measure", "waits for nothing", [STEADY, WARM, MEDIAN, COLD], ("gpu.synchronize()", "pass")),
    wrong(
        "measure",
        "does not wait for the work",
        [STEADY, WARM, MEDIAN, COLD],
        ("        work()\n        gpu.synchronize()\n", "        work()\n"),
    ),
    wrong(
        "measure",
        "times the flush",
        [STEADY, WARM, MEDIAN, COLD],
        ("gpu.flush()\n        gpu.synchronize()", "gpu.flush()"),
    ),
    wrong("measure", "no warm-up", [WARM], ("range(warm_up)", "range(0)")),
    wrong("measure", "the mean", [MEDIAN], ("statistics.median", "statistics.mean")),
    wrong("measure", "the least", [MEDIAN], ("statistics.median", "min")),
    wrong("measure", "the greatest", [MEDIAN], ("statistics.median(times)", "max(times)")),
    wrong("measure", "the first timed run", [MEDIAN], ("statistics.median(times)", "times[0]")),
    wrong("measure", "the last timed run", [MEDIAN], ("statistics.median(times)", "times[-1]")),
    wrong(
        "measure", "the middle of an unsorted list", [MEDIAN], ("statistics.median(times)", "times[len(times) // 2]")
    ),
    wrong("measure", "a warm cache", [COLD], ("        gpu.flush()\n", "")),
    wrong(
        "measure",
        "flushes after each run",
        [COLD],
        ("        gpu.flush()\n", ""),
        ("times.append(gpu.clock() - start)", "times.append(gpu.clock() - start)\n        gpu.flush()"),
    ),
    wrong("measure", "milliseconds", [STEADY, WARM, MEDIAN, COLD], ("return statistics", "return 1000 * statistics")),
]

BY_SHAPES = """
import torch
from torch.utils._python_dispatch import TorchDispatchMode


def count_flops(fn, *args):
    total = 0

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            nonlocal total
            result = function(*args, **(kwargs or {}))
            if function.overloadpacket.__name__.endswith("mm"):
                a, b = [t for t in args if isinstance(t, torch.Tensor)][-2:]
                batch = a.shape[0] if a.dim() == 3 else 1
                total += 2 * batch * a.shape[-2] * a.shape[-1] * b.shape[-1]
            return result

    with Mode():
        fn(*args)
    return total
"""

WAITS_AFTER_THE_WARM_UP = """
def measure(work, gpu, warm_up=5, runs=20):
    def once():
        gpu.flush()
        gpu.synchronize()
        before = gpu.clock()
        work()
        gpu.synchronize()
        return gpu.clock() - before

    times = sorted([once() for _ in range(warm_up + runs)][warm_up:])
    return times[len(times) // 2]
"""

HONEST = [
    honest("matmul_cost", "floats that are whole", ("return 2 * m", "return 2.0 * m")),
    honest("count_flops", "by shapes, in a closure", source=BY_SHAPES),
    honest("backward_flops", "product by product", ("second = 2 * 2 * batch * d_hidden * d_out", "second = 4 * batch * d_hidden * d_out")),
    honest("attention_cost", "sums by hand", ("(q + k + scores) + (scores + scores) + (scores + v + o)", "q + k + v + o + 4 * scores")),
    honest("block_cost", "rounded", ("return projections + attention", "return float(round(projections + attention, -3))")),
    honest("init_scale", "with math", source="import math\n\n\ndef init_scale(fan_in):\n    return 1 / math.sqrt(fan_in)\n"),
    honest("training_memory", "a list", ("return parameters, parameters, states * parameters, activations", "return [parameters, parameters, states * parameters, activations]")),
    honest("measure", "the upper median", source=WAITS_AFTER_THE_WARM_UP),
    honest("utilisation", "in another order", ("one = parameters * tokens_per_second / (gpus * peak_flops)", "one = tokens_per_second / gpus * (parameters / peak_flops)")),
]  # fmt: skip

VARIANTS = MODULES + DIAL + WRONG + HONEST
