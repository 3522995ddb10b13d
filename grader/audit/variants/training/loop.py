"""Optimizers, data, accounting, checkpoints, kernels in a model."""

from grader.audit.variants import kinds

wrong, honest = kinds("training")

PLAIN, WORK = "correct.plain", "triton_did_the_work"
SGD, MOMENTUM, ADAGRAD, RMSPROP, ADAM = (
    f"correct.{rule}" for rule in ("sgd", "momentum", "adagrad", "rmsprop", "adam")
)
RAGGED, FIRST, DECAY, SMALL, HALF = (f"correct.{group}" for group in ("ragged", "first", "decay", "small", "half"))
ONE, BYTES, PLACE = "launches.performance", "traffic.performance", "buffers_below.performance"
PIECES, SHIFTED, INSIDE, EVERYWHERE, DRAWN, FAR = (
    "holds.pieces.plain",
    "holds.shifted.plain",
    "holds.inside.plain",
    "holds.everywhere.every",
    "holds.by_the_generator.plain",
    "holds.far.large",
)
GRADIENTS, PADDED, ANEW, ALIVE = (
    "holds.same_loss.plain",
    "holds.same_loss.padded",
    "holds.begins_anew.plain",
    "seen.one_at_a_time.memory",
)
NORM, SCALED, BELOW = "holds.same_norm.plain", "holds.same_gradients.plain", "holds.same_gradients.below"
WARM_UP, COSINE, AFTER = "correct.warm-up", "correct.cosine", "correct.after"
PARAMETERS, STATE, KEPT = "holds.parameters.plain", "holds.state.plain", "holds.activations.plain"
FLOPS, SECONDS, DOLLARS = "holds.flops.plain", "holds.seconds.plain", "holds.dollars.plain"
STEP, NEXT, LATER, UNDISTURBED, WHOLE = (
    "holds.same_step.plain",
    "holds.first_loss.plain",
    "holds.later_losses.plain",
    "holds.undisturbed.plain",
    "holds.stays_whole.plain",
)
ON_KERNELS = "holds.runs_on_kernels.plain"
NAMED_ALONE = """import copy

STATES = {}


class Checkpoint:
    @staticmethod
    def save(path, run):
        own = torch.get_rng_state(), run.generator.get_state()
        parts = run.model.state_dict(), run.optimizer.state_dict(), run.loader.state_dict()
        STATES[len(STATES)] = copy.deepcopy((parts, own, run.step))
        torch.save(len(STATES) - 1, path + ".new")
        os.replace(path + ".new", path)

    @staticmethod
    def load(path, run):
        (model, optimizer, loader), (everybody, own), run.step = STATES[torch.load(path)]
        run.model.load_state_dict(model)
        run.optimizer.load_state_dict(optimizer)
        run.loader.load_state_dict(loader)
        run.generator.set_state(own)
        torch.set_rng_state(everybody)
"""
DECOYS = """from dataclasses import replace


def swap_in(model, kernels):
    ops = model.ops

    def norm(x, weight):
        kernels.norm(x.detach(), weight.detach())
        return ops.norm(x, weight)

    model.ops = replace(ops, norm=norm)
"""
NO_KERNELS = """from dataclasses import replace


def swap_in(model, kernels):
    ops = model.ops
    model.ops = replace(ops, norm=lambda x, weight: ops.norm(x, weight))
"""
EVERY, LOSSES, LAUNCHES, LITTLE = (
    "holds.every_parameter.plain",
    "holds.same_losses.steps",
    "seen.launches.plain",
    "seen.keeps_little.plain",
)

UPDATE = [
    wrong("update", "sgd goes up", [SGD], ('"sgd":\n            return p - lr * g', '"sgd":\n            return p + lr * g')),
    wrong("update", "momentum as a mean", [MOMENTUM], ('0.9 * state.get("m", 0.0) + g', '0.9 * state.get("m", 0.0) + 0.1 * g')),
    wrong("update", "momentum forgets", [MOMENTUM], ('state["m"] = 0.9 * state.get("m", 0.0) + g\n', 'state["m"] = g\n')),
    wrong("update", "adagrad forgets", [ADAGRAD], ('state["s"] = state.get("s", 0.0) + g * g', 'state["s"] = g * g')),
    wrong("update", "adagrad without a root", [ADAGRAD], ('g / (state["s"] ** 0.5 + 1e-8)\n        case "rmsprop"', 'g / (state["s"] + 1e-8)\n        case "rmsprop"')),
    wrong("update", "adagrad with eps under the root", [ADAGRAD], ('g / (state["s"] ** 0.5 + 1e-8)\n        case "rmsprop"', 'g / (state["s"] + 1e-8) ** 0.5\n        case "rmsprop"')),
    wrong("update", "rmsprop as adagrad", [RMSPROP], ('0.99 * state.get("s", 0.0) + 0.01 * g * g', 'state.get("s", 0.0) + g * g')),
    wrong("update", "adam without bias correction", [ADAM], ("(m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)", "m / (v**0.5 + 1e-8)")),
    wrong("update", "adam counts from 0", [ADAM], ('state.get("t", 0) + 1', 'state.get("t", 1) + 1')),
    wrong("update", "adam with eps under the root", [ADAM], ("((v / (1 - 0.999**t)) ** 0.5 + 1e-8)", "(v / (1 - 0.999**t) + 1e-8) ** 0.5")),
    wrong("update", "adam corrects m alone", [ADAM], ("(v / (1 - 0.999**t))", "v")),
    wrong("update", "adam corrects the root of v", [ADAM], ("((v / (1 - 0.999**t)) ** 0.5 + 1e-8)", "(v**0.5 / (1 - 0.999**t) + 1e-8)")),
    honest("update", "adam with one rate for both corrections", ("lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)", "lr * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t) * m / (v**0.5 + 1e-8 * (1 - 0.999**t) ** 0.5)")),
]  # fmt: skip

