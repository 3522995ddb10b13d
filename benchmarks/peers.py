"""Measure other people's kernels for the same work next to the course's, where they are installed: `pip install -e .[peers]`.

None of them is among the course's dependencies. A peer that cannot be imported is left out, and the table says so.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module, metadata


@dataclass(frozen=True)
class Peer:
    """A name for tables, the distribution that pip knows, and the modules that are called."""

    name: str
    distribution: str
    modules: tuple[str, ...]

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


FA4 = Peer("FlashAttention-4", "flash-attn-4", ("flash_attn.cute",))
QUACK = Peer("quack", "quack-kernels", ("quack.softmax", "quack.rmsnorm"))
LIGER = Peer(
    "Liger",
    "liger-kernel",
    ("liger_kernel.ops.softmax", "liger_kernel.ops.rms_norm", "liger_kernel.ops.fused_add_rms_norm"),
)


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
