"""A GPT whose norms, residuals, attention logits and weights follow a Scheme."""

import math

import torch

import primitives as prim
from parameters import is_matrix, sphere_axis

IGNORED = -1
ANGPT_SILU = 3.74  # restores the size of u * silu(g)


def _effective(scheme, p):
    """The parameters as the forward pass uses them: weight norm and forward parametrization applied."""
    used = dict(p)
    for name in filter(is_matrix, p):
        if scheme.weights == "wn" and name != "embed.tokens":
            magnitude = p[name.replace(".weight", ".magnitude")]
            used[name] = magnitude[:, None] * prim.l2(p[name])
        if scheme.weights == "parametrized":
            used[name] = prim.l2(p[name], sphere_axis(name))
    return used


def _linear(p, name, x):
    y = x @ p[name + ".weight"].T
    return y + p[name + ".bias"] if name + ".bias" in p else y


def _split(x, head_width):
    """[B,T,heads*head_width] to [B,heads,T,head_width]."""
    return x.unflatten(-1, (-1, head_width)).transpose(1, 2)


def _project(scheme, size, p, i, name, a):
    """One of q, k, v as heads, with its slot applied where the slot comes before the rotation."""
    pre = f"blocks.{i}."
    x = _linear(p, pre + "attn." + name, a)
    norm = scheme.slot(i, name)
    if norm is not None and norm.full_width:
        return _split(prim.apply_norm(norm, pre + name, x, p), size.head_width)
    x = _split(x, size.head_width)
    if name == "v" or not scheme.qk_after_rope:
        x = prim.apply_norm(norm, pre + name, x, p)
    return x


def _scores(scheme, size, p, i, q, k):
    """Attention logits [B,H,T,T] before the mask; k already has one head for every query head."""
    pre = f"blocks.{i}."
    products = q @ k.transpose(-1, -2)
    if scheme.logits == "dot":
        products = products / math.sqrt(size.head_width)
    if scheme.logits == "ngpt":
        products = products * math.sqrt(size.head_width)
    if scheme.logits == "g":
        products = products * p[pre + "attn.temperature"]
    if scheme.logits == "tau":
        tau = torch.exp(p[pre + "attn.temperature"].clamp(max=math.log(100)))
        products = products * tau[:, None, None]
    if scheme.logn:
        visible = torch.arange(1, q.shape[2] + 1, dtype=q.dtype)
        products = products * p[pre + "attn.log_scale"][:, None, None] * torch.log(visible)[:, None]
    return prim.softcap(products, scheme.attn_cap)


