#!/usr/bin/env bash
# On a machine with a GPU and a CUDA toolkit: builds what runs there, tests it, looks for wrong
# addresses and races, measures, and ends with a table.
#
#   tests/gpu/run.sh [<build folder>]      build-gpu unless said otherwise
#
# Needs CMake, nvcc, doctest and CLI11; CMAKE_PREFIX_PATH says where they are if not in the usual
# places. A check that takes longer than $HCOMP_CHECK_SECONDS, 200, is ended and counts as neither.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:-build-gpu}

if ! nvidia-smi -L; then
  echo "tests/gpu/run.sh: there is no GPU here; .ci/run compiles everything without one" >&2
  exit 2
fi
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CUDA_ARCHITECTURES=native \
  -DHCOMP_WITH_GPU=ON -DHCOMP_BUILD_PLUGINS=OFF -DHCOMP_BUILD_EXAMPLES=OFF -DHCOMP_WERROR=ON
mapfile -t targets < <(cd tests/gpu && for file in *_test.cu; do echo "test_gpu.${file%_test.cu}"; done)
cmake --build "$build" -j "$(nproc)" --target "${targets[@]}" bench_gpu

failed=0
limit=${HCOMP_CHECK_SECONDS:-200}
lines=()
# try <what> <command>...: a line of the table; what it says is shown if it fails.
try() {
  local what=$1 log status=0 word=ok
  shift
  log=$(mktemp)
  "$@" >"$log" 2>&1 || status=$?
  if ((status == 124)); then
    word="not finished in $limit s"
  elif ((status == 77)); then
    word="skipped: $(grep -m 1 -i skipped "$log" || true)"
  elif ((status != 0)); then
    word="FAILED, status $status"
    failed=1
    cat "$log"
  fi
  rm -f "$log"
  lines+=("$(printf '%-40s %s' "$what" "$word")")
}
for target in "${targets[@]}"; do
  program=$build/tests/$target
  try "$target" "$program"
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
      try "$target, $tool" timeout "$limit" compute-sanitizer --tool "$tool" --error-exitcode 9 "$program"
    done
  else
    lines+=("$(printf '%-40s %s' "$target, memcheck and racecheck" "skipped: there is no compute-sanitizer")")
  fi
done
echo
"$build/tests/bench/bench_gpu"
echo
printf '%s\n' "${lines[@]}"
exit "$failed"
