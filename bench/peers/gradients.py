#!/usr/bin/env python3
"""Gradients of one batch by Norma and by torch, from the same weights, for every kind of parameter.

  gradients.py --start RUN --f32 RUN [--bf16 RUN] --data DIR

--start is a run of Norma, the others are one step on from its weights: of plain SGD, so that what the step took from a weight
is lr times its gradient. What is told are errors against torch in f32, relative to the norm of a kind's gradient: of Norma and,
beside a run in bf16, of torch under autocast with a residual stream in f32 and (narrow) in bf16, which is Norma's. A table,
then one line of JSON for bench/device.sh, whose verb gradients makes the runs.
"""

import argparse
import collections
import contextlib
import json
import math
import re

import numpy
import torch

import norma_files
import norma_weights
import torch_gpu

# Measured on an H200 with GPT-2 and L-DNT of 124M: f32 at most 6.4e-6 for a kind; beside the narrow torch 0.97 and 0.96 in all,
# at most 1.21 for a kind.
GRADIENT_LIMITS = {
    "f32": 1e-4,  # the error of each kind in f32, and so that of all
    "bf16": 1.15,  # the error of all in bf16, as a multiple of the narrow torch's
    "bf16_kind": 1.5,  # the same for each kind
}
PLAIN_SGD = {"name": "sgdw", "momentum": 0, "weight_decay": 0, "clip_bound": 0}


class Step:
    """The one step that a run took."""

    def __init__(self, run, start):
        self.start = start
        self.after, self.recipe = norma_files.open_weights(run)
        other = [key for key, value in PLAIN_SGD.items() if self.recipe["optim"].get(key) != value]
        if other or self.recipe["train"]["steps"] != 1:
            wanted = ", ".join(f"optim.{key}={value}" for key, value in PLAIN_SGD.items())
            raise SystemExit(f"gradients.py: {run} must be one step of plain SGD: train.steps=1, {wanted}.")
        if self.after.keys() != start.keys():
            raise SystemExit(f"gradients.py: {run} has other parameters than the run it should start from.")

    def gradient(self, name):
        return (self.start[name].astype("f8") - self.after[name]) / self.recipe["optim"]["lr"]


def torch_gradients(start, recipe, batch, device, cast, narrow):
    with torch_gpu.on_device(device):
        model = torch_gpu.model_of(recipe, narrow)
    if model.spheres():
        raise SystemExit("gradients.py: weights that return to the sphere after a step do not tell their gradient.")
    norma_weights.load_norma(model, start)
    with torch.autocast(device, dtype=torch.bfloat16) if cast else contextlib.nullcontext():
        loss = model(*(torch.from_numpy(part).to(device) for part in batch))
    loss.backward()
    for weight in model.parameters():  # names are told of weights, so gradients take their places
        weight.data = weight.grad
    return {name: part.cpu().numpy() for name, part in norma_weights.norma_parts(model)}


def kind_of(name):
    return re.sub(r"^blocks\.\d+\.", "", name)


def norms(start, truth, gradients):
    """Norms of torch's gradient in f32, and for each of the others those of its error, by kind."""
    squares = collections.defaultdict(lambda: collections.defaultdict(float))
    for name in start:
        true = truth[name].astype("f8")
        squares[kind_of(name)]["norm"] += numpy.sum(true**2)
        for who, gradient in gradients.items():
            squares[kind_of(name)][who] += numpy.sum((gradient(name) - true) ** 2)
    squares["all"] = {key: sum(kind[key] for kind in squares.values()) for key in ("norm", *gradients)}
    return {kind: {key: math.sqrt(value) for key, value in found.items()} for kind, found in squares.items()}


def divided(a, b):
    return float(a / b) if b else float("nan")


def largest(values):
    """Of kinds to numbers; what is no number counts as the largest."""
    return max(values.items(), key=lambda item: (item[1] != item[1], item[1]))


def judge(errors, rows):
    """`errors`: those relative to the norm, by kind."""
    kinds = errors.keys() - {"all"}
    kind, error = largest({kind: errors[kind]["Norma f32"] for kind in kinds})
    told = {"rows": rows, "errors": errors["all"], "f32_kind": kind, "f32_largest": error, "limits": GRADIENT_LIMITS}
    # Written so that what is no number fails.
    good = error <= GRADIENT_LIMITS["f32"]
    if "Norma bf16" in errors["all"]:
        ratios = {kind: divided(found["Norma bf16"], found["torch narrow"]) for kind, found in errors.items()}
        ratio = ratios.pop("all")
        kind, largest_ratio = largest(ratios)
        told |= {"bf16_ratio": ratio, "bf16_kind": kind, "bf16_largest": largest_ratio}
        good = good and ratio <= GRADIENT_LIMITS["bf16"] and largest_ratio <= GRADIENT_LIMITS["bf16_kind"]
    return told | {"good": good}


def read_arguments():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--start", metavar="RUN", required=True, help="whose weights are the start")
    ask.add_argument("--f32", metavar="RUN", required=True, help="one step from there in f32")
    ask.add_argument("--bf16", metavar="RUN", help="and in bf16, on the same batch")
    ask.add_argument("--data", metavar="DIR", required=True, help="tokens that the steps were taken on")
    ask.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    return ask.parse_args()


def main():
    args = read_arguments()
    torch.backends.cuda.matmul.allow_tf32 = False
    start, _ = norma_files.open_weights(args.start)
    steps = {f"Norma {kind}": Step(run, start) for kind, run in (("f32", args.f32), ("bf16", args.bf16)) if run}
    recipe = steps["Norma f32"].recipe
    rows = recipe["train"]["batch"]
    tokens = norma_files.open_tokens(args.data)
    batch = norma_files.Windows(tokens, recipe["model"]["context"], recipe["train"].get("seed", 1)).batch(0, rows)

    def by_torch(cast, narrow):
        return torch_gradients(start, recipe, batch, args.device, cast, narrow)

    gradients = {who: step.gradient for who, step in steps.items()}
    truth = by_torch(cast=False, narrow=False)
    if args.bf16:
        gradients["torch bf16"] = by_torch(cast=True, narrow=False).__getitem__
        gradients["torch narrow"] = by_torch(cast=True, narrow=True).__getitem__
    found = norms(start, truth, gradients)
    errors = {kind: {who: divided(sizes[who], sizes["norm"]) for who in gradients} for kind, sizes in found.items()}
    print(f"{'gradient':20}{'norm':>12}", *(f"{who:>13}" for who in gradients))
    for kind, sizes in found.items():
        print(f"{kind:20}{sizes['norm']:12.3e}", *(f"{errors[kind][who]:13.2e}" for who in gradients))
    print(json.dumps(judge(errors, rows)))


if __name__ == "__main__":
    main()