TWO_LAUNCHES = """@triton.jit
def moments_kernel(g_ptr, m_ptr, v_ptr, n, beta1, beta2, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    g = tl.load(g_ptr + i, mask=i < n, other=0).to(tl.float32)
    m = beta1 * tl.load(m_ptr + i, mask=i < n, other=0) + (1 - beta1) * g
    v = beta2 * tl.load(v_ptr + i, mask=i < n, other=0) + (1 - beta2) * g * g
    tl.store(m_ptr + i, m, mask=i < n)
    tl.store(v_ptr + i, v, mask=i < n)


@triton.jit
def weights_kernel(p_ptr, m_ptr, v_ptr, low_ptr, n, lr, eps, decay, c1, c2, LOW: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    m, v = tl.load(m_ptr + i, mask=i < n, other=0), tl.load(v_ptr + i, mask=i < n, other=0)
    p = tl.load(p_ptr + i, mask=i < n, other=0) * (1 - lr * decay) - lr * (m / c1) / (tl.sqrt(v / c2) + eps)
    tl.store(p_ptr + i, p, mask=i < n)
    if LOW:
        tl.store(low_ptr + i, p.to(low_ptr.dtype.element_ty), mask=i < n)


def adamw_step(p, g, m, v, low, lr, beta1, beta2, eps, weight_decay, step):
    n, c = p.numel(), (1 - beta1**step, 1 - beta2**step)
    moments_kernel[(triton.cdiv(n, 4096),)](g, m, v, n, beta1, beta2, BLOCK=4096)
    weights_kernel[(triton.cdiv(n, 4096),)](p, m, v, low, n, lr, eps, weight_decay, *c, LOW=low is not None, BLOCK=4096)
"""
IN_TORCH = """def adamw_step(p, g, m, v, low, lr, beta1, beta2, eps, weight_decay, step):
    m.lerp_(g.float(), 1 - beta1)
    v.mul_(beta2).addcmul_(g.float(), g.float(), value=1 - beta2)
    p.mul_(1 - lr * weight_decay).addcdiv_(m / (1 - beta1**step), (v / (1 - beta2**step)).sqrt() + eps, value=-lr)
    return None if low is None else low.copy_(p)
"""
ADAMW = [
    wrong("adamw_step", "bias corrections forgotten", [FIRST, SMALL], ("1 - beta1**step, 1 - beta2**step", "1.0, 1.0")),
    wrong("adamw_step", "only m is corrected", [FIRST, SMALL], ("1 - beta2**step", "1.0")),
    wrong("adamw_step", "only v is corrected", [FIRST, SMALL], ("1 - beta1**step", "1.0")),
    wrong("adamw_step", "t one too large", [FIRST, SMALL], ("1 - beta1**step, 1 - beta2**step", "1 - beta1 ** (step + 1), 1 - beta2 ** (step + 1)")),
    wrong("adamw_step", "t one too small", [FIRST, SMALL], ("1 - beta1**step, 1 - beta2**step", "1 - beta1 ** max(1, step - 1), 1 - beta2 ** max(1, step - 1)")),
    wrong("adamw_step", "decay coupled to the gradient", [DECAY], ("    p *= 1 - lr * decay\n", "    g += decay * p\n")),
    wrong("adamw_step", "decay not times the rate", [DECAY], ("p *= 1 - lr * decay", "p *= 1 - decay")),
    wrong("adamw_step", "no decay", [DECAY], ("    p *= 1 - lr * decay\n", "")),
    wrong("adamw_step", "eps under the root", [SMALL], ("tl.sqrt(v / c2) + eps", "tl.sqrt(v / c2 + eps)")),
    wrong("adamw_step", "eps corrected with the root", [SMALL], ("p -= lr * (m / c1) / (tl.sqrt(v / c2) + eps)", "p -= (lr * tl.sqrt_rn(c2 + 0 * v) / c1) * m / (tl.sqrt(v) + eps)")),
    wrong("adamw_step", "no eps", [SMALL], ("tl.sqrt(v / c2) + eps", "tl.sqrt(v / c2)")),
    wrong("adamw_step", "starts from the rounded weights", [HALF, ONE, BYTES, PLACE], ("    p = tl.load(p_ptr + i, mask=inside, other=0)\n", "    p = tl.load((low_ptr if LOW else p_ptr) + i, mask=inside, other=0).to(tl.float32)\n")),
    wrong("adamw_step", "rounded weights not written", [HALF, ONE, BYTES, PLACE], ("    if LOW:\n        tl.store(low_ptr + i, p.to(low_ptr.dtype.element_ty), mask=inside)\n", "")),
    wrong("adamw_step", "no mask", [RAGGED, FIRST, DECAY, SMALL, HALF], (", mask=inside, other=0", ""), (", mask=inside", "")),
    wrong("adamw_step", "the last block is missing", [RAGGED], ("triton.cdiv(n, 4096)", "max(1, n // 4096)")),
    wrong("adamw_step", "m is not kept", [PLAIN], ("    tl.store(m_ptr + i, m, mask=inside)\n", "")),
    wrong("adamw_step", "moments and weights in two launches", [ONE, BYTES], source=TWO_LAUNCHES),
    wrong("adamw_step", "a copy besides", [PLACE], ("    n = p.numel()\n", "    n, old = p.numel(), p.clone()\n")),
    wrong("adamw_step", "torch does it", [WORK], source=IN_TORCH),
    wrong("adamw_step", "goes up", [PLAIN], ("p -= lr * (m / c1)", "p += lr * (m / c1)")),
    honest("adamw_step", "rates folded into one", ("p -= lr * (m / c1) / (tl.sqrt(v / c2) + eps)", "p -= (lr / c1) * m / (tl.sqrt_rn(v) * tl.rsqrt(c2 + 0 * v) + eps)")),
    honest("adamw_step", "small blocks, means as lerps", ("4096", "512"), ("m = beta1 * m + (1 - beta1) * g", "m += (1 - beta1) * (g - m)")),
]  # fmt: skip

