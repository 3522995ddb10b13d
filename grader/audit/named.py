"""The answers of the exercises in which causes are named, and their explanations in plain words; `sealed_texts` makes of them what the
course ships. python -m grader.audit.named prints it."""

from __future__ import annotations

import itertools

import torch

from course_lib.exercises.sealed import sealed

M, N, K, TILE = 100, 80, 72, 32


def wrong_maps() -> dict[str, torch.Tensor]:
    """Make maps (100, 80) of wrong elements of a product of halves, by cause, as each of six wrong kernels makes them."""
    g = torch.Generator().manual_seed(5)
    a, b = torch.randn(M, K, generator=g), torch.randn(K, N, generator=g) + 0.5
    right = a @ b
    made = {cause: right.clone() for cause in TILING_CAUSES}
    rows, cols = M // TILE * TILE, N // TILE * TILE
    made["the grid rounds down"][rows:] = 0
    made["the grid rounds down"][:, cols:] = 0
    spill = -(-N // TILE) * TILE - N
    made["no mask on the store's columns"][1:, :spill] = 0
    made["the last step along K is missing"] = a[:, : K // TILE * TILE] @ b[: K // TILE * TILE]
    for j in range(0, N, TILE):
        width = min(TILE, N - j)
        made["all programs load the first columns of b"][:, j : j + width] = right[:, :width]
    halves = torch.zeros(M, N, dtype=torch.float16)
    for k in range(K):
        halves += (a[:, k : k + 1] * b[k]).half()
    made["sums are kept in float16"] = halves.float()
    made["rows are compared with N"][N:] = 0
    allowed = 0.0022 * (a.norm(dim=1)[:, None] * b.norm(dim=0)[None]) ** 0.5
    return {cause: (c - right).abs() > allowed for cause, c in made.items()}


def wrong_weights() -> dict[str, torch.Tensor]:
    """Make maps (100, 100) of wrong weights of a causal attention, by cause, as each of six wrong kernels makes them; v is the identity."""
    N = 100
    g = torch.Generator().manual_seed(4)
    s, queries, keys = 2 * torch.randn(N, N, generator=g), torch.arange(N)[:, None], torch.arange(N)

    def weights(
        scores: torch.Tensor, seen: torch.Tensor, correct_acc: bool = True, correct_l: bool = True
    ) -> torch.Tensor:
        m, l, acc = torch.full((N, 1), -torch.inf), torch.zeros(N, 1), torch.zeros(N, N)
        for start in range(0, N, TILE):
            tile = torch.where(seen, scores, -torch.inf)[:, start : start + TILE]
            m_new = torch.maximum(m, tile.amax(1, keepdim=True))
            base = torch.where(m_new == -torch.inf, 0, m_new)
            p, alpha = torch.exp(tile - base), torch.exp(m - base)
            first = m == -torch.inf
            l = (l * alpha if correct_l else torch.where(first, 0, l)) + p.sum(1, keepdim=True)
            acc = acc * alpha if correct_acc else acc
            acc[:, start : start + TILE] = p
            m = m_new
        return acc / torch.where(l == 0, 1, l)

    causal = keys <= queries
    right = weights(s, causal)
    made = {
        "the grid rounds down": torch.where(queries < N // TILE * TILE, right, 0),
        "a query does not see itself": weights(s, keys < queries),
        "tiles on the diagonal are not masked": weights(s, keys // TILE <= queries // TILE),
        "acc is not corrected when the maximum grows": weights(s, causal, correct_acc=False),
        "l is not corrected when the maximum grows": weights(s, causal, correct_l=False),
        "scores are rounded to bfloat16": weights(s.bfloat16().float(), causal),
    }
    return {cause: (p - right).abs() > 0.005 * right for cause, p in made.items()}


def wrong_gradients() -> dict[str, torch.Tensor]:
    """Make maps (100, 96) of wrong elements of dq, dk and dv, (100, 32) each and side by side, by cause, as each of six wrong backward
    passes of causal attention makes them."""
    N, D = 100, 32
    g = torch.Generator().manual_seed(8)
    q, k, v, do = (torch.randn(N, D, generator=g) for _ in range(4))
    scale, tile = D**-0.5, torch.arange(N) // TILE
    seen = torch.arange(N) <= torch.arange(N)[:, None]
    s = q @ k.T * scale
    lse = s.masked_fill(~seen, -torch.inf).logsumexp(1, keepdim=True)
    unmasked = torch.exp(s - lse)
    p, dp = unmasked * seen, do @ v.T
    delta = (p * dp).sum(1, keepdim=True)
    ds = p * (dp - delta)
    right = {"dq": scale * ds @ k, "dk": scale * ds.T @ q, "dv": p.T @ do}

    def in_half(weights: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(N, D, dtype=torch.float16)
        for i in range(0, N, 4):
            total += (weights[i : i + 4].T @ rows[i : i + 4]).half()
        return total.float()

    kept = torch.arange(N)[:, None] < N // TILE * TILE
    in_tile = unmasked * (seen | (tile == tile[:, None]))  # with the tiles on the diagonal, whole
    ds_in_tile = in_tile * (dp - delta)
    last = tile == tile[:, None]  # of all programs that add to a row of dq the one on the diagonal comes last
    made = {
        "delta is not subtracted": right | {"dq": scale * (p * dp) @ k, "dk": scale * (p * dp).T @ q},
        "the grid of dkdv rounds down": right | {"dk": right["dk"] * kept, "dv": right["dv"] * kept},
        "tiles on the diagonal are not masked in dkdv": right | {"dk": scale * ds_in_tile.T @ q, "dv": in_tile.T @ do},
        "dk is not scaled": right | {"dk": ds.T @ q},
        "programs add to dq without atomics": right | {"dq": scale * (ds * last) @ k},
        "dk and dv are kept in float16": right | {"dk": scale * in_half(ds, q), "dv": in_half(p, do)},
    }
    allowed = {name: 0.001 * gradient.abs().mean() for name, gradient in right.items()}
    return {
        cause: torch.cat([(made_so[name] - right[name]).abs() > allowed[name] for name in right], 1)
        for cause, made_so in made.items()
    }


def shares(wrong: torch.Tensor, side: int = 4) -> list[str]:
    """Convert a map to rows of digits: the share of each 4 x 4 patch that is wrong, from 0 to 9."""
    rows, cols = wrong.shape
    patches = wrong.float().reshape(rows // side, side, cols // side, side).mean((1, 3))
    return ["".join(str(min(9, int(10 * share))) for share in row) for row in patches.tolist()]


TILING_CAUSES = {
    "the grid rounds down": (
        "D",
        "The grid has 100 // 32 by 80 // 32 programs, so no program computes the last 4 rows and the last 16 columns.",
    ),
    "no mask on the store's columns": (
        "A",
        "The last tile ends at column 96, but a row has 80 columns. The other 16 are stored at the beginning of the next row, over the "
        "results of another program. Which of the two programs stores last is a race. Row 0 is right, since no row lies above it.",
    ),
    "the last step along K is missing": (
        "F",
        "72 // 32 steps leave out 8 products of each sum, so nearly every element is slightly wrong.",
    ),
    "all programs load the first columns of b": (
        "B",
        "The columns of b do not depend on program_id(1). So the first tile of columns is right, and every other tile is a copy of it.",
    ),
    "sums are kept in float16": (
        "C",
        "The map shows no edge and no tile. An element is wrong where its sum was large before the last step, and this has nothing to do "
        "with its place.",
    ),
    "rows are compared with N": (
        "E",
        "The mask is rows < N instead of rows < M, so all of rows 80 to 99 are masked. A square matrix would never show this "
        "mistake.",
    ),
}  # fmt: skip

ATTENTION_CAUSES = {
    "the grid rounds down": (
        "C",
        "The grid has 100 // 32 programs, so no program computes queries 96 to 99, and their rows of o are never written.",
    ),
    "a query does not see itself": (
        "F",
        "The mask is keys < queries instead of keys <= queries, so the diagonal is 0, and row 0 has no weights at all. The missing weight "
        "is spread over the other keys of the row. In some rows this is a lot, and in others too little to show.",
    ),
    "tiles on the diagonal are not masked": (
        "A",
        "Weights appear to the right of the diagonal, up to the end of the tile. The other weights of the row become smaller.",
    ),
    "acc is not corrected when the maximum grows": (
        "E",
        "Only what was added before the maximum grew is too large, so the earlier tiles of keys are wrong. From the tile with the maximum "
        "on, the row is right. Queries 0 to 31 have a single tile, and nothing to correct.",
    ),
    "l is not corrected when the maximum grows": (
        "B",
        "The sum l is too large, so all weights of the row are too small, including those of the last tile. Queries 0 to 31 have a single "
        "tile, and nothing to correct.",
    ),
    "scores are rounded to bfloat16": (
        "D",
        "The map shows no edge and no tile. A weight is wrong where its score is far from 0, so that rounding changes it a lot. This has "
        "nothing to do with its place.",
    ),
}

GRADIENT_CAUSES = {
    "delta is not subtracted": (
        "E",
        "dS = P * dP lacks what delta stands for. dq and dk are made from dS, so that both are wrong everywhere; dv needs P alone.",
    ),
    "the grid of dkdv rounds down": (
        "B",
        "100 // 32 programs of dkdv: keys 96 to 99 belong to nobody, and their rows of dk and dv are never written. dq is made by another "
        "kernel.",
    ),
    "tiles on the diagonal are not masked in dkdv": (
        "F",
        "A key takes gradients from queries of its tile that come before it. The first key of each tile has none there, and is right: "
        "hence the lighter lines at 0, 32, 64 and 96.",
    ),
    "dk is not scaled": (
        "A",
        "dk alone is wrong, and everywhere. All that it shares with dq and dv, which are P, dP and dS, must be right.",
    ),
    "programs add to dq without atomics": (
        "D",
        "Several programs, one for each tile of keys, add to the same rows of dq, and the last to store wins. Queries 0 to 31 see one "
        "tile, so that nobody else adds to theirs.",
    ),
    "dk and dv are kept in float16": (
        "C",
        "No edge and no tile shows: sums over up to 100 queries are rounded at each step, which hurts where they are large. The first keys "
        "are seen by most queries, and suffer most.",
    ),
}  # fmt: skip

COALESCING_CAUSES = {
    "the rows of a matrix that is not padded": (
        "C",
        "32 neighbours, but the first is 4 bytes behind the start of a sector: 5 sectors for 128 bytes, and 1 of "
        "them twice with the next warp.",
    ),
    "one field of a structure of two": (
        "E",
        "Every second float: 8 sectors, half of each unused. Load both fields at once, and split.",
    ),
    "down a column": (
        "A",
        "Each lane is a whole row further on, and a sector of its own: 32 for 128 bytes.",
    ),
    "one number for all": (
        "F",
        "All lanes ask for the same 4 bytes: one sector. No waste at all; the hardware hands it to all lanes.",
    ),
    "a gather of rows by index": (
        "B",
        "Lanes in groups of 8 are neighbours, and groups lie anywhere: short rows, found by a list. Each group "
        "fills a sector, so nothing is wasted.",
    ),
    "a tile whose rows are half a sector": (
        "D",
        "Groups of 4 lanes are neighbours, evenly apart: 16 bytes of each 32 that are fetched. Make the tile wider"
        " along the rows.",
    ),
}  # fmt: skip


def sealed_texts(exercise_id: str, causes: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Map each picture to its explanation, encrypted with its cause."""
    return {
        name: sealed(f"{exercise_id}/{name}", cause, text)
        for cause, (name, text) in sorted(causes.items(), key=lambda c: c[1])
    }


def drawn(causes: dict[str, tuple[str, str]], maps: dict[str, torch.Tensor]) -> dict[str, list[str]]:
    """Map each picture to its rows of digits, as the course ships them."""
    return {causes[cause][0]: shares(wrong) for cause, wrong in sorted(maps.items(), key=lambda m: causes[m[0]])}


def as_code(maps: dict[str, list[str]], seals: dict[str, str]) -> str:
    """Python source of the tables MAPS (maps of errors, as rows of text) and SEALED (their causes, encrypted) for an exercise's module;
    equal rows below one another are written as `n * [row]`."""
    lines = ["MAPS = {"]
    for picture, rows in maps.items():
        runs = [(row, len(list(same))) for row, same in itertools.groupby(rows)]
        told = [f"        *{times} * [{row!r}]," if times > 1 else f"        {row!r}," for row, times in runs]
        lines += [f"    {picture!r}: [", *told, "    ],"]
    lines += ["}", "", "# sealed with the right cause by grader/audit/named.py, which has the plain text", "SEALED = {"]
    for picture, text in seals.items():
        lines += [
            f"    {picture!r}: (",
            *(f"        {text[i : i + 100]!r}" for i in range(0, len(text), 100)),
            "    ),",
        ]
    return "\n".join([*lines, "}", ""])


MAPPED = {
    "tiling.name_maps": (TILING_CAUSES, wrong_maps),
    "flash.name_maps": (ATTENTION_CAUSES, wrong_weights),
    "flash_backward.name_gradients": (GRADIENT_CAUSES, wrong_gradients),
}

if __name__ == "__main__":
    for exercise, (causes, wrong) in MAPPED.items():
        print(f"# {exercise}\n{as_code(drawn(causes, wrong()), sealed_texts(exercise, causes))}")
    print(sealed_texts("coalescing.name_lanes", COALESCING_CAUSES))
