"""attention_decode_registers.py against a copy of as many bytes, attention_decode.py and unit 09's two launches, on a GPU:
`python benchmarks/decode.py`, some minutes; and, where they are installed, beside FlashAttention-3 and FlashInfer.

32 heads of q on 8 of k and v, D 128, bfloat16. Each ratio is one interleaved run with a cold L2; each result is held against float64
first, in memory that held NaN. The table goes to benchmarks/results/decode.md.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import torch
import triton

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks"), str(ROOT / "research")]

import attention_decode  # noqa: E402
import attention_decode_registers  # noqa: E402
import peers  # noqa: E402

from grader.published import published  # noqa: E402
from tritontrace.profiling import bench  # noqa: E402

HEADS, GROUP, D = 8, 4, 128  # heads of k and v, heads of q for each
TEXTS = [(1, 1024), (1, 8192), (1, 65536), (16, 8192), (64, 4096)]  # (texts, keys of each)
BESIDE = list(product((1, 16, 64), (4096, 16384, 65536)))  # those that peers are measured at
PAGES = (16, 64)  # keys of a page
SPLITS = (16, 32, 64, 128)  # of unit 09's kernel: its fastest counts


def inputs(texts: int, keys: int) -> tuple[torch.Tensor, ...]:
    """Return (q, k, v), random: zeros would be timed too fast."""
    g = torch.Generator("cuda").manual_seed(keys)
    shapes = [(texts, HEADS * GROUP, D), *[(texts, HEADS, keys, D)] * 2]
    return tuple(torch.randn(shape, generator=g, device="cuda", dtype=torch.bfloat16) for shape in shapes)


def ways(texts: int, keys: int) -> Iterator[tuple[str, tuple]]:
    """Yield (keys lie how, the arguments of both kernels): without pages, and in pages of each size."""
    q, k, v = inputs(texts, keys)
    yield "one after another", (q, k, v, keys)
    for page in PAGES:
        order = torch.randperm(texts * keys // page, device="cuda")
        table = order.int().view(texts, -1)
        paged = [attention_decode.in_pages(x, page, order) for x in (k, v)]
        yield f"in pages of {page}", (q, *paged, keys, table)


def attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield the right result of each text in float64."""
    for one, keys, values in zip(q, k, v, strict=True):
        grouped = one.double().view(HEADS, GROUP, D)
        s = grouped @ keys.double().mT * D**-0.5
        yield (s.softmax(-1) @ values.double()).view(-1, D)


def flash_3(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], torch.Tensor]:
    """FlashAttention-3 with a cache, whose axes are texts, keys, heads, D; it chooses the number of shares."""
    from fa3_fwd_interface import flash_attn_with_kvcache

    k, v = (x.transpose(1, 2).contiguous() for x in (k, v))

    def run() -> torch.Tensor:
        out = flash_attn_with_kvcache(q[:, None], k, v, cache_seqlens=k.shape[1])
        return (out[0] if isinstance(out, tuple) else out)[:, 0]

    return run