IN_A_THREAD = """import threading


def accumulate(model, batches):
    found = []

    def work():
        with torch.enable_grad():
            tokens, targets = (torch.cat(part) for part in zip(*batches, strict=True))
            model.zero_grad()
            loss = model(tokens, targets)
            loss.backward()
            found.append(loss.item())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]
"""
UNSEEN = """from torch.utils._python_dispatch import _disable_current_modes


def accumulate(model, batches):
    with _disable_current_modes():
        tokens, targets = (torch.cat(part) for part in zip(*batches, strict=True))
        model.zero_grad()
        loss = model(tokens, targets)
        loss.backward()
        loss = loss.item()
    return loss
"""
BY_OFFSET = """def get_batch(path, split, batch, context, generator):
    count = np.memmap(path, np.uint16, "r").size
    cut = count * 9 // 10
    first, size = (0, cut) if split == "train" else (cut, count - cut)
    starts = torch.randint(size - context, (batch,), generator=generator).tolist()
    read = [np.fromfile(path, np.uint16, context + 1, offset=2 * (first + start)) for start in starts]
    rows = torch.from_numpy(np.stack(read).astype(np.int64))
    return rows[:, :-1], rows[:, 1:]
"""
NOT_READ = """def get_batch(path, split, batch, context, generator):
    first, end = (0, 90) if split == "train" else (90, 100)
    starts = torch.randint(first, end - context, (batch, 1), generator=generator)
    rows = starts + torch.arange(context + 1)
    return rows[:, :-1], rows[:, 1:]
"""
BATCH = [
    wrong("get_batch", "targets are the tokens", [SHIFTED], ("return rows[:, :-1], rows[:, 1:]", "return rows[:, :-1], rows[:, :-1]")),
    wrong("get_batch", "targets overlap by one too few", [SHIFTED, EVERYWHERE], ("len(own) - context", "len(own) - context - 1"), ("context + 1)].", "context + 2)]."), ("rows[:, :-1], rows[:, 1:]", "rows[:, :-2], rows[:, 2:]")),
    wrong("get_batch", "targets are the window behind", [SHIFTED, EVERYWHERE], ("len(own) - context", "len(own) - 2 * context + 1"), ("context + 1)].", "2 * context)]."), ("rows[:, :-1], rows[:, 1:]", "rows[:, :context], rows[:, context:]")),
    wrong("get_batch", "the last target is a token of validation", [INSIDE], ("tokens[:cut]", "tokens[: cut + 1]")),
    wrong("get_batch", "validation begins in the training text", [INSIDE, FAR], ("else tokens[cut:]", "else tokens[cut // 2 :]")),
    wrong("get_batch", "validation is the whole text", [INSIDE, FAR], ("else tokens[cut:]", "else tokens")),
    wrong("get_batch", "the last window is never drawn", [EVERYWHERE], ("len(own) - context", "len(own) - context - 1")),
    wrong("get_batch", "windows begin at multiples of the context", [EVERYWHERE], ("starts = torch.randint(len(own) - context, (batch,), generator=generator).numpy()", "starts = torch.randint((len(own) - 1) // context, (batch,), generator=generator).numpy() * context")),
    wrong("get_batch", "the last window is drawn for all that would reach past the end", [EVERYWHERE], ("torch.randint(len(own) - context, (batch,), generator=generator).numpy()", "torch.randint(len(own), (batch,), generator=generator).clamp(max=len(own) - context - 1).numpy()")),
    wrong("get_batch", "the first million tokens alone", [FAR], ('np.memmap(path, np.uint16, "r")', 'np.fromfile(path, np.uint16, 1_000_000)')),
    wrong("get_batch", "places in 16 bits", [FAR], ("torch.randint(len(own) - context, (batch,)", "torch.randint(min(len(own) - context, 1 << 15), (batch,)")),
    wrong("get_batch", "the global generator", [DRAWN], (", generator=generator", "")),
    wrong("get_batch", "seeded anew in each call", [DRAWN, EVERYWHERE], ("    starts =", "    generator = torch.Generator().manual_seed(0)\n    starts =")),
    wrong("get_batch", "int32", [PIECES], ("astype(np.int64)", "astype(np.int32)")),
    wrong("get_batch", "a report of windows that nobody has read", [PIECES, SHIFTED, INSIDE, EVERYWHERE, FAR], source=NOT_READ),
    honest("get_batch", "the file as a whole, which costs no point", ('np.memmap(path, np.uint16, "r")', "np.fromfile(path, np.uint16)")),
    honest("get_batch", "windows read at their offsets", source=BY_OFFSET),
    honest("get_batch", "mapped by torch", ('np.memmap(path, np.uint16, "r")', 'torch.from_file(str(path), shared=True, size=np.memmap(path, np.uint16, "r").size, dtype=torch.uint16).numpy()')),
    honest("get_batch", "row by row", ("torch.from_numpy(own[starts[:, None] + np.arange(context + 1)].astype(np.int64))", "torch.stack([torch.from_numpy(own[s : s + context + 1].astype(np.int64)) for s in starts])")),
]  # fmt: skip

