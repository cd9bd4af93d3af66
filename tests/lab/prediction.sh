#!/usr/bin/env bash
# Compares the predictions of the preloaded library's shadow mode with measured times; prints a
# table.
#
#   tests/lab/prediction.sh BUILD
#
# BUILD contains the results of:
#
#   cmake --build BUILD --target hcomp_lab_switch hcomp_lab_mpich hcomp_pmpi_openmpi \
#     hcomp_pmpi_mpich hcomp_lab_reductions.openmpi hcomp_lab_reductions.mpich
#
# On each network of the lab a program that all-reduces vectors runs without hcomp, with
# HCOMP_SHADOW, and with the rule. Variables and their defaults:
#
#   RATES="100mbit 1gbit"  HOSTS="2 4"  MPIS="openmpi mpich"
#   RULES="double:error_bounded:1e-3;double:lossless;float:thc;float:fp16;int64:lossless_integers"
#   VALUES=100000   per vector; default: the bits that a link carries in a millisecond, 1000000
#                   without a limit. Shorter all-reduces after a pause pass in the burst of a
#                   link, see lab.sh
#   CALLS=40        calls per run; SHADOW=20 calls per run in shadow mode
#   REPEAT=3        runs of each kind; their median counts
#   TABLE=file      also writes the rows to this file
#
# A row has the milliseconds per call with MPI and with the rule, predicted and measured, and the
# speed-up, predicted and measured. The last line has the largest error of a predicted speed-up;
# above 20 % the exit status is 1. The first call of a run does not count. Requires what lab.sh
# requires, and an otherwise idle machine.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${1-}
[[ -d $build/plugins ]] || {
  echo "usage: prediction.sh BUILD ('$build/plugins' is no folder)" >&2
  exit 2
}
build=$(readlink -f "$build")
read -ra rates <<<"${RATES:-100mbit 1gbit}"
read -ra hosts <<<"${HOSTS:-2 4}"
read -ra mpis <<<"${MPIS:-openmpi mpich}"
IFS=';' read -ra rules <<<"${RULES:-double:error_bounded 1e-3;double:lossless;float:thc;float:fp16;int64:lossless_integers}"
calls=${CALLS:-40}
shadow=${SHADOW:-20}
repeat=${REPEAT:-3}
export HCOMP_LAB=prediction-$$ HCOMP_LAB_TOOLS=$build/tests/lab
folder=$(mktemp -d)
trap '"$here/lab.sh" down; rm -rf "$folder"' EXIT

# values_at RATE: the bits that a link carries in a millisecond
values_at() {
  local -A kilobits=([k]=1 [m]=1000 [g]=1000000)
  if [[ $1 =~ ^([0-9]+)([kmg])bit$ ]]; then
    echo $((BASH_REMATCH[1] * kilobits[${BASH_REMATCH[2]}]))
  else
    echo 1000000
  fi
}

# run MPI HOSTS TYPE CALLS [COMMAND...]: prints the seconds per call that the program measured
run() {
  "$here/lab.sh" run "$1" -n "$2" "${@:5}" "$build/tests/lab/hcomp_lab_reductions.$1" "$3" "$values" "$4" |
    awk -v calls="$4" '/^[0-9.]+$/ { print $1 / (calls - 1) }'
}

for rate in "${rates[@]}"; do
  values=${VALUES:-$(values_at "$rate")}
  for count in "${hosts[@]}"; do
    "$here/lab.sh" up --hosts "$count" --rate "$rate" >&2
    for mpi in "${mpis[@]}"; do
      # Preloaded after the lab's own library, which MPICH needs.
      # shellcheck disable=SC2016  # for the inner shell
      with=(bash -c 'LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$0 exec "$@"'
        "$build/plugins/$mpi/libhcomp_pmpi.so" env)
      for rule in "${rules[@]}"; do
        type=${rule%%:*}
        : >"$folder/off"
        : >"$folder/on"
        rm -f "$folder"/report*.json
        for ((k = 0; k < repeat; ++k)); do
          run "$mpi" "$count" "$type" "$calls" >>"$folder/off"
          run "$mpi" "$count" "$type" "$shadow" "${with[@]}" "HCOMP_CONFIG=$rule" "HCOMP_SHADOW=$shadow" \
            "HCOMP_REPORT=json:$folder/report$k.json" >/dev/null 2>>"$folder/said"
          run "$mpi" "$count" "$type" "$calls" "${with[@]}" "HCOMP_CONFIG=$rule" >>"$folder/on"
        done
        python3 "$here/prediction.py" row "$rate, $count nodes" "$mpi" "$rule" "$folder"
      done
    done
    "$here/lab.sh" down
  done
done | tee "${TABLE:-/dev/null}" | python3 "$here/prediction.py" table
