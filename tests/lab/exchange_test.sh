#!/usr/bin/env bash
# shellcheck disable=SC2317  # functions are called by check and await
# exchange_test.sh openmpi|mpich PROGRAM mpi|ucx: ranks run on the nodes assigned to them, and
# their messages cross the links exactly once, not through shared memory.
# shellcheck source=support.sh
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"
mpi=$1
program=$2
transport=$3
bytes=20000000

# Bytes sent and bytes received, per node.
counted() { lab bytes | awk 'NR > 1 { print $2; print $3 }'; }

up --hosts 4 --rate 1gbit
before=$(counted)
said=$(lab run "$mpi" "$program" "$transport" $bytes | sort) || echo "status $?"
check "4 ranks are on 4 nodes" test "$said" = "$(
  for i in 0 1 2 3; do echo "rank $i of 4 on host$i"; done
)"
after=$(counted)
while read -r was is; do
  # The 2 % are headers, acknowledgements, and traffic of the launcher.
  check "$((is - was)) bytes in one direction of a link are $bytes plus at most 2 %" \
    between $bytes $((is - was)) $((bytes + bytes / 50))
done < <(paste <(echo "$before") <(echo "$after"))

said=$(lab run "$mpi" -n 6 "$program" "$transport" 1000 | sort) || echo "status $?"
check "6 ranks are assigned to 4 nodes round-robin" test "$said" = "$(
  for i in 0 1 2 3 4 5; do echo "rank $i of 6 on host$((i % 4))"; done
)"
finish