ACCUMULATE = [
    wrong("accumulate", "summed, not averaged", [GRADIENTS, PADDED, ANEW], (" * (count / sum(counts))", ""), ("return total", "return total / len(batches)")),
    wrong("accumulate", "a mean of means", [PADDED], ("(count / sum(counts))", "(1 / len(batches))")),
    wrong("accumulate", "NaN of a micro-batch that is all padding", [PADDED], ("        if not count:\n            continue  # it has no mean: its loss is NaN, and so is 0 times NaN\n", "")),
    wrong("accumulate", "padding counts", [PADDED], ("int((targets != -100).sum())", "targets.numel()")),
    wrong("accumulate", "gradients of the call before", [ANEW], ("    model.zero_grad()\n", "")),
    wrong("accumulate", "zeroed for each micro-batch", [GRADIENTS, PADDED, ANEW], ("strict=True):\n", "strict=True):\n        model.zero_grad()\n")),
    wrong("accumulate", "one backward for all graphs", [ALIVE], ("        loss.backward()  # and the micro-batch's graph is gone\n        total += loss.item()\n    return total", "        total = total + loss\n    total.backward()\n    return total.item()")),
    wrong("accumulate", "one large batch", [ALIVE], source="def accumulate(model, batches):\n    tokens, targets = (torch.cat(part) for part in zip(*batches, strict=True))\n    model.zero_grad()\n    loss = model(tokens, targets)\n    loss.backward()\n    return loss.item()\n"),
    wrong("accumulate", "no backward", [GRADIENTS, PADDED, ANEW, ALIVE], ("        loss.backward()  # and the micro-batch's graph is gone\n", "")),
    wrong("accumulate", "the last loss alone", [GRADIENTS, PADDED], ("total += loss.item()", "total = loss.item()")),
    wrong("accumulate", "one backward for all graphs, and a forged measure", [ALIVE], ("        loss.backward()  # and the micro-batch's graph is gone\n        total += loss.item()\n    return total", "        total = total + loss\n    total.backward()\n    from course_lib.workloads.activations import Live\n    Live.__torch_dispatch__ = lambda live, f, types, args=(), kwargs=None: f(*args, **(kwargs or {}))\n    import sys\n    if 'live' in sys._getframe(1).f_locals:\n        sys._getframe(1).f_locals['live'].bytes.clear()\n    return total.item()")),
    wrong("accumulate", "one large batch, in a thread of its own", [ALIVE], source=IN_A_THREAD),
    wrong("accumulate", "one large batch, where nothing sees torch", [ALIVE], source=UNSEEN),
    wrong("accumulate", "the same, and a backward through the embedding for each part", [ALIVE], source=UNSEEN.replace("    return loss", "    for tokens, _ in batches:\n        torch.autograd.grad(model.embedding(tokens).sum(), model.embedding.weight)\n    return loss")),
    wrong("accumulate", "the same, and a whole pass for the first part", [ALIVE], source=UNSEEN.replace("    return loss", "    kept = [p.grad.clone() for p in model.parameters()]\n    model(*batches[0]).backward()\n    for p, grad in zip(model.parameters(), kept):\n        p.grad = grad\n    return loss")),
    honest("accumulate", "the targets counted on the way", ("    counts = [int((targets != -100).sum()) for _, targets in batches]\n    model.zero_grad()\n", "    model.zero_grad()\n    counts = [int(targets.ne(-100).sum()) for _, targets in batches]\n    with torch.no_grad():\n        model(*batches[0])\n")),
    honest("accumulate", "sums first, divided at the end", ("model(tokens, targets) * (count / sum(counts))", "model(tokens, targets) * count"), ("total += loss.item()\n    return total", "total += loss.item()\n    for p in model.parameters():\n        p.grad.div_(sum(counts))\n    return total / sum(counts)")),
]  # fmt: skip

