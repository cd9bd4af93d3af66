#!/usr/bin/env bash
# Groups of the Python package whose ranks are on two hosts, several on each: exact sums, bytes that cross
# the links, and a rank that dies.
#
#   groups_of_hosts_test.sh <python with numpy> <groups_of_hosts.py>
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

ranks=5
up --hosts 2 --rate none
places=$(mktemp -d)

# run_ranks WHAT: rank r on host r modulo 2
run_ranks() {
  local rank pids=() status=0
  for ((rank = 0; rank < ranks; ++rank)); do
    lab exec "$((rank % 2))" "$python" "$program" "$1" "$rank" "$ranks" "$places/$1" &
    pids+=($!)
  done
  for rank in "${!pids[@]}"; do wait "${pids[$rank]}" || status=1; done
  return "$status"
}

python=$1 program=$2
check "exact sums, and who sends them" run_ranks sums
check "a rank that dies is named" run_ranks death
rm -r "$places"
finish
