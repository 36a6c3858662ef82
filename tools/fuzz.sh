#!/usr/bin/env bash
# Runs a fuzz target from its stored inputs. Findings land in build/fuzz/findings/TARGET, new inputs in
# build/fuzz/corpus/TARGET.
# Usage: tools/fuzz.sh [--bin DIR] TARGET RUNS [JOBS]
#   TARGET      safetensors, shard, tokenizer, recipe or run_folder
#   RUNS        executions in all
#   JOBS        processes side by side, which share RUNS (1)
#   --bin DIR   programs that are already built; otherwise the preset fuzz is built
set -euo pipefail
cd "$(dirname "$0")/.."
usage() { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2 && exit 2; }

bin=
if [[ ${1:-} == --bin ]]; then
  bin=${2:?} && shift 2
fi
(($# == 2 || $# == 3)) || usage
target=$1 runs=$2 jobs=${3:-1}
[[ -f fuzz/${target}_fuzz.cpp ]] || { echo "fuzz.sh: there is no target $target" >&2 && usage; }
if [[ -z $bin ]]; then
  bin=build/fuzz/bin
  cmake --preset fuzz >/dev/null
  cmake --build --preset fuzz --target "fuzz_$target" >/dev/null
fi

found=build/fuzz/findings/$target new=build/fuzz/corpus/$target logs=build/fuzz/logs/$target
mkdir -p "$found" "$new" "$logs"
rm -f "$logs"/*.log
begin=$(date +%s%N)
for ((job = 0; job < jobs; ++job)); do
  "$bin/fuzz_$target" -runs=$(((runs + jobs - 1) / jobs)) -max_len=4096 -timeout=10 -rss_limit_mb=2048 -entropic=0 \
    -print_funcs=0 -print_final_stats=1 -artifact_prefix="$found/" "$new" "fuzz/corpus/$target" >"$logs/$job.log" 2>&1 &
done
wait
seconds=$((($(date +%s%N) - begin) / 1000000000))

# Sums over the processes; of the coverage the largest.
executed=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs"/*.log | awk '{s += $1} END {print s + 0}')
coverage=$(sed -n 's/.* cov: \([0-9]*\) ft.*/\1/p' "$logs"/*.log | sort -n | tail -1)
accepted=$(sed -n 's/^accepted \([0-9]*\) of \([0-9]*\) inputs$/\1 \2/p' "$logs"/*.log |
  awk '{a += $1; n += $2} END {printf "%.1f", n ? 100 * a / n : 0}')
findings=$(find "$found" -type f | wc -l)
echo "$target: $executed executions, $((executed / (seconds > 0 ? seconds : 1))) a second, coverage ${coverage:-0}," \
  "$accepted % accepted, $findings findings"
if ((findings > 0)); then
  grep -hE '^fuzz:|ERROR: |SUMMARY: |runtime error' "$logs"/*.log >&2 || true
  exit 1
fi
((executed >= runs)) || { tail -5 "$logs"/*.log >&2 && exit 1; }