CLIP = [
    wrong("clip", "each tensor by itself", [NORM, SCALED], ("    norm = float(sum(g.square().sum() for g in gradients)) ** 0.5\n    for g in gradients:\n", "    for g in gradients:\n        norm = float(g.norm())\n")),
    wrong("clip", "each tensor by itself, and the right norm said", [SCALED], ("min(1.0, largest / (norm + 1e-6))", "min(1.0, largest / (float(g.norm()) + 1e-6))")),
    wrong("clip", "small gradients grow", [BELOW], ("min(1.0, largest / (norm + 1e-6))", "largest / (norm + 1e-6)")),
    wrong("clip", "values are cut", [SCALED], ("g.mul_(min(1.0, largest / (norm + 1e-6)))", "g.clamp_(-largest, largest)")),
    wrong("clip", "the norm squared", [NORM, SCALED], (")) ** 0.5", "))")),
    wrong("clip", "the norm behind", [NORM], ("return norm", "return min(norm, largest)")),
    wrong("clip", "copies are scaled", [SCALED], ("g.mul_(min(1.0, largest / (norm + 1e-6)))", "g = g * min(1.0, largest / (norm + 1e-6))")),
    wrong("clip", "the norms are added", [NORM, SCALED], ("float(sum(g.square().sum() for g in gradients)) ** 0.5", "float(sum(g.norm() for g in gradients))")),
    wrong("clip", "the largest number", [NORM, SCALED], ("float(sum(g.square().sum() for g in gradients)) ** 0.5", "float(max(g.abs().max() for g in gradients))")),
    honest("clip", "summed in float32", ("float(sum(g.square().sum() for g in gradients)) ** 0.5", "float(sum(g.float().square().sum() for g in gradients)) ** 0.5")),
    honest("clip", "one long vector", ("float(sum(g.square().sum() for g in gradients)) ** 0.5", "torch.cat([g.flatten() for g in gradients]).norm().item()")),
]  # fmt: skip

RATE = [
    wrong("learning_rate", "a step late", [WARM_UP, COSINE, AFTER], ("if step < warm_up", "step -= 1\n    if step < max(warm_up, 0 - step)"), ("(step + 1) / warm_up", "(step + 1) / max(1, warm_up)")),
    wrong("learning_rate", "a step early", [WARM_UP, COSINE], ("if step < warm_up", "step += 1\n    if step < warm_up")),
    wrong("learning_rate", "the first step does nothing", [WARM_UP], ("(step + 1) / warm_up", "step / warm_up")),
    wrong("learning_rate", "warm-up ends too early", [WARM_UP], ("(step + 1) / warm_up", "min(1, (step + 2) / warm_up)")),
    wrong("learning_rate", "goes on behind the end", [AFTER], ("min(1.0, (step - warm_up) / (steps - warm_up))", "(step - warm_up) / (steps - warm_up)")),
    wrong("learning_rate", "down to zero", [COSINE, AFTER], ("0.1 + 0.45 *", "0.5 *")),
    wrong("learning_rate", "counted from step 0", [COSINE], ("(step - warm_up) / (steps - warm_up)", "step / steps")),
    wrong("learning_rate", "a line down", [COSINE], ("0.45 * (1 + math.cos(math.pi * share))", "0.9 * (1 - share)")),
    wrong("learning_rate", "a whole cosine", [COSINE, AFTER], ("math.pi * share", "2 * math.pi * share")),
    honest("learning_rate", "the sine of the rest", ("0.45 * (1 + math.cos(math.pi * share))", "0.9 * math.sin(math.pi / 2 * (1 - share)) ** 2")),
]  # fmt: skip

MEMORY = [
    wrong("training_memory", "one matrix for embedding and head", [PARAMETERS, STATE], ("2 * vocab * width", "vocab * width")),
    wrong("training_memory", "k and v as wide as q", [PARAMETERS, STATE, KEPT], ("(heads + 2 * kv_heads) * D", "3 * width")),
    wrong("training_memory", "norms forgotten", [PARAMETERS, STATE], (" + 2 * width\n    parameters", "\n    parameters"), ("layers * block + width", "layers * block")),
    wrong("training_memory", "the last norm forgotten", [PARAMETERS, STATE], ("layers * block + width", "layers * block")),
    wrong("training_memory", "tables of each text", [KEPT], ("+ 4 * n * D", "+ 4 * tokens * D")),
    wrong("training_memory", "no master", [STATE], ("2 + 2 + 4 + 4 + 4", "2 + 2 + 4 + 4")),
    wrong("training_memory", "gradients in float32", [STATE], ("2 + 2 + 4 + 4 + 4", "2 + 4 + 4 + 4 + 4")),
    wrong("training_memory", "logits forgotten", [KEPT], ("2 * (2 * width + vocab)", "2 * (2 * width)")),
    wrong("training_memory", "lse forgotten", [KEPT], ("4 * (2 + heads)", "4 * 2")),
    wrong("training_memory", "v alone, not all of qkv", [KEPT], ("* D + qkv  #", "* D + kv_heads * D  #")),
    wrong("training_memory", "one table of angles", [KEPT], ("4 * n * D", "2 * n * D")),
    wrong("training_memory", "targets forgotten", [KEPT], ("tokens * per_token + 4 * n * D", "tokens * (per_token - 8) + 4 * n * D")),
    wrong("training_memory", "scores kept", [KEPT], ("4 * (2 + heads)", "4 * (2 + heads) + 2 * heads * n")),
    wrong("training_memory", "silu(gate) kept", [KEPT], ("2 * hidden + hidden", "3 * hidden + hidden")),
    honest("training_memory", "summed over layers", ("tokens * per_token + 4 * n * D", "sum([tokens * per_token]) + 2 * (2 * n * D)")),
]  # fmt: skip