def _attention(scheme, size, p, i, x):
    pre = f"blocks.{i}."
    a = prim.apply_norm(scheme.slot(i, "attn_pre"), pre + "attn_pre", x, p)
    q, k, v = (_project(scheme, size, p, i, name, a) for name in ("q", "k", "v"))
    if scheme.positions == "rope":
        q, k = (prim.rope(y, scheme.rope_base, scheme.rope) for y in (q, k))
    if scheme.qk_after_rope:
        q, k = (prim.apply_norm(scheme.slot(i, name), pre + name, y, {}) for name, y in (("q", q), ("k", k)))
    # Query head h reads key and value head h // (heads / kv_heads).
    k, v = (y.repeat_interleave(size.heads // size.kv_heads, 1) for y in (k, v))
    if scheme.s_qk:
        s = p[pre + "q.gain"] * math.sqrt(size.width)
        s = s.view(size.heads, 1, size.head_width) if scheme.s_qk == "vector" else s
        q, k = s * q, s * k
    if scheme.angpt_constants:
        v = v * math.sqrt(size.width / size.head_width)
    steps = x.shape[1]
    future = torch.triu(torch.ones(steps, steps, dtype=torch.bool), 1)
    weights = torch.softmax(_scores(scheme, size, p, i, q, k).masked_fill(future, -math.inf), -1)
    o = weights @ v
    if scheme.head_gain:
        o = o * p[pre + "attn.head_gain"][:, None, None]
    o = prim.apply_norm(scheme.slot(i, "attn_inner"), pre + "attn_inner", o.transpose(1, 2).flatten(-2), p)
    b = _linear(p, pre + "attn.out", o)
    if scheme.angpt_constants:
        b = b * math.sqrt(size.head_width / size.width)
    return prim.apply_norm(scheme.slot(i, "attn_mid"), pre + "attn_mid", b, p)


def _inner(scheme, size, p, i, c):
    """The activation of the feed-forward network."""
    pre = f"blocks.{i}.ffn."
    u = _linear(p, pre + "up", c)
    if scheme.ffn == "gelu":
        return prim.gelu(u)
    if scheme.ffn == "gelu_tanh":
        return prim.gelu_tanh(u)
    if scheme.ffn == "relu2":
        return torch.relu(u) ** 2
    g = _linear(p, pre + "gate", c)
    if scheme.ffn == "geglu":
        return u * prim.gelu_tanh(g)
    if scheme.s_uv:
        u = p[pre + "s_u"] * u
        g = p[pre + "s_v"] * math.sqrt(size.width) * g
    if scheme.angpt_constants:
        widening = math.sqrt(size.width / size.ffn_width)
        return ANGPT_SILU * (widening * u) * prim.silu(widening * g)
    return u * prim.silu(g)


def _feed_forward(scheme, size, p, i, x):
    pre = f"blocks.{i}."
    c = prim.apply_norm(scheme.slot(i, "ffn_pre"), pre + "ffn_pre", x, p)
    z = prim.apply_norm(scheme.slot(i, "ffn_inner"), pre + "ffn_inner", _inner(scheme, size, p, i, c), p)
    b = _linear(p, pre + "ffn.down", z)
    if scheme.angpt_constants:
        b = b * math.sqrt(size.ffn_width / size.width)
    return prim.apply_norm(scheme.slot(i, "ffn_mid"), pre + "ffn_mid", b, p)


def _residual(scheme, size, p, i, sublayer, x, b):
    rule = getattr(scheme, sublayer + "_residual")
    name = f"blocks.{i}.{sublayer}_residual"
    if rule == "add":
        return x + b
    if rule == "deepnorm":
        return (2 * scheme.layers) ** 0.25 * x + b
    if rule == "rscale":
        return p[name + ".lambda"] * x + b
    if scheme.alpha == "fixed":
        alpha = torch.tensor(scheme.alpha_init, dtype=x.dtype)
    else:
        alpha = torch.abs(p[name + ".alpha"] * scheme.alpha_init * math.sqrt(size.width))
    return {"lerp": prim.lerp, "slerp": prim.slerp, "riemann": prim.riemann, "alerp": prim.alerp}[rule](x, b, alpha)


def logits(scheme, size, parameters, ids):
    """ids [B,T] to logits [B,T,V], after the logits slot."""
    p = _effective(scheme, parameters)
    x = p["embed.tokens"][ids]
    if scheme.positions == "learned":
        x = x + p["embed.positions"][: ids.shape[1]]
    if scheme.embed_scale:
        x = x * math.sqrt(size.width)
    x = prim.apply_norm(scheme.slot(None, "input"), "input", x, p)
    for i in range(scheme.layers):
        for sublayer, branch in (("attn", _attention), ("ffn", _feed_forward)):
            x = _residual(scheme, size, p, i, sublayer, x, branch(scheme, size, p, i, x))
            post = sublayer + "_post"
            x = prim.apply_norm(scheme.slot(i, post), f"blocks.{i}.{post}", x, p)
    h = prim.apply_norm(scheme.slot(None, "final"), "final", x, p)
    z = h @ p["embed.tokens" if scheme.tied else "head.weight"].T
    if scheme.s_z:
        z = p["logits.gain"] * math.sqrt(size.width) * z
    return prim.softcap(z, scheme.final_cap)


def token_losses(scheme, z, targets):
    """Cross entropy (and z-loss) of every token; 0 where the target is ignored."""
    lse = torch.logsumexp(z, -1)
    kept = targets != IGNORED
    picked = z.gather(-1, targets.clamp(min=0)[..., None])[..., 0]
    return torch.where(kept, lse - picked + scheme.z_loss * lse**2, torch.zeros_like(lse))


def loss(scheme, size, parameters, ids, targets):
    """Mean over the tokens whose target is not ignored."""
    losses = token_losses(scheme, logits(scheme, size, parameters, ids), targets)
    return losses.sum() / (targets != IGNORED).sum()
