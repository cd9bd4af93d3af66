#!/usr/bin/env bash
# Runs hcomp in the environments that nodes and programs have, and prints a line for each.
#
#   tests/lab/environments.sh BUILD [ENVIRONMENT...]     e.g. build-tests docker0 fork
#
# BUILD is a build folder with hcomp_c_ucx. `rounding` and `spawn` also need hcomp_pmpi_openmpi,
# pmpi_beside.openmpi and test_c_api.jobs.openmpi. Without names: all environments, in half a
# minute. PYTHON is a Python with numpy (/usr/bin/python3).
#
# An environment passes, or hcomp refuses it: each rank that fails prints one sentence, apart from
# log lines of UCX. Only the environments of `refusable` may be refused. Exit status: 0; 1 if an
# environment fails; 77 where no lab can run.
# shellcheck disable=SC2317  # the loop below calls all functions
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

build=$(readlink -f "${1:?a build folder}")
shift
python=${PYTHON:-/usr/bin/python3}
environments=(docker0 bridge two_networks ipv6 link_local_ipv4 link_local_ipv6 no_network small_shm
  open_files one_core suspended rounding locale fork spawn)
refusable=(link_local_ipv6 no_network)
(($# == 0)) || environments=("$@")
export HCOMP_GROUP_LIBRARY=$build/plugins/ucx/libhcomp_ucx.so PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$here/../../plugins/python
preload=$build/plugins/openmpi/libhcomp_pmpi.so
work=$(mktemp -d)
trap 'leave; rm -r "$work"' EXIT

# ---- Programs ------------------------------------------------------------------------------------
# start_ranks WHAT HOST...: a rank of environments.py per HOST, with ${prefix[@]} before each
prefix=()
pids=()
start_ranks() {
  local what=$1 rank=0 host
  shift
  pids=()
  for host in "$@"; do
    lab exec "$host" "${prefix[@]}" timeout 60 "$python" "$here/environments.py" "$what" "$rank" $# \
      "$work/group" >"$work/said$rank" 2>&1 &
    pids+=($!)
    rank=$((rank + 1))
  done
}
# wait_for_ranks: 0; 3 if each rank that failed printed one sentence; otherwise 1
wait_for_ranks() {
  local rank status worst=0
  for rank in "${!pids[@]}"; do
    status=0
    wait "${pids[$rank]}" || status=$?
    ((status == 0)) && continue
    if ((status == 3)) && [[ $(grep -cv ' UCX  ' "$work/said$rank") == 1 ]]; then
      ((worst == 1)) || worst=3
    else
      worst=1
    fi
  done
  return "$worst"
}
ranks_on() { start_ranks "$@" && wait_for_ranks; }

# mpi RANKS PROGRAM...: by Open MPI on one node
mpi() {
  [[ -e $2 ]] || exit 77
  lab exec 0 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 \
    OMPI_MCA_mpi_yield_when_idle=1 mpirun.openmpi --oversubscribe --bind-to none -x LD_PRELOAD="$preload" \
    -x HCOMP_CONFIG -np "$@" >"$work/said0" 2>&1
}

# ---- Networks ------------------------------------------------------------------------------------
on_both() {  # on_both COMMAND...: in a shell on both nodes; $h is the number of the node
  local h
  for h in 0 1; do lab exec "$h" env h="$h" sh -ec "$*" || return 1; done
}
docker0() {  # with a container that is up
  # shellcheck disable=SC2016
  on_both 'ip link add docker0 type bridge; ip address add 172.17.0.1/16 dev docker0
    ip link set docker0 up; ip link add veth1 type veth peer name veth2
    ip link set veth1 master docker0 up; ip link set veth2 up' &&
    ranks_on sums 0 1
}
bridge() {  # the same address on both nodes, by any name
  # shellcheck disable=SC2016
  on_both 'ip link add aaa0 type bridge; ip address add 192.168.9.1/24 dev aaa0
    ip link set aaa0 up; ip link add aaa1 type veth peer name aaa2
    ip link set aaa1 master aaa0 up; ip link set aaa2 up' &&
    ranks_on sums 0 1
}
two_networks() {  # the second one does not reach the other node
  # shellcheck disable=SC2016
  on_both 'ip link add aaa0 type veth peer name aaa1; ip link set aaa1 up
    ip address add 192.168.$((50 + h)).1/24 dev aaa0; ip link set aaa0 up' &&
    ranks_on sums 0 1
}
ipv6() {
  # shellcheck disable=SC2016
  on_both 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip address flush dev eth0
    ip -6 address add fd77::$((1 + h))/64 dev eth0 nodad' &&
    ranks_on sums 0 1
}
link_local_ipv4() {
  # shellcheck disable=SC2016
  on_both 'ip address flush dev eth0; ip address add 169.254.0.$((1 + h))/16 dev eth0' &&
    ranks_on sums 0 1
}
link_local_ipv6() {
  # shellcheck disable=SC2016
  on_both 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6; ip address flush dev eth0
    ip -6 address add fe80::$((1 + h))/64 dev eth0 nodad' &&
    ranks_on sums 0 1
}
no_network() {
  on_both 'ip address flush dev eth0' &&
    ranks_on sums 0 1
}

# ---- Nodes and programs --------------------------------------------------------------------------
small_shm() {  # 16 ranks on a node
  local hosts
  printf -v hosts '%16s' ''
  # shellcheck disable=SC2086
  lab exec 0 mount -o remount,size=64m /dev/shm &&
    ranks_on sums ${hosts// / 0}
}
open_files() {
  prefix=(sh -c 'ulimit -n 64; exec "$@"' -)
  ranks_on sums 0 0 1
}
one_core() {
  prefix=(taskset -c 0)
  ranks_on sums 0 0 1
}
suspended() {  # all ranks, for longer than their time limit
  local signal rank
  start_ranks suspended 0 0 1
  for rank in 0 1 2; do await grep -q . "$work/group/ready$rank" || return 1; done
  for signal in STOP CONT; do
    # shellcheck disable=SC2046
    lab exec 0 kill "-$signal" $(cat "$work"/group/ready?)
    [[ $signal == CONT ]] || sleep 5
  done
  touch "$work/group/stop"
  wait_for_ranks
}
rounding() {  # rank 1 rounds upwards and flushes denormals, the last rank traps errors
  local codec
  for codec in identity reproducible error_bounded:1e-4 sign thc; do
    export HCOMP_CONFIG="all: $codec min=0"
    mpi 3 "$build/tests/pmpi/pmpi_beside.openmpi" environment || return 1
  done
}
locale() {  # 1,5 is a number
  localedef -i de_DE -f UTF-8 "$work/de_DE.UTF-8" 2>"$work/said0" || return 77
  prefix=(env LOCPATH="$work" LC_ALL=de_DE.UTF-8)
  ranks_on sums 0 1
}
fork() { ranks_on fork 0 1; }
spawn() {
  preload="" mpi 2 "$build/tests/c_api/test_c_api.jobs.openmpi" || return 1
  export HCOMP_CONFIG="all: identity min=0"
  mpi 2 "$build/tests/pmpi/pmpi_beside.openmpi" jobs
}

# ---- All environments ----------------------------------------------------------------------------
for environment in "${environments[@]}"; do
  up --hosts 2 --rate none >"$work/up"
  mkdir "$work/group"
  status=0
  (
    trap - EXIT
    "$environment"
  ) || status=$?
  word=FAILS
  if ((status == 0)); then
    word=passes
  elif ((status == 77)); then
    word=skipped
  elif ((status == 3)) && [[ " ${refusable[*]} " == *" $environment "* ]]; then
    word=refused
  else
    failures=$((failures + 1))
  fi
  printf '%-8s %s\n' "$word" "$environment"
  ((status == 0)) || cat "$work"/said* 2>/dev/null | grep -v ' UCX  ' | sed -n '1,20s/^/         /p'
  lab down
  rm -rf "$work/group" "$work"/said*
done
finish
