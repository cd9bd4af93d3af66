#!/usr/bin/env bash
# Measures adaptation to links whose rate changes and prints a table: an automatic_plan beside
# fixed codecs, or the preloaded library's when=faster beside MPI's own all-reduce.
#
#   tests/lab/changing_link.sh PROGRAM [<its arguments>]
#
# PROGRAM is bench_changing_link.openmpi or .mpich of a build; or, with PRELOAD,
# bench_drop_in.openmpi or .mpich with the argument `faster`. Variables and their defaults:
#
#   RATES="10mbit none 1gbit 100mbit none 10mbit 1gbit none"   rates of all links in turn
#   EACH=6                                                     seconds per rate
#   HOSTS=4                                                    nodes
#   PRELOAD=file                                               libhcomp_pmpi.so of the same MPI
#
# Requires what lab.sh requires.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -x $(command -v -- "${1-}") ]] || {
  echo "usage: changing_link.sh PROGRAM [ARGUMENT...] ('${1-}' is no program)" >&2
  exit 2
}
read -ra rates <<<"${RATES:-10mbit none 1gbit 100mbit none 10mbit 1gbit none}"
each=${EACH:-6}
[[ $each =~ ^[1-9][0-9]{0,4}$ && ${#rates[@]} -gt 0 ]] || {
  echo "changing_link.sh: EACH is '$each' and RATES '${RATES-}'; EACH takes seconds, 1 to 99999, RATES rates of lab.sh" >&2
  exit 2
}
mpi=openmpi
[[ $1 != *.mpich ]] || mpi=mpich

export HCOMP_LAB=changing-$$
folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; "$here/lab.sh" down; rm -rf "$folder"' EXIT
"$here/lab.sh" up --hosts "${HOSTS:-4}" --rate "${rates[0]}"
echo "${rates[0]}" >"$folder/rate"
command=("$@")
# Preloaded after the lab's own library, which MPICH needs.
# shellcheck disable=SC2016  # for the inner shell
[[ -z ${PRELOAD-} ]] ||
  command=(bash -c 'LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$0 exec "$@"' "$PRELOAD" "$@")
"$here/lab.sh" run "$mpi" "${command[@]}" --seconds $((each * ${#rates[@]})) \
  --rate-file "$folder/rate" &
for rate in "${rates[@]:1}"; do
  for ((i = 0; i < 10 * each; i++)); do
    kill -0 %1 2>/dev/null || wait %1
    sleep 0.1
  done
  echo - >"$folder/rate"
  "$here/lab.sh" rate "$rate"
  echo "$rate" >"$folder/rate"
done
wait %1