def flashinfer(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Callable[[], torch.Tensor]:
    """FlashInfer's decode on pages that lie one after the other, planned before it is timed, by tensor cores: four heads share keys."""
    from flashinfer import BatchDecodeWithPagedKVCacheWrapper

    (texts, heads, keys, d), page = k.shape, PAGES[-1]
    k, v = (x.transpose(1, 2).contiguous().view(-1, page, heads, d) for x in (k, v))
    pages = torch.arange(texts * keys // page, device="cuda", dtype=torch.int32)
    begins = torch.arange(0, len(pages) + 1, keys // page, device="cuda", dtype=torch.int32)
    last = torch.full((texts,), page, device="cuda", dtype=torch.int32)
    workspace = torch.zeros(512 << 20, device="cuda", dtype=torch.uint8)
    planned = BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=True)
    planned.plan(begins, pages, last, q.shape[1], heads, d, page, q_data_type=q.dtype, kv_data_type=k.dtype)
    return lambda: planned.run(q, (k, v))


PEERS = {peers.FA3: flash_3, peers.FLASHINFER: flashinfer}


def beside(texts: int, keys: int) -> dict[str, Any]:
    """Return the microseconds of the kernel and of each peer, or why there are none: what is not right is not timed."""
    given = inputs(texts, keys)
    row: dict[str, Any] = {"texts": texts, "keys": keys}
    calls, why = peers.works(PEERS, *given)
    for name, call in {"ours": partial(attention_decode_registers.launch, *given, keys), **calls}.items():
        try:
            worst = off(texts, keys, call)
            if worst <= 1:
                row[name] = 1e3 * bench.ratio(call, bench.copy_of(given[1].nbytes + given[2].nbytes)).own_ms
            else:
                why[name] = f"wrong by {worst:.1f}"
        except Exception as error:  # of another project: it may raise any
            why[name] = peers.reason(error)
            torch.cuda.empty_cache()
    peers.note(PEERS, why, torch.cuda.get_device_name())
    return row | {name: reason[:80] for name, reason in why.items()}


def beside_peers() -> list[str]:
    """Return the table of all sizes; nothing where no peer is installed."""
    names = ["ours", *(peer.name for peer in PEERS if not peer.problem)]
    peers.note([peer for peer in PEERS if peer.problem], {}, "")
    if len(names) == 1:
        return []
    lines = ["## Beside peers, microseconds", "", peers.told(peers.here(PEERS)), ""]
    lines += [f"| texts | keys of each | {' | '.join(names)} |", "| --- " * (2 + len(names)) + "|"]
    for texts, keys in BESIDE:
        row = beside(texts, keys)
        shown = [f"{row[name]:.1f}" if type(row[name]) is float else row[name] for name in names]
        lines.append(f"| {texts} | {keys} | {' | '.join(shown)} |")
        print(lines[-1], flush=True)
        torch.cuda.empty_cache()
    return [*lines, ""]


def off(texts: int, keys: int, call: Callable[[], torch.Tensor]) -> float:
    """Return how far the kernel is from float64, in units of the last bit of its largest number."""
    q, k, v = inputs(texts, keys)
    torch.full((1 << 26,), torch.nan, device="cuda")  # freed at once: what is not stored shows
    own = call()
    worst = max(
        float((x.double() - right).abs().max() / right.abs().max())
        for x, right in zip(own, attended(q, k, v), strict=True)
    )
    return worst / 2**-8


def two_launches(keys: int) -> Iterator[float]:
    """Yield the milliseconds of unit 09's flash_decode with each number of shares."""
    q, k, v = inputs(1, keys)
    decode, copy = published("flash.flash_decode", on_the_cpu=False), bench.copy_of(k.nbytes + v.nbytes)
    for splits in SPLITS:
        yield bench.ratio(partial(decode, q[0], k[0], v[0], splits), copy, pairs=20).own_ms


def measured() -> Iterator[dict[str, Any]]:
    """Yield a row for each number of texts and keys, and each way in which keys lie; what is not right is not timed."""
    for texts, keys in TEXTS:
        nbytes, plain = 2 * texts * HEADS * keys * D * 2, None
        copy = bench.copy_of(nbytes)
        for how, args in ways(texts, keys):
            call, tiles = (partial(each.launch, *args) for each in (attention_decode_registers, attention_decode))
            worst = max(off(texts, keys, each) for each in (call, tiles))
            row: dict[str, Any] = {"texts": texts, "keys": keys, "how": how, "off": worst}
            if row["off"] <= 1:
                found = bench.ratio(call, copy)
                row |= {"us": 1e3 * found.own_ms, "tb": nbytes / found.own_ms / 1e9}
                row |= {"of_copy": found.speedup, "spread": found.spread}
                row["of_plain"] = 1.0 if plain is None else bench.ratio(call, plain).speedup
                row["tiles_us"] = 1e3 * bench.ratio(tiles, copy).own_ms
                plain = plain or call
            if texts == 1 and how == "one after another":
                row["unit_us"] = 1e3 * min(two_launches(keys))
            yield row


def line(row: dict[str, Any]) -> str:
    """Return a row of the table."""
    start = f"| {row['texts']} | {row['keys']} | {row['how']} |"
    if "us" not in row:
        return f"{start} not timed: wrong by {row['off']:.1f} | | | | | |"
    unit = f"{row['unit_us']:.1f}" if "unit_us" in row else ""
    ratio = f"{row['of_copy']:.3f} ± {row['spread']:.3f}"
    return f"{start} {row['us']:.1f} | {row['tb']:.2f} | {ratio} | {row['of_plain']:.3f} | {row['tiles_us']:.1f} | {unit} |"


def main() -> int:
    if not bench.has_gpu():
        print("This benchmark needs an NVIDIA GPU, sm_80 or newer.")
        return 0
    rows = []
    for row in measured():
        print(line(row), flush=True)
        rows.append(row)
    text = "\n".join(
        [
            f"# One token in one launch, {torch.cuda.get_device_name()}",
            "",
            f"{date.today().isoformat()}, torch {torch.__version__}, triton {triton.__version__}. {HEADS * GROUP} heads of q on {HEADS} of "
            f"k and v, D {D}, bfloat16. `of a copy` is the time of a copy that reads half as many bytes as k and v have and writes as many "
            "/ the kernel's, median of interleaved pairs ± median absolute deviation, cold L2. Results are within one unit in the last "
            "place of the largest number of each text. `tiles` is attention_decode.py, in Triton. Unit 09's kernels are two launches, with "
            f"the best number of shares of {', '.join(map(str, SPLITS))}. The L2 is flushed by writing: attention_decode_registers.py says "
            "what that does to its time at 8192 keys, and to a copy's.",
            "",
            "| texts | keys of each | keys lie | us | TB/s | of a copy | of contiguous keys | tiles, us | unit 09, us |",
            "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
            *map(line, rows),
            "",
            *beside_peers(),
        ]
    )
    (ROOT / "benchmarks" / "results" / "decode.md").write_text(text)
    print(text)
    return 0 if all("us" in row for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
