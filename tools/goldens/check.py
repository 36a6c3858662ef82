#!/usr/bin/env python3
"""Checks the truth itself: finite differences, PyTorch's own layers and optimizers, and identities on paper."""

import math
from dataclasses import replace

import torch
from torch.nn import functional

import make
import model
import optimizers as opt
import parameters
import primitives as prim
from optimizer_cases import CASES, TENSORS
from schemes import L2, LN, RMS, SCHEMES, Scheme

SIZE = make.SIZE


def report(what, gap, limit):
    print(f"{'ok  ' if gap <= limit else 'FAIL'} {what:64} {gap:.1e} (limit {limit:.0e})")
    if not gap <= limit:
        report.failures += 1


report.failures = 0


def gap(got, want):
    return float((got - want).abs().max() / want.abs().max())


def random_parameters(scheme, size=SIZE, seed="check"):
    return parameters.random(scheme, size, make.generator(seed))


def finite_differences():
    worst = 0.0
    for name, scheme in SCHEMES.items():
        values, (ids, targets), _ = make.start(name)
        _, gradients = make.differentiate(scheme, values, ids, targets)
        rng = make.generator("direction")
        direction = {key: torch.from_numpy(rng.standard_normal(tuple(v.shape))) for key, v in values.items()}
        h = 1e-6

        def along(step):
            return float(model.loss(scheme, SIZE, {k: v + step * direction[k] for k, v in values.items()}, ids, targets))

        slope = (along(h) - along(-h)) / (2 * h)
        exact = sum(float((gradients[k] * direction[k]).sum()) for k in values)
        worst = max(worst, abs(slope - exact) / abs(exact))
    report("gradient along a random direction, all schemes", worst, 1e-6)


def causality():
    worst = 0.0
    for name, scheme in SCHEMES.items():
        values, (ids, _), _ = make.start(name)
        before = model.logits(scheme, SIZE, values, ids)
        changed = ids.clone()
        changed[:, 4] = (changed[:, 4] + 1) % SIZE.vocab
        after = model.logits(scheme, SIZE, values, changed)
        worst = max(worst, float((after - before)[:, :4].abs().max()))
        if float((after - before)[:, 4:].abs().max()) < 1e-3:
            worst = math.inf
    report("earlier positions do not see a later token, all schemes", worst, 0.0)


