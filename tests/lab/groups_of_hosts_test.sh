#!/usr/bin/env bash
# Groups of the Python package with several ranks on each of two nodes: exact all-reduce, bytes on
# the links, and a rank that fails.
#
#   groups_of_hosts_test.sh <python with numpy> <groups_of_hosts.py>
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

up --hosts 2 --rate none
places=$(mktemp -d)

# run_ranks WHAT HOST...: starts one rank per HOST
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
check "exact all-reduce, and which ranks send" run_ranks sums 0 1 0 1 0
check "compressed all-reduce, and which ranks send" run_ranks codecs 0 1 0 1 0
check "shards of ranks that are placed in blocks" run_ranks blocks 0 0 1 1
check "errors name the failed rank" run_ranks death 0 1 0 1 0
rm -r "$places"
finish
