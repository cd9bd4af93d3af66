#!/usr/bin/env bash
# Sets up, builds and runs the training job on four MPI ranks, and compares codecs.
#
#   examples/run.sh [<arguments for train>]     e.g. --seeds 3, --model embedding, or --help
#
# The classifier is trained for 2 epochs unless --epochs is given.
#
# Results: results/train.json, plot: results/train.svg (--model embedding: results/embedding.*).
# After SIGINT or SIGTERM it draws the results so far and exits with 128 + signal.
#
# RANKS=8 changes the number of ranks.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

ranks=${RANKS:-4}
build=$top/build-main
results=$top/results

# Rejects unknown options before it installs or builds.
for word in "$@"; do
  option=${word%%=*}
  [[ $option != --* || $option == --help ]] || grep -q "\"$option[\",]" "$top/examples/train/options.cpp" || {
    echo "examples/run.sh: train has no option '$option'; it has:" \
      "$(grep -oE '"--[a-z-]+' "$top/examples/train/options.cpp" | tr -d '"' | sort -u | paste -sd' ')" >&2
    exit 2
  }
done
[[ $ranks =~ ^[1-9][0-9]*$ ]] || {
  echo "examples/run.sh: RANKS is '$ranks'; it is a number of ranks, such as 4" >&2
  exit 2
}

# shellcheck source=../tests/support/interruptible.sh
source "$top/tests/support/interruptible.sh"
steps=3
# shellcheck source=../cmake/progress.sh
source "$top/cmake/progress.sh"
# shellcheck disable=SC2317  # interruptible.sh calls it
when_interrupted() { stop_ticker; }

begin_step "install packages"
bash "$top/cmake/setup.sh" main

# quietly COMMAND...: prints the output only if COMMAND fails.
log=$build/build.log
quietly() {
  run "$@" >"$log" 2>&1 </dev/null || {
    stop_ticker
    echo "examples/run.sh: failed: $*" >&2
    tail -n 40 "$log" >&2
    exit 1
  }
}
# shellcheck disable=SC2317  # progress.sh calls it
progress_text() { ninja_progress "$log"; }
mkdir -p "$build" "$results"
begin_step "build ${build##*/}/"
show_progress quietly cmake -S "$top" -B "$build" -G Ninja -DHCOMP_WITH_MPI=ON -DHCOMP_WITH_GPU=OFF \
  -DHCOMP_BUILD_TESTS=OFF -DHCOMP_BUILD_BENCHMARKS=OFF
show_progress quietly cmake --build "$build" --target train -j "$(nproc)"

name=train
data=()
passes=()
[[ " ${*//=/ } " == *" --epochs "* ]] || passes=(--epochs 2) # train's default is 5
if [[ " ${*//=/ } " == *" --model embedding "* ]]; then
  name=embedding
  passes=()
  text=$(bash "$top/examples/support/gcide.sh" "$build")
  data=(--data "$text")
fi

# The launcher of the MPI that the program was built with. The variables allow Open MPI to run as
# root in a container, and with more ranks than cores. MPICH ignores them.
launcher=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none

# Draws the results, if this run has written any.
touch "$build/started"
draw() {
  [[ ! $results/$name.json -nt $build/started ]] ||
    "$top/examples/support/plot.py" "$results/$name.json" -o "$results/$name.svg"
}
# shellcheck disable=SC2317  # interruptible.sh calls it
when_interrupted() { draw || true; }
begin_step "train on $ranks ranks"
status=0
run "$launcher" -n "$ranks" "$build/examples/train/train" --json "$results/$name.json" \
  "${passes[@]}" "${data[@]}" "$@" || status=$?
draw || ((status)) || status=1
exit $status
