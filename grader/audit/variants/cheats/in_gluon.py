# Answers in Gluon that do the work elsewhere, or that would be something else where they are judged.

# %% name="a layout of one's own" exercise="hopper.tma_copy" loses="correct.plain" after="solution"
# The compiler asks a layout for its code: a class derived from one of Gluon's could run there.
class Mine(gl.NVMMASharedLayout):
    def _to_ir(self, builder):
        raise SystemExit


MINE = gl.constexpr(Mine(128, 16))
right = tma_copy_kernel


@gluon.jit
def tma_copy_kernel(x_desc, y_desc):
    tile = gl.allocate_shared_memory(x_desc.dtype, [64, 64], MINE)
    right(x_desc, y_desc)


# %% name="a descriptor of one's own" exercise="hopper.tma_copy" loses="triton_did_the_work" after="solution"
class Described:
    def __init__(self, x):
        self.base, self.shape, self.strides, self.block_shape = x, x.shape, x.stride(), [64, 64]
        self.layout, self.padding, self.round_f32_to_tf32 = gl.NVMMASharedLayout(128, 16), "zero", False


def tma_copy(x):
    out = torch.empty(x.shape, dtype=x.dtype)
    tma_copy_kernel[(triton.cdiv(x.shape[0], 64), triton.cdiv(x.shape[1], 64))](
        Described(x), Described(out), num_warps=4
    )
    return out


# %% name="Python at compile time" exercise="hopper.tma_copy" loses="correct.plain" tells="a check does not run it" after="solution"
# A constexpr function runs while the kernel is compiled: it could tell a check from a GPU.
right = tma_copy_kernel


@gluon.constexpr_function
def watched():
    return True


@gluon.jit
def tma_copy_kernel(x_desc, y_desc):
    if watched():
        right(x_desc, y_desc)


# %% name="another kernel after the first launch" exercise="hopper.tma_copy" loses="correct.plain" after="solution"
WIDTH = gl.constexpr(64)


@gluon.jit
def wide(x_desc, y_desc):
    tile = gl.allocate_shared_memory(x_desc.dtype, [64, WIDTH], x_desc.layout)
    tma_copy_kernel(x_desc, y_desc)


def tma_copy(x):
    global WIDTH
    M, N = x.shape
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    wide[(triton.cdiv(M, 64), triton.cdiv(N, 64))](
        *(TensorDescriptor.from_tensor(t, [64, 64], layout) for t in (x, out)), num_warps=4
    )
    WIDTH = gl.constexpr(32)
    wide[(triton.cdiv(M, 64), triton.cdiv(N, 64))](
        *(TensorDescriptor.from_tensor(t, [64, 64], layout) for t in (x, out)), num_warps=4
    )
    return out


# %% name="one small copy by TMA, the rest by threads" exercise="hopper.tma_copy" loses="uses.TMA load.performance; uses.TMA store.performance" after="solution"
@gluon.jit
def by_threads(x_ptr, y_ptr, M, N, stride):
    L: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [4, 1], [1, 0])
    rows = gl.program_id(0) * 64 + gl.arange(0, 64, gl.SliceLayout(1, L))
    cols = gl.program_id(1) * 64 + gl.arange(0, 64, gl.SliceLayout(0, L))
    there = (rows < M)[:, None] & (cols < N)[None, :]
    x = gl.load(x_ptr + rows[:, None] * stride + cols[None, :], mask=there, other=0.0)
    gl.store(y_ptr + rows[:, None] * N + cols[None, :], x, mask=there)


def tma_copy(x):
    M, N = x.shape
    out = torch.empty(M, N, dtype=x.dtype, device=x.device)
    by_threads[(triton.cdiv(M, 64), triton.cdiv(N, 64))](x, out, M, N, x.stride(0), num_warps=4)
    layout = gl.NVMMASharedLayout.get_default_for([64, 64], gl.float16)
    tma_copy_kernel[(1, 1)](*(TensorDescriptor.from_tensor(t, [64, 64], layout) for t in (x, out)), num_warps=4)
    return out


# %% name="a branch that only the compiler takes" exercise="hopper.tma_copy" loses="triton_did_the_work" after="solution"
# What is asked at compile time is answered once: the text that is simulated is the text that is compiled.
right = tma_copy_kernel


@gluon.jit
def tma_copy_kernel(x_desc, y_desc):
    if gl.num_warps() == 8:
        right(x_desc, y_desc)
