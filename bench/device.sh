#!/usr/bin/env bash
# Checks, benches and PyTorch peers on one card in one sitting, in pieces as small as one likes, and one table.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'END'
Usage: bench/device.sh VERB [CASE...]

  check             norma check in f32 and bf16
  kernels           norma bench kernels
  train [CASE...]   steps of Norma and of its peer, taking turns
  peers [CASE...]   steps of the peers alone
  losses [CASE...]  50 steps of both from the same weights and batches
  table             what was measured so far
  all               check, kernels, train, losses, and the peers that Norma has no model for yet

A CASE is a name of `norma bench train`, with an optimizer behind it where it is not AdamW: dnt-124m:msgdw. Without any:
gpt2-124m dnt-124m dnt-124m:msgdw ngpt-0.5b prerms-0.5b ngpt-0.5b-8k gpt2-774m. The peers are also vit-l16 and vit-b16.
train, peers and losses end with the table. What fails is told and left out, and the exit status is 1.

Environment:
  NORMA        the program (bin/norma of a bundle, build/bundle/bin/norma, build/cuda/bin/norma)
  PEER_PYTHON  a Python with torch (python3)
  PEER_ARGS    more for every peer, e.g. "--attention cudnn --stream bf16"
  DEVICE       cuda; cpu compares losses of the cases tiny-gpt2, tiny-dnt, tiny-prerms and tiny-ngpt in f32
  STEPS        timed steps (20)
  ROUNDS       how often Norma and the peer take turns; medians count (1)
  LIMIT        seconds that one program may take (240)
  RESULTS      where the figures are collected (build/device.jsonl)
END
}

for norma in "${NORMA:-}" "$root"/{bin,build/bundle/bin,build/cuda/bin}/norma; do
  [[ -x $norma ]] && break
done
[[ -x $norma ]] || { echo "device.sh: there is no program $norma; build it with: ./run bundle" >&2 && exit 1; }
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

# Weights of the peer go to Norma, and both train on the same windows.
compare_losses() {
  local name=$1 folder=$work/losses out judge=$root/bench/device_table.py
  note "losses of $name"
  rm -rf "$folder"
  if limited "$python" "$peer" --case "${name%%:*}" --optimizer "$(optimizer_of "$name")" --device "$device" \
    --steps 50 --export "$folder/peer" &&
    limited "$norma" import "$folder/peer" --out "$folder/start" >/dev/null 2>"$folder/import.txt" &&
    limited "$norma" train "$folder/peer/recipe.toml" data.path="$folder/peer/data" train.init_from="$folder/start" \
      train.device="$device" train.precision="$precision" --out "$folder/run" >"$folder/train.txt" 2>&1 &&
    limited "$python" "$peer" --train-from "$folder/peer" --data "$folder/peer/data" --device "$device" --steps 50 \
      --precision "$precision" "${peer_args[@]}" >"$folder/losses.jsonl" &&
    out=$(python3 "$judge" losses "$folder/run/metrics.jsonl" "$folder/losses.jsonl" "$precision"); then
    record losses "$name" "$out"
    [[ $out == *'"good": true'* ]] || failed "losses of $name are further apart than the limit"
  else
    tail -n 3 "$folder"/{import,train}.txt >&2 || true
    failed "losses of $name"
  fi
  rm -rf "$folder"
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
run_losses() { for name in "$@"; do compare_losses "$name"; done; }
run_table() { [[ ! -s $results ]] || python3 "$root/bench/device_table.py" table "$results"; }

(($#)) || { usage >&2 && exit 2; }
verb=$1 && shift
cases=("$@")
((${#cases[@]})) || cases=(gpt2-124m dnt-124m dnt-124m:msgdw ngpt-0.5b prerms-0.5b ngpt-0.5b-8k gpt2-774m)
case $verb in
  -h | --help) usage ;;
  check | kernels) "run_$verb" ;;
  table) run_table ;;
  train | peers | losses) "run_$verb" "${cases[@]}" && run_table ;;
  all)
    run_check && run_kernels && run_train "${cases[@]}" && run_losses "${cases[@]}" && run_peers vit-l16 vit-b16
    run_table
    ;;
  *) echo "device.sh: no verb $verb" >&2 && usage >&2 && exit 2 ;;
esac
exit "$status"
