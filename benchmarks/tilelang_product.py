"""The product of TileLang's first example, for bfloat16, in its tiles: not tuned. matmul.py measures it where TileLang is installed.

Without `from __future__ import annotations`: TileLang reads the types of parameters as values.
"""

import tilelang
import tilelang.language as T

BM, BN, BK, THREADS, STAGES = 128, 256, 64, 256, 3


def made(M: int, N: int, K: int):
    """Compile a @ b for these sizes: a function of contiguous a (M, K) and b (K, N) that returns (M, N)."""

    @T.prim_func
    def product(A: T.Tensor((M, K), "bfloat16"), B: T.Tensor((K, N), "bfloat16"), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=THREADS) as (x, y):
            a = T.alloc_shared((BM, BK), "bfloat16")
            b = T.alloc_shared((BK, BN), "bfloat16")
            acc = T.alloc_fragment((BM, BN), "float")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=STAGES):
                T.copy(A[y * BM, k * BK], a)
                T.copy(B[k * BK, x * BN], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[y * BM, x * BN])

    return tilelang.compile(product, out_idx=[-1])
