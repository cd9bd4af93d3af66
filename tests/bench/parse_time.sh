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

best=""
for _ in 1 2 3 4 5; do
  TIMEFORMAT=%R
  seconds=$({ time "${CXX:-g++}" -std=c++20 -Iinclude -Iplugins -Ikernels -fsyntax-only "$source" >&2; } 2>&1) || {
    echo "parse_time: $header does not compile:" >&2
    echo "$seconds" >&2
    exit 1
  }
  if [[ -z $best || $(echo "$seconds $best" | awk '{print ($1 < $2)}') == 1 ]]; then
    best=$seconds
  fi
done
echo "$header: $best s with ${CXX:-g++}"
