#!/usr/bin/env bash
# What a GPU must show beyond speed (bench/device.sh): the CPU's losses, the same bits twice and after a kill, bf16 beside f32 and
# without masters, no reports of compute-sanitizer, the memory that was forecast.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'END'
Usage: bench/device_proofs.sh VERB...

  steps      20 steps in f32 on the GPU and on the CPU under five schemes: losses within 1e-4
  precision  500 steps in bf16 and in f32 under dnt and ngpt: losses of the last within 1 %
  storage    500 steps without f32 masters under pre-ln and ngpt: matrices hold what bf16 can; losses are told, not judged
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

(($#)) || { usage >&2 && exit 2; }
verbs=()
for verb in "$@"; do
  case $verb in
    -h | --help) usage && exit 0 ;;
    all) verbs+=(steps precision storage twice resume sanitize memory) ;;
    steps | precision | storage | twice | resume | sanitize | memory) verbs+=("$verb") ;;
    *) echo "device_proofs.sh: no verb $verb" >&2 && usage >&2 && exit 2 ;;
  esac
done

# shellcheck source=bench/find_norma.sh
. "$root/bench/find_norma.sh"
device=${DEVICE:-cuda}
status=0
job=''  # a run in the background
work=$(mktemp -d)
end_job() {
  [[ -n $job ]] || return 0
  kill -9 "$job" 2>/dev/null || true
  wait "$job" 2>/dev/null || true
  job=''
}
trap 'end_job; rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

note() { echo "proofs: $(date +%T) $*" >&2; }
holds() { echo "holds: $*"; }
fails() { echo "FAILS: $*" && status=1; }
# judge WORD MESSAGE: WORD is what a comparison printed.
judge() { if [[ $1 == yes ]]; then holds "$2"; else fails "$2"; fi; }

text=${TEXT:-$work/text.txt}
[[ -n ${TEXT:-} ]] || "$norma" data generate --bytes 2000000 --out "$text" >/dev/null
[[ -s $text ]] || { echo "device_proofs.sh: there is no text in $text" >&2 && exit 1; }

# start NAME RECIPE SETTING...: begins a run in the folder NAME, quietly, as the job.
start() {
  local name=$1 recipe=$2 && shift 2
  "$norma" train "$root/recipes/$recipe.toml" data.path="$text" train.eval_every=0 "$@" --out "$work/$name" \
    >"$work/$name.txt" 2>&1 &
  job=$!
}
# Waits for its end.
finish() {
  local ended=0
  wait "$job" || ended=1
  job=''
  return "$ended"
}
# train NAME RECIPE SETTING...
train() {
  start "$@"
  finish || { tail -n 2 "$work/$1.txt" >&2 && return 1; }
}
last_loss() { grep -o '"train/loss":[^,]*' "$work/$1/metrics.jsonl" | tail -n 1 | cut -d: -f2; }
within() { python3 -c "import sys; print('yes' if float(sys.argv[1]) <= float(sys.argv[2]) else 'no')" "$1" "$2"; }
# The digests of the last weights and of the losses of all steps.
bits_of() {
  local last
  last=$(find "$work/$1/checkpoints" -name 'step-*' | sort | tail -n 1)
  [[ -s $last/model.safetensors && -s $last/optimizer.safetensors && -s $work/$1/metrics.jsonl ]] || return 1
  sha256sum "$last/model.safetensors" "$last/optimizer.safetensors" | cut -c1-16 | tr '\n' ' '
  grep -o '"step":[0-9]*\|"train/loss":[^,]*' "$work/$1/metrics.jsonl" | sha256sum | cut -c1-16
}
# same_bits NAME NAME WHAT
same_bits() {
  local one other
  if one=$(bits_of "$1") && other=$(bits_of "$2"); then
    judge "$([[ $one == "$other" ]] && echo yes)" "$3: $one, $other"
  else
    fails "$3: a run left no weights or no losses"
  fi
}

