#!/usr/bin/env bash
# Measures concurrent nonblocking all-reduces, overlapped with computation, on links of the lab;
# prints a table.
#
#   tests/lab/concurrent_reductions.sh PROGRAM [<its arguments>]
#
# PROGRAM is bench_concurrent_reductions.openmpi or .mpich of a build. Variables and their defaults:
#
#   RATE=1gbit   rate of all links, as in lab.sh
#   HOSTS=2      nodes, one rank each
#
# Requires what lab.sh requires.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -x $(command -v -- "${1-}") ]] || {
  echo "usage: concurrent_reductions.sh PROGRAM [ARGUMENT...] ('${1-}' is no program)" >&2
  exit 2
}
mpi=openmpi
[[ $1 != *.mpich ]] || mpi=mpich

export HCOMP_LAB=concurrent-$$
trap '"$here/lab.sh" down' EXIT
"$here/lab.sh" up --hosts "${HOSTS:-2}" --rate "${RATE:-1gbit}"
"$here/lab.sh" run "$mpi" "$@"
