#!/usr/bin/env bash
# Formats every .h .cpp .cu .cuh file that git tracks or would track.
# Usage: tools/format.sh [--check]     --check changes nothing, names the files that differ, and exits 1 if there are any
set -euo pipefail
cd "$(dirname "$0")/.."

tool=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $tool ]]; then
  echo "format.sh: clang-format-14 is not installed; get it with: apt-get install clang-format-14" >&2
  exit 77
fi
# Another version formats a few constructs differently, and the tree would flip between two styles.
if ! "$tool" --version | grep -q 'version 14\.'; then
  echo "format.sh: version 14 of clang-format is wanted, $("$tool" --version) was found" >&2
  exit 77
fi

mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.h' '*.cpp' '*.cu' '*.cuh' |
  while IFS= read -r file; do [[ -f $file ]] && echo "$file"; done)
if [[ ${#files[@]} -eq 0 ]]; then
  echo "format: no files"
  exit 0
fi

case ${1:-} in
  '') "$tool" -i "${files[@]}" && echo "formatted ${#files[@]} files" ;;
  --check)
    bad=$("$tool" --dry-run "${files[@]}" 2>&1 | sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: warning: code should be clang-formatted.*/\1/p' | sort -u)
    if [[ -n $bad ]]; then
      echo "$bad"
      echo "format: the files above differ; run tools/format.sh" >&2
      exit 1
    fi
    echo "format ok (${#files[@]} files)"
    ;;
  *) sed -n '2,3s/^# //p' "$0" >&2 && exit 2 ;;
esac
