#!/usr/bin/env python3
"""The model of `norma bench train` in plain PyTorch, for ratios measured in one run.

A pre-LN GPT as in GPT-2: learned positions, LayerNorm with a gain and no bias, linear maps without biases, exact (erf)
GELU, head tied to the token embedding, causal attention, no dropout. Each step is a whole one: forward, backward,
gradient clipping at norm 1 and AdamW (lr 1e-3, betas 0.9 and 0.95, weight decay 0.1 on matrices), on random tokens.

Works with torch 1.13 (masked softmax attention) and with newer ones (scaled_dot_product_attention), on a CPU.

Example: /usr/bin/python3 bench/peers/torch_gpt.py --case gpt-d192 --threads 2 --json
"""

import argparse
import json
import math
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

CASES = {  # L layers, H heads, d width, T tokens, B batch, V vocabulary
    "gpt-d128": dict(L=4, H=4, d=128, T=64, B=12, V=65),
    "gpt-d192": dict(L=6, H=6, d=192, T=256, B=16, V=4096),
    "gpt-d384": dict(L=6, H=6, d=384, T=256, B=8, V=65),
}


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.layer_norm(x, self.gain.shape, self.gain, None, 1e-5)


class Attention(nn.Module):
    def __init__(self, heads, width, context):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.fused = hasattr(F, "scaled_dot_product_attention")
        if not self.fused:
            future = torch.ones(context, context, dtype=torch.bool).triu(1)
            self.register_buffer("future", future, persistent=False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = (part.view(B, T, self.heads, -1).transpose(1, 2) for part in self.qkv(x).split(C, dim=2))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            logits = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(C // self.heads))
            y = logits.masked_fill(self.future[:T, :T], float("-inf")).softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, heads, width, context):
        super().__init__()
        self.attn_norm = Norm(width)
        self.attn = Attention(heads, width, context)
        self.mlp_norm = Norm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        x = x + self.attn(self.attn_norm(x))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Gpt(nn.Module):
    def __init__(self, L, H, d, T, V):
        super().__init__()
        self.tokens = nn.Embedding(V, d)
        self.positions = nn.Embedding(T, d)
        self.blocks = nn.ModuleList(Block(H, d, T) for _ in range(L))
        self.last_norm = Norm(d)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                residual = name.endswith(("attn.out.weight", "down.weight"))
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * L) if residual else 0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.last_norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def make_optimizer(model):
    groups = [
        {"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": 0.1},
        {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))


def measure(case, steps, warmup, max_seconds):
    """Milliseconds of each measured step, and the last loss."""
    torch.manual_seed(1)
    model = Gpt(**{key: value for key, value in case.items() if key != "B"})
    optimizer = make_optimizer(model)
    random = torch.Generator().manual_seed(2)
    shape = (case["B"], case["T"])
    times, begin, loss = [], time.perf_counter(), float("nan")
    for step in range(warmup + steps):
        ids = torch.randint(case["V"], shape, generator=random)
        targets = torch.randint(case["V"], shape, generator=random)
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        value = model(ids, targets)
        value.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        loss = value.item()
        end = time.perf_counter()
        if step >= warmup:
            times.append(1e3 * (end - start))
            if max_seconds and end - begin > max_seconds:
                break
    return model, times, loss


def main():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--case", choices=sorted(CASES), default="gpt-d128")
    ask.add_argument("--steps", type=int, default=20, help="measured steps; the median counts (20)")
    ask.add_argument("--warmup", type=int, default=3, help="steps before them (3)")
    ask.add_argument("--max-seconds", type=float, default=0, help="stop measuring after this time; 0: never (0)")
    ask.add_argument("--threads", type=int, default=2, help="threads inside an operation (2)")
    ask.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    args = ask.parse_args()
    if args.steps < 1 or args.warmup < 0 or args.threads < 1:
        ask.error("--steps and --threads must be 1 or more, --warmup 0 or more")

    torch.set_num_threads(args.threads)
    case = CASES[args.case]
    model, times, loss = measure(case, args.steps, args.warmup, args.max_seconds)

    params = sum(p.numel() for p in model.parameters())
    counted = params - model.positions.weight.numel()
    flops_per_token = 6 * counted + 12 * case["L"] * case["d"] * case["T"]
    ms_step = statistics.median(times)
    tokens_per_s = case["B"] * case["T"] / ms_step * 1e3
    result = {
        "case": args.case,
        "ms_step": round(ms_step, 3),
        "ms_fastest": round(min(times), 3),
        "tokens_per_s": round(tokens_per_s, 1),
        "gflops": round(flops_per_token * tokens_per_s / 1e9, 2),
        "params": params,
        "steps": len(times),
        "threads": torch.get_num_threads(),
        "loss": round(loss, 4),
        "torch": torch.__version__,
    }
    if args.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:14} {value}")


if __name__ == "__main__":
    main()
