#!/usr/bin/env bash
# Several sums beside a computation, on links of the lab: a table.
#
#   tests/lab/concurrent_sums.sh PROGRAM [<its arguments>]
#
# PROGRAM is bench_concurrent_sums.openmpi or .mpich of a build. These can be set:
#
#   RATE=1gbit   of all links, as lab.sh has it
#   HOSTS=2      of one rank each
#
# It needs what lab.sh needs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -x $(command -v -- "${1-}") ]] || {
  echo "usage: concurrent_sums.sh PROGRAM [ARGUMENT...] ('${1-}' is no program)" >&2
  exit 2
}
mpi=openmpi
[[ $1 != *.mpich ]] || mpi=mpich

export HCOMP_LAB=concurrent-$$
trap '"$here/lab.sh" down' EXIT
"$here/lab.sh" up --hosts "${HOSTS:-2}" --rate "${RATE:-1gbit}"
"$here/lab.sh" run "$mpi" "$@"
