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
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command=${1-}/plugins/hcomp-aggregator
perf=${1-}/examples/perf/hcomp_perf.mpich
for program in "$command" "$perf"; do
  [[ -x $program ]] || {
    echo "usage: adders.sh BUILD (there is no program '$program')" >&2
    exit 2
  }
done
export HCOMP_LAB=adders-$$ HCOMP_LAB_TOOLS=${HCOMP_LAB_TOOLS:-$1/tests/lab}
rate=${RATE:-1gbit}
read -ra arguments <<<"${ARGUMENTS:--n 5}"
folder=$(mktemp -d)
statistics=/proc/sys/kernel/bpf_stats_enabled
before=$(<"$statistics")
finish() {
  echo "$before" >"$statistics"
  "$here/lab.sh" down
  rm -rf "$folder"
}
trap finish EXIT
echo 1 >"$statistics"

for workers in ${WORKERS:-4 8}; do
  "$here/lab.sh" up --hosts $((workers + 1)) --rate "$rate" >&2
  for mode in process xdp; do
    of_mode=()
    [[ $mode == process ]] || of_mode=(--mode xdp --interface eth0)
    : >"$folder/said"
    "$here/lab.sh" exec "$workers" "$command" "${of_mode[@]}" >"$folder/said" &
    id=$!
    until grep -q listens "$folder/said"; do
      kill -0 "$id" 2>/dev/null || exit 1  # it has said why
      sleep 0.05
    done
    # The command is below the one that enters the lab.
    until grep -q '^hcomp-aggregato$' "/proc/$id/comm"; do id=$(pgrep -P "$id"); done
    echo "== $workers workers, $mode"
    "$here/lab.sh" run mpich -n "$workers" "$perf" --codec thc --algorithm ring,direct \
      --aggregator "10.77.0.$((workers + 1)):7475" -b "${SIZE:-16M}" -e "${SIZE:-16M}" --mean --rate "$rate" \
      "${arguments[@]}" | grep -v '^#'
    awk '{ printf "CPU seconds of the process: %.2f\n", ($14 + $15) / 100 }' "/proc/$id/stat"
    kill -TERM "$id"
    wait
    sed -n 's/^in the kernel: /programs in the kernel: /p' "$folder/said"
  done
  "$here/lab.sh" down
done
