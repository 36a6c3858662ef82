#!/usr/bin/env bash
# Runs clang-tidy with the rules of .clang-tidy; see tools/tidy.py --help.
# Usage: tools/tidy.sh changed|all [--build FOLDER] [--jobs N] [--base COMMIT]
exec python3 "$(dirname "$0")/tidy.py" "$@"
