#!/usr/bin/env bash
# Measures the modes of hcomp-aggregator on nodes of the lab and prints a table.
#
#   tests/lab/aggregator.sh BUILD
#
# BUILD contains plugins/hcomp-aggregator and tests/bench/bench_aggregator. Variables and their
# defaults:
#
#   RATE=1gbit           rate of all links, as in lab.sh
#   WORKERS="4 8"        numbers of workers; each has a node, the aggregator has another one
#   WINDOWS="16 32 64"   unanswered packets per worker; the table shows the fastest window
#   MODES="process generic xdp"
#   VALUES=1048576 ROUNDS=20
#
# One reduction covers the values of one packet, from all workers. CPU seconds: of the
# aggregator's process; of its programs in the kernel, including the sending of answers; of the
# whole machine, including workers. Requires what lab.sh requires; sets kernel.bpf_stats_enabled
# while it runs.
set -euo pipefail
export HCOMP_LAB=aggregator-$$
# shellcheck source=tests/lab/aggregator_host.sh
source "$(dirname "${BASH_SOURCE[0]}")/aggregator_host.sh"
command=${1-}/plugins/hcomp-aggregator
worker=${1-}/tests/bench/bench_aggregator
needs_programs aggregator.sh "$command" "$worker"
values=${VALUES:-1048576}
rounds=${ROUNDS:-20}

# CPU seconds of the machine since boot.
machine_seconds() { awk '/^cpu / { print ($2 + $3 + $4 + $7 + $8) / 100 }' /proc/stat; }

measure() {  # measure MODE WORKERS WINDOW: seconds lost process kernel machine
  local rank pid pids=() before after used
  local arguments=(--workers "$2" --window "$3" --aggregator "10.77.0.$(($2 + 1)):7475"
    --values "$values" --rounds "$rounds")
  start_aggregator "$command" "$2" "$1"
  before=$(machine_seconds)
  for ((rank = 1; rank < $2; ++rank)); do
    "$here/lab.sh" exec "$rank" "$worker" --rank "$rank" "${arguments[@]}" &
    pids+=($!)
  done
  "$here/lab.sh" exec 0 "$worker" --rank 0 "${arguments[@]}" >"$folder/time"
  for pid in "${pids[@]}"; do wait "$pid"; done
  used=$(process_seconds)
  after=$(machine_seconds)
  end_aggregator
  echo "$(<"$folder/time") $used $(kernel_programs | tr ';' '\n' | awk '{ sum += $4 } END { print sum + 0 }') $(
    awk -v a="$before" -v b="$after" 'BEGIN { print b - a }')"
}

echo "workers mode window ms_per_round reductions_per_second lost process_s kernel_s machine_s"
for workers in ${WORKERS:-4 8}; do
  "$here/lab.sh" up --hosts $((workers + 1)) --rate "${RATE:-1gbit}" >&2
  for mode in ${MODES:-process generic xdp}; do
    for window in ${WINDOWS:-16 32 64}; do
      one=$(measure "$mode" "$workers" "$window")
      echo "$window $one"
    done | sort -g -k 2 | head -1 |
      awk -v w="$workers" -v mode="$mode" -v n="$values" -v rounds="$rounds" '{
        printf "%d %s %d %.1f %.0f %d %.2f %.2f %.2f\n", w, mode, $1, $2 / rounds * 1000,
          n / 1024 * rounds / $2, $3, $4, $5, $6 }'
  done
  "$here/lab.sh" down
done
