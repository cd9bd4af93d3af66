#!/usr/bin/env bash
# Sets up, builds and runs all tests, in three builds; closes with one summary by ctest.
#
#   tests/run.sh [--quick] [-- <arguments for ctest>]
#
# --quick   only the g++ Release build; without it also clang with address+undefined sanitizers, and the
#           thread sanitizer
#
# The builds are the presets of CMakePresets.json. A build that fails is a failed test of the summary.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=(release asan tsan)
while (($# > 0)); do
  case "$1" in
    --quick) presets=(release) ;;
    --)
      shift
      break
      ;;
    *)
      echo "usage: tests/run.sh [--quick] [-- <arguments for ctest>] (was called with '$1')" >&2
      exit 2
      ;;
  esac
  shift
done

bash cmake/setup.sh tests

jobs=$(nproc)
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache
fi

# One folder whose test list names the lists of all builds.
all=build/all
mkdir -p "$all"
: >"$all/CTestTestfile.cmake"
for preset in "${presets[@]}"; do
  folder=$PWD/build
  [[ $preset == release ]] || folder+="-$preset"
  log=$PWD/$all/$preset.log
  start=$SECONDS
  echo "== $preset: building in ${folder##*/}/"
  status=0
  # -k 0: what does not compile must not keep the rest from being tested.
  { cmake --preset "$preset" && cmake --build "$folder" -j "$jobs" -- -k 0; } >"$log" 2>&1 </dev/null ||
    status=$?
  sed -n '/^-- hcomp /,/^-- Configuring/{/^-- Configuring/d;p}' "$log"
  echo "== $preset: $([[ $status == 0 ]] && echo built || echo "FAILED, status $status, see $log") after $((SECONDS - start)) s"
  errors=${log%.log}.errors
  grep -A 12 -E '^FAILED: |^CMake Error' "$log" | head -n 100 >"$errors" || tail -n 40 "$log" >"$errors"
  if ((status != 0)); then
    cat "$errors"
  fi
  {
    echo "add_test($preset.build \"sh\" \"-c\" \"cat '$errors'; exit $status\")"
    [[ ! -e $folder/CTestTestfile.cmake ]] || echo "subdirs(\"$folder\")"
  } >>"$all/CTestTestfile.cmake"
done

exec ctest --test-dir "$all" -j "$jobs" --output-on-failure "$@" </dev/null
