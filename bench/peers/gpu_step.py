"""Whole training steps of the GPU peers, and how they are measured."""

import contextlib
import ctypes
import math
import time

import torch
from torch import nn

import gpu_models


def lr_at(recipe, step):
    """As norma/optim/schedule.cpp: constant and cosine."""
    schedule, peak = recipe["schedule"], recipe["optim"]["lr"]
    warmup, end = schedule.get("warmup", 0), schedule.get("decay_steps", 0) or recipe["train"]["steps"]
    if step < warmup:
        return peak * (step + 1) / (warmup + 1)
    if schedule["name"] == "constant":
        return peak
    if schedule["name"] != "cosine":
        raise SystemExit(f"no schedule {schedule['name']} here; there are constant and cosine")
    low = schedule.get("min_lr", 0.0)
    turn = min(1.0, (step - warmup) / (end - warmup))
    return low + (peak - low) * 0.5 * (1 + math.cos(math.pi * turn))


class Stepper:
    """Gradients, clipping, the optimizer and the constraint: everything of a step."""

    def __init__(self, model, optim, device, precision, compiled):
        self.model, self.device = model, device
        self.narrow = precision == "bf16"
        matrices = [p for p in model.parameters() if p.dim() in (2, 4)]
        vectors = [p for p in model.parameters() if p.dim() not in (2, 4)]
        self.decayed = matrices if optim["name"] == "sgdw" else []
        self.decay = 0.0 if getattr(model, "scheme", "") == "ngpt" else optim["weight_decay"]
        groups = [
            {"params": matrices, "weight_decay": 0.0 if self.decayed else self.decay},
            {"params": vectors, "weight_decay": 0.0},
        ]
        fused = {"fused": True} if device == "cuda" else {}
        if optim["name"] == "adamw":
            betas = (optim["beta1"], optim["beta2"])
            self.optimizer = torch.optim.AdamW(groups, lr=optim["lr"], betas=betas, **fused)
        elif optim["name"] == "sgdw":
            self.optimizer = torch.optim.SGD(groups, lr=optim["lr"], momentum=optim["momentum"], **fused)
        else:
            raise SystemExit(f"no optimizer {optim['name']} here; there are adamw and sgdw")
        self.clip_bound = optim["clip_bound"]
        self.spheres = [(weight.data, axis) for weight, axis in model.spheres()]
        self.to_sphere = gpu_models.to_sphere
        self.loss = model
        if compiled:
            # One small graph per shape: nothing is gained by sizes that stay open.
            self.to_sphere = torch.compile(gpu_models.to_sphere, dynamic=False)
            self.loss = torch.compile(model)

    def step(self, inputs, targets, lr):
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        cast = torch.autocast(self.device, dtype=torch.bfloat16) if self.narrow else contextlib.nullcontext()
        with cast:
            loss = self.loss(inputs, targets)
        loss.backward()
        if self.clip_bound:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_bound)
        with torch.no_grad():
            if self.decayed and self.decay:
                torch._foreach_mul_(self.decayed, 1 - lr * self.decay)
            self.optimizer.step()
            for weight, axis in self.spheres:
                self.to_sphere(weight, axis)
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def joules_used():
    """What the card has drawn since its driver was loaded, right after NVML's counter moved; None where there is none."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
        device, value = ctypes.c_void_p(), ctypes.c_ulonglong()
        name = f"GPU-{torch.cuda.get_device_properties(torch.cuda.current_device()).uuid}".encode()
        if library.nvmlInit_v2() or library.nvmlDeviceGetHandleByUUID(name, ctypes.byref(device)):
            return None
    except (OSError, AttributeError):
        return None

    def now():
        return None if library.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(value)) else value.value

    before, began = now(), time.perf_counter()
    while before is not None and time.perf_counter() - began < 0.5:
        if now() not in (before, None):
            return value.value * 1e-3
    return None


def used_bytes():
    free, total = torch.cuda.mem_get_info()
    return total - free


class Clock:
    """Milliseconds between the ends of steps, by the device's own clock where there is one."""

    def __init__(self, device):
        self.cuda, self.marks = device == "cuda", []

    def mark(self):
        if self.cuda:
            self.marks.append(torch.cuda.Event(enable_timing=True))
            self.marks[-1].record()
        else:
            self.marks.append(time.perf_counter())

    def times(self):
        pairs = list(zip(self.marks, self.marks[1:]))
        if not self.cuda:
            return [1e3 * (later - earlier) for earlier, later in pairs]
        torch.cuda.synchronize()
        return [earlier.elapsed_time(later) for earlier, later in pairs]
