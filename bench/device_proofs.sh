#!/usr/bin/env bash
# What a GPU must show beyond speed (bench/device.sh): the CPU's losses, the same bits twice and after a kill, bf16 beside f32, no
# reports of compute-sanitizer, the memory that was forecast.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'END'
Usage: bench/device_proofs.sh VERB...

  steps      20 steps in f32 on the GPU and on the CPU under five schemes: losses within 1e-4
  precision  500 steps in bf16 and in f32 under dnt and ngpt: losses of the last within 1 %
  twice      two runs of the same seed: the same losses and the same bits of the weights
  resume     a run that is killed and resumed: those of a run that was not
  sanitize   memcheck and racecheck of compute-sanitizer on small shapes: nothing about our kernels
  memory     L-DNT-XL under AdamW and mSGDW: what it takes within 5 % of the forecast; wants a card without others
  all        all of these

Says what holds and what does not, a line each; the exit status is 1 where something does not.

Environment:
  NORMA   the program (bin/norma of a bundle, build/bundle/bin/norma, build/cuda/bin/norma)
  TEXT    a file of plain text, a megabyte or more (a corpus that the program generates)
  DEVICE  cuda; cpu goes through steps, twice and resume without a GPU
END
}

for norma in "${NORMA:-}" "$root"/{bin,build/bundle/bin,build/cuda/bin}/norma; do
  [[ -x $norma ]] && break
done
[[ -x $norma ]] || { echo "device_proofs.sh: there is no program $norma; build it with: ./run bundle" >&2 && exit 1; }
device=${DEVICE:-cuda}
narrow=bf16
[[ $device == cpu ]] && narrow=f32
status=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

note() { echo "proofs: $(date +%T) $*" >&2; }
holds() { echo "holds: $*"; }
fails() { echo "FAILS: $*" && status=1; }
# judge WORD MESSAGE: WORD is what a comparison printed.
judge() { if [[ $1 == yes ]]; then holds "$2"; else fails "$2"; fi; }

find_text() {
  text=${TEXT:-$work/text.txt}
  [[ -s $text ]] || "$norma" data generate --bytes 2000000 --out "$text" >/dev/null 2>&1 ||
    { echo "device_proofs.sh: no text; name a file of it as TEXT" >&2 && exit 1; }
}

# train NAME RECIPE SETTING...: a run in the folder NAME, quietly. Not under a limit of time: a kill is one of the proofs.
train() {
  local name=$1 recipe=$2 && shift 2
  "$norma" train "$root/recipes/$recipe.toml" data.path="$text" train.eval_every=0 "$@" --out "$work/$name" >"$work/$name.txt" 2>&1 ||
    { tail -n 2 "$work/$name.txt" >&2 && return 1; }
}
last_loss() { grep -o '"train/loss":[^,]*' "$work/$1/metrics.jsonl" | tail -n 1 | cut -d: -f2; }
# The largest relative gap between the losses of two runs, step by step.
largest_gap() {
  python3 - "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl" <<'END'
import json, sys
one, other = ({row["step"]: row["train/loss"] for row in map(json.loads, open(path)) if "train/loss" in row} for path in sys.argv[1:])
assert one and one.keys() == other.keys(), "the runs have other steps"
print(f"{max(abs(one[step] - other[step]) / abs(other[step]) for step in one):.2e}")
END
}
within() { python3 -c "import sys; print('yes' if float(sys.argv[1]) <= float(sys.argv[2]) else 'no')" "$1" "$2"; }
# The digests of the last weights and of the losses of all steps.
bits_of() {
  local last
  last=$(find "$work/$1/checkpoints" -name 'step-*' | sort | tail -n 1)
  sha256sum "$last/model.safetensors" "$last/optimizer.safetensors" | cut -c1-16 | tr '\n' ' '
  grep -o '"step":[0-9]*\|"train/loss":[^,]*' "$work/$1/metrics.jsonl" | sha256sum | cut -c1-16
}

prove_steps() {
  local scheme gap settings=(train.steps=20 schedule.warmup=10 optim.lr=1e-3 train.log_every=1 train.precision=f32)
  for scheme in pre-ln dnt ngpt hybridnorm olmo2; do
    note "20 steps of $scheme"
    if train "gpu-$scheme" tiny scheme.base="$scheme" train.device="$device" "${settings[@]}" &&
      train "cpu-$scheme" tiny scheme.base="$scheme" train.device=cpu "${settings[@]}" &&
      gap=$(largest_gap "gpu-$scheme" "cpu-$scheme"); then
      judge "$(within "$gap" 1e-4)" "20 steps of $scheme in f32: the largest gap to the CPU is $gap"
    else
      fails "20 steps of $scheme in f32"
    fi
  done
}

prove_precision() {
  local scheme kind one other gap
  for scheme in dnt ngpt; do
    for kind in bf16 f32; do
      note "500 steps of $scheme in $kind"
      train "$scheme-$kind" small scheme.base="$scheme" train.device="$device" train.precision="$kind" train.steps=500 ||
        { fails "500 steps of $scheme in $kind" && return; }
    done
    one=$(last_loss "$scheme-bf16") other=$(last_loss "$scheme-f32")
    gap=$(python3 -c "print(f'{abs($one - $other) / $other:.2e}')")
    judge "$(within "$gap" 1e-2)" "500 steps of $scheme: $one in bf16, $other in f32, $gap apart"
  done
}

