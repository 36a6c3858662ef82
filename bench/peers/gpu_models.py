"""Transformers in plain PyTorch for ratios on a GPU: GPT-2, the pre-RMS baseline of nGPT, nGPT, L-DNT and ViT.

Each is written once, from the formulas, as a careful user of PyTorch would: q, k, v in one product, up and gate in one,
scaled_dot_product_attention, everything else left to torch.compile. Matrices are kept in f32 and multiplied in bf16
under autocast. Works with torch 1.13 too (masked softmax attention), where losses are compared with Norma's.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn

FUSED_ATTENTION = hasattr(F, "scaled_dot_product_attention")


def attend(q, k, v, scale, causal):
    """q, k, v (B, H, T, D)."""
    if FUSED_ATTENTION:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)
    logits = (q @ k.transpose(-2, -1)) * scale
    if causal:
        T = q.shape[-2]
        future = torch.ones(T, T, dtype=torch.bool, device=q.device).triu(1)
        logits = logits.masked_fill(future, float("-inf"))
    return logits.softmax(dim=-1) @ v


def unit(x):
    """L2 over the last axis, statistics in f32."""
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().sum(-1, keepdim=True) + 1e-12)).to(x.dtype)


class Rms(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * self.gain).to(x.dtype)


class LayerNorm(nn.Module):
    def __init__(self, width, bias=False, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None
        self.eps = eps

    def forward(self, x):
        return F.layer_norm(x, self.gain.shape, self.gain, self.bias, self.eps).to(x.dtype)


def rope_table(length, head, base=10000.0):
    angles = torch.arange(length).double()[:, None] * base ** (-torch.arange(0, head, 2).double() / head)
    return torch.stack((angles.cos(), angles.sin())).float()


def rotate(x, table):
    """Pairs (2j, 2j+1) of x (B, T, H, D) turn by the angle of their position."""
    cos, sin = table[:, : x.shape[1], None, :]
    even, odd = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).to(x.dtype)


class Attention(nn.Module):
    """`norm`: none, rms (gains of one head) or l2 (after the rotation, times s_qk of every head)."""

    def __init__(self, heads, width, norm="none", bias=False, causal=True):
        super().__init__()
        self.heads, self.norm, self.causal = heads, norm, causal
        head = width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)
        self.scale = math.sqrt(head) if norm == "l2" else 1 / math.sqrt(head)
        if norm == "rms":
            self.q_norm, self.k_norm = Rms(head), Rms(head)
        if norm == "l2":
            self.s_qk = nn.Parameter(torch.full((width,), 1 / math.sqrt(width)))
            self.s_qk_factor = math.sqrt(width)

    def forward(self, x, table=None):
        B, T, C = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).unbind(2)
        if self.norm == "rms":
            q, k = self.q_norm(q), self.k_norm(k)
        if table is not None:
            q, k = rotate(q, table), rotate(k, table)
        if self.norm == "l2":
            s = (self.s_qk * self.s_qk_factor).view(self.heads, -1)
            q, k = (unit(q.float()) * s).to(v.dtype), (unit(k.float()) * s).to(v.dtype)
        y = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), self.scale, self.causal)
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Ffn(nn.Module):
    def __init__(self, kind, width, bias=False, on_sphere=False):
        super().__init__()
        self.kind, inner = kind, 4 * width
        self.up = nn.Linear(width, (2 if kind == "swiglu" else 1) * inner, bias=bias)
        self.down = nn.Linear(inner, width, bias=bias)
        self.s_u = nn.Parameter(torch.ones(inner)) if on_sphere else None
        self.s_v = nn.Parameter(torch.ones(inner)) if on_sphere else None
        self.gate_factor = math.sqrt(width)

    def forward(self, x):
        if self.kind != "swiglu":
            h = self.up(x)
            tanh = self.kind == "gelu_tanh"
            return self.down(F.gelu(h, approximate="tanh") if tanh else F.gelu(h))
        u, g = self.up(x).chunk(2, dim=-1)
        if self.s_u is not None:
            u, g = (u * self.s_u).to(u.dtype), (g * (self.s_v * self.gate_factor)).to(g.dtype)
        return self.down(u * F.silu(g))


class PreNormBlock(nn.Module):
    """GPT-2, the pre-RMS baseline and ViT."""

    def __init__(self, heads, width, norm, ffn, bias=False, causal=True):
        super().__init__()
        self.attn_pre, self.ffn_pre = norm(width), norm(width)
        self.attn = Attention(heads, width, bias=bias, causal=causal)
        self.ffn = Ffn(ffn, width, bias=bias)

    def forward(self, x, table=None):
        x = x + self.attn(self.attn_pre(x), table)
        return x + self.ffn(self.ffn_pre(x))


class DntBlock(nn.Module):
    """Setting 5: a norm before attention, of queries and keys, and of each branch."""

    def __init__(self, heads, width, ffn):
        super().__init__()
        self.attn_pre, self.attn_mid, self.ffn_mid = Rms(width), Rms(width), Rms(width)
        self.attn = Attention(heads, width, norm="rms")
        self.ffn = Ffn(ffn, width)

    def forward(self, x, table=None):
        x = x + self.attn_mid(self.attn(self.attn_pre(x)))
        return x + self.ffn_mid(self.ffn(x))


class SphereBlock(nn.Module):
    """nGPT: each sublayer is a step on the sphere from x towards its own direction."""

    def __init__(self, heads, width):
        super().__init__()
        self.attn = Attention(heads, width, norm="l2")
        self.ffn = Ffn("swiglu", width, on_sphere=True)
        self.attn_alpha = nn.Parameter(torch.full((width,), 1 / math.sqrt(width)))
        self.ffn_alpha = nn.Parameter(torch.full((width,), 1 / math.sqrt(width)))
        self.alpha_factor = 0.05 * math.sqrt(width)

    def step(self, x, branch, alpha):
        a, b = unit(x.float()), unit(branch.float())
        return unit(a + (alpha * self.alpha_factor).abs() * (b - a)).to(x.dtype)

    def forward(self, x, table):
        x = self.step(x, self.attn(x, table), self.attn_alpha)
        return self.step(x, self.ffn(x), self.ffn_alpha)


class Gpt(nn.Module):
    """`scheme`: pre-ln, pre-rms, dnt-s5 or ngpt. `narrow`: the residual stream is bf16 instead of f32."""

    def __init__(self, scheme, layers, heads, width, context, vocab, ffn, narrow=False):
        super().__init__()
        self.scheme, self.narrow = scheme, narrow
        rotary = scheme in ("pre-rms", "ngpt")
        block = {
            "pre-ln": lambda: PreNormBlock(heads, width, LayerNorm, ffn),
            "pre-rms": lambda: PreNormBlock(heads, width, Rms, ffn),
            "dnt-s5": lambda: DntBlock(heads, width, ffn),
            "ngpt": lambda: SphereBlock(heads, width),
        }[scheme]
        last = {"pre-ln": LayerNorm, "pre-rms": Rms, "dnt-s5": Rms, "ngpt": None}[scheme]
        self.tokens = nn.Embedding(vocab, width)
        self.positions = None if rotary else nn.Embedding(context, width)
        self.input = Rms(width) if scheme == "dnt-s5" else None
        self.blocks = nn.ModuleList(block() for _ in range(layers))
        self.final = last(width) if last else None
        self.head = nn.Linear(width, vocab, bias=False) if rotary else None
        if scheme == "ngpt":
            self.s_z = nn.Parameter(torch.full((vocab,), 1 / math.sqrt(width)))
            self.s_z_factor = math.sqrt(width)
        table = rope_table(context, width // heads) if rotary else None
        self.register_buffer("table", table, persistent=False)
        self.start(layers, width)

    @torch.no_grad()
    def start(self, layers, width):
        for name, weight in self.named_parameters():
            if weight.dim() != 2:
                continue
            table = name in ("tokens.weight", "positions.weight")
            residual = name.endswith(("attn.out.weight", "ffn.down.weight"))
            if self.scheme == "ngpt":
                nn.init.normal_(weight, std=1 / math.sqrt(width))
            elif self.scheme == "dnt-s5" and not table:
                for part in weight.split(width) if "qkv" in name else (weight,):
                    nn.init.xavier_uniform_(part)
            else:
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * layers) if residual else 0.02)
        for weight, axis in self.spheres():
            to_sphere(weight, axis)

    def spheres(self):
        """Matrices of unit vectors, and the axis along which each vector lies."""
        if self.scheme != "ngpt":
            return []
        columns = ("attn.out.weight", "ffn.down.weight")
        return [(w, 0 if name.endswith(columns) else 1) for name, w in self.named_parameters() if w.dim() == 2]

    def forward(self, ids, targets):
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight[: ids.shape[1]]
        if self.narrow:
            x = x.bfloat16()
        if self.input is not None:
            x = self.input(x)
        for block in self.blocks:
            x = block(x, self.table)
        if self.final is not None:
            x = self.final(x)
        logits = self.head(x) if self.head is not None else F.linear(x, self.tokens.weight)
        if self.scheme == "ngpt":
            logits = logits.float() * (self.s_z * self.s_z_factor)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))


def to_sphere(weight, axis):
    """In place, and only where gradients are off."""
    return weight.mul_(torch.rsqrt(weight.square().sum(axis, keepdim=True) + 1e-12))


class Vit(nn.Module):
    """ViT as in torchvision and timm: a class token, learned positions, LayerNorm and linear maps with biases."""

    def __init__(self, layers, heads, width, patch=16, side=224, classes=1000, narrow=False):
        super().__init__()
        self.narrow, self.context = narrow, (side // patch) ** 2 + 1
        self.patches = nn.Conv2d(3, width, patch, patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, self.context, width) * 0.02)

        def norm(size):
            return LayerNorm(size, bias=True, eps=1e-6)

        self.blocks = nn.ModuleList(
            PreNormBlock(heads, width, norm, "gelu", bias=True, causal=False) for _ in range(layers)
        )
        self.final = norm(width)
        self.head = nn.Linear(width, classes)
        for weight in self.blocks.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=0.02)

    def spheres(self):
        return []

    def forward(self, images, targets):
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(x.shape[0], -1, -1), x), dim=1) + self.positions
        if self.narrow:
            x = x.bfloat16()
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.final(x[:, 0])).float(), targets)
