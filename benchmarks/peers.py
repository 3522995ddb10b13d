"""Other people's kernels for the same work, which benchmarks measure next to the course's where they are installed: `python
benchmarks/peers.py` prints the table of them, and writes benchmarks/results/peers.md.

None of them is among the course's dependencies: `pip install -e .[peers]`. A peer that cannot be imported, or is wrong or fails at a
size, is a row with its reason. When each was measured last is in benchmarks/results/peers.json, which the benchmarks write.
`newest` is what its registry answered in the month `asked`; `make release` lists the rows that nobody has asked about for half a year.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).resolve().parent / "results"
RECORD, TABLE = RESULTS / "peers.json", RESULTS / "peers.md"


@dataclass(frozen=True)
class Peer:
    """A name for tables, the distribution that pip knows, and the modules that are called.

    does     what it is measured for, and by which benchmark
    newest   the version that its registry had in the month `asked`; "" where it has no wheel
    """

    name: str
    distribution: str
    modules: tuple[str, ...]
    does: str = ""
    newest: str = ""
    asked: str = ""

    @cached_property
    def problem(self) -> str:
        """Return why it cannot be imported here, or "" if it can."""
        try:
            for module in self.modules:
                import_module(module)
        except Exception as error:  # compiled packages fail in many ways: another CUDA, a missing library
            return reason(error)
        return ""

    @property
    def version(self) -> str:
        return metadata.version(self.distribution)


FA4 = Peer(
    "FlashAttention-4",
    "flash-attn-4",
    ("flash_attn.cute",),
    "attention, forward and backward: attention.py",
    "4.0.0b36",
    "2026-11",
)
FA3 = Peer(
    "FlashAttention-3",
    "fa3-fwd",
    ("fa3_fwd_interface",),
    "attention, forward: attention.py; one token: decode.py",
    "0.0.3",
    "2026-11",
)
CUDNN_FRONT = Peer(
    "cuDNN's front end",
    "nvidia-cudnn-frontend",
    ("cudnn",),
    "attention, forward, by the newest cuDNN (nvidia-cudnn-cu13 9.28.1.4): attention.py",
    "1.32.0",
    "2026-11",
)
FLASHINFER = Peer("FlashInfer", "flashinfer-python", ("flashinfer",), "one token: decode.py", "0.7.4", "2026-11")
QUACK = Peer(
    "quack",
    "quack-kernels",
    ("quack.softmax", "quack.rmsnorm"),
    "softmax, RMSNorm: fusion_peers.py",
    "0.6.5",
    "2026-11",
)
QUACK_PRODUCT = Peer(
    "quack's product",
    "quack-kernels",
    ("quack.gemm_interface",),
    "products, tuned: matmul.py",
    "0.6.5",
    "2026-11",
)
TILELANG = Peer(
    "TileLang",
    "tilelang",
    ("tilelang",),
    "products, as its first example has them, not tuned: matmul.py",
    "0.1.15",
    "2026-11",
)
LIGER = Peer(
    "Liger",
    "liger-kernel",
    ("liger_kernel.ops.softmax", "liger_kernel.ops.rms_norm", "liger_kernel.ops.fused_add_rms_norm"),
    "softmax, RMSNorm: fusion_peers.py; its launches traced: trace.py",
    "0.8.5",
    "2026-11",
)
ALL = (FA4, FA3, CUDNN_FRONT, FLASHINFER, QUACK_PRODUCT, TILELANG, QUACK, LIGER)


def reason(error: Exception) -> str:
    """Return the first line of what a peer raised, or its class where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def here(peers: Iterable[Peer]) -> dict[str, str]:
    """Return the version of each, by name; "" for one that cannot be imported here."""
    return {peer.name: "" if peer.problem else peer.version for peer in peers}


def told(versions: dict[str, str]) -> str:
    """Return the sentences about versions, as `here` gave them where something was measured."""
    measured = [f"{name} {version}" for name, version in versions.items() if version]
    absent = [name for name, version in versions.items() if not version]
    sentences = [f"Peers: {', '.join(measured)}."] if measured else []
    sentences += [f"Not measured, since not importable there: {', '.join(absent)}."] if absent else []
    return " ".join(sentences)


def works(makers: Mapping[Peer, Callable], *given: Any) -> tuple[dict[str, Callable], dict[str, str]]:
    """Return ({peer: what it made of `given`}, {peer: why it made nothing}), by name."""
    made, why = {}, {}
    for peer, make in makers.items():
        if peer.problem:
            why[peer.name] = peer.problem
            continue
        try:
            made[peer.name] = make(*given)
        except Exception as error:  # of another project: it may raise any
            why[peer.name] = reason(error)
    return made, why


def note(peers: Iterable[Peer], failed: Mapping[str, str], device: str, path: Path = RECORD) -> None:
    """Write down what was measured today, and why others were not. failed: by name, at one size; one that runs at another was
    measured. The measurement of an earlier day stays."""
    record = json.loads(path.read_text("utf-8")) if path.exists() else {}
    today = date.today().isoformat()
    for peer in peers:
        entry, why = record.setdefault(peer.name, {}), peer.problem or failed.get(peer.name, "")
        if not why:
            entry |= {"measured": f"{peer.version}, {today}, {device}", "why not": ""}
        elif today not in entry.get("measured", ""):
            entry["why not"] = why
    path.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", "utf-8")


def table(record: Mapping[str, Mapping[str, str]], peers: Iterable[Peer] = ALL) -> str:
    """Return the page of all peers."""
    rows = []
    for peer in peers:
        entry = record.get(peer.name, {})
        why = entry.get("why not", "" if entry else "not run yet").replace("|", "\\|")
        cells = (peer.name, f"{peer.distribution} {peer.newest}", peer.does, entry.get("measured", ""), why, peer.asked)
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(
        [
            "# Peers",
            "",
            "Other people's kernels that the course's are measured next to. `python benchmarks/peers.py`",
            "",
            "| peer | newest wheel | what it does here | measured: version, date, GPU | why not | asked |",
            "| --- | --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


def main() -> int:
    text = table(json.loads(RECORD.read_text("utf-8")))
    TABLE.write_text(text, "utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