# Long enough that a kill finds it at work.
long_run() {
  local name=$1 && shift
  if [[ $device == cpu ]]; then
    train "$name" tiny train.steps=120 train.log_every=10 train.checkpoint_every=20 schedule.warmup=50 "$@"
  else
    train "$name" small train.device=cuda train.precision="$narrow" train.steps=4000 train.log_every=10 train.checkpoint_every=200 "$@"
  fi
}
prove_twice() {
  note "the same run twice"
  if ! long_run once || ! long_run again; then fails "the same run twice" && return; fi
  judge "$([[ $(bits_of once) == "$(bits_of again)" ]] && echo yes)" "the same run twice: $(bits_of once), $(bits_of again)"
}
prove_resume() {
  local job killed_at
  note "killed and resumed"
  [[ -d $work/once ]] || long_run once || { fails "a run to compare with" && return; }
  long_run killed 2>/dev/null &
  job=$!
  until [[ $(find "$work/killed/checkpoints" -name 'step-*' 2>/dev/null | wc -l) -ge 2 ]]; do
    kill -0 "$job" 2>/dev/null || { fails "the run ended before it could be killed" && return; }
    sleep 0.05
  done
  pkill -9 -f -- "--out $work/killed" || true
  wait "$job" 2>/dev/null || true
  [[ ! -e $work/killed/DONE ]] || { fails "the run had ended when it was killed" && return; }
  killed_at=$(tail -n 1 "$work/killed/metrics.jsonl" | grep -o '"step":[0-9]*' | cut -d: -f2)
  long_run killed --resume || { fails "resuming" && return; }
  judge "$([[ $(bits_of once) == "$(bits_of killed)" ]] && echo yes)" \
    "killed after step $killed_at and resumed: $(bits_of once), $(bits_of killed)"
}

# sanitize_op TOOL OP SHAPE
sanitize_op() {
  local tool=$1 op=$2 shape=$3 out=$work/$1-$2-$3.txt ours
  compute-sanitizer --tool "$tool" --print-limit 1000 "$norma" check "$op" --shape "$shape" --condition plain --device cuda \
    --dtype bf16 >"$out" 2>&1 || true
  if ! grep -qE '(ERROR|RACECHECK) SUMMARY' "$out"; then
    fails "$tool on $op $shape ended without a summary: $(tail -n 1 "$out")"
    return
  fi
  # A report names the kernels that it is about; frames of the host are named too.
  ours=$(grep '^=========' "$out" | grep -v 'Host Frame' | grep -cE '\bat (void )?norma::' || true)
  judge "$([[ $ours == 0 ]] && { [[ $tool == racecheck ]] || grep -q 'ERROR SUMMARY: 0 errors' "$out"; } && echo yes)" \
    "$tool on $op $shape: $ours lines about our kernels; $(grep -oE '(ERROR|RACECHECK) SUMMARY.*' "$out")"
}
prove_sanitize() {
  local tool op
  for tool in memcheck racecheck; do
    note "$tool"
    for op in 'rms_norm 3x257' 'layer_norm 3x257' 'add_norm 3x257' 'lerp 3x257' 'slerp 3x257' 'mlp 5x64x64x64' \
      'gated_mlp 5x64x64x64' 'embedding 3x5x7x64' 'cross_entropy 3x257' 'head_loss 5x64x70' 'attention 1x65x2x2x64' \
      'attention 1x256x2x2x64'; do
      # shellcheck disable=SC2086  # an op and a shape
      sanitize_op $tool $op
    done
  done
}

prove_memory() {
  local name settings forecast taken job
  for name in adamw sgdw; do
    note "memory of L-DNT-XL under $name"
    settings=(optim.name="$name" train.batch=8 train.micro_batch=8 train.recompute=cheap train.device="$device" train.precision=bf16
      train.log_every=1)
    forecast=$("$norma" train "$root/recipes/l-dnt-xl.toml" data.path="$text" "${settings[@]}" --dry-run --json | grep -o '"bytes":[0-9]*' | cut -d: -f2)
    train "xl-$name" l-dnt-xl "${settings[@]}" 2>/dev/null &
    job=$!
    until grep -q '"step":3,' "$work/xl-$name/metrics.jsonl" 2>/dev/null; do
      kill -0 "$job" 2>/dev/null || { fails "L-DNT-XL under $name: $(tail -n 1 "$work/xl-$name.txt")" && return; }
      sleep 0.2
    done
    pkill -9 -f -- "--out $work/xl-$name" || true
    wait "$job" 2>/dev/null || true
    taken=$(tail -n 1 "$work/xl-$name/metrics.jsonl" | grep -o '"mem/device_bytes":[0-9]*' | cut -d: -f2)
    judge "$(python3 -c "print('yes' if abs($taken - $forecast) <= 0.05 * $forecast else 'no')")" \
      "L-DNT-XL under $name: $(python3 -c "print(f'{$taken / 2**30:.2f} GiB taken, {$forecast / 2**30:.2f} GiB forecast')")"
  done
}

(($#)) || { usage >&2 && exit 2; }
verbs=("$@")
[[ $1 != all ]] || verbs=(steps precision twice resume sanitize memory)
for verb in "${verbs[@]}"; do
  case $verb in
    -h | --help) usage && exit 0 ;;
    steps | precision | twice | resume | sanitize | memory) ;;
    *) echo "device_proofs.sh: no verb $verb" >&2 && usage >&2 && exit 2 ;;
  esac
done
find_text
for verb in "${verbs[@]}"; do "prove_$verb"; done
exit "$status"
