#!/usr/bin/env bash
# Builds a fuzz target and runs it from its stored inputs; findings land in build/fuzz/findings/TARGET.
# Usage: tools/fuzz.sh TARGET RUNS     TARGET: safetensors, tokenizer, recipe, run_folder
set -euo pipefail
cd "$(dirname "$0")/.."
(($# == 2)) || { sed -n '2,3s/^# //p' "$0" >&2 && exit 2; }
target=$1 runs=$2
[[ -d fuzz/corpus/$target ]] || { echo "fuzz.sh: there is no target $target" >&2 && exit 2; }

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "fuzz_$target" >/dev/null
found=build/fuzz/findings/$target new=build/fuzz/corpus/$target log=build/fuzz/$target.log
mkdir -p "$found" "$new"
status=0
build/fuzz/bin/"fuzz_$target" -runs="$runs" -max_len=4096 -timeout=1 -rss_limit_mb=256 -print_final_stats=1 \
  -artifact_prefix="$found/" "$new" "fuzz/corpus/$target" >"$log" 2>&1 || status=$?
coverage=$(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -1)
executed=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
echo "$target: ${executed:-?} executions, ${coverage:-no coverage}, $(sed -n 's/^accepted/accepted/p' "$log" | tail -1), $(find "$found" -type f | wc -l) findings"
((status == 0)) || { tail -20 "$log" >&2 && exit "$status"; }
