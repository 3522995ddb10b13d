"""The model of unit 11 against one made of torch's own modules, and against itself with a cache."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.workloads.gpt import GPT, LARGE, TORCH, TOY, Config

SMALL = Config(vocab=11, layers=2, width=24, heads=6, kv_heads=2, hidden=40, context=32)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return GPT(SMALL).double()


def reference(model, tokens):
    """Logits by nn.RMSNorm, complex rotary positions, and softmax(q kᵀ) v with repeated heads."""
    c, (B, N) = model.c, tokens.shape

    def norm(weight, x):
        made = nn.RMSNorm(c.width, 1e-6, dtype=torch.float64)
        made.weight.data = weight.data
        return made(x)

    def turn(x):
        rates = 10000.0 ** (-torch.arange(0, c.head_dim, 2) / c.head_dim)
        angles = (torch.arange(N)[:, None] * rates).double()
        a, b = x.chunk(2, -1)
        turned = torch.complex(a, b) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat([turned.real, turned.imag], -1)

    x = model.embedding(tokens)
    for block in model.blocks:
        qkv = block.qkv(norm(block.norm1, x)).view(B, N, -1, c.head_dim).transpose(1, 2)
        q, k, v = qkv.split([c.heads, c.kv_heads, c.kv_heads], 1)
        q, k, v = turn(q), turn(k).repeat_interleave(3, 1), v.repeat_interleave(3, 1)
        scores = q @ k.mT / c.head_dim**0.5
        scores = scores.masked_fill(torch.ones(N, N).triu(1).bool(), -torch.inf)
        x = x + block.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(B, N, -1))
        gate, up = block.up(norm(block.norm2, x)).chunk(2, -1)
        x = x + block.down(nn.SiLU()(gate) * up)
    return model.head(norm(model.norm, x))


def test_loss_and_logits_are_those_of_torchs_modules(model):
    tokens = torch.randint(11, (3, 20))
    logits = model(tokens)
    assert logits.shape == (3, 20, 11)
    # the tables of angles are float32 in the model
    torch.testing.assert_close(logits, reference(model, tokens), rtol=1e-5, atol=1e-5)
    targets = torch.randint(11, (3, 20))
    loss = nn.CrossEntropyLoss()(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(model(tokens, targets), loss)


def test_every_parameter_gets_a_gradient(model):
    tokens = torch.randint(11, (2, 9))
    model(tokens, tokens).backward()
    missing = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert missing == []


def test_gradients_are_right():
    torch.manual_seed(0)
    model = GPT(replace(SMALL, layers=1)).double()
    tokens = torch.randint(11, (2, 5))
    parameters = dict(model.named_parameters())
    names = ["blocks.0.norm1", "blocks.0.norm2", "norm"]

    def loss(*values):
        return torch.func.functional_call(model, parameters | dict(zip(names, values, strict=True)), (tokens, tokens))

    assert torch.autograd.gradcheck(loss, [parameters[name].detach().clone().requires_grad_() for name in names])


class Grown:
    """A cache that grows by torch.cat."""

    def __init__(self):
        self.k = self.v = torch.empty(0)

    @property
    def length(self):
        return self.k.shape[2] if self.k.dim() == 4 else 0

    def append(self, k, v):
        self.k, self.v = (torch.cat([x, y], 2) if self.length else y for x, y in ((self.k, k), (self.v, v)))
        return self.k, self.v


def test_pieces_with_a_cache_give_the_logits_of_the_whole(model):
    tokens = torch.randint(11, (2, 12))
    caches = [Grown() for _ in model.blocks]
    pieces = [model(piece, caches=caches) for piece in tokens.split([5, 4, 1, 2], 1)]
    torch.testing.assert_close(torch.cat(pieces, 1), model(tokens), rtol=1e-6, atol=1e-6)


def test_slots_are_used(model):
    called = []

    def counted(name):
        return lambda *tensors: called.append(name) or getattr(TORCH, name)(*tensors)

    model.ops = replace(TORCH, **{name: counted(name) for name in ("norm", "rotary", "attention", "swiglu", "loss")})
    tokens = torch.randint(11, (2, 12))
    model(tokens, tokens)
    block = ["norm", "rotary", "rotary", "attention", "norm", "swiglu"]
    assert called == [*block, *block, "norm", "loss"]


def test_the_optimizer_decays_matrices_alone(model):
    decays = [
        {p.dim() > 1: group["weight_decay"] for p in group["params"]} for group in model.optimizer(1e-3).param_groups
    ]
    assert decays == [{True: 0.1}, {False: 0.0}]


def test_half_precision_keeps_float32_angles():
    model = GPT(TOY).bfloat16()
    assert model.turns(0, 4)[0].dtype == torch.float32
    assert model(torch.randint(64, (1, 8))).dtype == torch.bfloat16


def test_the_large_one_has_a_billion_parameters():
    with torch.device("meta"):
        assert 1.0e9 < sum(p.numel() for p in GPT(LARGE).parameters()) < 1.2e9


def test_torchs_cross_entropy_leaves_padding_out(model):
    tokens = torch.randint(11, (2, 6))
    targets = tokens.clone()
    targets[1] = -100
    torch.testing.assert_close(model(tokens, targets), F.cross_entropy(model(tokens[:1])[0], tokens[0]))
