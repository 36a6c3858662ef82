#!/usr/bin/env python3
"""Goldens from torch.optim in the format of the optimizer goldens; writes tests/goldens/torch_optim.

Optimizers that this version of PyTorch lacks are skipped with a line. The gap to optimizers.py is printed.
"""

import sys

import torch

import make
import storage
from optimizer_cases import ADAM, BETAS, CLASSES, DECAY, EPS, HIDDEN, MATRICES, TENSORS

AGREEMENT = 1e-9
AGREEMENT_BF16 = 0.1  # torch.optim.Muon orthogonalizes in bfloat16


def decay_of(name, decay=DECAY):
    return decay if name in MATRICES else 0.0


def simple(kind, hyper, ours, decay=DECAY, lr=0.05, **options):
    """One torch optimizer for all tensors; ours is the optimizer golden that says the same, or ''."""
    return dict(
        make=lambda name, w: getattr(torch.optim, kind)([w], lr=lr, weight_decay=decay_of(name, decay), **options),
        hyper=hyper, ours=ours, decay=decay, lr=lr, factors={}, needs=kind, limit=AGREEMENT,
    )


def muon(adjust, ours, scale):
    def build(name, w):
        if name in HIDDEN:
            return torch.optim.Muon([w], lr=0.04, weight_decay=DECAY, momentum=0.95, nesterov=True, adjust_lr_fn=adjust)
        return torch.optim.AdamW([w], lr=0.02, betas=BETAS, eps=EPS, weight_decay=decay_of(name))

    hyper = {
        "momentum": 0.95, "nesterov": True, "method": "ns5", "scale": scale, "adam": ADAM,
        "precision": "orthogonalization in bfloat16",
    }
    factors = {name: 0.5 for name in TENSORS if name not in HIDDEN}
    return dict(
        make=build, hyper=hyper, ours=ours, decay=DECAY, lr=0.04, factors=factors, needs="Muon", limit=AGREEMENT_BF16
    )


CASES = {
    "sgd-no-decay": simple("SGD", {"momentum": 0.9}, "", decay=0.0, momentum=0.9),
    "sgd": simple("SGD", {"momentum": 0.9, "decoupled": False}, "sgd", momentum=0.9),
    "sgd-nesterov": simple(
        "SGD", {"momentum": 0.9, "nesterov": True, "decoupled": False}, "", momentum=0.9, nesterov=True
    ),
    "adamw": simple("AdamW", ADAM, "adamw", betas=BETAS, eps=EPS),
    "adam": simple("Adam", {**ADAM, "decoupled": False}, "adam", betas=BETAS, eps=EPS),
    "adagrad": simple("Adagrad", {"eps": 1e-10, "lr_decay": 0.0}, "adagrad", decay=0.0, eps=1e-10),
    "adagrad-decay": simple(
        "Adagrad", {"eps": 1e-10, "lr_decay": 0.1, "decoupled": False}, "adagrad-decay", eps=1e-10, lr_decay=0.1
    ),
    "rmsprop": simple(
        "RMSprop", {"alpha": 0.99, "eps": EPS, "momentum": 0.0, "decoupled": False}, "rmsprop", lr=0.01, alpha=0.99, eps=EPS
    ),
    "rmsprop-momentum": simple(
        "RMSprop", {"alpha": 0.99, "eps": EPS, "momentum": 0.9, "decoupled": False}, "rmsprop-momentum",
        lr=0.01, alpha=0.99, eps=EPS, momentum=0.9,
    ),
    "muon": muon("original", "muon", "original"),
    "muon-match": muon("match_rms_adamw", "muon-match", "match_adamw_rms"),
}


def run(case, initial, gradients, schedule):
    paths = {}
    for name in TENSORS:
        w = torch.nn.Parameter(initial[name].clone())
        rule = case["make"](name, w)
        first = rule.param_groups[0]["lr"]
        path = []
        for g, factor in zip(gradients[name], schedule):
            rule.param_groups[0]["lr"] = first * float(factor)
            w.grad = g.clone()
            rule.step()
            path.append(w.detach().clone())
        paths[name] = torch.stack(path)
    return paths


def gap_to_ours(case, paths, inputs):
    if not case["ours"]:
        return None
    want = make.run_optimizer(make.CASES[case["ours"]], *inputs)
    return max(float((paths[k] - want[k]).abs().max() / want[k].abs().max()) for k in TENSORS)


def make_case(name, case):
    """Writes one golden; False where the result disagrees with optimizers.py."""
    initial, gradients, schedule = inputs = make.optimizer_start({"more": {}})
    paths = run(case, *inputs)
    gap = gap_to_ours(case, paths, inputs)
    if gap is not None and not gap < case["limit"]:
        print(f"{name:20} not written: differs from optimizers.py by {gap:.1e}")
        return False
    tensors = {"lr": case["lr"] * schedule}
    for key in TENSORS:
        tensors["init/" + key] = initial[key].float()
        tensors["grad/" + key] = gradients[key].float()
        tensors["after/" + key] = paths[key]
    metadata = {
        "optimizer": name.removesuffix("-no-decay"), "hyper": case["hyper"], "classes": CLASSES,
        "weight_decay": {key: decay_of(key, case["decay"]) for key in TENSORS},
        "lr_factor": {key: case["factors"].get(key, 1.0) for key in TENSORS},
    }
    path = storage.GOLDENS / "torch_optim" / f"{name}.safetensors"
    storage.write(path, {key: t.numpy() for key, t in tensors.items()}, metadata)
    print(f"{name:20} " + ("no counterpart" if gap is None else f"differs from optimizers.py by {gap:.1e}"))
    return True


def main():
    print(f"torch {torch.__version__}")
    torch.set_num_threads(1)
    agreed = True
    for name, case in CASES.items():
        if not hasattr(torch.optim, case["needs"]):
            print(f"{name:20} skipped: this PyTorch has no torch.optim.{case['needs']}")
            continue
        agreed = make_case(name, case) and agreed
    storage.record("tools/goldens/from_torch_optim.py", ["torch_optim"], {"torch": torch.__version__}, make.SEED)
    sys.exit(0 if agreed else 1)


if __name__ == "__main__":
    main()
