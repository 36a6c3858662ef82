#!/usr/bin/env bash
# Training speed of Norma beside plain PyTorch, alternating in one run on one machine.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  cat <<'END'
Usage: bench/compare.sh [--case NAME]... [--rounds N] [--threads N] [--steps N] [--json]

  --case NAME   gpt-d128, gpt-d192, gpt-d384; may be repeated (all three)
  --rounds N    Norma and PyTorch take turns N times; medians are shown (3)
  --threads N   threads of both (2)
  --steps N     measured steps of each turn (each program's own default)
  --json        one JSON object per case instead of the table

PyTorch is tried once with each setting that may suit it (build of OpenBLAS, kernels it picks, instruction set), and the
fastest takes part. The setting with Debian's default OpenBLAS, SkylakeX kernels and AVX-512 always takes part too.

Environment: NORMA (program, build/cpu/bin/norma), PEER_PYTHON (a Python with torch, /usr/bin/python3)
END
}

cases=() rounds=3 threads=2 steps='' json=0
while (($#)); do
  case $1 in
    -h | --help) usage && exit 0 ;;
    --json) json=1 && shift && continue ;;
    --case | --rounds | --threads | --steps) ;;
    *) echo "compare.sh: unknown option $1" >&2 && usage >&2 && exit 2 ;;
  esac
  (($# >= 2)) || { echo "compare.sh: $1 needs a value" >&2 && exit 2; }
  case $1 in
    --case)
      case $2 in
        gpt-d128 | gpt-d192 | gpt-d384) cases+=("$2") ;;
        *) echo "compare.sh: no case $2; there are gpt-d128, gpt-d192 and gpt-d384" >&2 && exit 2 ;;
      esac
      ;;
    *)
      [[ $2 =~ ^[1-9][0-9]*$ ]] || { echo "compare.sh: $1 must be 1 or more, got $2" >&2 && exit 2; }
      case $1 in
        --rounds) rounds=$2 ;;
        --threads) threads=$2 ;;
        --steps) steps=$2 ;;
      esac
      ;;
  esac
  shift 2
