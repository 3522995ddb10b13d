# Predictions with their arithmetic written out, as honest people do.

# %% name="arithmetic" exercise="strides.predictions" loses=""
N, FLOAT, HALF = 64, 4, 2
copied = N * N * FLOAT
predicted_new_bytes = {name: 0 for name in ["x.T", "x[:, ::2]", "x.contiguous()", "x.reshape(4096)", "x.float()"]}
predicted_new_bytes["x.expand(10, 64, 64)"] = 0
predicted_new_bytes |= {"x.T.contiguous()": copied, "x.T.reshape(4096)": copied}
predicted_new_bytes.update({"x[[0, 1]]": 2 * N * FLOAT, "x.half()": N**2 * HALF})


# %% name="arithmetic" exercise="flops.predictions" loses=""
product = 2 * 100 * 64 * 32
predicted_flops = dict(product=product, relu=0, backward=2 * 64 * 100 * 32)
predicted_flops["batch of 8"] = 8 * product
predicted_flops["gram matrix"] = 2 * 64 * 100 * 64
predicted_flops["left to right"] = 2 * 1000**3 + 2 * 10**6


# %% name="rounds up" exercise="start.predictions" loses=""
import math

programs = math.ceil(5000 / 1024)
predicted_double = {
    "programs": programs,
    "masked_positions": triton.cdiv(5000, 1024) * 1024 - 5000,
    "bytes_loaded": int(5e3) * 2,
    "bytes_stored": sum([5000] * 4),
}


# %% name="infinity by torch" exercise="dtypes.predictions" loses=""
predicted = {
    "tiny_fp16": 0.0,
    "square_fp16": torch.inf,
    "weight_bf16": 1,
    "weight_fp16": 1025 / 1024,
    "counter_bf16": 2**8,
    "above_2048_fp16": 2.0,
}
