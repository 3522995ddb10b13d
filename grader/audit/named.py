"""The answers of the exercises in which causes are named, and their explanations in plain words; `sealed_texts` makes of them what the
course ships. python -m grader.audit.named writes it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import torch

from course_lib.exercises.sealed import sealed
from grader import ROOT

M, N, K, TILE = 100, 80, 72, 32
CAUSES: dict[str, dict[str, tuple[str, str]]] = {
    exercise: {cause: (each["picture"], each["text"]) for cause, each in causes.items()}
    for exercise, causes in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
"""Exercise -> cause -> (picture, explanation)."""


def wrong_maps() -> dict[str, torch.Tensor]:
    """Make maps (100, 80) of wrong elements of a product of halves, by cause, as each of six wrong kernels makes them."""
    g = torch.Generator().manual_seed(5)
    a, b = torch.randn(M, K, generator=g), torch.randn(K, N, generator=g) + 0.5
    right = a @ b
    made = {cause: right.clone() for cause in CAUSES["tiling.name_maps"]}
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


def sealed_texts(exercise_id: str, causes: dict[str, tuple[str, str]]) -> dict[str, str]:
    """Map each picture to its explanation, encrypted with its cause."""
    return {
        name: sealed(f"{exercise_id}/{name}", cause, text)
        for cause, (name, text) in sorted(causes.items(), key=lambda c: c[1])
    }


def drawn(causes: dict[str, tuple[str, str]], maps: dict[str, torch.Tensor]) -> dict[str, list[str]]:
    """Map each picture to its rows of digits, as the course ships them."""
    return {causes[cause][0]: shares(wrong) for cause, wrong in sorted(maps.items(), key=lambda m: causes[m[0]])}


def as_toml(maps: Mapping[str, list[str]], seals: Mapping[str, str]) -> str:
    """Return the text of a unit's naming.toml: sealed explanations, and maps of errors as rows of digits."""
    rows = ["\n".join([f'{picture} = """', *digits, '"""']) for picture, digits in maps.items()]
    texts = [f'{picture} = "{text}"' for picture, text in seals.items()]
    return "\n".join([HEAD, "[sealed]", *texts, *(["", "[maps]", *rows] if rows else []), ""])


HEAD = """\
# Explanations, sealed with the right cause, and maps of errors. `python -m grader.audit.named` writes both, and has the plain text.
"""
MAPPED = {
    "tiling.name_maps": wrong_maps,
    "flash.name_maps": wrong_weights,
    "flash_backward.name_gradients": wrong_gradients,
}

if __name__ == "__main__":
    for exercise, causes in CAUSES.items():
        maps = drawn(causes, MAPPED[exercise]()) if exercise in MAPPED else {}
        path = ROOT / "course_lib" / "exercises" / exercise.partition(".")[0] / "naming.toml"
        path.write_text(as_toml(maps, sealed_texts(exercise, causes)), "utf-8")
