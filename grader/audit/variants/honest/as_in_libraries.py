# Kernels as libraries and Triton's tutorials have them: statistics that backward passes want, tiles of many rows, launches of what `warmup` gave.

# %% name="1 / rms of each row is kept for the backward pass" exercise="fusion.rmsnorm"
@triton.jit
def kernel(y_ptr, x_ptr, w_ptr, rstd_ptr, N, stride_y, stride_x, eps, BLOCK: tl.constexpr):
    m, n = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + m * stride_x + n, mask=n < N, other=0)
    w = tl.load(w_ptr + n, mask=n < N, other=0)
    rstd = tl.math.rsqrt(tl.sum(x.to(tl.float32) * x, 0) / N + eps)
    tl.store(rstd_ptr + m, rstd)
    y = x.to(tl.float32) * rstd * w.to(tl.float32)
    tl.store(y_ptr + m * stride_y + n, y.to(x.dtype), mask=n < N)


def settings(n):
    BLOCK = triton.next_power_of_2(n)
    if BLOCK > 65536:
        raise RuntimeError(f"rows of {n} are too long for one block")
    return BLOCK, 32 if BLOCK >= 32768 else 16 if BLOCK >= 8192 else 8 if BLOCK >= 2048 else 4


class RMSNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps):
        M, N = x.shape
        assert N == weight.shape[0], "x and weight differ in length"
        BLOCK, num_warps = settings(N)
        y, rstd = x.new_empty(M, N), torch.empty(M, dtype=torch.float32, device=x.device)
        kernel[(M,)](y, x, weight, rstd, N, y.stride(0), x.stride(0), eps, BLOCK=BLOCK, num_warps=num_warps)
        ctx.save_for_backward(x, weight, rstd)
        return y


def rmsnorm(x, weight, eps):
    return RMSNorm.apply(x, weight, eps)


# %% name="mean and 1 / rms are kept" exercise="fusion.rmsnorm"
# - def kernel(y_ptr, x_ptr, w_ptr, rstd_ptr, N, stride_y, stride_x, eps, BLOCK: tl.constexpr):
# + def kernel(y_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, N, stride_y, stride_x, eps, BLOCK: tl.constexpr):
# -     tl.store(rstd_ptr + m, rstd)
# +     tl.store(mean_ptr + m, tl.sum(x.to(tl.float32), 0) / N)
# +     tl.store(rstd_ptr + m, rstd)
# -         y, rstd = x.new_empty(M, N), torch.empty(M, dtype=torch.float32, device=x.device)
# -         kernel[(M,)](y, x, weight, rstd, N, y.stride(0), x.stride(0), eps, BLOCK=BLOCK, num_warps=num_warps)
# +         y, mean, rstd = x.new_empty(M, N), *torch.empty(2, M, dtype=torch.float32, device=x.device)
# +         kernel[(M,)](y, x, weight, mean, rstd, N, y.stride(0), x.stride(0), eps, BLOCK=BLOCK, num_warps=num_warps)


# %% name="the row's 1 / rms is kept for the backward pass" exercise="fusion.add_rmsnorm"
@triton.jit
def kernel(y_ptr, sum_ptr, x_ptr, residual_ptr, w_ptr, rstd_ptr, N, eps, BLOCK: tl.constexpr):
    m, n = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    at = m * N + n
    h = tl.load(x_ptr + at, mask=n < N, other=0).to(tl.float32)
    h += tl.load(residual_ptr + at, mask=n < N, other=0).to(tl.float32)
    tl.store(sum_ptr + at, h.to(sum_ptr.dtype.element_ty), mask=n < N)
    rstd = 1 / tl.sqrt(tl.sum(h * h / N, 0) + eps)
    tl.store(rstd_ptr + m, rstd)
    w = tl.load(w_ptr + n, mask=n < N, other=0)
    tl.store(y_ptr + at, h * rstd * w, mask=n < N)


def add_rmsnorm(x, residual, weight, eps):
    M, N = x.shape
    y, h = torch.empty_like(x), torch.empty_like(residual)
    rstd = torch.empty((M,), dtype=torch.float32, device=x.device)
    kernel[(M,)](y, h, x, residual, weight, rstd, N, eps, BLOCK=triton.next_power_of_2(N), num_warps=8)
    return y, h


# %% name="an embedding in tiles of 128 rows, of which some are asked for twice" exercise="coalescing.gather_rows"
@triton.jit
def kernel(table_ptr, index_ptr, out_ptr, K, stride, N: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    k = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    n = tl.program_id(1) * COLS + tl.arange(0, COLS)
    row = tl.load(index_ptr + k, mask=k < K, other=0)
    inside = (k < K)[:, None] & (n < N)[None, :]
    tile = tl.load(table_ptr + row[:, None] * stride + n[None, :], mask=inside, other=0.0)
    tl.store(out_ptr + k[:, None] * N + n[None, :], tile, mask=inside)


def gather_rows(x, index):
    ROWS, COLS = 128, 128
    index, N = index.view(-1), x.shape[1]
    K = index.numel()
    out = torch.empty(K, N, device=x.device, dtype=x.dtype)
    kernel[triton.cdiv(K, ROWS), triton.cdiv(N, COLS)](x, index, out, K, x.stride(0), N=N, ROWS=ROWS, COLS=COLS)
    return out


# %% name="an embedding in tiles of 256 rows of 32 columns" exercise="coalescing.gather_rows"
# -     ROWS, COLS = 128, 128
# +     ROWS, COLS = 256, 32


# %% name="what warmup gave is launched, and num_stages is a parameter" exercise="fusion.softmax" flags="hidden names"
@triton.jit
def kernel(out_ptr, x_ptr, x_stride, out_stride, M, N, BLOCK: tl.constexpr, num_stages: tl.constexpr):
    first, step = tl.program_id(0), tl.num_programs(0)
    for m in tl.range(first, M, step, num_stages=num_stages):
        n = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + m * x_stride + n, mask=n < N, other=-float("inf")).to(tl.float32)
        e = tl.exp(x - tl.max(x, axis=0))
        tl.store(out_ptr + m * out_stride + n, e / tl.sum(e, axis=0), mask=n < N)


active = triton.runtime.driver.active
has = active.utils.get_device_properties(active.get_active_torch_device().index)


def softmax(x):
    M, N = x.shape
    BLOCK, num_warps, num_stages = triton.next_power_of_2(N), 8, 4 if has["max_shared_mem"] > 200000 else 2
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    given = out, x, x.stride(0), out.stride(0), M, N
    ready = kernel.warmup(*given, BLOCK=BLOCK, num_stages=num_stages, num_warps=num_warps, grid=(1,))
    ready._init_handles()
    fit = has["max_num_regs"] // (ready.n_regs * has["warpSize"] * num_warps)
    fit = min(fit, has["max_shared_mem"] // max(1, ready.metadata.shared))
    ready[(min(has["multiprocessor_count"] * fit, M), 1, 1)](*given, BLOCK, num_stages)
    return out
