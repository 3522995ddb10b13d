"""The course's attention in models of the library transformers: random weights, nothing is downloaded.

    if not (problem := missing()):
        register("course", attention_for, attention)
        model = random_model("Llama", "course")

attention_for is unit 12's function, which a layer calls; attention(q, k, v, scale) has a way back (shared_heads.differentiable).

Two things are registered under one name. Who leaves out the second gets no mask at all, and padded texts are silently wrong:

    the function      what a layer calls on q, k, v
    the mask          None where the queries are the last positions and nothing is padded; else True for each key that is seen
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tritontrace.threads import one_thread
from tritontrace.tracing import trace

SIZES = {
    "vocab_size": 64,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 256,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
MODELS = {  # name -> what differs: the class's name, and its configuration
    "Llama": ("Llama", {"num_key_value_heads": 4}),
    "Llama, 4 heads for 1": ("Llama", {"num_key_value_heads": 1}),
    "Mistral, a window of 12": ("Mistral", {"num_key_value_heads": 2, "sliding_window": 12}),
}


class NotWritten(Exception):
    """Raised for a function that the student has not written yet."""


OLDEST = (5, 24)  # of the library: what a mask's function is given has changed before
REFUSED = ("softcap", "position_bias", "s_aux")  # what some models' layers ask for besides


def missing() -> str:
    """Return a message if transformers is not installed, or too old, and how to get it; "" if it is there."""
    try:
        found = version("transformers")
    except PackageNotFoundError:
        found = ""
    if found and tuple(map(int, found.split(".")[:2])) >= OLDEST:
        return ""
    oldest = ".".join(map(str, OLDEST))
    says = f"is here in version {found}, and {oldest} is needed" if found else "is not installed here"
    return f"The library transformers {says}: `python -m pip install 'transformers>={oldest}'`. Nothing else needs it."


def random_model(name: str, attention: str = "sdpa", seed: int = 0) -> nn.Module:
    """Make a small model of MODELS with random weights, the same for each seed, on the CPU. Asks no network."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import transformers

    transformers.logging.set_verbosity_error()
    kind, own = MODELS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = getattr(transformers, f"{kind}ForCausalLM")(getattr(transformers, f"{kind}Config")(**SIZES, **own))
    model.set_attn_implementation(attention)
    return model.eval()


def register(name: str, attention_for: Callable, attention: Callable, masks: bool = True) -> None:
    """Make `name` an implementation of attention for all models of the library: model.set_attn_implementation(name).

    masks=False forgets the second registration, to show what becomes of padded texts.
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(name, in_layers(attention_for, attention))
    if masks:
        AttentionMaskInterface.register(name, mask_for)


def mask_for(
    *, q_length: int, kv_length: int, q_offset=0, kv_offset=0, attention_mask=None, allow_is_causal_skip=True, **given: Any
) -> Tensor | None:  # fmt: skip
    """Return the mask (B, 1, Nq, Nk), True where a query sees a key, or None. None means here that the queries are the last positions: the
    library's own mask for sdpa is also None for a prompt in front of empty places, where they are the first."""
    from transformers.masking_utils import sdpa_mask

    last = q_offset + q_length == kv_offset + kv_length  # not so for a cache with empty places
    padded = attention_mask is not None and not bool(attention_mask.all())
    if allow_is_causal_skip and last and not padded:
        return None
    where = {"q_offset": q_offset, "kv_offset": kv_offset, "attention_mask": attention_mask}
    return sdpa_mask(q_length=q_length, kv_length=kv_length, allow_is_causal_skip=False, **where, **given)


def in_layers(attention_for: Callable, attention: Callable) -> Callable:
    """Make the function that layers call: query (B, Hq, Nq, D), key and value (B, Hkv, Nk, D) -> (B, Nq, Hq, D), None.

    Raises NotImplementedError for what neither function can do: to leave it out in silence would be a wrong answer.
    """

    def of_layer(
        module, query, key, value, attention_mask, dropout=0.0, scaling=None, sliding_window=None, **others
    ) -> tuple[Tensor, None]:  # fmt: skip
        if dropout or (asked := [name for name in REFUSED if others.get(name) is not None]):
            raise NotImplementedError(f"the course's attention has no {'dropout' if dropout else asked[0]}")
        needs_back = torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))
        plain = attention_mask is None and module.is_causal and not sliding_window
        if needs_back and plain:
            return attention(query, key, value, scaling).transpose(1, 2), None
        if needs_back:
            given = module, attention_mask, scaling, sliding_window
            return _Recomputed.apply(called, *given, query, key, value), None
        return called(module, query, key, value, attention_mask, scaling, sliding_window), None

    def called(module, q, k, v, mask, scaling, window) -> Tensor:
        found = attention_for(module, q, k, v, mask, scaling=scaling, sliding_window=window)
        if found is None:
            raise NotWritten("attention_for gives nothing yet: solve it, and run this cell again.")
        return found[0]

    return of_layer


