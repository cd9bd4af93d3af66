#!/usr/bin/env bash
# Sums of THC on hosts of the lab: by the ranks themselves, by hcomp-aggregator as a process, and by it in
# the kernel.
#
#   tests/lab/adders.sh BUILD
#
# BUILD has plugins/hcomp-aggregator, examples/perf/hcomp_perf.mpich and tests/lab. These can be set:
#
#   RATE=1gbit           of all links, as lab.sh has it
#   WORKERS="4 8"        a host for each, and one for the aggregator
#   SIZE=16M             of the vectors
#   ARGUMENTS="-n 5"     more for hcomp_perf
#
# Rows are those of hcomp_perf, with what its cost model expects; of transport udp are those by the
# aggregator, whose CPU seconds for all calls follow: of its process, and of the kernel's programs. It needs
# what lab.sh needs, and sets kernel.bpf_stats_enabled for its time.
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