prove_steps() {
  local scheme told settings=(train.steps=20 schedule.warmup=10 optim.lr=1e-3 train.log_every=1 train.precision=f32)
  for scheme in pre-ln dnt ngpt hybridnorm olmo2; do
    note "20 steps of $scheme"
    if train "gpu-$scheme" tiny scheme.base="$scheme" train.device="$device" "${settings[@]}" &&
      train "cpu-$scheme" tiny scheme.base="$scheme" train.device=cpu "${settings[@]}" &&
      told=$(python3 "$root/bench/device_table.py" losses f32 "$work"/{gpu,cpu}-"$scheme"/metrics.jsonl); then
      judge "$([[ $told == '{"steps": 20, '*'"good": true'* ]] && echo yes)" \
        "20 steps of $scheme in f32: the CPU's losses, $(grep -o '"largest_gap": [^,]*' <<<"$told")"
    else
      fails "20 steps of $scheme in f32"
    fi
  done
}

prove_precision() {
  local scheme one other gap settings=(train.device="$device" train.steps=500)
  for scheme in dnt ngpt; do
    note "500 steps of $scheme in bf16 and f32"
    if train "$scheme-bf16" small scheme.base="$scheme" train.precision=bf16 "${settings[@]}" &&
      train "$scheme-f32" small scheme.base="$scheme" train.precision=f32 "${settings[@]}" &&
      one=$(last_loss "$scheme-bf16") && other=$(last_loss "$scheme-f32"); then
      gap=$(python3 -c "print(f'{abs($one - $other) / $other:.2e}')")
      judge "$(within "$gap" 1e-2)" "500 steps of $scheme: $one in bf16, $other in f32, $gap apart"
    else
      fails "500 steps of $scheme in bf16 and f32"
    fi
  done
}

