#!/usr/bin/env python3
"""Where the time of one training step goes, from a trace of bench/step_trace.cpp.

Usage: step_table.py TRACE [--card SAMPLES] [--kernels N]
  --card     lines "clock in MHz, power in W, load in %" taken meanwhile; medians of those under load are told
  --kernels  how many kernels the table shows, by time (40)
"""

import argparse
import collections
import re
import shutil
import statistics
import subprocess
import sys

# Our kernels, by the file they lie in.
FILES = {
    "products": "head_odds product_gated product_gated_gradient product_activation product_weights",
    "attention": "attention attention_backward attention_mma attention_mma_backward attention_wgmma attention_wgmma_forward",
    "norms and residual": "add_norm batch_norm batch_norm_backward column_gain dyt geodesic_forward geodesic_backward "
                          "geodesic_backward_f32 l2_norm layer_norm residual rms_norm row_norm_gradient weight_norm",
    "activations": "activation bias dropout gated multiply softcap",
    "loss": "cross_entropy head_rows loss_plain loss_scaled loss_sum row_scale scaled",
    "queries and keys": "head_factor qk_rope qk_rope_quick rope",
    "optimizer": "direction optimizer optimizer_step sphere_adam step_guard vectors",
    "other": "draw embedding patchify sort_ids tokens",
}
GROUP_OF_FILE = {file: group for group, files in FILES.items() for file in files.split()}
# Libraries' kernels, PyTorch's and those of ours that lie in no file alone, by parts of their names.
NAMES = (
    ("attention", "sdpa flash fmha 5wgmma cudnn"),
    ("products", "8products nvjet gemm cutlass splitk cublas"),
    ("optimizer", "multi_tensor adam sgd"),
    ("norms and residual", "geodesic alpha_total_kernel alpha_columns_kernel layer_norm rms_norm"),
    ("loss", "nll_loss softmax"),
)
GROUPS = ("products", "attention", "norms and residual", "activations", "queries and keys", "loss", "optimizer", "copies",
          "other")
COPIES = ("copy", "set")
# Finishes the sums over rows that the kernel before it began.
FOLLOWER = "finish_columns_kernel"
STEPS = 9  # the last ones, whose median step is shown

Event = collections.namedtuple("Event", "start end grid threads name group")


def file_of(name):
    """add_norm of _ZN5norma7kernels50_GLOBAL__N__0f4ca4f5_11_add_norm_cu_8cf1327f_3054814forward_kernel…"""
    found = re.search(r"_GLOBAL__N__[0-9a-f]+_(\d+)_(\w+)", name)
    # The number counts the characters of "add_norm_cu".
    whole = found.group(2)[:int(found.group(1))] if found else ""
    return whole[:-3] if whole.endswith("_cu") else None


def group_of(name, before):
    if name in COPIES:
        return "copies"
    if FOLLOWER in name:
        return before
    file = file_of(name)
    if file:
        return GROUP_OF_FILE.get(file, "other")
    for group, parts in NAMES:
        if any(part in name.lower() for part in parts.split()):
            return group
    return "other"


def read(path):
    events, group = [], "other"
    with open(path, errors="replace") as trace:
        lines = [line.rstrip("\n").split("\t") for line in trace]
    # The last line may have been cut short.
    for start, end, grid, threads, name in sorted((int(cells[0]), int(cells[1]), *cells[2:]) for cells in lines
                                                  if len(cells) == 5):
        group = group_of(name, group)
        events.append(Event(start, end, grid, threads, name, group))
    return events


def steps_of(events):
    """Ranges of events. A step ends with the optimizer's last kernel before the next step's attention."""
    ends, last = [], None
    for at, event in enumerate(events):
        if event.group == "optimizer":
            last = at
        elif event.group == "attention" and last is not None:
            ends.append(last + 1)
            last = None
    if last is not None:
        ends.append(last + 1)
    return list(zip(ends, ends[1:]))


