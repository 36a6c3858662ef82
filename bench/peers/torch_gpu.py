#!/usr/bin/env python3
"""The shapes of `norma bench train --device cuda` in PyTorch, compiled, for ratios measured in one sitting on one card.

Whole steps: forward, backward, clipping at norm 1, fused AdamW or momentum SGD with decoupled decay, and for nGPT the
return of the weights to the sphere. bf16 under autocast, f32 masters.

  torch_gpu.py --case gpt2-124m --steps 20 --json          times a case
  torch_gpu.py --case gpt2-124m --export DIR               writes start weights for `norma import`, a recipe, and tokens
  torch_gpu.py --train-from DIR --data DIR/data --steps 50 one loss a line, over the windows that `norma train` draws

--train-from takes an exported folder, a .safetensors file or a run, and does what the recipe in it says. On a CPU, also
with torch 1.13, it computes in f32: that is how losses are compared with Norma's (bench/device.sh losses).
"""

import time

BEGAN = time.perf_counter()

import argparse  # noqa: E402
import contextlib  # noqa: E402
import json  # noqa: E402
import pathlib  # noqa: E402
import statistics  # noqa: E402

import torch  # noqa: E402

import gpu_models  # noqa: E402
import norma_files  # noqa: E402
import norma_weights  # noqa: E402
from gpu_step import Clock, Stepper, joules_used, lr_at, used_bytes  # noqa: E402

# `warmup`: steps of the linear warm-up to lr. Losses are compared over the first 50 of GPT-2's 200: with a warm-up of ten
# steps rounding alone, a residual stream in bf16, moves torch's own losses by three percent. So it does with 200 for 774M, whose
# steps have a quarter of the tokens, and by seven percent with ten for pre-RMS: these two have their recipes' 2000. nGPT needs none.
GPT2 = dict(scheme="pre-ln", ffn="gelu_tanh", vocab=50304, context=1024, lr=6e-4, warmup=200, decay=0.1)
SMALL = dict(layers=12, heads=12, width=768, batch=64)
HALF = dict(layers=24, heads=16, width=1024, batch=16, ffn="swiglu", vocab=50304, context=1024, lr=15e-4, warmup=10)
TINY = dict(layers=2, heads=2, width=32, context=16, vocab=64, batch=4, lr=3e-3, warmup=10, decay=0.1)
CASES = {
    "gpt2-124m": GPT2 | SMALL,
    "dnt-124m": GPT2 | SMALL | dict(scheme="dnt-s5"),
    "gpt2-774m": GPT2 | dict(layers=36, heads=20, width=1280, batch=16, lr=2.5e-4, warmup=2000),
    "ngpt-0.5b": HALF | dict(scheme="ngpt", decay=0.0),
    "prerms-0.5b": HALF | dict(scheme="pre-rms", decay=0.1, warmup=2000),
    "ngpt-0.5b-8k": HALF | dict(scheme="ngpt", decay=0.0, context=8192, batch=2),
    "vit-l16": dict(scheme="vit", layers=24, heads=16, width=1024, batch=128, lr=1e-3, decay=0.1),
    "vit-b16": dict(scheme="vit", layers=12, heads=12, width=768, batch=256, lr=1e-3, decay=0.1),
    # For comparing losses on a CPU.
    "tiny-gpt2": TINY | dict(scheme="pre-ln", ffn="gelu_tanh"),
    "tiny-dnt": TINY | dict(scheme="dnt-s5", ffn="gelu"),
    "tiny-prerms": TINY | dict(scheme="pre-rms", ffn="swiglu"),
    "tiny-ngpt": TINY | dict(scheme="ngpt", ffn="swiglu", decay=0.0),
}
# For comparing losses; at the published lr of 1.0 rounding alone moves them by a percent within 50 steps.
MSGDW = dict(lr=0.1, decay=1e-4)


def recipe_of(case, optimizer, steps):
    """A case as a recipe of Norma's: what is exported beside the weights."""
    adam = dict(name="adamw", lr=case["lr"], weight_decay=case["decay"], beta1=0.9, beta2=0.95)
    momentum = dict(name="sgdw", lr=MSGDW["lr"], weight_decay=MSGDW["decay"], momentum=0.9)
    return {
        "model": {key: case[key] for key in ("layers", "heads", "width", "context", "vocab", "ffn")},
        "scheme": {"base": case["scheme"]},
        "optim": (adam if optimizer == "adamw" else momentum) | {"clip_bound": 1.0},
        "schedule": {"name": "constant", "warmup": case["warmup"]},
        "train": {"steps": steps, "batch": case["batch"], "seed": 1, "log_every": 1, "eval_tokens": case["context"]},
    }


