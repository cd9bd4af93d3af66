#!/usr/bin/env bash
# Compares three implementations of THC all-reduce on nodes of the lab: the ranks themselves,
# hcomp-aggregator as a process, and hcomp-aggregator in the kernel (XDP).
#
#   tests/lab/adders.sh BUILD
#
# BUILD contains plugins/hcomp-aggregator, examples/perf/hcomp_perf.mpich and tests/lab. Variables
# and their defaults:
#
#   RATE=1gbit           rate of all links, as in lab.sh
#   WORKERS="4 8"        numbers of workers; each has a node, the aggregator has another one
#   SIZE=16M             size of the vectors
#   ARGUMENTS="-n 5"     further arguments of hcomp_perf
#
# Prints the rows of hcomp_perf, with the predictions of its cost model; rows with transport udp
# use the aggregator. Then follow the CPU seconds of all calls: of the aggregator's process, and
# of its programs in the kernel. Requires what lab.sh requires; sets kernel.bpf_stats_enabled
# while it runs.
set -euo pipefail
export HCOMP_LAB=adders-$$ HCOMP_LAB_TOOLS=${HCOMP_LAB_TOOLS:-${1-}/tests/lab}
# shellcheck source=tests/lab/aggregator_host.sh
source "$(dirname "${BASH_SOURCE[0]}")/aggregator_host.sh"
command=${1-}/plugins/hcomp-aggregator
perf=${1-}/examples/perf/hcomp_perf.mpich
needs_programs adders.sh "$command" "$perf"
rate=${RATE:-1gbit}
read -ra arguments <<<"${ARGUMENTS:--n 5}"

for workers in ${WORKERS:-4 8}; do
  "$here/lab.sh" up --hosts $((workers + 1)) --rate "$rate" >&2
  for mode in process xdp; do
    start_aggregator "$command" "$workers" "$mode"
    echo "== $workers workers, $mode"
    "$here/lab.sh" run mpich -n "$workers" "$perf" --codec thc --algorithm ring,direct \
      --aggregator "10.77.0.$((workers + 1)):7475" -b "${SIZE:-16M}" -e "${SIZE:-16M}" --mean --rate "$rate" \
      "${arguments[@]}" | grep -v '^#'
    echo "CPU seconds of the process: $(process_seconds)"
    end_aggregator
    kernel_programs | sed 's/^/programs in the kernel: /'
  done
  "$here/lab.sh" down
done
