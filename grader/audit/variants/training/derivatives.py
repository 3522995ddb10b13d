"""Gradients of shared heads, and an operator of torch."""

from grader.audit.variants import kinds

wrong, honest = kinds("training")

PLAIN, GROUPED, RAGGED, HALF, KERNEL = (
    "correct.plain",
    "correct.grouped",
    "correct.ragged",
    "correct.half",
    "triton_did_the_work",
)
FLOPS, ATOMICS, TRAFFIC, LAUNCHES = (
    f"{name}.performance" for name in ("dot_flops", "no_atomics", "traffic", "launches")
)
COPIED = "buffers_below.performance"
COUNTED = [FLOPS, COPIED, LAUNCHES]

Q_LOOP = "    for g in range(GROUP):\n"
ADDED = """    tl.atomic_add(dk_at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=there)
    tl.atomic_add(dv_at, dv.to(dv_ptr.dtype.element_ty), mask=there)
"""
STORED = """    tl.store(dk_at, (dk * scale).to(dk_ptr.dtype.element_ty), mask=there)
    tl.store(dv_at, dv.to(dv_ptr.dtype.element_ty), mask=there)
"""
RELOADED = (
    "        k = tl.load(k_at + keys[:, None] * k_strides[2] + dims[None, :] * k_strides[3], mask=there, other=0)\n"
)
OWN_HEADS = [
    (Q_LOOP, "    for g in range(1):\n"),
    ("        h = head * GROUP + g\n", "        h = head\n"),
    ("of_head = (batch * Hkv * GROUP + h) * Nq", "of_head = (batch * Hkv + h) * Nq"),
    (
        "k_ptr + batch * k_strides[0] + head * k_strides[1]",
        "k_ptr + batch * k_strides[0] + head // GROUP * k_strides[1]",
    ),
    (
        "v_ptr + batch * v_strides[0] + head * v_strides[1]",
        "v_ptr + batch * v_strides[0] + head // GROUP * v_strides[1]",
    ),
    ("B * Hkv)](", "B * Hq)]("),
    ("dv)), Hkv, Nq", "dv)), Hq, Nq"),
]
SUMMED = [
    *OWN_HEADS,
    (
        "torch.empty_like(k), torch.empty_like(v)",
        "(torch.empty(B, Hq, Nk, D, dtype=k.dtype, device=k.device) for _ in range(2))",
    ),
    ("    return dk, dv\n", "    dk, dv = (x.unflatten(1, (Hkv, -1)).sum(2) for x in (dk, dv))\n    return dk, dv\n"),
]
ATOMIC = [
    *OWN_HEADS,
    ("dk_ptr + batch * dk_strides[0] + head * dk", "dk_ptr + batch * dk_strides[0] + head // GROUP * dk"),
    ("dv_ptr + batch * dv_strides[0] + head * dv", "dv_ptr + batch * dv_strides[0] + head // GROUP * dv"),
    (STORED, ADDED),
    ("torch.empty_like(k), torch.empty_like(v)", "torch.zeros_like(k), torch.zeros_like(v)"),
]
SHARED = [
    wrong("grouped_backward", "the first head of each group", [GROUPED, RAGGED, HALF, *COUNTED, ATOMICS, TRAFFIC], (Q_LOOP, "    for g in range(1):\n")),
    wrong("grouped_backward", "the last head of each group", [GROUPED, RAGGED, HALF, *COUNTED, ATOMICS, TRAFFIC], (Q_LOOP, "    for g in range(GROUP - 1, GROUP):\n")),
    wrong("grouped_backward", "heads dealt out in turn", [GROUPED, RAGGED, HALF, *COUNTED, ATOMICS, TRAFFIC], ("h = head * GROUP + g", "h = g * Hkv + head")),
    wrong("grouped_backward", "rows of lse by heads of k", [GROUPED, RAGGED, HALF, *COUNTED, ATOMICS, TRAFFIC], ("(batch * Hkv * GROUP + h) * Nq", "(batch * Hkv + head) * Nq")),
    wrong("grouped_backward", "products in TF32", [PLAIN], (', input_precision="ieee"', "")),
    wrong("grouped_backward", "dk not scaled", [PLAIN], ("(dk * scale)", "dk")),
    wrong("grouped_backward", "delta forgotten", [PLAIN], (" - delta[:, None]", "")),
    wrong("grouped_backward", "not causal", [PLAIN], (" & (keys[None, :] <= rows[:, None] + Nk - Nq)", ""), ("tl.maximum(first - (Nk - Nq), 0)", "0 * first")),
    wrong("grouped_backward", "aligned at the top left", [RAGGED], ("rows[:, None] + Nk - Nq", "rows[:, None]"), ("first - (Nk - Nq)", "first")),
    wrong("grouped_backward", "the mean over a group", [GROUPED, RAGGED, HALF, *COUNTED, ATOMICS, TRAFFIC], ("(dk * scale)", "(dk * scale / GROUP)"), ("dv.to(dv_ptr", "(dv / GROUP).to(dv_ptr")),
    wrong("grouped_backward", "heads repeated, summed by torch", ["triton_did_the_work"], *SUMMED),
    wrong("grouped_backward", "atomics", [ATOMICS, TRAFFIC], *ATOMIC),
    wrong("grouped_backward", "sums in half precision", [HALF], ("            dk += tl.dot(", "            dv = dv.to(q.dtype).to(tl.float32)\n            dk = dk.to(q.dtype).to(tl.float32) + tl.dot(")),
    wrong("grouped_backward", "all tiles", [FLOPS, TRAFFIC], ("tl.maximum(first - (Nk - Nq), 0)", "0 * first")),
    wrong("grouped_backward", "two launches", [LAUNCHES, TRAFFIC, FLOPS], ("    return dk, dv\n", "    grouped_dkdv_kernel[(triton.cdiv(Nk, BLOCK_N), B * Hkv)](\n        q, k, v, do, lse, delta, dk, dv, *(x.stride() for x in (q, k, v, do, dk, dv)), Hkv, Nq, Nk, scale,\n        GROUP=Hq // Hkv, D=D, BLOCK_M=32, BLOCK_N=BLOCK_N)\n    return dk, dv\n")),
    wrong("grouped_backward", "k is loaded again for each head", [TRAFFIC], (Q_LOOP, Q_LOOP + RELOADED), tells="`k`"),
    wrong("grouped_backward", "copies", [COPIED], ("    dk, dv = torch.empty_like(k)", "    q, do = q.contiguous(), do.contiguous()\n    dk, dv = torch.empty_like(k)")),
    honest("grouped_backward", "the group from behind", ("h = head * GROUP + g", "h = head * GROUP + GROUP - 1 - g")),
    honest("grouped_backward", "tiles of 32 queries", ("32 if q.dtype == torch.float32 else 64", "32")),
]  # fmt: skip

