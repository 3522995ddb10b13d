"""Runs kernels of right_kernels.py and of kernels/, as they are and with some of their text replaced, and compares with torch."""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import os
import sys
import types
from functools import partial
from pathlib import Path

import torch

from tritontrace.hopper import Report, simulate
from tritontrace.hopper.orders import ORDERS

HERE = Path(__file__).parent
KERNELS = HERE / "right_kernels.py"
ATTENTION, MATMUL = (HERE / "kernels" / f"{name}.py" for name in ("attention_overlapped", "matmul_persistent"))
MANY_ORDERS = int(os.environ.get("MANY_ORDERS", "40"))  # of what is slow; 200 at night
_numbers = itertools.count()


def module_of(path: Path, *edits: tuple[str, str]) -> types.ModuleType:
    """The module at `path` with some of its text replaced, each of which stands there once. Triton reads a kernel's text from
    linecache, so no file is needed."""
    text = path.read_text("utf-8")
    for old, new in edits:
        assert text.count(old) == 1, f"not once in {path.name}: {old}"
        text = text.replace(old, new)
    name = f"{path.stem}_{next(_numbers)}"
    file = f"<{name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    module = types.ModuleType(name)
    module.__file__ = file
    module.__loader__ = importlib.util.spec_from_loader(name, loader=None)
    sys.modules[name] = module
    exec(compile(text, file, "exec"), vars(module))
    return module


def _matrix(*shape: int, dtype=torch.float16, seed: int = 0) -> torch.Tensor:
    numbers = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), device="cpu")
    return numbers.to(torch.get_default_device(), dtype)


def _close(found: torch.Tensor, wanted: torch.Tensor, most: float) -> bool:
    return bool(((found.float() - wanted.float()).abs() <= most).all())


def copied(module, orders=ORDERS, dtype=torch.float16, work=None) -> tuple[Report, bool]:
    x = _matrix(320, 64, dtype=dtype)
    y = torch.full_like(x, float("nan"))
    report = simulate(
        module.copied[(1,)], module.tiles_of(x), module.tiles_of(y), COUNT=5, num_warps=4, orders=orders, work=work
    )
    return report, torch.equal(y, x + x)


def by_cp_async(module, orders=ORDERS, dtype=torch.float16, steps=5) -> tuple[Report, bool]:
    a, b, c = _matrix(64, 64 * steps, dtype=dtype), _matrix(64 * steps, 64, dtype=dtype, seed=1), torch.empty(64, 64)
    report = simulate(module.by_cp_async[(1,)], a, b, c, 64 * steps, 64, STEPS=steps, num_warps=4, orders=orders)
    return report, _close(c, a.float() @ b.float(), 1e-3)


def by_tma(module, orders=ORDERS, dtype=torch.float16, steps=5) -> tuple[Report, bool]:
    a, b, c = _matrix(64, 64 * steps, dtype=dtype), _matrix(64 * steps, 64, dtype=dtype, seed=1), torch.empty(64, 64)
    descriptors = module.tiles_of(a), module.tiles_of(b)
    report = simulate(module.by_tma[(1,)], *descriptors, c, 64, STEPS=steps, num_warps=4, orders=orders)
    return report, _close(c, a.float() @ b.float(), 1e-3)


def specialised(module, orders=ORDERS, dtype=torch.float16, steps=5) -> tuple[Report, bool]:
    a, b, c = _matrix(128, 64 * steps, dtype=dtype), _matrix(64 * steps, 64, dtype=dtype, seed=1), torch.empty(128, 64)
    descriptors = module.tiles_of(a), module.tiles_of(b)
    report = simulate(module.specialised[(1,)], *descriptors, c, 64, STEPS=steps, num_warps=4, orders=orders)
    return report, _close(c, a.float() @ b.float(), 1e-3)


def turned(module, orders=ORDERS, dtype=torch.float32) -> tuple[Report, bool]:
    x = _matrix(64, 64, dtype=dtype)
    y = torch.empty_like(x)
    return simulate(module.turned[(1,)], x, y, num_warps=4, orders=orders), torch.equal(y, x.T)


def relayed(module, orders=ORDERS) -> tuple[Report, bool]:
    y = torch.empty(128, dtype=torch.int32)
    report = simulate(module.relayed[(1,)], y, 5, num_warps=4, orders=orders)
    return report, torch.equal(y, 2 * (torch.arange(128, dtype=torch.int32) + 5))


def guarded(module, orders=ORDERS) -> tuple[Report, bool]:
    y = torch.empty(2, 128, dtype=torch.int32)
    report = simulate(module.guarded[(1,)], y, TURNS=4, num_warps=4, orders=orders)
    return report, bool((y == 4 * torch.arange(128) + 6).all())


def attention(module, orders=ORDERS, dtype=torch.float16, N=384, D=64, causal=False, programs=1) -> tuple[Report, bool]:
    q, k, v = (_matrix(1, 1, N, D, dtype=dtype, seed=seed) for seed in range(3))
    o, lse = torch.full_like(q, float("nan")), torch.empty(1, 1, N)
    descriptors = module.descriptors(q, k, v, o)
    report = simulate(
        module.overlapped[(programs,)], *descriptors, lse, D**-0.5, N, 1, CAUSAL=causal, num_warps=4, orders=orders
    )
    s = q.float() @ k.float().transpose(2, 3) * D**-0.5
    if causal:
        s = s.masked_fill(~torch.ones(N, N, dtype=torch.bool).tril(), -float("inf"))
    most = 2e-3 if dtype == torch.float16 else 2e-2
    return report, _close(o, s.softmax(-1) @ v.float(), most) and _close(lse, s.logsumexp(-1), 1e-4)


def persistent(
    module, orders=ORDERS, dtype=torch.float16, shape=(200, 304, 152), turned=(False, False), shared=None
) -> tuple[Report, bool]:
    M, N, K = shape
    a = _matrix(K, M, dtype=dtype).T if turned[0] else _matrix(M, K, dtype=dtype)
    b = _matrix(N, K, dtype=dtype, seed=1).T if turned[1] else _matrix(K, N, dtype=dtype, seed=1)
    wanted = a.float() @ b.float()
    (a, a_t), (b, b_t), c = module.as_it_lies(a), module.as_it_lies(b), module.room(M, N, like=a)
    descriptors = module.descriptors(a, b, c, a_t, b_t)
    sums = (torch.zeros(2, 128, 256), torch.zeros(4, dtype=torch.int32)) if shared else (None, None)
    values = (*descriptors, *sums, shared, None, None, M, N, K)
    report = simulate(module.persistent[(2,)], *values, A_T=a_t, B_T=b_t, SCALED=False, num_warps=4, orders=orders)
    return report, _close(c, wanted, (2**-10 if dtype == torch.float16 else 2**-7) * float(wanted.abs().max()))


RIGHT = {
    "copied": (KERNELS, copied),
    "by_cp_async": (KERNELS, by_cp_async),
    "by_tma": (KERNELS, by_tma),
    "specialised": (KERNELS, specialised),
    "turned": (KERNELS, turned),
    "relayed": (KERNELS, relayed),
    "guarded": (KERNELS, guarded),
    "attention_overlapped": (ATTENTION, attention),
    "matmul_persistent": (MATMUL, persistent),
    "matmul_persistent, the last tile shared": (MATMUL, partial(persistent, shape=(300, 250, 376), shared=1)),
}