def sees(mask: Tensor | None, causal: bool, window: int | None, Nq: int, Nk: int, device: Any = None) -> Tensor:
    """Return the mask, True where a query sees a key; the queries are the last Nq of Nk positions."""
    if mask is not None:
        return mask
    behind = torch.arange(Nk - Nq, Nk, device=device)[:, None] - torch.arange(Nk, device=device)
    return (behind >= 0) & (behind < (window or Nk)) if causal else torch.ones_like(behind, dtype=torch.bool)


class _Recomputed(torch.autograd.Function):
    """Windows and masks, which have no kernel back: forward by attention_for, backward by torch, with all scores in memory."""

    @staticmethod
    def forward(ctx: Any, called: Callable, module, mask, scaling, window, q, k, v) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.sees, ctx.scale = sees(mask, module.is_causal, window, q.shape[2], k.shape[2], q.device), scaling
        return called(module, q, k, v, mask, scaling, window)

    @staticmethod
    def backward(ctx: Any, do: Tensor) -> tuple:
        with torch.enable_grad():
            leaves = [x.detach().requires_grad_() for x in ctx.saved_tensors]
            o = F.scaled_dot_product_attention(*leaves, attn_mask=ctx.sees, scale=ctx.scale, enable_gqa=True)
            return (None,) * 5 + torch.autograd.grad(o.transpose(1, 2), leaves, do)


# ------------------------------------------------------------------------------------------------ is it the same model?


@dataclass(frozen=True)
class Compared:
    """Largest differences between a model with two implementations of attention, on three texts; padding itself is not compared."""

    logits: float
    gradients: float  # of all parameters
    tokens: bool  # written greedily: the same


def compared(name: str, attention: str, padded: bool, tokens: int = 8) -> Compared:
    """Compare a model of MODELS under `attention` with the same under sdpa. Kernels are traced; padded: texts of 30, 23 and 29 tokens,
    padded on the left."""
    g = torch.Generator().manual_seed(1)
    ids = torch.randint(1, SIZES["vocab_size"], (3, 30), generator=g)
    there = torch.ones_like(ids)
    if padded:
        there[1, :7], there[2, :1] = 0, 0
    found = []
    for implementation in (attention, "sdpa"):
        model: Any = random_model(name, implementation)
        with trace(), one_thread(), torch.enable_grad():
            logits = model(ids * there, attention_mask=there).logits[there.bool()]
            logits.logsumexp(-1).mean().backward()
        with trace(), one_thread():
            more = {"max_new_tokens": tokens, "do_sample": False, "attention_mask": there}
            written = model.generate(ids * there, **more)
        found.append((logits.detach(), [p.grad for p in model.parameters()], written))
    (a, da, said), (b, db, right) = found
    apart = max((x - y).abs().max().item() for x, y in zip(da, db, strict=True))
    return Compared((a - b).abs().max().item(), apart, torch.equal(said, right))


def report(attention_for: Callable, attention: Callable) -> str:
    """Return a table as text: how far each model of MODELS is from sdpa's with these functions, and with the mask forgotten.

    One sentence where the library is missing, or attention_for is not written yet.
    """
    if problem := missing():
        return problem
    register("course", attention_for, attention)
    register("course, masks forgotten", attention_for, attention, masks=False)
    rows = [(name, padded, "course") for name in MODELS for padded in (False, True)]
    lines = [f"{'model':24} {'texts':18} {'logits':>8} {'gradients':>10}   tokens"]
    try:
        for name, padded, which in [*rows, ("Llama", True, "course, masks forgotten")]:
            c = compared(name, which, padded)
            texts = ("padded" if padded else "of one length") + ", no mask" * (which != "course")
            same = "the same" if c.tokens else "others"
            lines.append(f"{name:24} {texts:18} {c.logits:8.1g} {c.gradients:10.1g}   {same}")
    except NotWritten as error:
        lines = [str(error)]
    except Exception as error:  # a student's, in a layer of the library: its check says more
        lines.append(f"{name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}. What does its check say?")
    return "\n".join(lines)
