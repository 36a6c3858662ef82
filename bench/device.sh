#!/usr/bin/env bash
# Checks, benches and PyTorch peers on one card in one sitting, in pieces as small as one likes, and one table.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'END'
Usage: bench/device.sh VERB [CASE...]

  check                norma check in f32 and bf16
  kernels              norma bench kernels
  train [CASE...]      steps of Norma and of its peer, taking turns
  peers [CASE...]      steps of the peers alone
  losses [CASE...]     50 steps of both from the same weights and batches
  gradients [CASE...]  one batch's gradients of both from the same weights, parameter by parameter
  breakdown [CASE...]  what the time of a step of Norma goes into, with the card's clock and power
  table                what was measured so far
  all                  check, kernels, train, losses, gradients, and the peers that Norma has no model for yet

A CASE is a name of `norma bench train`, with an optimizer behind it where it is not AdamW: dnt-124m:msgdw. Without any:
gpt2-124m dnt-124m dnt-124m:msgdw ngpt-0.5b prerms-0.5b ngpt-0.5b-8k gpt2-774m. The peers are also vit-l16 and vit-b16.
Gradients, without any: gpt2-124m dnt-124m gpt2-774m; there are none of nGPT.
train, peers, losses and gradients end with the table. What fails is told and left out, and the exit status is 1.

Environment:
  NORMA        the program (bin/norma of a bundle, build/bundle/bin/norma, build/cuda/bin/norma)
  PEER_PYTHON  a Python with torch (python3)
  PEER_ARGS    more for every peer that takes steps, e.g. "--attention cudnn --stream bf16"
  DEVICE       cuda; cpu compares losses and gradients of the cases tiny-gpt2, tiny-dnt, tiny-prerms and tiny-ngpt in f32
  STEPS        timed steps (20; 12 of a breakdown)
  ROUNDS       how often Norma and the peer take turns; medians count (1)
  LIMIT        seconds that one program may take (240)
  RESULTS      where the figures are collected (build/device.jsonl)
  CUDA_HOME    where a breakdown looks for CUPTI before /usr/local/cuda
  STEP_TRACE_LIBRARY  a breakdown's tracer (libstep_trace.so of the bundle or the build, else made from bench/step_trace.cpp)
END
}

# shellcheck source=bench/find_norma.sh
. "$root/bench/find_norma.sh"
python=${PEER_PYTHON:-python3}
peer=$root/bench/peers/torch_gpu.py
device=${DEVICE:-cuda} steps=${STEPS:-20} rounds=${ROUNDS:-1} limit=${LIMIT:-240}
results=${RESULTS:-$root/build/device.jsonl}
precision=bf16
[[ $device == cpu ]] && precision=f32
read -ra peer_args <<<"${PEER_ARGS:-}"
status=0
mkdir -p "$(dirname "$results")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

note() { echo "device: $(date +%T) $*" >&2; }
failed() { note "FAILED: $*" && status=1; }
record() { printf '{"who": "%s", "case": "%s", "result": %s}\n' "$1" "$2" "$3" >>"$results"; }
limited() { timeout -k 10 "$limit" "$@"; }

# The peers' word for an optimizer, and Norma's.
optimizer_of() { [[ $1 == *:* ]] && echo "${1#*:}" || echo adamw; }
norma_optimizer_of() { local word && word=$(optimizer_of "$1") && [[ $word == msgdw ]] && word=sgdw; echo "$word"; }

time_norma() {
  local out
  note "norma $1"
  if out=$(limited "$norma" bench train --case "${1%%:*}" --optimizer "$(norma_optimizer_of "$1")" --device "$device" \
    --steps "$steps" --json | grep '^{' | tail -1); then
    record norma "$1" "$out"
  else
    failed "norma bench train --case $1"
  fi
}

time_peer() {
  local out
  note "peer $1"
  if out=$(limited "$python" "$peer" --case "${1%%:*}" --optimizer "$(optimizer_of "$1")" --device "$device" \
    --steps "$steps" --json "${peer_args[@]}" | grep '^{' | tail -1); then
    record torch "$1" "$out"
  else
    failed "torch_gpu.py --case $1"
  fi
}

train_peer() {
  local folder=$1 && shift
  limited "$python" "$peer" --train-from "$folder/peer" --data "$folder/peer/data" --device "$device" --steps 50 \
    --precision "$precision" "$@"
}

# Start weights, a recipe and tokens of the peer, as FOLDER/peer, and the weights as a run of Norma's: IMPORTED.
start_from_peer() {
  local name=$1 steps=$2 folder=$3 imported=$4
  limited "$python" "$peer" --case "${name%%:*}" --optimizer "$(optimizer_of "$name")" --device "$device" \
    --steps "$steps" --export "$folder/peer" &&
    limited "$norma" import "$folder/peer" --out "$imported" >/dev/null 2>"$folder/import.txt"
}

