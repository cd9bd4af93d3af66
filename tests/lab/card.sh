#!/usr/bin/env bash
# Measures the four systems of the INCEPTIONN paper in a lab whose nodes have simulated network
# cards with INCEPTIONN's engine, and prints a table.
#
#   tests/lab/card.sh TOOLS PROGRAM
#
# TOOLS contains switch and libhcomp_lab_card.so; PROGRAM is hcomp_lab_card_exchange. Variables
# and their defaults:
#
#   HOSTS=4 RATE=10mbit BOUND=10 VALUES=100000 ROUNDS=2
#
# WA: one node adds and answers; INC: a ring; +C: the cards compress gradients. Programs send
# floats over TCP; with +C their sockets have the type of service 0x28. Every result is compared
# bit for bit with the result of the software codec applied at the same places.
#
# The columns are milliseconds, packets, bits per compressed value, and clock cycles per 8 values
# in the compressor and in the decompressor. The simulation is slower than a link of 100 Mbit/s:
# choose a RATE that it reaches.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
(($# == 2)) || {
  echo "usage: card.sh TOOLS PROGRAM" >&2
  exit 2
}
export HCOMP_LAB=card-$$ HCOMP_LAB_TOOLS=$1
hosts=${HOSTS:-4}
values=${VALUES:-100000}
bound=${BOUND:-10}
trap '"$here/lab.sh" down' EXIT

measure() {  # measure NAME ALGORITHM BOUND
  local pids=() rank folder
  folder=$(mktemp -d)
  # Cards count from the creation of the lab: a new lab for every measurement.
  "$here/lab.sh" up --hosts "$hosts" --rate "${RATE:-10mbit}" --card "$bound" >/dev/null
  for ((rank = 0; rank < hosts; ++rank)); do
    "$here/lab.sh" exec "$rank" "$program" --rank "$rank" --hosts "$hosts" --way "$2" --bound "$3" \
      --values "$values" --rounds "${ROUNDS:-2}" >"$folder/$rank" &
    pids+=($!)
  done
  for rank in "${pids[@]}"; do wait "$rank"; done
  "$here/lab.sh" bytes | awk -v name="$1" -v ms="$(<"$folder/0")" '
    cards { packets += $2; values += $3; bytes += $4; damaged += $5; in_ += $6; out += $7 }
    /card_packets/ { cards = 1 }
    END {
      printf "%-6s %8.1f %8d %8.2f %8.2f %8.2f\n", name, ms, packets, values ? 8 * bytes / values : 0,
        values ? 8 * in_ / values : 0, values ? 8 * out / values : 0
      exit damaged > 0
    }'
  "$here/lab.sh" down
  rm -rf "$folder"
}

program=$2
echo "system       ms  packets     bits   cycles   cycles"
measure WA wa 0
measure WA+C wa "$bound"
measure INC inc 0
measure INC+C inc "$bound"
