#!/usr/bin/env bash
# Groups of the Python package whose ranks are on two hosts, several on each: exact sums, bytes that cross
# the links, and a rank that dies.
#
#   groups_of_hosts_test.sh <python with numpy> <groups_of_hosts.py>
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

up --hosts 2 --rate none
places=$(mktemp -d)

# run_ranks WHAT HOST...: a rank on every host that is named
run_ranks() {
  local what=$1 rank=0 host pids=() status=0
  shift
  for host in "$@"; do
    lab exec "$host" "$python" "$program" "$what" "$rank" $# "$places/$what" &
    pids+=($!)
    rank=$((rank + 1))
  done
  for rank in "${!pids[@]}"; do wait "${pids[$rank]}" || status=1; done
  return "$status"
}

python=$1 program=$2
check "exact sums, and who sends them" run_ranks sums 0 1 0 1 0
check "sums by codecs, and who sends them" run_ranks codecs 0 1 0 1 0
check "parts of ranks in blocks of hosts" run_ranks blocks 0 0 1 1
check "a rank that dies is named" run_ranks death 0 1 0 1 0
rm -r "$places"
finish
