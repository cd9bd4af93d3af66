#!/usr/bin/env bash
# hcomp-aggregator in its modes, on hosts of the lab: a table.
#
#   tests/lab/aggregator.sh BUILD
#
# BUILD has plugins/hcomp-aggregator and tests/bench/bench_aggregator. These can be set:
#
#   RATE=1gbit           of all links, as lab.sh has it
#   WORKERS="4 8"        a host for each, and one for the aggregator
#   WINDOWS="16 32 64"   packets of a worker without an answer: the fastest is in the table
#   MODES="process generic xdp"
#   VALUES=1048576 ROUNDS=20
#
# A sum is that of one packet's values, of all workers. CPU seconds: of the aggregator's process, of the
# programs in the kernel with the sending of what they answer, and of the whole machine, workers
# included. It needs what lab.sh needs, and sets kernel.bpf_stats_enabled for its time.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
command=${1-}/plugins/hcomp-aggregator
worker=${1-}/tests/bench/bench_aggregator
for program in "$command" "$worker"; do
  [[ -x $program ]] || {
    echo "usage: aggregator.sh BUILD (there is no program '$program')" >&2
    exit 2
  }
done
values=${VALUES:-1048576}
rounds=${ROUNDS:-20}
export HCOMP_LAB=aggregator-$$
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

# CPU seconds so far: of the machine, of a process.
machine_seconds() { awk '/^cpu / { print ($2 + $3 + $4 + $7 + $8) / 100 }' /proc/stat; }
process_seconds() { awk '{ print ($14 + $15) / 100 }' "/proc/$1/stat"; }
difference() { awk -v a="$1" -v b="$2" 'BEGIN { print b - a }'; }

measure() {  # measure MODE WORKERS WINDOW: seconds lost process kernel machine
  local options=() rank id pid pids=() start used
  case $1 in
    process) ;;
    generic) options=(--mode xdp --interface eth0 --generic) ;;
    xdp) options=(--mode xdp --interface eth0) ;;
  esac
  : >"$folder/said"
  "$here/lab.sh" exec "$2" "$command" "${options[@]}" >"$folder/said" &
  id=$!
  until grep -q listens "$folder/said"; do sleep 0.05; done
  # The command is below the one that enters the lab.
  until grep -q '^hcomp-aggregato$' "/proc/$id/comm"; do id=$(pgrep -P "$id"); done
  start=$(machine_seconds)
  for ((rank = 1; rank < $2; ++rank)); do
    "$here/lab.sh" exec "$rank" "$worker" --rank "$rank" --workers "$2" --window "$3" \
      --aggregator "10.77.0.$(($2 + 1)):7475" --values "$values" --rounds "$rounds" &
    pids+=($!)
  done
  "$here/lab.sh" exec 0 "$worker" --rank 0 --workers "$2" --window "$3" \
    --aggregator "10.77.0.$(($2 + 1)):7475" --values "$values" --rounds "$rounds" >"$folder/time"
  for pid in "${pids[@]}"; do wait "$pid"; done
  used=$(process_seconds "$id")
  start=$(difference "$start" "$(machine_seconds)")
  kill -TERM "$id"
  wait
  echo "$(<"$folder/time") $used $(sed -n 's/^in the kernel: //p' "$folder/said" | tr ';' '\n' |
    awk '{ sum += $4 } END { print sum + 0 }') $start"
}

echo "workers mode window ms_per_round sums_per_second lost process_s kernel_s machine_s"
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