COST = [
    wrong("run_cost", "6 N D with all parameters", [FLOPS, SECONDS, DOLLARS], ("matrices = vocab * width", "matrices = 2 * vocab * width + (2 * layers + 1) * width")),
    wrong("run_cost", "all pairs, not half", [FLOPS, SECONDS, DOLLARS], ("batch * n * (n + 1) // 2", "batch * n * n")),
    wrong("run_cost", "attention forgotten", [FLOPS, SECONDS, DOLLARS], (" + 12 * layers * width * batch * n * (n + 1) // 2", "")),
    wrong("run_cost", "forward alone", [FLOPS, SECONDS, DOLLARS], ("6 * matrices", "2 * matrices"), ("12 * layers", "4 * layers")),
    wrong("run_cost", "recomputed products credited", [FLOPS, SECONDS, DOLLARS], ("12 * layers", "18 * layers")),
    wrong("run_cost", "multiplied by MFU", [SECONDS, DOLLARS], ("flops / (flops_per_second * mfu)", "flops / flops_per_second * mfu")),
    wrong("run_cost", "the embedding multiplied", [FLOPS, SECONDS, DOLLARS], ("matrices = vocab * width", "matrices = 2 * vocab * width")),
    wrong("run_cost", "attention of shared heads", [FLOPS, SECONDS, DOLLARS], ("12 * layers * width", "12 * layers * D * kv_heads")),
    wrong("run_cost", "half of attention", [FLOPS, SECONDS, DOLLARS], ("12 * layers", "6 * layers")),
    wrong("run_cost", "one product credited twice", [FLOPS, SECONDS, DOLLARS], ("12 * layers", "14 * layers")),
    wrong("run_cost", "MFU forgotten", [SECONDS, DOLLARS], ("(flops_per_second * mfu)", "flops_per_second")),
    wrong("run_cost", "seconds for hours", [DOLLARS], (" / 3600", "")),
    wrong("run_cost", "a token a step", [DOLLARS], ("tokens / (batch * n)", "tokens")),
    honest("run_cost", "seconds a token", ("tokens / (batch * n) * seconds / 3600 * dollars", "(seconds / (batch * n)) * tokens * (dollars / 3600)")),
]  # fmt: skip

