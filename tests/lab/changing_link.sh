#!/usr/bin/env bash
# On links that change, an automatic_plan beside fixed codecs, or sums by the drop-in library's rules with
# when=faster beside plain ones: a table, and figures.
#
#   tests/lab/changing_link.sh PROGRAM [<its arguments>]
#
# PROGRAM is bench_changing_link.openmpi or .mpich of a build, or bench_drop_in.openmpi or .mpich, with the
# argument quicker and with PRELOAD. These can be set:
#
#   RATES="10mbit none 1gbit 100mbit none 10mbit 1gbit none"   of all links, one after the other
#   EACH=6                                                     seconds of each
#   HOSTS=4
#   PRELOAD=file                                               the libhcomp_pmpi.so of the same MPI
#
# It needs what lab.sh needs.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ -x $(command -v -- "${1-}") ]] || {
  echo "usage: changing_link.sh PROGRAM [ARGUMENT...] ('${1-}' is no program)" >&2
  exit 2
}
read -ra rates <<<"${RATES:-10mbit none 1gbit 100mbit none 10mbit 1gbit none}"
each=${EACH:-6}
[[ $each =~ ^[1-9][0-9]{0,4}$ && ${#rates[@]} -gt 0 ]] || {
  echo "changing_link.sh: EACH is '$each', which takes whole seconds, and RATES '${RATES-}', which takes rates of lab.sh" >&2
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
# Behind the lab's own library, which MPICH needs.
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
