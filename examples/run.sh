#!/usr/bin/env bash
# Sets up, builds and runs the training job on four MPI ranks, and compares codecs.
#
#   examples/run.sh [<arguments for train>]     e.g. --seeds 3, --model embedding, or --help
#
# The results are in results/train.json, the picture is results/train.svg (--model embedding:
# results/embedding.*). Interrupted, it draws the results so far and exits with 128 + signal.
#
# RANKS=8 changes the number of ranks.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

ranks=${RANKS:-4}
build=$top/build-main
results=$top/results

bash "$top/cmake/setup.sh" main

# quietly COMMAND...: prints the output only if COMMAND fails.
quietly() {
  local log=$build/${1##*/}.log
  "$@" >"$log" 2>&1 </dev/null || {
    echo "examples/run.sh: failed: $*" >&2
    tail -n 40 "$log" >&2
    exit 1
  }
}
mkdir -p "$build" "$results"
echo "building in ${build##*/}/"
quietly cmake -S "$top" -B "$build" -G Ninja -DHCOMP_WITH_MPI=ON -DHCOMP_WITH_GPU=OFF \
  -DHCOMP_BUILD_TESTS=OFF -DHCOMP_BUILD_BENCHMARKS=OFF
quietly cmake --build "$build" --target train -j "$(nproc)"

name=train
data=()
if [[ " ${*//=/ } " == *" --model embedding "* ]]; then
  name=embedding
  text=$(bash "$top/examples/support/gcide.sh" "$build")
  data=(--data "$text")
fi

# The launcher belongs to the MPI that the program was built with. The variables allow Open MPI to
# run as root in a container, and with more ranks than cores; MPICH ignores them.
launcher=$(sed -n 's/^MPIEXEC_EXECUTABLE:[A-Z]*=//p' "$build/CMakeCache.txt")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
export OMPI_MCA_btl_vader_single_copy_mechanism=none

# Draws what this run has written.
touch "$build/started"
draw() {
  [[ ! $results/$name.json -nt $build/started ]] ||
    "$top/examples/support/plot.py" "$results/$name.json" -o "$results/$name.svg"
}
# shellcheck source=../tests/support/interruptible.sh
source "$top/tests/support/interruptible.sh"
# shellcheck disable=SC2317  # interruptible.sh calls it
when_interrupted() { draw || true; }
status=0
run "$launcher" -n "$ranks" "$build/examples/train/train" --json "$results/$name.json" \
  "${data[@]}" "$@" || status=$?
draw || ((status)) || status=1
exit $status