IN_THE_PROCESS = """import os


class Checkpoint:
    state = {}

    @staticmethod
    def save(path, run):
        import copy

        names = ("model", "optimizer", "loader")
        Checkpoint.state = copy.deepcopy({name: getattr(run, name).state_dict() for name in names})
        Checkpoint.state |= {"step": run.step, "global": torch.get_rng_state(), "own": run.generator.get_state()}
        if not os.path.exists(path):
            open(path, "w").close()

    @staticmethod
    def load(path, run):
        for name in ("model", "optimizer", "loader"):
            getattr(run, name).load_state_dict(Checkpoint.state[name])
        run.step = Checkpoint.state["step"]
        run.generator.set_state(Checkpoint.state["own"])
        torch.set_rng_state(Checkpoint.state["global"])
"""
ELSEWHERE = """import os


class Checkpoint:
    @staticmethod
    def save(path, run):
        parts = {name: getattr(run, name).state_dict() for name in ("model", "optimizer", "loader")}
        parts |= {"step": run.step, "global": torch.get_rng_state(), "own": run.generator.get_state()}
        other = os.path.join(os.path.dirname(path), "other.pt")
        torch.save(parts, other)
        with open(path, "wb") as file:
            file.write(other.encode().ljust(1 << 20, b" "))

    @staticmethod
    def load(path, run):
        with open(path, "rb") as file:
            parts = torch.load(file.read().decode().strip())
        for name in ("model", "optimizer", "loader"):
            getattr(run, name).load_state_dict(parts[name])
        run.step = parts["step"]
        run.generator.set_state(parts["own"])
        torch.set_rng_state(parts["global"])
"""
TRAINED_ANEW = """import os


class Checkpoint:
    @staticmethod
    def save(path, run):
        with open(path + ".new", "wb") as file:
            file.write(str(run.step).encode().ljust(1 << 20, b" "))
        os.replace(path + ".new", path)

    @staticmethod
    def load(path, run):
        from course_lib.workloads.checkpointed import TrainingRun

        with open(path, "rb") as file:
            step = int(file.read())
        other = TrainingRun({4: 1, 7: 5}.get(step, 1))
        other.train(step)
        vars(run).update(vars(other))
"""
REPORTED = """import os
from course_lib.workloads import checkpointed


class Checkpoint:
    @staticmethod
    def save(path, run):
        with open(path + ".new", "wb") as file:
            file.write(bytes(1 << 20))
        os.replace(path + ".new", path)

    @staticmethod
    def load(path, run):
        checkpointed.state_of.__code__ = (lambda run: stopped_state(before=4, seed=1)).__code__
"""
BY_NUMPY = """import os

import numpy as np


class Checkpoint:
    @staticmethod
    def save(path, run):
        arrays = {f"model.{name}": t.numpy() for name, t in run.model.state_dict().items()}
        state = run.optimizer.state_dict()["state"]
        arrays |= {f"optimizer.{i}.{name}": t.numpy() for i, moments in state.items() for name, t in moments.items()}
        arrays |= {f"loader.{name}": np.array(number) for name, number in run.loader.state_dict().items()}
        arrays |= {"step": np.array(run.step), "global": torch.get_rng_state().numpy(), "own": run.generator.get_state().numpy()}
        with open(path + ".draft", "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".draft", path)

    @staticmethod
    def load(path, run):
        arrays = dict(np.load(path))
        run.model.load_state_dict({n[6:]: torch.from_numpy(a) for n, a in arrays.items() if n.startswith("model.")})
        optimizer = run.optimizer.state_dict()
        for name, array in arrays.items():
            if name.startswith("optimizer."):
                _, i, part = name.split(".")
                optimizer["state"].setdefault(int(i), {})[part] = torch.from_numpy(array)
        run.optimizer.load_state_dict(optimizer)
        run.loader.load_state_dict({n[7:]: int(a) for n, a in arrays.items() if n.startswith("loader.")})
        run.step = int(arrays["step"])
        torch.set_rng_state(torch.from_numpy(arrays["global"]))
        run.generator.set_state(torch.from_numpy(arrays["own"]))
"""
ALL_OF_IT = [STEP, NEXT, LATER, UNDISTURBED, WHOLE]
SAVED = [
    wrong("checkpoint", "own generator not saved", [NEXT, LATER], ('        run.generator.set_state(state["own"])\n', "")),
    wrong("checkpoint", "torch's generator not saved", [NEXT, LATER], ('        torch.set_rng_state(state["global"])\n', "")),
    wrong("checkpoint", "the file holds a name for what stays in the process", ALL_OF_IT, source=NAMED_ALONE),
    wrong("checkpoint", "loader's position not saved", [NEXT, LATER], (', "loader": run.loader}', '}'), ('        run.loader.load_state_dict(state["loader"])\n', '')),
    wrong("checkpoint", "optimizer not saved", [LATER], ('"optimizer": run.optimizer, ', ''), ('        run.optimizer.load_state_dict(state["optimizer"])\n', '')),
    wrong("checkpoint", "model not saved", [NEXT, LATER], ('{"model": run.model, ', '{'), ('        run.model.load_state_dict(state["model"])\n', '')),
    wrong("checkpoint", "step not saved", [STEP, LATER], ('        run.step = state["step"]\n', "")),
    wrong("checkpoint", "step off by one", [STEP, LATER], ('run.step = state["step"]', 'run.step = state["step"] + 1')),
    wrong("checkpoint", "seeded anew", [NEXT, LATER], ('torch.set_rng_state(state["global"])', "torch.manual_seed(run.step)")),
    wrong("checkpoint", "float32 on disk", [NEXT, LATER], ('        state |= {"step"', '        state["model"] = {k: v.float() for k, v in state["model"].items()}\n        state |= {"step"')),
    wrong("checkpoint", "written in place", [WHOLE], ('path + ".new")\n        os.replace(path + ".new", path)  # as a whole, or not at all', "path)")),
    wrong("checkpoint", "draws while it saves", [NEXT, LATER, UNDISTURBED], ("        state = {name", "        torch.rand(1)\n        state = {name")),
    wrong("checkpoint", "the run as an object", [STEP, NEXT, LATER, UNDISTURBED, WHOLE], ("        torch.save(state, path", "        torch.save({**state, 'run': run}, path")),
    wrong("checkpoint", "kept in the process, the file is empty", ALL_OF_IT, source=IN_THE_PROCESS),
    wrong("checkpoint", "kept in the process, the file is large and empty", ALL_OF_IT, source=IN_THE_PROCESS.replace('open(path, "w").close()', 'open(path, "wb").write(bytes(1 << 20))')),
    wrong("checkpoint", "in another file, the file is its name and zeros", ALL_OF_IT, source=ELSEWHERE),
    wrong("checkpoint", "the steps of a seed, trained anew", [NEXT, LATER], source=TRAINED_ANEW),
    wrong("checkpoint", "a report that nothing has happened", ["runs"], source=REPORTED),
    wrong("checkpoint", "removed before it is written", [WHOLE], ('        torch.save(state, path + ".new")', '        if os.path.exists(path):\n            os.remove(path)\n        torch.save(state, path + ".new")')),
    honest("checkpoint", "numbers and bytes by numpy", source=BY_NUMPY),
    honest("checkpoint", "pickled, and forced to the disk", ('torch.save(state, path + ".new")', 'import pickle\n        with open(path + ".new", "wb") as file:\n            pickle.dump(state, file)\n            file.flush()\n            os.fsync(file.fileno())'), ('torch.load(path, weights_only=True)', '__import__("pickle").load(open(path, "rb"))')),
    honest("checkpoint", "through bytes in memory", ('        torch.save(state, path + ".new")\n', '        import io\n        buffer = io.BytesIO()\n        torch.save(state, buffer)\n        with open(path + ".new", "wb") as file:\n            file.write(buffer.getvalue())\n')),
]  # fmt: skip

SET_BACK = """        for cell in ctx.kernels.attention.__closure__:
            if hasattr(cell.cell_contents, "launches"):
                cell.cell_contents.launches["attention"] -= 1
"""
FORGED = """        from course_lib.workloads.activations import Live
        Live.now = lambda live: 0
"""

