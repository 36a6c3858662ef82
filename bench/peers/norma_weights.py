"""Weights of gpu_models.Gpt under Norma's names: q, k and v, and up and gate, are parts of one parameter here."""

import torch

import gpu_models

BLOCK_NAMES = {
    "attn.qkv.weight": ("attn.q.weight", "attn.k.weight", "attn.v.weight"),
    "attn.out.weight": ("attn.out.weight",),
    "attn.q_norm.gain": ("q.gain",),
    "attn.k_norm.gain": ("k.gain",),
    "attn.s_qk": ("q.gain",),
    "ffn.down.weight": ("ffn.down.weight",),
    "ffn.s_u": ("ffn.s_u",),
    "ffn.s_v": ("ffn.s_v",),
    "attn_alpha": ("attn_residual.alpha",),
    "ffn_alpha": ("ffn_residual.alpha",),
    **{f"{site}.gain": (f"{site}.gain",) for site in ("attn_pre", "attn_mid", "ffn_pre", "ffn_mid")},
}
TOP_NAMES = {
    "tokens.weight": "embed.tokens",
    "positions.weight": "embed.positions",
    "input.gain": "input.gain",
    "final.gain": "final.gain",
    "head.weight": "head.weight",
    "s_z": "logits.gain",
}


def norma_parts(model):
    """(Norma's name, the rows of a parameter that have it) for every parameter of a Gpt."""
    for name, weight in model.named_parameters():
        if name in TOP_NAMES:
            yield TOP_NAMES[name], weight.detach()
            continue
        _, layer, rest = name.split(".", 2)
        if rest == "ffn.up.weight":
            names = ("ffn.up.weight", "ffn.gate.weight")[: weight.shape[0] // (4 * weight.shape[1])]
        else:
            names = BLOCK_NAMES[rest]
        for part, rows in zip(names, weight.detach().chunk(len(names))):
            yield f"blocks.{layer}.{part}", rows


@torch.no_grad()
def load_norma(model, tensors):
    wanted = dict(norma_parts(model))
    shapes = {name: tuple(part.shape) for name, part in wanted.items()}
    found = {name: tuple(array.shape) for name, array in tensors.items()}
    if shapes != found:
        differing = sorted(name for name in shapes.keys() | found.keys() if shapes.get(name) != found.get(name))
        raise SystemExit(f"these weights are not the model's: {', '.join(differing[:10])}")
    for name, part in wanted.items():
        part.copy_(torch.from_numpy(tensors[name].astype("float32")))
    for weight, axis in model.spheres():
        gpu_models.to_sphere(weight, axis)
