"""Unit 11, training. What each variant must lose stands next to it; () means full marks."""

from grader.audit.variants import kinds

wrong, honest = kinds("model")

PLAIN = ["correct.plain"]
SGD, MOMENTUM, ADAGRAD, RMSPROP, ADAM = (f"correct.{rule}" for rule in ("sgd", "momentum", "adagrad", "rmsprop", "adam"))
RAGGED, FIRST, DECAY, SMALL, HALF = (f"correct.{group}" for group in ("ragged", "first", "decay", "small", "half"))
ONE, BYTES, PLACE = "launches.performance", "traffic.performance", "buffers_below.performance"

VARIANTS = [
    wrong("update", "sgd goes up", [SGD], ("return p - lr * g", "return p + lr * g")),
    wrong("update", "momentum as a mean", [MOMENTUM], ("0.9 * state.get(\"m\", 0.0) + g", "0.9 * state.get(\"m\", 0.0) + 0.1 * g"), says="no mean"),
    wrong("update", "momentum forgets", [MOMENTUM], ("state[\"m\"] = 0.9 * state.get(\"m\", 0.0) + g\n", "state[\"m\"] = g\n")),
    wrong("update", "adagrad forgets", [ADAGRAD], ("state[\"s\"] = state.get(\"s\", 0.0) + g * g", "state[\"s\"] = g * g")),
    wrong("update", "adagrad without a root", [ADAGRAD], ("g / (state[\"s\"] ** 0.5 + 1e-8)\n        case \"rmsprop\"", "g / (state[\"s\"] + 1e-8)\n        case \"rmsprop\"")),
    wrong("update", "rmsprop as adagrad", [RMSPROP], ("0.99 * state.get(\"s\", 0.0) + 0.01 * g * g", "state.get(\"s\", 0.0) + g * g")),
    wrong("update", "rmsprop with eps under the root", [RMSPROP], ("state[\"s\"] = 0.99 * state.get(\"s\", 0.0) + 0.01 * g * g\n            return p - lr * g / (state[\"s\"] ** 0.5 + 1e-8)", "state[\"s\"] = 0.99 * state.get(\"s\", 0.0) + 0.01 * g * g\n            return p - lr * g / (state[\"s\"] + 1e-3) ** 0.5")),
    wrong("update", "adam without bias correction", [ADAM], ("(m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)", "m / (v**0.5 + 1e-8)"), says="without bias correction"),
    wrong("update", "adam counts from 0", [ADAM], ("state.get(\"t\", 0) + 1", "state.get(\"t\", 1) + 1")),
    wrong("update", "adam with eps under the root", [ADAM], ("((v / (1 - 0.999**t)) ** 0.5 + 1e-8)", "(v / (1 - 0.999**t) + 1e-8) ** 0.5")),
    wrong("update", "adam corrects m alone", [ADAM], ("(v / (1 - 0.999**t))", "v")),
    honest("update", "adam with one rate for both corrections", ("lr * (m / (1 - 0.9**t)) / ((v / (1 - 0.999**t)) ** 0.5 + 1e-8)", "lr * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t) * m / (v**0.5 + 1e-8 * (1 - 0.999**t) ** 0.5)")),
    wrong("adamw_step", "bias corrections forgotten", [FIRST, HALF][:1], ("1 - beta1**step, 1 - beta2**step", "1.0, 1.0"), says="without bias corrections"),
    wrong("adamw_step", "only m is corrected", [FIRST], ("1 - beta2**step", "1.0")),
    wrong("adamw_step", "steps counted from 1 too many", [FIRST], ("1 - beta1**step, 1 - beta2**step", "1 - beta1 ** (step + 1), 1 - beta2 ** (step + 1)"), says="those of the next step"),
    wrong("adamw_step", "decay in the gradient", [DECAY], ("    p *= 1 - lr * decay\n", "    g += decay * p\n"), says="went into the gradient"),
    wrong("adamw_step", "decay not times the rate", [DECAY], ("p *= 1 - lr * decay", "p *= 1 - decay"), says="not times the rate"),
    wrong("adamw_step", "no decay", [DECAY], ("    p *= 1 - lr * decay\n", "")),
    wrong("adamw_step", "eps under the root", [SMALL], ("tl.sqrt(v / c2) + eps", "tl.sqrt(v / c2 + eps)"), says="under the root"),
    wrong("adamw_step", "no eps", [SMALL], ("tl.sqrt(v / c2) + eps", "tl.sqrt(v / c2)")),
    wrong("adamw_step", "starts from the rounded weights", [HALF, BYTES], ("    p = tl.load(p_ptr + i, mask=inside, other=0)\n", "    p = tl.load((low_ptr if LOW else p_ptr) + i, mask=inside, other=0).to(tl.float32)\n"), says="p` is the master"),
    wrong("adamw_step", "rounded weights not written", [HALF, BYTES], ("    if LOW:\n        tl.store(low_ptr + i, p.to(low_ptr.dtype.element_ty), mask=inside)\n", "")),
    wrong("adamw_step", "no mask", [*PLAIN], (", mask=inside", "")),
    wrong("adamw_step", "the last block is missing", [RAGGED], ("triton.cdiv(n, 4096)", "max(1, n // 4096)")),
    wrong("adamw_step", "m is not kept", ["correct.plain"], ("    tl.store(m_ptr + i, m, mask=inside)\n", "")),
]
