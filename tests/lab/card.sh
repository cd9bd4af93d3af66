#!/usr/bin/env bash
# The four systems of INCEPTIONN's paper in a lab whose hosts have cards with its engine, simulated: a table.
#
#   tests/lab/card.sh TOOLS PROGRAM
#
# TOOLS is where lab.sh finds switch and libhcomp_lab_card.so, PROGRAM is hcomp_lab_card_exchange. These can be
# set:
#
#   HOSTS=4 RATE=10mbit BOUND=10 VALUES=100000 ROUNDS=2
#
# WA: one host adds what all send, and answers; INC: a ring; C: gradients are compressed by the cards. Programs
# send floats by TCP; with C their sockets have the type of service 0x28. Every result is compared with that of
# the software's codec in the same places, bit for bit. Bits are those of a value that has left a compressor,
# cycles those of the clock per 8 values, there and in the decompressor. The model, on a processor, is slower than
# a link of 100 Mbit/s: choose a RATE that it keeps up with.
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

measure() {  # measure NAME WAY BOUND
  local pids=() rank folder
  folder=$(mktemp -d)
  # A card counts from its lab's beginning.
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
