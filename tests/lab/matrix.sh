#!/usr/bin/env bash
# Measures every codec on a matrix of emulated networks, and writes a report.
#
#   tests/lab/matrix.sh [<arguments for hcomp_perf>]     e.g. -n 10, or --codec identity,fp16
#
# The networks are all combinations of these variables (defaults shown):
#
#   RATES="100mbit 1gbit" HOSTS="2 4 8" DELAYS="none 1ms" LOSSES="none 0.1%" MPIS="openmpi mpich"
#
# Results per network are in results/lab/, the report on all networks is results/lab.html. Both
# MPI libraries run on the same lab, one after the other. The whole matrix takes about half an
# hour; a first impression:
#
#   HOSTS=4 DELAYS=none LOSSES=none tests/lab/matrix.sh -e 1M
#
# Interrupted, it ends all processes that it started, reports on the networks so far, and exits with
# 128 + signal.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
lab=$top/tests/lab/lab.sh

read -ra rates <<<"${RATES:-100mbit 1gbit}"
read -ra hosts <<<"${HOSTS:-2 4 8}"
read -ra delays <<<"${DELAYS:-none 1ms}"
read -ra losses <<<"${LOSSES:-none 0.1%}"
read -ra mpis <<<"${MPIS:-openmpi mpich}"
build=$top/build
results=$top/results

export HCOMP_LAB=matrix
"$lab" with --hosts 2 -- true # fails at once where no lab can run
trap '"$lab" down' EXIT

bash "$top/cmake/setup.sh" tests
# shellcheck source=../support/interruptible.sh
source "$top/tests/support/interruptible.sh"
mkdir -p "$build" "$results/lab"
echo "building in ${build##*/}/"
declare -A program=([openmpi]=hcomp_perf [mpich]=hcomp_perf.mpich)
# shellcheck disable=SC2016  # arguments of the inner shell
run bash -c 'cmake --preset release -S "$1" && cmake --build "$2" -j "$(nproc)" --target "${@:3}"' - \
  "$top" "$build" hcomp_lab_switch hcomp_lab_mpich "${program[@]}" >"$build/matrix.log" 2>&1 </dev/null || {
  echo "tests/lab/matrix.sh: building failed:" >&2
  tail -n 40 "$build/matrix.log" >&2
  exit 1
}

reports=()
report() {
  ((${#reports[@]} == 0)) ||
    "$top/examples/support/plot.py" "${reports[@]}" -o "$results/lab.html"
}
when_interrupted() {
  [[ ! -s ${file-} ]] || reports+=("$file")
  report
}

for rate in "${rates[@]}"; do
  for count in "${hosts[@]}"; do
    for delay in "${delays[@]}"; do
      for loss in "${losses[@]}"; do
        label=
        [[ $delay == none ]] || label+=", $delay"
        [[ $loss == none ]] || label+=", $loss lost"
        echo "== $rate, $count nodes$label"
        "$lab" up --hosts "$count" --rate "$rate" --delay "$delay" --loss "$loss"
        for mpi in "${mpis[@]}"; do
          file=$results/lab/$rate-$count-$delay-${loss%\%}-$mpi.json
          rm -f "$file"
          run "$lab" run "$mpi" -n "$count" "$build/examples/perf/${program[$mpi]}" \
            -b 64K -e 4M -f 8 -n 5 --seconds 4 \
            --codec identity,fp16,zfp:8,sign,thc,automatic --algorithm ring,sampled \
            --rate "$rate" --interface eth0 --label "${label#, }" --check --json "$file" "$@"
          reports+=("$file")
          file=
        done
        "$lab" down
      done
    done
  done
done
report
