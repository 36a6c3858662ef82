#!/usr/bin/env python3
"""Figures of bench/device.sh.

  device_table.py table RESULTS             what was measured, as Markdown: Norma beside its peers
  device_table.py losses TYPE METRICS PEER [NARROW]  how far lists of losses are apart, as JSON
"""

import json
import statistics
import sys

# Tokens/s at least, and memory at most, as multiples of the peer's.
WANTED = {
    "gpt2-124m": (1.20, 0.65),
    "dnt-124m": (1.20, 0.65),
    "dnt-124m:msgdw": (1.20, 0.65),
    "ngpt-0.5b": (1.40, 0.65),
    "ngpt-0.5b-8k": (1.35, None),
    "gpt2-774m": (1.15, 0.75),
}
# A step of the first takes at most so much of a step of the second.
STEPS = (("ngpt-0.5b", "prerms-0.5b", 1.06), ("dnt-124m", "gpt2-124m", 1.05))
LOSS_LIMITS = {"f32": 1e-4, "bf16": 5e-3}  # relative
GIB = 2.0**30


def losses(kind, metrics, peer, narrow=None):
    """narrow: those of the peer with a residual stream in bf16."""

    def read(path):
        rows = [json.loads(line) for line in open(path)]
        return [row[key] for row in rows for key in ("train/loss", "loss") if key in row]

    def gaps(ours, theirs):
        if not ours or len(ours) != len(theirs):
            raise SystemExit(f"device_table.py: {len(ours)} losses, but {len(theirs)} of the peer in {peer}")
        return [abs(a - b) / abs(b) for a, b in zip(ours, theirs)]

    def largest(found):
        # Written so that a loss that is no number fails too.
        return max(found) if all(gap >= 0 for gap in found) else float("nan")

    ours, theirs = read(metrics), read(peer)
    found = gaps(ours, theirs)
    gap = largest(found)
    told = {"steps": len(ours), "largest_gap": gap, "limit": LOSS_LIMITS[kind], "good": gap <= LOSS_LIMITS[kind],
            "first": ours[0], "last": ours[-1], "last_peer": theirs[-1],
            # Where losses jump from step to step, rounding alone moves them: the curve says whether they did.
            "gaps": [float(f"{one:.2g}") for one in found], "losses_peer": [round(one, 4) for one in theirs]}
    if narrow:
        told |= {"gap_of_narrow_peer": largest(gaps(read(narrow), theirs)), "gap_to_narrow_peer": largest(gaps(ours, read(narrow)))}
    print(json.dumps(told))


def median(rows, who, case, key):
    found = [row["result"][key] for row in rows if row["who"] == who and row["case"] == case and key in row["result"]]
    return statistics.median(found) if found else None


def show(value, form="{:.2f}"):
    return "–" if value is None else form.format(value)


def ratio(a, b):
    return a / b if a and b else None


def judged(value, bound, at_least, form="{:.2f}"):
    """A figure with a mark where it was asked for more."""
    good = value is None or bound is None or (value >= bound if at_least else value <= bound)
    return show(value, form) + ("" if good else " (!)")


def speed_table(rows):
    print("| shape | Norma ms | torch ms | Norma tok/s | torch tok/s | ratio | at least "
          "| Norma GiB | torch GiB | ratio | at most | first step s: Norma, torch | joules a step: Norma, torch |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for case in dict.fromkeys(row["case"] for row in rows if row["who"] in ("norma", "torch")):
        def pair(key):
            return median(rows, "norma", case, key), median(rows, "torch", case, key)
        ms, speed, memory, first = map(pair, ("ms_step", "tokens_per_s", "peak_memory_bytes", "first_step_seconds"))
        joules = pair("joules_step")
        least, most = WANTED.get(case, (None, None))
        gib = [None if value is None else value / GIB for value in memory]
        print(f"| {case} | {show(ms[0])} | {show(ms[1])} | {show(speed[0], '{:,.0f}')} | {show(speed[1], '{:,.0f}')} "
              f"| {judged(ratio(*speed), least, True)} | {show(least)} | {show(gib[0])} | {show(gib[1])} "
              f"| {judged(ratio(*memory), most, False)} | {show(most)} | {show(first[0])}, {show(first[1])} "
              f"| {show(joules[0], '{:.1f}')}, {show(joules[1], '{:.1f}')} |")


def step_lines(rows):
    for one, other, most in STEPS:
        times = ratio(median(rows, "norma", one, "ms_step"), median(rows, "norma", other, "ms_step"))
        if times:
            print(f"\nA step of {one} takes {judged(times, most, False)} of one of {other}; at most {most:.2f}.")


def loss_table(rows):
    found = {row["case"]: row["result"] for row in rows if row["who"] == "losses"}
    if not found:
        return
    print("\n| losses of the same weights and batches | steps | first | last | last, torch | largest gap | at most "
          "| torch's own gap with a stream in bf16 | ours to that |")
    print("|---|---|---|---|---|---|---|---|---|")
    for case, got in found.items():
        mark = "" if got["good"] else " (!)"
        print(f"| {case} | {got['steps']} | {got['first']:.4f} | {got['last']:.4f} | {got['last_peer']:.4f} "
              f"| {got['largest_gap']:.1e}{mark} | {got['limit']:.0e} "
              f"| {show(got.get('gap_of_narrow_peer'), '{:.1e}')} | {show(got.get('gap_to_narrow_peer'), '{:.1e}')} |")


def gradient_table(rows):
    found = {row["case"]: row["result"] for row in rows if row["who"] == "gradients"}
    if not found:
        return
    print("\n| gradients of the same weights and batch: errors against torch in f32 | Norma f32 | largest of a kind | at most "
          "| Norma bf16 | torch bf16 | torch, stream in bf16 | ratio | at most | largest of a kind | at most |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for case, got in found.items():
        errors, limits = got["errors"], got["limits"]
        of_all = [show(errors.get(who), "{:.1e}") for who in ("Norma f32", "Norma bf16", "torch bf16", "torch narrow")]
        print(f"| {case} | {of_all[0]} | {judged(got['f32_largest'], limits['f32'], False, '{:.1e}')} {got['f32_kind']} "
              f"| {limits['f32']:.0e} | {' | '.join(of_all[1:])} "
              f"| {judged(got.get('bf16_ratio'), limits['bf16'], False)} | {show(limits['bf16'])} "
              f"| {judged(got.get('bf16_largest'), limits['bf16_kind'], False)} {got.get('bf16_kind', '')} "
              f"| {show(limits['bf16_kind'])} |")


def table(path):
    rows = [json.loads(line) for line in open(path)]
    torch = [row["result"] for row in rows if row["who"] == "torch"]
    if torch:
        set_up = {f"torch {r['torch']}, stream {r['stream']}, attention {r['attention']}" for r in torch}
        print(f"Peers: {'; '.join(sorted(set_up))}. Memory beyond the bare context, by cudaMemGetInfo.\n")
    if any(row["who"] in ("norma", "torch") for row in rows):
        speed_table(rows)
        step_lines(rows)
    loss_table(rows)
    gradient_table(rows)


def main():
    if sys.argv[1:2] == ["table"] and len(sys.argv) == 3:
        table(sys.argv[2])
    elif sys.argv[1:2] == ["losses"] and len(sys.argv) in (5, 6):
        losses(*sys.argv[2:])
    else:
        sys.exit(__doc__)


main()