def model_of(recipe, narrow):
    given = recipe["model"]
    scheme = recipe["scheme"].get("base") or recipe["scheme"]["name"]
    scheme = {"dnt": "dnt-s5"}.get(scheme, scheme)
    shape = {key: given[key] for key in ("layers", "heads", "width", "context", "vocab", "ffn")}
    plain = dict(kv_heads=0, head_width=0, ffn_width=0, bias=False, dropout=0, drop_path=0, layer_scale=0)
    changed = [key for key, value in plain.items() if given.get(key, value) != value]
    if scheme not in ("pre-ln", "pre-rms", "dnt-s5", "ngpt") or changed:
        raise SystemExit(f"no peer for scheme {scheme}{' with model.' + ', model.'.join(changed) if changed else ''}")
    return gpu_models.Gpt(scheme, narrow=narrow, **shape)


def counted(model):
    """Parameters that multiply activations, as Norma counts them."""
    looked_up = {"positions", "positions.weight", *([] if getattr(model, "head", None) is None else ["tokens.weight"])}
    return sum(p.numel() for name, p in model.named_parameters() if name not in looked_up)


def on_device(device):
    """Models are made where they are used; torch 1.13 knows the CPU alone here."""
    return torch.device(device) if hasattr(torch.device, "__enter__") else contextlib.nullcontext()


def measure(args, case):
    device = args.device
    before = 0
    if device == "cuda":
        torch.zeros(1, device=device)
        before = used_bytes()
    torch.manual_seed(1)
    narrow = args.stream == "bf16"
    vision = case["scheme"] == "vit"
    with on_device(device):
        if vision:
            model = gpu_models.Vit(case["layers"], case["heads"], case["width"], narrow=narrow)
        else:
            model = model_of(recipe_of(case, args.optimizer, args.steps), narrow)
    tokens = model.context if vision else case["context"]
    shape = (case["batch"], 3, 224, 224) if vision else (case["batch"], tokens)

    def batch():
        if vision:
            return torch.randn(shape, device=device), torch.randint(1000, shape[:1], device=device)
        return torch.randint(case["vocab"], shape, device=device), torch.randint(case["vocab"], shape, device=device)

    batches = [batch() for _ in range(4)]
    optim = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.1, "beta1": 0.9, "beta2": 0.95, "clip_bound": 1.0}
    if args.optimizer == "msgdw":
        optim = {"name": "sgdw", "lr": 1e-3, "weight_decay": 1e-4, "momentum": 0.9, "clip_bound": 1.0}
    stepper = Stepper(model, optim, device, args.precision, args.compile == "yes")
    built = time.perf_counter()
    loss = stepper.step(*batches[0], 1e-3).item()
    first = time.perf_counter()
    most = used_bytes() if device == "cuda" else 0
    clock, drawn, from_step = Clock(device), None, max(args.warmup, 1)
    for step in range(1, args.warmup + args.steps + 1):
        if step == from_step and device == "cuda":
            torch.cuda.synchronize()
            drawn = joules_used()
        if step >= args.warmup:
            clock.mark()
        loss = stepper.step(*batches[step % len(batches)], 1e-3)
        most = max(most, used_bytes()) if device == "cuda" else 0
    clock.mark()
    times = clock.times()[-args.steps :]
    ended = joules_used() if device == "cuda" else None
    long_enough = sum(times) >= 1e3  # for the card's counter
    joules = (ended - drawn) / (args.warmup + args.steps + 1 - from_step) if ended and drawn and long_enough else None
    ms_step = statistics.median(times)
    samples_per_s = case["batch"] / ms_step * 1e3
    tokens_per_s = samples_per_s * tokens
    params = sum(p.numel() for p in model.parameters())
    flops = 6 * counted(model) + 12 * case["layers"] * case["width"] * tokens
    return {
        "case": args.case,
        "optimizer": args.optimizer,
        "ms_step": round(ms_step, 3),
        "ms_fastest": round(min(times), 3),
        "tokens_per_s": round(tokens_per_s, 1),
        **({"images_per_s": round(samples_per_s, 1)} if vision else {}),
        "tflops": round(flops * tokens_per_s / 1e12, 3),
        "peak_memory_bytes": most - before,
        "reserved_bytes": torch.cuda.max_memory_reserved() if device == "cuda" else 0,
        **({"joules_step": round(joules, 3)} if joules else {}),
        "compile_seconds": round(first - built, 2),
        "first_step_seconds": round(first - BEGAN, 2),
        "params": params,
        "steps": len(times),
        "precision": args.precision,
        "stream": args.stream,
        "attention": args.attention,
        "compiled": args.compile == "yes",
        "loss": float(loss),
        "torch": torch.__version__,
    }


