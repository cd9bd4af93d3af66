#!/usr/bin/env bash
# Sets up, builds and runs all tests, in three builds; ends with one ctest summary.
#
#   tests/run.sh [--quick | --full] [--torch] [--wheels] [-- <arguments for ctest>]
#   tests/run.sh --help
#
# Without --quick and --full, the sanitized build alone runs the tests that find most with
# sanitizers: tests marked "build: sanitized", and tests/mpi and tests/ucx with Open MPI on 1 and
# 3 ranks. Cases that take a minute of CPU time are left out (they read HCOMP_TEST_ONCE).
#
# --quick   only the g++ build, with all tests; default: also clang with address and undefined-
#           behaviour sanitizers, and the thread sanitizer
# --full    as released: all tests in the g++ build, too, with examples and benchmarks compiled
#           with -O3 and for all GPU architectures; default: -O1 and one architecture
# --torch   installs Debian's PyTorch and downloads PyPI's into build/torch, once
#           (tests/torch/setup.sh). Without it, or if PyPI cannot be reached, the tests of PyTorch
#           are skipped. Implies --wheels
# --wheels  downloads PyPI's MPICH 5 and Open MPI 5 into build/mpi_wheels, once
#           (tests/pmpi/setup.sh), and builds the preloaded library for the ABI of MPI 5. Without
#           it, or if PyPI cannot be reached, their tests are skipped, and that of elastic
#           all-reduce over Open MPI 5
#
# The builds are the presets tests (with --full: release), asan and tsan of CMakePresets.json. A
# failed build is a failed test of the summary. Interrupted, the script ends all processes that it
# started and exits with 128 + signal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

presets=(tests asan tsan)
once=ON
torch=false
wheels=false
while (($# > 0)); do
  case "$1" in
    --quick) presets=(tests) once=OFF ;;
    --full) presets=(release asan tsan) once=OFF ;;
    --torch) torch=true wheels=true ;;
    --wheels) wheels=true ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' tests/run.sh
      exit 0
      ;;
    --)
      shift
      break
      ;;
    *)
      echo "usage: tests/run.sh [--quick | --full] [--torch] [--wheels] [-- <arguments for ctest>] (was called with '$1')" >&2
      exit 2
      ;;
  esac
  shift
done

if $torch; then
  bash cmake/setup.sh all
  bash tests/torch/setup.sh || echo "tests/run.sh: there is no PyTorch from PyPI; its tests are skipped" >&2
else
  bash cmake/setup.sh tests
fi
if $wheels; then
  bash tests/pmpi/setup.sh || echo "tests/run.sh: there is no MPI from PyPI; its tests are skipped" >&2
  bash tests/ptx/setup.sh || echo "tests/run.sh: there is no nvdisasm from PyPI; its test is skipped" >&2
fi
# shellcheck source=support/interruptible.sh
source tests/support/interruptible.sh

jobs=$(nproc)
if command -v ccache >/dev/null; then
  export CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_C_COMPILER_LAUNCHER=ccache \
    CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  # Other clones of the same files hit, too; precompiled headers need the sloppiness.
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE=10G \
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
fi

# One folder whose test list names the lists of all builds.
all=build/all
mkdir -p "$all"
: >"$all/CTestTestfile.cmake"
for preset in "${presets[@]}"; do
  folder=$PWD/build-$preset
  [[ $preset != release ]] || folder=$PWD/build
  log=$PWD/$all/$preset.log
  start=$SECONDS
  echo "== $preset: building in ${folder##*/}/"
  status=0
  # -k 0: what does not compile must not keep the rest from being tested.
  once_here=OFF
  [[ $preset != tests ]] || once_here=$once
  # shellcheck disable=SC2016  # arguments of the inner shell
  run bash -c 'cmake --preset "$1" -D HCOMP_TEST_ONCE="$4" && cmake --build "$2" -j "$3" -- -k 0' - \
    "$preset" "$folder" "$jobs" "$once_here" >"$log" 2>&1 </dev/null || status=$?
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

# Most cases wait more than they compute; those that do not say so (hcomp_add_test).
run ctest --test-dir "$all" -j "$((2 * jobs))" --output-on-failure "$@" </dev/null