def torch_layers():
    """Pre-LN and post-LN blocks against torch.nn.TransformerEncoderLayer."""
    size = replace(SIZE, kv_heads=SIZE.heads)
    for name, norms in (("pre-ln", ("attn_pre", "ffn_pre")), ("post-ln", ("attn_post", "ffn_post"))):
        scheme = replace(SCHEMES[name], layers=1)
        p = random_parameters(scheme, size)
        layer = torch.nn.TransformerEncoderLayer(
            size.width, size.heads, size.ffn_width, 0.0, "gelu", batch_first=True, norm_first=name == "pre-ln",
            dtype=torch.float64,
        )
        b = "blocks.0."
        layer.load_state_dict({
            "self_attn.in_proj_weight": torch.cat([p[f"{b}attn.{n}.weight"] for n in "qkv"]),
            "self_attn.in_proj_bias": torch.cat([p[f"{b}attn.{n}.bias"] for n in "qkv"]),
            "self_attn.out_proj.weight": p[b + "attn.out.weight"], "self_attn.out_proj.bias": p[b + "attn.out.bias"],
            "linear1.weight": p[b + "ffn.up.weight"], "linear1.bias": p[b + "ffn.up.bias"],
            "linear2.weight": p[b + "ffn.down.weight"], "linear2.bias": p[b + "ffn.down.bias"],
            "norm1.weight": p[b + norms[0] + ".gain"], "norm1.bias": p[b + norms[0] + ".bias"],
            "norm2.weight": p[b + norms[1] + ".gain"], "norm2.bias": p[b + norms[1] + ".bias"],
        })
        ids, targets = make.batch(make.generator("check"))
        future = torch.triu(torch.full((make.STEPS, make.STEPS), -math.inf, dtype=torch.float64), 1)
        x = layer(p["embed.tokens"][ids] + p["embed.positions"][: make.STEPS], future)
        if name == "pre-ln":
            x = functional.layer_norm(x, [size.width], p["final.gain"], p["final.bias"], 1e-5)
        want = x @ p["embed.tokens"].T
        got = model.logits(scheme, size, p, ids)
        report(f"{name} block equals torch's", gap(got, want), 1e-12)
        loss = functional.cross_entropy(want.flatten(0, 1), targets.flatten(), ignore_index=-1)
        report(f"{name} loss equals torch's", gap(model.loss(scheme, size, p, ids, targets), loss), 1e-12)
    x = torch.randn(3, 7, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    report("GELU", gap(prim.gelu(x), functional.gelu(x)), 1e-14)
    report("GELU tanh", gap(prim.gelu_tanh(x), functional.gelu(x, approximate="tanh")), 1e-14)
    report("SiLU", gap(prim.silu(x), functional.silu(x)), 1e-14)
    columns = torch.nn.BatchNorm1d(7 * 16, dtype=torch.float64)
    report("BN per position", gap(prim.batch_norm_position(x, 1e-5), columns(x.flatten(1)).view_as(x)), 1e-13)
    whole = torch.nn.BatchNorm1d(16, dtype=torch.float64)(x.transpose(1, 2)).transpose(1, 2)
    report("BN prefix at the last position", gap(prim.batch_norm_prefix(x, 1e-5)[:, -1], whole[:, -1]), 1e-13)


def torch_optimizers():
    coupled = CASES["adam"]["decay"]
    makers = {
        "sgd": lambda w, n, lr: torch.optim.SGD([w], lr, momentum=0.9, weight_decay=coupled[n]),
        "adamw": lambda w, n, lr: torch.optim.AdamW([w], lr, (0.9, 0.95), weight_decay=coupled[n]),
        "adam": lambda w, n, lr: torch.optim.Adam([w], lr, (0.9, 0.95), weight_decay=coupled[n]),
        "adagrad": lambda w, n, lr: torch.optim.Adagrad([w], lr),
        "adagrad-decay": lambda w, n, lr: torch.optim.Adagrad([w], lr, lr_decay=0.1, weight_decay=coupled[n]),
        "rmsprop": lambda w, n, lr: torch.optim.RMSprop([w], lr, weight_decay=coupled[n]),
        "rmsprop-momentum": lambda w, n, lr: torch.optim.RMSprop([w], lr, weight_decay=coupled[n], momentum=0.9),
    }
    for name, maker in makers.items():
        case = CASES[name]
        initial, gradients, schedule = make.optimizer_start(case)
        got = make.run_optimizer(case, initial, gradients, schedule)
        worst = 0.0
        for key in TENSORS:
            w = torch.nn.Parameter(initial[key].clone())
            theirs = maker(w, key, case["lr"])
            for step, (g, factor) in enumerate(zip(gradients[key], schedule)):
                theirs.param_groups[0]["lr"] = float(factor) * case["lr"]
                w.grad = g.clone()
                theirs.step()
                worst = max(worst, gap(got[key][step], w.detach()))
        report(f"{name} equals torch.optim", worst, 1e-12)


def single_precision():
    """The goldens must be reachable in float32: no sign, mask or clamp may hang on rounding."""
    forward, gradient, run, where = 0.0, 0.0, 0.0, ""
    for name, scheme in SCHEMES.items():
        values, (ids, targets), batches = make.start(name)
        _, want = make.differentiate(scheme, values, ids, targets)
        losses, _ = make.train(scheme, values, batches)
        single = {k: v.float() for k, v in values.items()}
        z = model.logits(scheme, SIZE, single, ids)
        forward = max(forward, gap(z.double(), model.logits(scheme, SIZE, values, ids)))
        _, got = make.differentiate(scheme, single, ids, targets)
        floor = 1e-3 * max(float(g.abs().max()) for g in want.values())
        for k, g in want.items():
            gradient = max(gradient, float((got[k].double() - g).abs().max()) / max(float(g.abs().max()), floor))
        drift = gap(make.train(scheme, single, batches)[0].double(), losses)
        run, where = max((run, where), (drift, name))
    report("float32 logits", forward, 1e-5)
    report("float32 gradients", gradient, 1e-4)
    report(f"float32 ten-step losses (worst: {where})", run, 1e-4)
    worst = 0.0
    for case in CASES.values():
        initial, gradients, schedule = make.optimizer_start(case)
        want = make.run_optimizer(case, initial, gradients, schedule)
        to_single = [{k: v.float() for k, v in group.items()} for group in (initial, gradients)]
        got = make.run_optimizer(case, *to_single, schedule)
        worst = max(worst, *(gap(got[k].double(), want[k]) for k in TENSORS))
    report("float32 optimizers", worst, 1e-5)


def same(what, scheme, p, other, q, limit):
    """Two models that are one on paper."""
    ids, _ = make.batch(make.generator("check"))
    report(what, gap(model.logits(scheme, SIZE, p, ids), model.logits(other, SIZE, q, ids)), limit)


def scheme_identities():
    sharp_ln, sharp_rms = replace(LN, eps=1e-30), replace(RMS, eps=1e-30)

    post = replace(SCHEMES["post-ln"], slots={"attn_post": sharp_ln, "ffn_post": sharp_ln})
    deep = replace(post, attn_residual="deepnorm", ffn_residual="deepnorm")
    p = random_parameters(post)
    a = (2 * deep.layers) ** 0.25
    scaled = {k: v * a if ".attn.out." in k or ".ffn.down." in k else v for k, v in p.items()}
    same("DeepNorm with branches times a equals post-LN", deep, scaled, post, p, 1e-12)

    rms_form = Scheme({"q": sharp_rms, "k": sharp_rms})
    unit_form = Scheme({"q": L2, "k": L2}, logits="ngpt", s_qk="scalar", qk_after_rope=True)
    p = random_parameters(rms_form)
    ones = {k: torch.ones_like(v) if k.endswith((".q.gain", ".k.gain")) else v for k, v in p.items()}
    stored = {k: v[:1] / math.sqrt(SIZE.width) if k.endswith(".q.gain") else v for k, v in ones.items()}
    same("QKRMS with gain 1 equals NGPT with s = 1", unit_form, stored, rms_form, ones, 1e-10)

    p = random_parameters(SCHEMES["pre-rms"])
    lengths = {k.replace(".weight", ".magnitude"): v.norm(dim=1) for k, v in p.items() if k.endswith(".weight")}
    own = {**p, **lengths}
    same("weight norm with its own lengths is free", SCHEMES["weight-norm"], own, SCHEMES["pre-rms"], p, 1e-10)

    gemma = SCHEMES["gemma3"]
    p = random_parameters(gemma)
    shifted = {k: v + 1 if k.endswith(".gain") else v for k, v in p.items()}
    plain = replace(gemma, slots=dict.fromkeys(gemma.slots, RMS))
    same("RMS1(gain) equals RMS(1 + gain)", plain, shifted, gemma, p, 1e-14)

    p = random_parameters(SCHEMES["ngpt"])
    alpha = -1 / math.sqrt(SIZE.width)
    start = {k: torch.full_like(v, alpha) if k.endswith(".alpha") else v for k, v in p.items()}
    same("stored alpha -1/sqrt(d) is alpha 0.05", SCHEMES["ngpt"], start, SCHEMES["ngpt-fixed-alpha"], p, 1e-14)


def ngpt_facts():
    scheme = SCHEMES["ngpt"]
    p = random_parameters(scheme)
    _, g = make.differentiate(scheme, p, *make.batch(make.generator("check")))
    radial = {k: abs(float((p[k] * g[k]).sum() / (p[k].norm() * g[k].norm()))) for k in p}
    matrices = tuple(f"{name}.weight" for name in ("attn.q", "attn.k", "attn.v", "attn.out", "ffn.up", "ffn.down"))
    silent = max(v for k, v in radial.items() if k.endswith((*matrices, "ffn.s_u")))
    loud = min(v for k, v in radial.items() if k.endswith(("ffn.gate.weight", "ffn.s_v", "head.weight", "logits.gain")))
    report("nGPT: scale-free parameters have tangent gradients", silent, 1e-9)
    report("nGPT: gate, s_v, head and s_z have not", 1e-4 / loud, 1.0)

    wide = replace(SIZE, width=64, vocab=101)
    p = random_parameters(scheme, wide)
    centres = parameters.declared(scheme, wide)
    start = {k: v if v.dim() == 2 else torch.full_like(v, centres[k][1]) for k, v in p.items()}
    many = make.generator("many").integers(0, wide.vocab, (2, 64, 7))
    first = float(model.loss(scheme, wide, start, *map(torch.from_numpy, many)))
    report("nGPT: the first loss is ln V", abs(first - math.log(wide.vocab)), 0.02)


def rotations():
    x = torch.randn(2, 40, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for layout in ("interleaved", "half_split"):
        y = prim.rope(x, 1e4, layout)
        report(f"RoPE {layout} keeps norms", gap(y.norm(dim=-1), x.norm(dim=-1)), 1e-13)
        q, k = (prim.rope(row.expand(40, 64), 1e4, layout) for row in x[:, 0])
        scores = q @ k.T
        report(f"RoPE {layout} sees distances only", gap(scores[10:, 10:], scores[:-10, :-10]), 1e-12)
    ratio = prim.rope(x, 1e4, "nvidia_defect").norm(dim=-1).mean(0) / x.norm(dim=-1).mean(0)
    report("the defective RoPE shrinks to about half (0.4 to 0.8)", float((ratio - 0.6).abs().max()), 0.2)
    start = prim.rope(x, 1e4, "nvidia_defect")[:, 0].unflatten(-1, (-1, 2)).abs().sum(-1)
    report("the defective RoPE zeroes half of the pairs at position 0", float((start == 0).double().mean() - 0.5), 0.0)
    a, b = prim.l2(x[0]), prim.l2(x[1])
    turned = prim.slerp(a, b, torch.tensor(0.3, dtype=torch.float64))
    angles = [torch.acos((a * other).sum(-1)) for other in (turned, b)]
    report("SLERP turns by alpha times the angle", gap(angles[0], 0.3 * angles[1]), 1e-9)
    half = torch.tensor(0.5, dtype=torch.float64)
    report("LERP and SLERP agree at one half", gap(prim.lerp(a, b, half), prim.slerp(a, b, half)), 1e-12)


def optimizer_identities():
    generator = torch.Generator().manual_seed(3)
    g = torch.randn(64, 256, dtype=torch.float64, generator=generator)
    for method, low, high in (("ns5", 0.6, 1.2), ("polar", 0.85, 1.15)):
        o = opt.orthogonalize(g, method)
        values = torch.linalg.svdvals(o)
        outside = max(low - float(values.min()), float(values.max()) - high)
        report(f"{method}: singular values in [{low}, {high}]", outside, 0.0)
        report(f"{method}: transposed in, transposed out", gap(opt.orthogonalize(g.T, method), o.T), 1e-12)
    initial, gradients, schedule = make.optimizer_start(CASES["riemannian_adam-parallel"])
    for transport in ("projection", "parallel"):
        rule = opt.RiemannianAdam((0.9, 0.95), 1e-8, 1, transport)
        w, radial, length, kept = initial["w1"], 0.0, 0.0, 0.0
        for row in gradients["w1"]:
            before = w
            w = rule.step(w, row, 0.1)
            radial = max(radial, float((w * rule.m).sum(1).abs().max()))
            length = max(length, float((w.norm(dim=1) - 1).abs().max()))
            kept = max(kept, float((before - w).norm()))
        report(f"Riemannian Adam, {transport}: unit, with tangent momentum", max(radial, length), 1e-14)
        report(f"Riemannian Adam, {transport}: it moves", 0.05 / kept, 1.0)
    gated = opt.GatedAdamW((0.9, 0.95), 0.0, 1e-2, 1.0, 0.1)
    adam = opt.AdamW((0.9, 0.95), 1e-2, 0.1)
    w = v = initial["w1"]
    for row in gradients["w1"]:
        w, v = gated.step(w, row, 0.05), adam.step(v, row, 0.05)
    report("gated AdamW with a = 1 is AdamW with eps = eps_gate", gap(w, v), 1e-13)
    angle = opt.RiemannianAdam((0.9, 0.95), 1e-8, 1, "parallel")
    scalar = opt.AdamW((0.9, 0.95), 1e-8)
    theta = torch.tensor([0.4], dtype=torch.float64)
    w = torch.stack([theta.cos(), theta.sin()], 1)
    for row in gradients["g"][:, :2]:
        pull = row[None] @ torch.stack([-theta.sin(), theta.cos()])
        w, theta = angle.step(w, row[None], 0.1), scalar.step(theta, pull[0], 0.1)
    report("on a circle parallel Riemannian Adam is Adam on the angle", gap(torch.atan2(w[0, 1], w[0, 0]), theta), 1e-12)


def main():
    torch.set_num_threads(1)
    for check in (
        finite_differences, causality, torch_layers, torch_optimizers, single_precision, scheme_identities, ngpt_facts,
        rotations, optimizer_identities,
    ):
        check()
    print("all ok" if not report.failures else f"{report.failures} checks failed")
    raise SystemExit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