def export(args, case):
    """DIR/model.safetensors, DIR/recipe.toml and, unless --data names some, tokens in DIR/data."""
    folder = pathlib.Path(args.export)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    recipe = recipe_of(case, args.optimizer, args.steps)
    with on_device(args.device):
        model = model_of(recipe, False)
    tensors = {name: part.cpu().numpy() for name, part in norma_weights.norma_parts(model)}
    text = norma_files.toml_text(recipe)
    made_by = f"# bench/peers/torch_gpu.py --case {args.case} --optimizer {args.optimizer}\n"
    (folder / "recipe.toml").write_text(made_by + text)
    norma_files.write_tensors(folder / "model.safetensors", tensors, {"format": "pt", "norma.recipe": text})
    if not args.data:
        tokens = (args.steps * case["batch"] + 2) * case["context"]
        norma_files.write_tokens(folder / "data", tokens, case["vocab"], seed=1)


def train_from(args):
    tensors, recipe = norma_files.open_weights(args.train_from)
    with on_device(args.device):
        model = model_of(recipe, args.stream == "bf16")
    norma_weights.load_norma(model, tensors)
    stepper = Stepper(model, recipe["optim"], args.device, args.precision, args.compile == "yes")
    windows = norma_files.Windows(
        norma_files.open_tokens(args.data), recipe["model"]["context"], recipe["train"].get("seed", 1)
    )
    rows = recipe["train"]["batch"]
    for step in range(args.steps):
        batch = (torch.from_numpy(part).to(args.device) for part in windows.batch(step * rows, rows))
        loss = stepper.step(*batch, lr_at(recipe, step)).item()
        print(json.dumps({"step": step + 1, "loss": loss}), flush=True)


def read_arguments():
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = ask.add_mutually_exclusive_group(required=True)
    what.add_argument("--case", choices=CASES)
    what.add_argument("--train-from", metavar="WEIGHTS", help="print losses of a training from these weights")
    ask.add_argument("--export", metavar="DIR", help="write start weights, a recipe and tokens instead of timing")
    ask.add_argument("--data", metavar="DIR", help="tokens: a folder of norma data text or of nanoGPT")
    ask.add_argument("--optimizer", choices=("adamw", "msgdw"), default="adamw")
    ask.add_argument("--steps", type=int, default=20, help="measured steps; the median counts (20)")
    ask.add_argument("--warmup", type=int, default=5, help="steps before them (5)")
    ask.add_argument("--device", choices=("cpu", "cuda"), default="cuda" if torch.cuda.is_available() else "cpu")
    ask.add_argument("--precision", choices=("bf16", "f32"), help="bf16 on a GPU, f32 elsewhere")
    ask.add_argument("--stream", choices=("f32", "bf16"), default="f32", help="the residual stream; autocast's is f32")
    ask.add_argument("--attention", choices=("auto", "flash", "cudnn"), default="auto", help="auto: torch chooses")
    ask.add_argument("--compile", choices=("yes", "no"), help="yes on a GPU, no elsewhere")
    ask.add_argument("--threads", type=int, default=2, help="on a CPU (2)")
    ask.add_argument("--json", action="store_true", help="one JSON object instead of lines")
    args = ask.parse_args()
    if args.steps < 1 or args.warmup < 1 or args.threads < 1:
        ask.error("--steps, --warmup and --threads must be 1 or more")
    if args.train_from and (args.export or not args.data):
        ask.error("--train-from needs --data and goes without --export")
    if args.export and CASES[args.case]["scheme"] == "vit":
        ask.error("there is no text in a ViT to export")
    args.precision = args.precision or ("bf16" if args.device == "cuda" else "f32")
    args.compile = args.compile or ("yes" if args.device == "cuda" else "no")
    return args


def chosen_attention(name):
    if name == "auto":
        return contextlib.nullcontext()
    from torch.nn.attention import SDPBackend, sdpa_kernel

    return sdpa_kernel({"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}[name])


def main():
    args = read_arguments()
    if args.device == "cpu":
        torch.set_num_threads(args.threads)
    if args.export:
        export(args, CASES[args.case])
        return
    with chosen_attention(args.attention):
        if args.train_from:
            train_from(args)
            return
        result = measure(args, CASES[args.case])
    if args.json:
        print(json.dumps(result))
    else:
        for key, value in result.items():
            print(f"{key:20} {value}")


if __name__ == "__main__":
    main()
