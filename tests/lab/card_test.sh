#!/usr/bin/env bash
# shellcheck disable=SC2317  # functions are called by check and await
# card_test.sh PROGRAM: floats of marked sockets cross the links compressed by the simulated engine, and arrive
# as what the software's codec makes of them, bit for bit; all else arrives as it was.
# shellcheck source=support.sh
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"
program=$1

# exchange WAY BOUND: the program on all hosts; fails if one of them does.
exchange() {
  local ids=() rank failed=0
  for rank in 0 1 2; do
    lab exec "$rank" "$program" --rank "$rank" --hosts 3 --way "$1" --bound "$2" --values 3001 --rounds 1 \
      >/dev/null &
    ids+=($!)
  done
  for rank in "${ids[@]}"; do wait "$rank" || failed=1; done
  return $failed
}
# Column N of all cards, added.
cards() { lab bytes | awk -v n="$1" 'seen { sum += $n } /card_packets/ { seen = 1 } END { print sum + 0 }'; }
fails() { ! "$@" 2>/dev/null; }

up --hosts 3 --rate 100mbit --card 8
check "WA: floats pass" exchange wa 0
check "INC: floats pass" exchange inc 0
check "no card has compressed one of them" test "$(cards 2)" -eq 0
check "WA+C is what the software's codec makes of it" exchange wa 8
check "two hosts have sent two vectors compressed" test "$(cards 3)" -eq $((2 * 2 * 3001))
check "in fewer bytes" test "$(cards 4)" -lt $((2 * 2 * 3001 * 3))
check "INC+C is what the software's codec makes of it" exchange inc 8
check "a burst takes a cycle, and a packet a few" \
  between $(($(cards 3) / 8)) "$(cards 6)" $(($(cards 3) / 8 + $(cards 2) * 16))
check "with another bound in the software it is not" fails exchange inc 10
check "nothing was damaged" test "$(cards 5)" -eq 0
finish
