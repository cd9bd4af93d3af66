#!/usr/bin/env bash
# Sets up, builds and runs the tests on Debian 12; closes with one summary by ctest.
#
#   tests/run.sh [OPTIONS] [-- <arguments for ctest>]
#
# Without options: libraries, every codec, both MPIs, UCX, the preloaded library, C, Fortran,
# Python, pages. Options add parts:
#
#   --sanitizers  a build by clang with address and undefined-behaviour sanitizers, and one with the
#                 thread sanitizer
#   --gpu         CUDA code: executed by a GPU where there is one, and as PTX on the CPU
#   --torch       PyTorch; installs Debian's and downloads PyPI's into build/torch, once
#                 (tests/torch/setup.sh)
#   --wheels      PyPI's MPICH 5 and Open MPI 5, downloaded into build/mpi_wheels, once
#                 (tests/pmpi/setup.sh), and nvdisasm: the preloaded library for the ABI of MPI 5,
#                 elastic groups over Open MPI 5
#   --full        more rank counts, headers compiled alone, emulated networks, simulated clusters,
#                 aggregation over UDP, hcomp_perf, the training job, benchmarks, INCEPTIONN's RTL
#   --rest        all parts of the options above, without the tests that a run without options has
#   --release     all parts in the builds that users get: -O3, all GPU architectures; takes hours
#   --help
#
# Tests of a part that cannot run here are skipped with the reason. The builds are the presets tests
# (with --release: release), asan and tsan of CMakePresets.json. A build that fails is a failed test
# of the summary. After a signal the script ends everything it has started, and exits with 128 +
# signal.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

parts=(default)
presets=(tests)
without_default=false
add() { # add PART...: each once
  local part
  for part in "$@"; do
    [[ " ${parts[*]} " == *" $part "* ]] || parts+=("$part")
  done
}
while (($# > 0)); do
  case "$1" in
    --sanitizers) add sanitizers ;;
    --gpu | --torch | --wheels | --full) add "${1#--}" ;;
    --rest) add sanitizers gpu torch wheels full && without_default=true ;;
    --release) add sanitizers gpu torch wheels full && presets=(release) ;;
    -h | --help)
      sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' tests/run.sh
      exit 0
      ;;
    --)
      shift
      break
      ;;
    *)
      echo "tests/run.sh: there is no option '$1'; tests/run.sh --help lists the options" >&2
      exit 2
      ;;
  esac
  shift
done
has() { [[ " ${parts[*]} " == *" $1 "* ]]; }
! has sanitizers || presets+=(asan tsan)

# shellcheck source=support/interruptible.sh
source tests/support/interruptible.sh
steps=$((2 + ${#presets[@]}))
# shellcheck source=../cmake/progress.sh
source cmake/progress.sh

torch_download=
# shellcheck disable=SC2317  # interruptible.sh calls it
when_interrupted() {
  stop_ticker
  [[ -z $torch_download ]] || end_session "$torch_download"
}

begin_step "install packages"
mkdir -p build/all
if has torch; then
  bash cmake/setup.sh all
  # 3 GB, beside the builds with sanitizers, which need no PyTorch and come first for that.
  setsid bash tests/torch/setup.sh >build/all/torch.log 2>&1 </dev/null &
  torch_download=$!
  presets=("${presets[@]:1}" "${presets[0]}")
elif has full || has sanitizers; then
  bash cmake/setup.sh full
else
  bash cmake/setup.sh tests
fi
if has wheels; then
  run bash tests/pmpi/setup.sh || echo "tests/run.sh: PyPI's MPIs cannot be installed; their tests are skipped" >&2
  run bash tests/ptx/setup.sh || echo "tests/run.sh: nvdisasm cannot be installed; its test is skipped" >&2
fi

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
: >"$all/CTestTestfile.cmake"
# shellcheck disable=SC2317  # progress.sh and interruptible.sh call these
progress_text() { ninja_progress "$log"; }
# shellcheck disable=SC2317
await_torch() {
  [[ $torch_download ]] || return 0
  local status=0
  wait "$torch_download" || status=$?
  torch_download=
  cat build/all/torch.log
  ((status == 0)) || echo "tests/run.sh: PyPI's PyTorch cannot be installed; its tests are skipped" >&2
}
# -k 0: one file that does not compile does not keep the other tests from running.
build() { # build FOLDER PRESET [<arguments for CMake>]
  # shellcheck disable=SC2016  # arguments of the inner shell
  run bash -c 'cmake --preset "${@:3}" && cmake --build "$1" -j "$2" -- -k 0' - "$1" "$jobs" "${@:2}" \
    >"$log" 2>&1 </dev/null
}
with_gpu=OFF
! has gpu || with_gpu=AUTO
tested=$(IFS=';' && echo "${parts[*]}")
tested=${tested/;sanitizers/}
for preset in "${presets[@]}"; do
  folder=$PWD/build-$preset
  [[ $preset != release ]] || folder=$PWD/build
  log=$PWD/$all/$preset.log
  start=$SECONDS
  options=()
  case $preset in
    tests) options=(-D "HCOMP_TEST_PARTS=$tested" -D HCOMP_TEST_LONG=OFF -D HCOMP_WITH_GPU=$with_gpu) ;;
    release) options=(-D "HCOMP_TEST_PARTS=$tested") ;;
  esac
  begin_step "build ${folder##*/}/"
  [[ $preset == *san ]] || await_torch
  status=0
  show_progress build "$folder" "$preset" "${options[@]}" || status=$?
  sed -n '/^-- hcomp /,/^-- Configuring/{/^-- Configuring/d;p}' "$log"
  echo "   $([[ $status == 0 ]] && echo built || echo "FAILED, status $status, see $log") after $((SECONDS - start)) s"
  errors=${log%.log}.errors
  grep -m 8 -A 12 -E '^FAILED: |^CMake Error' "$log" >"$errors" || tail -n 40 "$log" >"$errors"
  if ((status != 0)); then
    cat "$errors"
  fi
  {
    echo "add_test($preset.build \"sh\" \"-c\" \"cat '$errors'; exit $status\")"
    echo "set_tests_properties($preset.build PROPERTIES LABELS \"$([[ $preset == tests ]] && echo full || echo sanitizers)\")"
    [[ ! -e $folder/CTestTestfile.cmake ]] || echo "subdirs(\"$folder\")"
  } >>"$all/CTestTestfile.cmake"
done

begin_step "run the tests"
# Most cases wait more than they compute; hcomp_add_test marks the rest.
chosen=()
! $without_default || chosen=(-LE '^default$')
run ctest --test-dir "$all" -j "$((2 * jobs))" --output-on-failure "${chosen[@]}" "$@" </dev/null