done
((${#cases[@]})) || cases=(gpt-d128 gpt-d192 gpt-d384)

norma=${NORMA:-$root/build/cpu/bin/norma}
[[ -x $norma || -n ${NORMA:-} ]] || norma=$root/bin/norma  # inside a bundle
[[ -x $norma ]] || { echo "compare.sh: $norma is not there; build it with: ./run build" >&2 && exit 1; }
python=${PEER_PYTHON:-/usr/bin/python3}
peer=$root/bench/peers/torch_gpt.py

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
results=$work/results.jsonl
note() { echo "compare: $*" >&2; }

# record WHO SETTING CASE JSON
record() { printf '{"who": "%s", "setting": "%s", "case": "%s", "result": %s}\n' "$1" "$2" "$3" "$4" >>"$results"; }

run_norma() {
  local extra=() out
  [[ -n $steps ]] && extra=(--steps "$steps")
  out=$(OMP_NUM_THREADS=$threads "$norma" bench train --case "$1" --json "${extra[@]}" | grep '^{' | tail -1) || return 1
  record norma '' "$1" "$out"
}

# run_torch WHO SETTING CASE ARGS...: SETTING is a list of NAME=VALUE for the environment. Prints the fastest step,
# which tells settings apart better than the median when something else runs for a moment.
run_torch() {
  local who=$1 setting=$2 case=$3 out
  shift 3
  # shellcheck disable=SC2086
  out=$(env $setting "$python" "$peer" --case "$case" --threads "$threads" --json "$@") || return 1
  record "$who" "$setting" "$case" "$out"
  sed -n 's/.*"ms_fastest": \([0-9.]*\).*/\1/p' <<<"$out"
}

read -r load _ </proc/loadavg
if awk "BEGIN { exit !($load > 0.5) }"; then
  note "the machine is busy (load $load): both programs will look slower, and not by the same factor"
fi

have_torch=1
if ! "$python" -c 'import torch' 2>/dev/null; then
  have_torch=0
  note "$python has no torch, so there is no peer; get it with: apt-get install python3-torch libopenblas0-openmp"
fi

libraries=/usr/lib/$(uname -m)-linux-gnu
skylake='OPENBLAS_CORETYPE=SkylakeX ATEN_CPU_CAPABILITY=avx512'
reference=$skylake
settings=("ATEN_CPU_CAPABILITY=avx512" "MKL_ENABLE_INSTRUCTIONS=AVX512 ATEN_CPU_CAPABILITY=avx512" "OMP_NUM_THREADS=$threads")
if [[ -d $libraries/openblas-pthread ]]; then
  reference="LD_LIBRARY_PATH=$libraries/openblas-pthread $skylake"
fi
if [[ -d $libraries/openblas-openmp ]]; then
  settings+=("LD_LIBRARY_PATH=$libraries/openblas-openmp $skylake"
    "LD_LIBRARY_PATH=$libraries/openblas-openmp ATEN_CPU_CAPABILITY=avx512")
fi

for case in "${cases[@]}"; do
  best=''
  if ((have_torch)); then
    note "$case: looking for PyTorch's best setting"
    best_ms=''
    for setting in "$reference" "${settings[@]}"; do
      ms=$(run_torch trial "$setting" "$case" --warmup 1 --steps 20 --max-seconds 3) || continue
      note "  $ms ms  $setting"
      if [[ -z $best_ms ]] || awk "BEGIN { exit !($ms < $best_ms) }"; then
        best=$setting best_ms=$ms
      fi
    done
  fi
  turn=(--max-seconds 12)
  [[ -n $steps ]] && turn=(--steps "$steps")
  for ((round = 1; round <= rounds; ++round)); do
    note "$case: round $round of $rounds"
    run_norma "$case" || { echo "compare.sh: norma bench train --case $case failed" >&2 && exit 1; }
    ((have_torch)) || continue
    run_torch reference "$reference" "$case" "${turn[@]}" >/dev/null || note "  the reference setting failed"
    [[ -n $best && $best != "$reference" ]] || continue
    run_torch best "$best" "$case" "${turn[@]}" >/dev/null || note "  the best setting failed"
  done
done

python3 - "$results" "$json" "$threads" "$rounds" <<'END'
import json, platform, statistics, sys

path, as_json, threads, rounds = sys.argv[1], sys.argv[2] == "1", sys.argv[3], sys.argv[4]
rows = [json.loads(line) for line in open(path)]
KEYS = ("ms_step", "tokens_per_s", "gflops", "gemm_peak_gflops", "efficiency")

def medians(case, who):
    found = [row["result"] for row in rows if row["case"] == case and row["who"] == who]
    return {key: statistics.median(r[key] for r in found) for key in KEYS if found and all(key in r for r in found)}

def setting(case, who):
    names = [row["setting"] for row in rows if row["case"] == case and row["who"] == who]
    return names[0] if names else ""

def cpu():
    try:
        return next(line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()

def show(value, digits=1):
    return "-" if value is None else f"{value:,.{digits}f}"

cases = list(dict.fromkeys(row["case"] for row in rows))
torch = next((row["result"]["torch"] for row in rows if "torch" in row["result"]), None)
if not as_json:
    peer = f"torch {torch}" if torch else "no peer"
    print(f"{cpu()}, {threads} threads, {peer}, medians of {rounds} alternating rounds")
    print(f"{'case':10} {'program':16} {'ms/step':>9} {'tokens/s':>11} {'GFLOP/s':>9} {'of peak':>8} {'norma is':>9}")
for case in cases:
    norma = medians(case, "norma")
    reference, best = medians(case, "reference"), medians(case, "best")
    if reference and not best:
        best, best_setting = reference, setting(case, "reference")
    else:
        best_setting = setting(case, "best")
    def ratio(peer):
        return norma["tokens_per_s"] / peer["tokens_per_s"] if peer else None
    if as_json:
        print(json.dumps({"case": case, "norma": norma, "torch_reference": reference, "torch_best": best,
                          "ratio_reference": ratio(reference), "ratio_best": ratio(best),
                          "setting_reference": setting(case, "reference"), "setting_best": best_setting,
                          "torch": torch, "threads": int(threads), "rounds": int(rounds)}))
        continue
    for name, row, times in (("norma", norma, None), ("torch reference", reference, ratio(reference)), ("torch best", best, ratio(best))):
        if not row:
            continue
        share = row.get("efficiency")
        print(f"{case:10} {name:16} {show(row.get('ms_step'), 2):>9} {show(row.get('tokens_per_s'), 0):>11} "
              f"{show(row.get('gflops')):>9} {show(share, 2):>8} {'' if times is None else format(times, '.2f') + 'x':>9}")
    if best:
        print(f"{'':10} torch best with: {best_setting}")
END