# wide_numbers NAME: how many numbers of a run's last matrices, and of its vectors, bf16 cannot hold.
wide_numbers() {
  python3 - "$(find "$work/$1/checkpoints" -name 'step-*' | sort | tail -n 1)/model.safetensors" <<'END'
import array, json, sys
with open(sys.argv[1], "rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
    data = file.read()
wide = {True: 0, False: 0}
for name, tensor in header.items():
    if name == "__metadata__":
        continue
    assert tensor["dtype"] == "F32", name
    begin, end = tensor["data_offsets"]
    wide[len(tensor["shape"]) > 1] += sum(1 for bits in array.array("I", data[begin:end]) if bits & 0xFFFF)
print(wide[True], wide[False])
END
}
prove_storage() {
  local scheme wide settings=(train.device="$device" train.steps=500)
  for scheme in pre-ln ngpt; do
    note "500 steps of $scheme without masters"
    if { [[ -e $work/$scheme-bf16/DONE ]] ||
      train "$scheme-bf16" small scheme.base="$scheme" train.precision=bf16 "${settings[@]}"; } &&
      train "$scheme-narrow" small scheme.base="$scheme" train.precision=bf16_storage "${settings[@]}" &&
      wide=$(wide_numbers "$scheme-narrow"); then
      # Vectors stay in f32: if they were rounded too, something else was measured.
      judge "$([[ ${wide% *} == 0 && ${wide#* } != 0 ]] && echo yes)" \
        "500 steps of $scheme: $(last_loss "$scheme-narrow") without masters, $(last_loss "$scheme-bf16") with them; wider than bf16: ${wide% *} of the matrices' numbers, ${wide#* } of the vectors'"
    else
      fails "500 steps of $scheme without masters"
    fi
  done
}

# Of a run that is long enough that a kill finds it at work.
long_settings() {
  if [[ $device == cpu ]]; then
    settings=(tiny train.steps=120 train.log_every=10 train.checkpoint_every=20 schedule.warmup=50)
  else
    settings=(small train.device="$device" train.precision=bf16 train.steps=4000 train.log_every=10 train.checkpoint_every=200)
  fi
}
prove_twice() {
  local settings
  long_settings
  note "the same run twice"
  if train once "${settings[@]}" && train again "${settings[@]}"; then
    same_bits once again "the same run twice"
  else
    fails "the same run twice"
  fi
}
prove_resume() {
  local settings killed_at
  long_settings
  note "killed and resumed"
  [[ -e $work/once/DONE ]] || train once "${settings[@]}" || { fails "a run to compare with" && return; }
  start killed "${settings[@]}"
  until [[ $(find "$work/killed/checkpoints" -name 'step-*' 2>/dev/null | wc -l) -ge 2 ]]; do
    kill -0 "$job" 2>/dev/null || { fails "the run ended before it could be killed" && return; }
    sleep 0.05
  done
  end_job
  [[ ! -e $work/killed/DONE ]] || { fails "the run had ended when it was killed" && return; }
  killed_at=$(grep -o '"step":[0-9]*' "$work/killed/metrics.jsonl" | tail -n 1 | cut -d: -f2) || killed_at=0
  train killed "${settings[@]}" --resume || { fails "resuming" && return; }
  same_bits once killed "killed after step $killed_at and resumed"
}

# sanitize_op TOOL OP SHAPE
sanitize_op() {
  local tool=$1 op=$2 shape=$3 out=$work/$1-$2-$3.txt summary ours
  if ! compute-sanitizer --tool "$tool" --print-limit 1000 "$norma" check "$op" --shape "$shape" --condition plain --device cuda \
    --dtype bf16 >"$out" 2>&1 || ! summary=$(grep -oE '(ERROR|RACECHECK) SUMMARY.*' "$out"); then
    fails "$tool on $op $shape: $(grep -v '^=========' "$out" | tail -n 1); $(tail -n 1 "$out")"
    return
  fi
  # A report names the kernels that it is about, and frames of the host.
  ours=$(grep '^=========' "$out" | grep -v 'Host Frame' | grep -c 'norma::' || true)
  judge "$([[ $ours == 0 ]] && grep -qE '\b0 (errors|hazards)' <<<"$summary" && echo yes)" \
    "$tool on $op $shape: $ours lines about our kernels; $summary"
}
prove_sanitize() {
  local tool op
  for tool in memcheck racecheck; do
    note "$tool"
    # Odd widths, and those that whole packs, rows and tiles have kernels of their own for.
    for op in 'rms_norm 3x257' 'layer_norm 3x257' 'add_norm 3x257' 'rms_norm 5x768' 'layer_norm 5x768' 'add_norm 5x768' \
      'lerp 3x257' 'slerp 3x257' 'mlp 5x64x64x64' 'gated_mlp 5x64x64x64' 'embedding 3x5x7x64' 'cross_entropy 3x257' \
      'cross_entropy 3x24008' 'head_loss 5x64x70' 'head_loss 300x72x520' 'attention 1x65x2x2x64' \
      'attention 1x256x2x2x64' 'attention 1x66x2x1x96' 'attention 1x66x2x1x136'; do
      # shellcheck disable=SC2086  # an op and a shape
      sanitize_op $tool $op
    done
  done
}

prove_memory() {
  local name settings forecast taken
  for name in adamw sgdw; do
    note "memory of L-DNT-XL under $name"
    settings=(optim.name="$name" train.batch=8 train.micro_batch=8 train.recompute=cheap train.device="$device" train.precision=bf16
      train.log_every=1)
    forecast=$("$norma" train "$root/recipes/l-dnt-xl.toml" data.path="$text" "${settings[@]}" --dry-run --json |
      grep -o '"bytes":[0-9]*' | cut -d: -f2) || { fails "the forecast of L-DNT-XL under $name" && return; }
    start "xl-$name" l-dnt-xl "${settings[@]}"
    until grep -q '"step":3,' "$work/xl-$name/metrics.jsonl" 2>/dev/null; do
      kill -0 "$job" 2>/dev/null || { fails "L-DNT-XL under $name: $(tail -n 1 "$work/xl-$name.txt")" && return; }
      sleep 0.2
    done
    end_job
    taken=$(grep -o '"mem/device_bytes":[0-9]*' "$work/xl-$name/metrics.jsonl" | tail -n 1 | cut -d: -f2) ||
      { fails "what L-DNT-XL took under $name is not in its metrics" && return; }
    judge "$(python3 -c "print('yes' if abs($taken - $forecast) <= 0.05 * $forecast else 'no')")" \
      "L-DNT-XL under $name: $(python3 -c "print(f'{$taken / 2**30:.2f} GiB taken, {$forecast / 2**30:.2f} GiB forecast')")"
  done
}

for verb in "${verbs[@]}"; do "prove_$verb"; done
exit "$status"