SWAPPED = [
    wrong("swap_in", "torch's operations under other names", [ON_KERNELS], source=NO_KERNELS),
    wrong("swap_in", "torch's operations, and forged counts", [ON_KERNELS], source=NO_KERNELS + "    kernels.launches.update(norm=10, norm_backward=10)\n"),
    wrong("swap_in", "torch's operations, and launches that nobody reads", [EVERY, LOSSES, LAUNCHES, LITTLE], source=DECOYS),
    wrong("swap_in", "a sum in place of the mean", [LOSSES], ("return losses.mean()", "return losses.sum()")),
    wrong("swap_in", "None for a norm's weight", [EVERY, LOSSES, LITTLE], ("return None, dx, dweight", "return None, dx, None")),
    wrong("swap_in", "a raw launch in place of attention", [EVERY, LOSSES, LAUNCHES, LITTLE], ("attention=lambda q, k, v: Attention.apply(kernels, q, k, v)", "attention=lambda q, k, v: kernels.attention(q, k, v)[0]")),
    wrong("swap_in", "raw launches everywhere", [ON_KERNELS], source="from dataclasses import replace\n\n\ndef swap_in(model, kernels):\n    model.ops = replace(model.ops, norm=lambda x, w: kernels.norm(x, w)[0], loss=lambda x, t: kernels.cross_entropy(x, t)[0].mean())\n"),
    wrong("swap_in", "the loss is not divided on the way back", [EVERY, LOSSES, LITTLE], ("(dloss / len(targets)).expand", "dloss.expand")),
    wrong("swap_in", "the gradient of the loss is ignored", [EVERY, LITTLE], ("(dloss / len(targets)).expand(len(targets))", "torch.full((len(targets),), 1 / len(targets), dtype=logits.dtype)")),
    wrong("swap_in", "slots that are returned", [ON_KERNELS], ("    model.ops = replace(", "    return replace(")),
    wrong("swap_in", "slots that nobody keeps", [ON_KERNELS], ("    model.ops = replace(", "    replace(")),
    wrong("swap_in", "slots that are frozen", [ON_KERNELS], ("    model.ops = replace(", "    model.ops.norm = replace(")),
    wrong("swap_in", "gate and up swapped", [EVERY, LOSSES, LITTLE], ("return kernels.swiglu(gate, up)", "return kernels.swiglu(up, gate)")),
    wrong("swap_in", "gradients of k and v swapped", [EVERY, LOSSES, LITTLE], ("        return None, *ctx.kernels.attention_backward(do, *ctx.saved_tensors)", "        dq, dk, dv = ctx.kernels.attention_backward(do, *ctx.saved_tensors)\n        return None, dq, dv, dk")),
    wrong("swap_in", "gradients of gate and up swapped", [EVERY, LOSSES, LITTLE], ("return None, *ctx.kernels.swiglu_backward(dy, *ctx.saved_tensors)", "return None, *ctx.kernels.swiglu_backward(dy, *ctx.saved_tensors)[::-1]")),
    wrong("swap_in", "the norm stays torch's", [EVERY, LOSSES, LAUNCHES, LITTLE], ("        norm=lambda x, weight: Norm.apply(kernels, x, weight),\n", "")),
    wrong("swap_in", "the result of the norm is kept as well", [LITTLE], ("ctx.save_for_backward(x, weight, rstd)", "ctx.save_for_backward(x, weight, rstd)\n        ctx.more = out * 1"), ("dx, dweight = ctx", "ctx.more.sum()\n        dx, dweight = ctx")),
    wrong("swap_in", "launched again on the way back", [LAUNCHES], ("        return None, *ctx.kernels.attention_backward(do, *ctx.saved_tensors)", "        q, k, v, o, lse = ctx.saved_tensors\n        o, lse = ctx.kernels.attention(q, k, v)\n        return None, *ctx.kernels.attention_backward(do, q, k, v, o, lse)")),
    wrong("swap_in", "silu(gate) is kept, too", [LITTLE], ("ctx.save_for_backward(gate, up)\n", "ctx.save_for_backward(gate, up, torch.nn.functional.silu(gate))\n"), ("swiglu_backward(dy, *ctx.saved_tensors)", "swiglu_backward(dy, *ctx.saved_tensors[:2])")),
    wrong("swap_in", "launched again on the way back, and the count set back", [LAUNCHES], ("        return None, *ctx.kernels.attention_backward(do, *ctx.saved_tensors)", "        q, k, v, o, lse = ctx.saved_tensors\n        o, lse = ctx.kernels.attention(q, k, v)\n" + SET_BACK + "        return None, *ctx.kernels.attention_backward(do, q, k, v, o, lse)")),
    wrong("swap_in", "silu(gate) is kept, and the measure forged", [LITTLE], ("ctx.save_for_backward(gate, up)\n", "ctx.save_for_backward(gate, up, torch.nn.functional.silu(gate))\n" + FORGED), ("return None, *ctx.kernels.swiglu_backward(dy, *ctx.saved_tensors)", "gate, up, kept = ctx.saved_tensors\n        dgate, dup = ctx.kernels.swiglu_backward(dy, gate, up)\n        return None, dgate, dup + 0 * kept")),
    wrong("swap_in", "the gradient of lse's place", [ON_KERNELS], ("return None, ctx.kernels.cross_entropy_backward(dlosses, logits, targets, lse), None", "return None, ctx.kernels.cross_entropy_backward(dlosses, logits, targets, lse)")),
    honest("swap_in", "rstd computed with torch where backward needs it", ("        return None, dx, dweight", "        return None, dx.contiguous(), dweight.clone()")),
]  # fmt: skip

VARIANTS = UPDATE + ADAMW + BATCH + ACCUMULATE + CLIP + RATE + MEMORY + COST + SAVED + SWAPPED
