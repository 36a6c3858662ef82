"""The parameters of a model: names, shapes, random values for the goldens, decay classes and weight constraints."""

import math
from dataclasses import dataclass

import torch

from primitives import l2

SPREAD = 0.3


@dataclass(frozen=True)
class Size:
    width: int = 16
    heads: int = 4
    kv_heads: int = 2
    ffn_width: int = 24
    vocab: int = 13
    context: int = 9

    @property
    def head_width(self):
        return self.width // self.heads


def _slot(norm, slot, width, size):
    """{name: (shape, centre, spread)} of one slot."""
    if norm is None or norm.kind == "l2":
        return {}
    if norm.kind == "factor":
        return {slot + ".gain": _around([1], math.sqrt(size.width))}
    if norm.kind == "scale":
        return {slot + ".gain": _around([1], 1.0)}
    found = {slot + ".gain": ([width], 0.0 if norm.kind == "rms1" else 1.0, SPREAD)}
    if norm.kind in ("dyt", "derf"):
        found[slot + ".alpha"] = _around([1], norm.start)
    if norm.kind == "derf":
        found[slot + ".shift"] = ([1], 0.0, SPREAD)
    if norm.bias:
        found[slot + ".bias"] = ([width], 0.0, SPREAD)
    return found


def _around(shape, centre):
    return (shape, centre, SPREAD * abs(centre))


def _linear(name, out, inputs, bias, scheme):
    found = {name + ".weight": ([out, inputs], 0.0, SPREAD)}
    if bias:
        found[name + ".bias"] = ([out], 0.0, SPREAD)
    if scheme.weights == "wn":
        found[name + ".magnitude"] = _around([out], 1.0)
    return found


def _stored_scale(name, kind, length, start):
    return {name: _around([length if kind == "vector" else 1], start)} if kind in ("vector", "scalar") else {}


def _block(scheme, size, i):
    d, f, h, dh, kv = size.width, size.ffn_width, size.heads, size.head_width, size.kv_heads
    pre = f"blocks.{i}."
    slow = 1 / math.sqrt(d)
    found = {}
    widths = dict.fromkeys(("attn_pre", "attn_mid", "attn_post", "ffn_pre", "ffn_mid", "ffn_post"), d)
    widths.update(attn_inner=h * dh, ffn_inner=f, q=dh, k=dh, v=dh)
    for slot, width in widths.items():
        norm = scheme.slot(i, slot)
        if norm is not None and norm.full_width:
            width = h * dh if slot == "q" else kv * dh
        found.update(_slot(norm, pre + slot, width, size))
    found.update(_stored_scale(pre + "q.gain", scheme.s_qk, h * dh, slow))
    for name, out, bias in (
        ("q", h * dh, scheme.bias),
        ("k", kv * dh, scheme.bias and scheme.key_bias),
        ("v", kv * dh, scheme.bias),
    ):
        found.update(_linear(pre + "attn." + name, out, d, bias, scheme))
    found.update(_linear(pre + "attn.out", d, h * dh, scheme.bias, scheme))
    if scheme.logits == "tau":
        found[pre + "attn.temperature"] = _around([h], math.log(10))
    if scheme.logits == "g":
        found[pre + "attn.temperature"] = _around([1], math.log2(size.context**2 - size.context))
    if scheme.logn:
        found[pre + "attn.log_scale"] = _around([h], 1 / math.log(size.context))
    if scheme.head_gain:
        found[pre + "attn.head_gain"] = _around([h], 1.0)
    found.update(_linear(pre + "ffn.up", f, d, scheme.bias, scheme))
    if scheme.ffn in ("swiglu", "geglu"):
        found.update(_linear(pre + "ffn.gate", f, d, scheme.bias, scheme))
    found.update(_linear(pre + "ffn.down", d, f, scheme.bias, scheme))
    for name in ("s_u", "s_v"):
        found.update(_stored_scale(pre + "ffn." + name, scheme.s_uv, f, 1.0))
    for sublayer in ("attn", "ffn"):
        found.update(_stored_scale(f"{pre}{sublayer}_residual.alpha", scheme.alpha, d, slow))
    if scheme.ffn_residual == "rscale":
        found[pre + "ffn_residual.lambda"] = _around([d], 1.0)
    return found


def declared(scheme, size):
    """{name: (shape, centre, spread)} of every parameter."""
    found = {"embed.tokens": ([size.vocab, size.width], 0.0, SPREAD)}
    if scheme.positions == "learned":
        found["embed.positions"] = ([size.context, size.width], 0.0, SPREAD)
    for i in range(scheme.layers):
        found.update(_block(scheme, size, i))
    for slot in ("input", "final"):
        found.update(_slot(scheme.slot(None, slot), slot, size.width, size))
    if not scheme.tied:
        found.update(_linear("head", size.vocab, size.width, False, scheme))
    found.update(_stored_scale("logits.gain", scheme.s_z, size.vocab, 1 / math.sqrt(size.width)))
    return found


def random(scheme, size, rng):
    """Random values for every parameter, on the constraint of the scheme, rounded to float32."""
    values = {}
    for name, (shape, centre, spread) in declared(scheme, size).items():
        value = centre + spread * rng.standard_normal(shape)
        if name.endswith("_residual.alpha"):
            value *= rng.choice([-1.0, 1.0], shape)
        values[name] = torch.from_numpy(value)
    constrain(scheme, values)
    return {name: value.float().double() for name, value in values.items()}


def sphere_axis(name):
    """The axis along the model width, which is the one that UNIT and ROWMAX act on."""
    return 0 if name.endswith(("attn.out.weight", "ffn.down.weight")) else 1


def is_matrix(name):
    return name == "embed.tokens" or name.endswith(".weight")


def constrain(scheme, values):
    """What the scheme does to its matrices after every step, in place in the dictionary."""
    for name in filter(is_matrix, values):
        if scheme.weights == "unit":
            values[name] = l2(values[name], sphere_axis(name))
        if scheme.weights == "rowmax":
            values[name] = rowmax(values[name], sphere_axis(name))


def rowmax(w, axis):
    return w / w.norm(dim=axis, keepdim=True).clamp(min=1.0)


def decays(scheme, name, value):
    if scheme.decay == "matrices":
        return value.dim() >= 2
    if scheme.decay == "weight_norm":
        return name == "embed.tokens"
    return scheme.decay == "all_but_embeddings" and not name.startswith("embed.")
