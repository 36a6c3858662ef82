"""Norms, positions, activations and residual rules, written as their formulas; autograd gives the gradients."""

import math

import torch

L2_EPS = 1e-12
MIN_SINE = 1e-4  # below this SLERP is LERP


def l2(x, axis=-1):
    return x / torch.sqrt((x * x).sum(axis, keepdim=True) + L2_EPS)


def rms(x, eps):
    return x / torch.sqrt((x * x).mean(-1, keepdim=True) + eps)


def standardize(x, mean, variance, eps):
    return (x - mean) / torch.sqrt(variance + eps)


def layer_norm(x, eps):
    mean = x.mean(-1, keepdim=True)
    return standardize(x, mean, ((x - mean) ** 2).mean(-1, keepdim=True), eps)


def batch_norm_position(x, eps):
    """x [B,T,d]: every position has its own statistics, taken over the batch."""
    mean = x.mean(0, keepdim=True)
    return standardize(x, mean, ((x - mean) ** 2).mean(0, keepdim=True), eps)


def batch_norm_prefix(x, eps):
    """x [B,T,d]: position t is normalized by the statistics of all samples at positions 0..t."""
    rows = []
    for t in range(x.shape[1]):
        seen = x[:, : t + 1]
        mean = seen.mean((0, 1))
        rows.append(standardize(x[:, t], mean, ((seen - mean) ** 2).mean((0, 1)), eps))
    return torch.stack(rows, 1)


def apply_norm(norm, slot, x, p):
    """The slot's norm on the last axis of x; p holds the parameters by name."""
    if norm is None:
        return x
    gain = p.get(slot + ".gain")
    if norm.kind == "l2":
        return l2(x)
    if norm.kind == "factor":
        return gain * x
    if norm.kind == "scale":
        return gain * math.sqrt(x.shape[-1]) * l2(x)
    if norm.kind == "rms":
        return gain * rms(x, norm.eps)
    if norm.kind == "rms1":
        return (1 + gain) * rms(x, norm.eps)
    if norm.kind == "dyt":
        return gain * torch.tanh(p[slot + ".alpha"] * x)
    if norm.kind == "derf":
        return gain * torch.erf(p[slot + ".alpha"] * x + p[slot + ".shift"])
    plain = {"ln": layer_norm, "bn_position": batch_norm_position, "bn_prefix": batch_norm_prefix}[norm.kind](x, norm.eps)
    return gain * plain + p[slot + ".bias"] if norm.bias else gain * plain


def rope(x, base, layout):
    """x [..., T, head width], positions 0..T-1."""
    steps, width = x.shape[-2], x.shape[-1]
    frequencies = base ** (-2 * torch.arange(width // 2, dtype=x.dtype) / width)
    angles = torch.arange(steps, dtype=x.dtype)[:, None] * frequencies
    cos, sin = torch.cos(angles), torch.sin(angles)
    if layout == "half_split":
        first, second = x[..., : width // 2], x[..., width // 2 :]
        return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)
    even, odd = x[..., 0::2], x[..., 1::2]
    if layout == "interleaved":
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).flatten(-2)
    # The defect: a table sin, cos, sin, cos, ... is taken for [all sines | all cosines], and no two terms are added.
    table = torch.stack([sin, cos], -1).flatten(-2)
    wrong_sin, wrong_cos = table[:, : width // 2], table[:, width // 2 :]
    return torch.stack([-odd * wrong_cos, even * wrong_sin], -1).flatten(-2)


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def silu(x):
    return x * torch.sigmoid(x)


def softcap(x, cap):
    return cap * torch.tanh(x / cap) if cap else x


def lerp(x, b, alpha):
    a, b = l2(x), l2(b)
    return l2(a + alpha * (b - a))


def slerp(x, b, alpha):
    a, b = l2(x), l2(b)
    theta = 2 * torch.atan2((a - b).norm(dim=-1, keepdim=True), (a + b).norm(dim=-1, keepdim=True))
    sine = torch.sin(theta)
    if bool((sine < MIN_SINE).any()):
        raise ValueError("slerp: a golden must stay away from the small-angle branch; choose another seed")
    return l2((torch.sin((1 - alpha) * theta) * a + torch.sin(alpha * theta) * b) / sine)


def riemann(x, b, alpha):
    a, b = l2(x), l2(b)
    return l2(a - alpha * (a * (a * b).sum(-1, keepdim=True) - b))


def alerp(x, b, alpha):
    return (x + alpha * (b - x)) / torch.sqrt(alpha**2 + (1 - alpha) ** 2)