FAKE, SAVED, FORWARD, BACKWARD = (
    "correct.fake",
    "saves.performance",
    "launches.performance.forward",
    "launches.performance.backward",
)
OF_NORM = [SAVED, FORWARD, BACKWARD]
FAKE_BACK = "@norm_backward_op.register_fake\ndef _(x, weight, rstd, dy):\n    return torch.empty_like(x), torch.empty_like(weight)\n"
FAKE_FORTH = "@norm_op.register_fake\ndef _(x, weight):\n    return torch.empty_like(x), x.new_empty(x.shape[0], dtype=torch.float32)\n"
BY_FUNCTION = """
class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        y, rstd = norm_forward(x, weight)
        ctx.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        return norm_backward(*ctx.saved_tensors, dy)


def operator_norm("""
RETURNS = "    return norm_backward_op(*ctx.saved_tensors, dy)\n"
OPERATOR = [
    wrong("operator_norm", "None for the weight", [PLAIN], (RETURNS, "    return norm_backward_op(*ctx.saved_tensors, dy)[0], None\n")),
    wrong("operator_norm", "a raw launch, no autograd", [PLAIN], ("    return norm_op(x, weight)[0]\n", "    return norm_forward(x.detach(), weight.detach())[0]\n")),
    wrong("operator_norm", "forward alone", [PLAIN], ("norm_op.register_autograd(go_back, setup_context=keep)\n", "")),
    wrong("operator_norm", "an autograd.Function, no operator", [FAKE], ("def operator_norm(", BY_FUNCTION.lstrip()), ("    return norm_op(x, weight)[0]\n", "    return Norm.apply(x, weight)\n")),
    wrong("operator_norm", "no fake", [FAKE], (FAKE_FORTH, "")),
    wrong("operator_norm", "no fake for the way back", [FAKE], (FAKE_BACK, "")),
    wrong("operator_norm", "the fake is float32", [FAKE], ("    return torch.empty_like(x), x.new_empty(", "    return torch.empty_like(x, dtype=torch.float32), x.new_empty(")),
    wrong("operator_norm", "the fake has another shape", [FAKE], ("    return torch.empty_like(x), x.new_empty(", "    return x.new_empty(x.shape[0]), x.new_empty(")),
    wrong("operator_norm", "the fake of dweight is like x", [FAKE], (FAKE_BACK, FAKE_BACK.replace("empty_like(weight)", "empty_like(x)"))),
    wrong("operator_norm", "the fake of rstd has all columns", [FAKE], ("x.new_empty(x.shape[0], dtype=torch.float32)", "x.new_empty(x.shape, dtype=torch.float32)")),
    wrong("operator_norm", "the fake of rstd has the dtype of x", [FAKE], ("x.new_empty(x.shape[0], dtype=torch.float32)", "x.new_empty(x.shape[0])")),
    wrong("operator_norm", "y is kept as well", [SAVED], ("    ctx.save_for_backward(*inputs, output[1])", "    ctx.save_for_backward(*inputs, output[1], output[0])"), (RETURNS, "    return norm_backward_op(*ctx.saved_tensors[:3], dy)\n")),
    wrong("operator_norm", "gradients swapped", [PLAIN], (RETURNS, "    dx, dweight = norm_backward_op(*ctx.saved_tensors, dy)\n    return dweight, dx\n")),
    wrong("operator_norm", "the gradient of a sum", [PLAIN], (RETURNS, "    return norm_backward_op(*ctx.saved_tensors, torch.ones_like(dy))\n")),
    wrong("operator_norm", "rstd made anew", [SAVED], ("    ctx.save_for_backward(*inputs, output[1])", "    ctx.save_for_backward(*inputs, output[1].clone(), output[0])"), (RETURNS, "    x, weight, rstd, y = ctx.saved_tensors\n    y.clone()\n    return norm_backward_op(x, weight, rstd, dy)\n")),
    wrong("operator_norm", "forward runs twice", [FORWARD], ("    return norm_forward(x, weight)\n\n\n@norm_op", "    norm_forward(x, weight)\n    return norm_forward(x, weight)\n\n\n@norm_op")),
    wrong("operator_norm", "forward runs again in backward", [BACKWARD], ("    return norm_backward(x, weight, rstd, dy)", "    return norm_backward(x, weight, norm_forward(x, weight)[1], dy)")),
    wrong("operator_norm", "a step of torch behind it", [KERNEL], ("    return norm_op(x, weight)[0]\n", "    return norm_op(x, weight)[0] + 0\n")),
    wrong("operator_norm", "rows of 32", [RAGGED, *OF_NORM], ("dx, parts, M, N, *dy.stride(), ROWS=ROWS, BLOCK=triton.next_power_of_2(N)", "dx, parts, M, N, *dy.stride(), ROWS=ROWS, BLOCK=32")),
    honest("operator_norm", "by its name", ("    return norm_op(x, weight)[0]\n", "    return torch.ops.course.norm(x, weight)[0]\n")),
    honest("operator_norm", "fakes by shapes", ("    return torch.empty_like(x), x.new_empty(x.shape[0], dtype=torch.float32)", "    return x.new_empty(*x.shape), torch.empty(x.shape[0], dtype=torch.float32, device=x.device)")),
]  # fmt: skip

VARIANTS = [*SHARED, *OPERATOR]
