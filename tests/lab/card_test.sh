#!/usr/bin/env bash
# shellcheck disable=SC2317  # functions are called by check and await
# card_test.sh PROGRAM: the simulated engine compresses the floats of marked sockets on the links;
# the received values are bit-identical to the result of the software codec. All other packets
# arrive unchanged.
# shellcheck source=support.sh
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"
program=$1

# exchange ALGORITHM BOUND: runs the program on all nodes; fails if one of them fails.
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
# Sum of column N over all cards.
cards() { lab bytes | awk -v n="$1" 'seen { sum += $n } /card_packets/ { seen = 1 } END { print sum + 0 }'; }
fails() { ! "$@" 2>/dev/null; }

up --hosts 3 --rate 100mbit --card 8
check "WA: floats arrive unchanged" exchange wa 0
check "INC: floats arrive unchanged" exchange inc 0
check "no card has compressed a packet" test "$(cards 2)" -eq 0
check "WA+C is bit-identical to the software codec" exchange wa 8
check "two nodes have sent two compressed vectors each" test "$(cards 3)" -eq $((2 * 2 * 3001))
check "compressed vectors have fewer bytes" test "$(cards 4)" -lt $((2 * 2 * 3001 * 3))
check "INC+C is bit-identical to the software codec" exchange inc 8
check "a burst takes one cycle, a packet at most 16 more" \
  between $(($(cards 3) / 8)) "$(cards 6)" $(($(cards 3) / 8 + $(cards 2) * 16))
check "another bound in the software codec gives another result" fails exchange inc 10
check "nothing was damaged" test "$(cards 5)" -eq 0
finish