def demangled(names):
    """Each name with its readable form: by c++filt, else the kernel's name alone."""
    told = names
    if tool := shutil.which("c++filt"):
        told = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True).stdout.split("\n")
    readable = dict(zip(names, told))
    for name, text in readable.items():
        if text.startswith("_Z") and (kernel := re.search(r"\d([a-z][a-z_]*_kernel)", name)):
            readable[name] = kernel.group(1)
    return readable


def shortened(name, text):
    """Without namespaces, casts and arguments, behind the file."""
    text = text.removeprefix("void ").replace("(anonymous namespace)::", "")
    text = re.sub(r"\([\w: ]+\)(?=-?\d)", "", text)  # (norma::kernels::Rule)2
    text = re.sub(r"\bnorma::(kernels::)?", "", text).replace("> >", ">>")
    depth = 0
    for at, letter in enumerate(text):
        depth += (letter == "<") - (letter == ">")
        if letter == "(" and depth == 0:
            text = text[:at]
            break
    file = file_of(name)
    text = f"{file}: {text}" if file else text
    return text if len(text) <= 100 else text[:70] + "…" + text[-29:]


def card_line(path):
    samples = []
    with open(path) as lines:
        for line in lines:
            try:
                clock, power, load = (float(cell) for cell in line.split(","))
            except ValueError:
                continue  # a card that does not tell, or a last line that was cut short
            if load >= 50:
                samples.append((clock, power))
    if not samples:
        return "The card told neither clock nor power under load."
    clock, power = (statistics.median(column) for column in zip(*samples))
    return f"The card ran at {clock:.0f} MHz and took {power:.0f} W (medians of {len(samples)} samples under load)."


def show(events, steps, kernels):
    spans = sorted((events[b - 1].end - events[a - 1].end, a, b) for a, b in steps[-STEPS:])
    span, a, b = spans[len(spans) // 2]
    step, last = events[a:b], events[a - 1].end
    busy, gaps = 0, []
    for event in step:  # kernels may overlap
        gaps.append(max(0, event.start - last))
        busy += max(0, event.end - max(event.start, last))
        last = max(last, event.end)
    longest = ", ".join(f"{gap / 1e3:.0f}" for gap in sorted(gaps)[:-4:-1])
    print(f"One step (the median of {len(spans)}): {span / 1e6:.2f} ms, {len(step)} kernels and copies, busy {busy / 1e6:.2f} ms"
          f", between them {sum(gaps) / 1e6:.2f} ms, the longest pauses {longest} us.")

    print(f"\n{'group':<20} {'ms':>8} {'share':>6} {'calls':>6}")
    for group in GROUPS:
        times = [event.end - event.start for event in step if event.group == group]
        if times:
            print(f"{group:<20} {sum(times) / 1e6:8.2f} {100 * sum(times) / span:5.1f}% {len(times):6d}")

    kinds = collections.defaultdict(list)
    for event in step:
        kinds[event.name, event.grid, event.threads, event.group].append(event.end - event.start)
    readable = demangled(sorted({event.name for event in step}))
    print(f"\n{'us':>9} {'calls':>5} {'us each':>8}  {'group':<18}  kernel (grid) threads")
    for (name, grid, threads, group), times in sorted(kinds.items(), key=lambda kind: -sum(kind[1]))[:kernels]:
        print(f"{sum(times) / 1e3:9.1f} {len(times):5d} {sum(times) / len(times) / 1e3:8.1f}  {group:<18}  "
              f"{shortened(name, readable[name])} ({grid}) {threads}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("trace")
    parser.add_argument("--card")
    parser.add_argument("--kernels", type=int, default=40)
    given = parser.parse_args()
    events = read(given.trace)
    steps = steps_of(events)
    if not steps:
        sys.exit(f"step_table.py: {given.trace} holds {len(events)} kernels and copies, but no whole step between two "
                 "optimizers. Where it is empty, CUDA could not load the tracer or the tracer not CUPTI.")
    if given.card:
        print(card_line(given.card))
    show(events, steps, given.kernels)


if __name__ == "__main__":
    main()
