#!/usr/bin/env python3
"""Trains every arm at several learning rates, then its best rate with three seeds, and prints the tables.

  experiments/01-learning/run.py --data FILE.txt [--norma build/cpu/bin/norma] [--out runs/01-learning] [--jobs 1]

Each run takes two threads; --jobs of them go at a time. Runs that are done are not repeated.
"""

import argparse
import concurrent.futures
import json
import math
import pathlib
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ADAMW = {"optim.name": "adamw", "optim.beta1": 0.9, "optim.beta2": 0.95, "optim.weight_decay": 0.1}
SGDW = {"optim.name": "sgdw", "optim.momentum": 0.9, "optim.weight_decay": 1e-4}
ADAMW_RATES = [1e-3, 2e-3, 4e-3, 8e-3]
SGDW_RATES = [0.03, 0.1, 0.3, 1.0, 3.0]
NGPT_RATES = [2e-3, 4e-3, 8e-3, 1.6e-2]

ARMS = {  # name: (scheme, settings, learning rates, share of the peak at the end)
    "pre-ln AdamW": ("pre-ln", ADAMW, ADAMW_RATES, 0.1),
    "dnt AdamW": ("dnt", ADAMW, ADAMW_RATES, 0.1),
    "ngpt AdamW, no warm-up": ("ngpt", {**ADAMW, "optim.weight_decay": 0, "schedule.warmup": 0}, NGPT_RATES, 0.0),
    "pre-ln mSGDW": ("pre-ln", SGDW, SGDW_RATES, 0.1),
    "dnt-s1 mSGDW": ("dnt-s1", SGDW, SGDW_RATES, 0.1),
    "dnt-s2 mSGDW": ("dnt-s2", SGDW, SGDW_RATES, 0.1),
    "dnt-s3 mSGDW": ("dnt-s3", SGDW, SGDW_RATES, 0.1),
    "dnt-s4 mSGDW": ("dnt-s4", SGDW, SGDW_RATES, 0.1),
    "dnt-s5 mSGDW": ("dnt-s5", SGDW, SGDW_RATES, 0.1),
}
SEEDS = [1, 2, 3]


def train(options, arm, rate, seed):
    """The validation loss of one run; infinity where it diverged."""
    scheme, settings, _, end = ARMS[arm]
    folder = options.out / f"{arm.replace(' ', '_').replace(',', '')}-{rate:g}-{seed}"
    done = folder / "result.json"
    if done.exists():
        return json.loads(done.read_text())["val/loss"]
    given = {**settings, "scheme.base": scheme, "optim.lr": rate, "schedule.min_lr": end * rate, "train.seed": seed,
             "data.path": options.data}
    command = [options.norma, "train", HERE / "recipe.toml", *(f"{k}={v}" for k, v in given.items()),
               *options.settings, "--out", folder, "--force", "--json"]
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if result.returncode == 0:
        line = json.loads(result.stdout.strip().splitlines()[-1])
    elif "not a finite number" in result.stderr:
        line = {"val/loss": math.inf}
    else:
        raise SystemExit(f"{' '.join(map(str, command))}\n{result.stderr}")
    done.write_text(json.dumps(line))
    return line["val/loss"]


def text(loss):
    return "diverged" if math.isinf(loss) else f"{loss:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--norma", default="build/cpu/bin/norma")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("runs/01-learning"))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("settings", nargs="*", help="key=value for every run")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        grid = {(arm, rate): pool.submit(train, options, arm, rate, SEEDS[0])
                for arm, (_, _, rates, _) in ARMS.items() for rate in rates}
        grid = {key: future.result() for key, future in grid.items()}
        best = {arm: min(rates, key=lambda rate, arm=arm: grid[arm, rate]) for arm, (_, _, rates, _) in ARMS.items()}
        seeds = {(arm, seed): pool.submit(train, options, arm, best[arm], seed) for arm in ARMS for seed in SEEDS}
        seeds = {key: future.result() for key, future in seeds.items()}

    print("Validation loss (nats a byte) by peak learning rate, seed 1\n")
    for title, rates in (("AdamW", ADAMW_RATES + NGPT_RATES[3:]), ("mSGDW", SGDW_RATES)):
        print(f"| arm | {' | '.join(f'{rate:g}' for rate in rates)} |\n|---|{'---|' * len(rates)}")
        for arm in ARMS:
            if title in arm:
                print(f"| {arm} | {' | '.join(text(grid[arm, r]) if (arm, r) in grid else '' for r in rates)} |")
        print()
    print("Each arm at its best rate, three seeds: mean ± half a 95 % t-interval\n")
    print("| arm | rate | validation loss | seeds |\n|---|---|---|---|")
    summary = {}
    for arm in ARMS:
        losses = [seeds[arm, seed] for seed in SEEDS]
        half = 4.303 * statistics.stdev(losses) / math.sqrt(len(losses))  # t with 2 degrees of freedom
        print(f"| {arm} | {best[arm]:g} | {statistics.mean(losses):.3f} ± {half:.3f} | {', '.join(map(text, losses))} |")
        summary[arm] = {"rate": best[arm], "losses": losses, "grid": {f"{r:g}": grid[arm, r] for r in ARMS[arm][2]}}
    (options.out / "summary.json").write_text(json.dumps(summary, indent=1))


main()