# Weights of the peer go to Norma, and both train on the same windows. The peer does so once more with a residual stream in bf16:
# how far that moves its losses is what rounding alone does.
compare_losses() {
  local name=$1 folder=$work/losses narrow=() out judge=$root/bench/device_table.py
  [[ $precision == f32 ]] || narrow=("$folder/narrow.jsonl")
  note "losses of $name"
  rm -rf "$folder"
  if start_from_peer "$name" 50 "$folder" "$folder/start" &&
    limited "$norma" train "$folder/peer/recipe.toml" data.path="$folder/peer/data" train.init_from="$folder/start" \
      train.device="$device" train.precision="$precision" --out "$folder/run" >"$folder/train.txt" 2>&1 &&
    train_peer "$folder" "${peer_args[@]}" >"$folder/losses.jsonl" &&
    { ((${#narrow[@]} == 0)) || train_peer "$folder" "${peer_args[@]}" --stream bf16 >"${narrow[0]}"; } &&
    out=$(python3 "$judge" losses "$precision" "$folder/run/metrics.jsonl" "$folder/losses.jsonl" "${narrow[@]}"); then
    record losses "$name" "$out"
    [[ $out == *'"good": true'* ]] || failed "losses of $name are further apart than the limit"
  else
    tail -n 3 "$folder"/{import,train}.txt >&2 || true
    failed "losses of $name"
  fi
  rm -rf "$folder"
}

# One step of plain SGD at a rate so high that the gradient can be read off the weights.
step_by_gradient() {
  local folder=$1 kind=$2 batch=()
  # Sixteen sequences, so that f32 fits as well; on a CPU the few of the case.
  [[ $device == cpu ]] || batch=(train.batch=16)
  limited "$norma" train "$folder/step.toml" data.path="$folder/peer/data" train.init_from="$folder/start" train.steps=1 \
    optim.name=sgdw optim.lr=1000 optim.momentum=0 optim.weight_decay=0 optim.clip_bound=0 schedule.warmup=0 \
    "${batch[@]}" train.device="$device" train.precision="$kind" --out "$folder/$kind" >"$folder/$kind.txt" 2>&1
}

# A twentieth of a recipe's own warm-up, but at least ten steps. With ten, GPT-2 774M, whose own is 2000, comes to where rounding
# grows: torch's own gradients in bf16 are 13 % off there.
quick_warmup() {
  local own
  own=$(sed -n 's/^warmup = //p' "$1") && echo $((own > 200 ? own / 20 : 10))
}
# Weights of the peer go to Norma, which trains them a little: fifteen steps with a quick warm-up, so that gains are no longer one
# and the loss has begun to fall. From there both take the gradients of one batch.
compare_gradients() {
  local name=$1 folder=$work/gradients narrow=() out warmup
  [[ $precision == f32 ]] || narrow=(--bf16 "$folder/bf16")
  if [[ $name == *ngpt* ]]; then
    failed "gradients of $name: nGPT's weights return to the sphere after a step and do not tell their gradient"
    return
  fi
  note "gradients of $name"
  rm -rf "$folder"
  if start_from_peer "$name" 15 "$folder" "$folder/import" && warmup=$(quick_warmup "$folder/peer/recipe.toml") &&
    limited "$norma" train "$folder/peer/recipe.toml" data.path="$folder/peer/data" train.init_from="$folder/import" \
      schedule.warmup="$warmup" train.device="$device" train.precision="$precision" --out "$folder/start" >"$folder/start.txt" 2>&1 &&
    # Norma refuses settings that SGD does not use.
    { grep -v '^beta' "$folder/peer/recipe.toml" >"$folder/step.toml"; } &&
    step_by_gradient "$folder" f32 && { [[ $precision == f32 ]] || step_by_gradient "$folder" bf16; } &&
    limited "$python" "$root/bench/peers/gradients.py" --start "$folder/start" --f32 "$folder/f32" "${narrow[@]}" \
      --data "$folder/peer/data" --device "$device" >"$folder/told.txt"; then
    echo "$name"
    head -n -1 "$folder/told.txt"
    out=$(tail -n 1 "$folder/told.txt")
    record gradients "$name" "$out"
    [[ $out == *'"good": true'* ]] || failed "gradients of $name are further apart than the limit"
  else
    tail -n 3 "$folder"/*.txt >&2 || true
    failed "gradients of $name"
  fi
  rm -rf "$folder"
}

# Sets tracer to the library that traces: a ready one, or one made from what CUDA has here.
find_tracer() {
  local cuda includes=() folders=() file folder
  for file in ${STEP_TRACE_LIBRARY:+"$STEP_TRACE_LIBRARY"} "$root"/{lib,build/bundle/lib,build/cuda}/libstep_trace.so; do
    [[ ! -f $file ]] || { tracer=$file && return; }
    [[ $file != "${STEP_TRACE_LIBRARY:-}" ]] || { note "there is no $file (STEP_TRACE_LIBRARY)" && return 1; }
  done
  for cuda in ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda; do
    for folder in "$cuda" "$cuda/extras/CUPTI"; do
      [[ ! -f $folder/include/cupti.h ]] || includes+=(-I "$folder/include" -I "$cuda/include")
      for file in "$folder"/{lib64,lib}/libcupti.so; do [[ ! -f $file ]] || folders+=("$(dirname "$file")"); done
    done
  done
  command -v g++ >/dev/null || { note "there is no g++ to make the tracer with" && return 1; }
  ((${#includes[@]})) || { note "there is no cupti.h in CUDA_HOME or /usr/local/cuda" && return 1; }
  ((${#folders[@]})) || { note "there is no libcupti.so in CUDA_HOME or /usr/local/cuda" && return 1; }
  tracer=$work/libstep_trace.so
  g++ -std=c++20 -O2 -fPIC -shared "${includes[@]}" "$root/bench/step_trace.cpp" -o "$tracer" \
    -L "${folders[0]}" -Wl,-rpath,"${folders[0]}" -lcupti
}

# A ready tracer may not find CUPTI by itself. Only then: these folders also hold other versions of CUDA's libraries.
folders_of_cupti() {
  local cuda folder
  ldd "$tracer" | grep -q 'libcupti.*not found' || return 0
  for cuda in ${CUDA_HOME:+"$CUDA_HOME"} /usr/local/cuda; do
    for folder in "$cuda"/{extras/CUPTI/lib64,lib64,lib}; do [[ ! -d $folder ]] || printf ':%s' "$folder"; done
  done
}

break_down() {
  local name=$1 watcher='' path
  note "breakdown of $name"
  path=${LD_LIBRARY_PATH:-}$(folders_of_cupti)
  : >"$work/card.csv"
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi -i "$(cut -d, -f1 <<<"${CUDA_VISIBLE_DEVICES:-0}")" -lms 50 --format=csv,noheader,nounits \
      --query-gpu=clocks.sm,power.draw,utilization.gpu >"$work/card.csv" 2>/dev/null &
    watcher=$!
  fi
  : >"$work/trace.tsv"
  limited env LD_LIBRARY_PATH="${path#:}" CUDA_INJECTION64_PATH="$tracer" STEP_TRACE="$work/trace.tsv" \
    "$norma" bench train --case "${name%%:*}" --optimizer "$(norma_optimizer_of "$name")" --device "$device" \
    --steps "${STEPS:-12}" >/dev/null || failed "norma bench train --case $name under the tracer"
  [[ -z $watcher ]] || { kill "$watcher" && wait "$watcher"; } 2>/dev/null || true
  echo "$name"
  python3 "$root/bench/step_table.py" "$work/trace.tsv" --card "$work/card.csv" || failed "breakdown of $name"
}

run_check() {
  local type
  for type in f32 bf16; do
    note "norma check, $type"
    "$norma" check --device "$device" --dtype "$type" || failed "norma check --dtype $type"
  done
}
run_kernels() { "$norma" bench kernels --device "$device" || failed "norma bench kernels"; }
run_train() {
  local round name
  for name in "$@"; do
    for ((round = 0; round < rounds; ++round)); do time_norma "$name" && time_peer "$name"; done
  done
}
run_peers() { for name in "$@"; do time_peer "$name"; done; }
run_breakdown() {
  local name tracer
  find_tracer || { failed "no tracer" && return; }
  for name in "$@"; do break_down "$name"; done
}
run_losses() { for name in "$@"; do compare_losses "$name"; done; }
run_gradients() { for name in "$@"; do compare_gradients "$name"; done; }
run_table() { [[ ! -s $results ]] || python3 "$root/bench/device_table.py" table "$results"; }

(($#)) || { usage >&2 && exit 2; }
verb=$1 && shift
cases=("$@") gradient_cases=("$@")
((${#cases[@]})) || cases=(gpt2-124m dnt-124m dnt-124m:msgdw ngpt-0.5b prerms-0.5b ngpt-0.5b-8k gpt2-774m)
((${#gradient_cases[@]})) || gradient_cases=(gpt2-124m dnt-124m gpt2-774m)
case $verb in
  -h | --help) usage ;;
  check | kernels) "run_$verb" ;;
  table) run_table ;;
  breakdown) run_breakdown "${cases[@]}" ;;
  train | peers | losses) "run_$verb" "${cases[@]}" && run_table ;;
  gradients) run_gradients "${gradient_cases[@]}" && run_table ;;
  all)
    run_check && run_kernels && run_train "${cases[@]}" && run_losses "${cases[@]}"
    run_gradients "${gradient_cases[@]}" && run_peers vit-l16 vit-b16
    run_table
    ;;
  *) echo "device.sh: no verb $verb" >&2 && usage >&2 && exit 2 ;;
esac
exit "$status"
