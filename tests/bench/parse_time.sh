#!/usr/bin/env bash
# Prints the seconds the compiler needs to parse the umbrella header: the best of five runs.
#
#   tests/bench/parse_time.sh [<header>]     CXX names the compiler, g++ by default
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

header=${1-hcomp/hcomp.hpp}
source=$(mktemp --suffix=.cpp)
trap 'rm -f "$source"' EXIT
echo "#include <$header>" >"$source"

# CPU time, which a busy machine changes least.
TIMEFORMAT='%U %S'
best=""
for _ in 1 2 3 4 5; do
  used=$({ time "${CXX:-g++}" -std=c++20 -Iinclude -Iplugins -Ikernels -fsyntax-only "$source" >&2; } 2>&1) || {
    echo "parse_time: $header does not compile:" >&2
    echo "$used" >&2
    exit 1
  }
  best=$(awk -v best="$best" '{ t = $1 + $2; print (best == "" || t < best) ? t : best }' <<<"$used")
done
echo "$header: $best s with ${CXX:-g++}"
