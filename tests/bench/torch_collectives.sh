#!/usr/bin/env bash
# Runs torch_collectives.py on nodes of a lab with links of a given rate, or on this machine only.
#
#   tests/bench/torch_collectives.sh [--rate RATE] [--delay DELAY] [--ranks N] [--steps] [OPTIONS]
#
# OPTIONS: of torch_collectives.py, or with --steps of torch_steps.py. RATE, DELAY: as in
# tests/lab/lab.sh, e.g. 1gbit, 1ms; rate "none": no lab, N processes on this machine. N: default 4.
# Requires PyTorch (tests/torch/setup.sh), a build of hcomp_c_ucx, and root for a lab.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
python=${HCOMP_TORCH_PYTHON:-$top/build/torch/bin/python}
rate=1gbit
ranks=4
delay=()
program=torch_collectives.py steps=()
rest=()
while [[ $# -gt 0 ]]; do
  case $1 in
    --help | -h) sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --rate) rate=$2; shift 2 ;;
    --delay) delay=(--delay "$2"); shift 2 ;;
    --ranks) ranks=$2; shift 2 ;;
    --steps) program=torch_steps.py steps=(--steps); shift ;;
    *) rest+=("$1"); shift ;;
  esac
done
[[ -x $python ]] || { echo "torch_collectives.sh: $python does not exist; run tests/torch/setup.sh" >&2; exit 1; }
# Ranks on one GPU are nodes of their own for NCCL.
export NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1 NCCL_IB_DISABLE=1
export PYTHONPATH=$top/plugins/python OMP_NUM_THREADS=1 WORLD_SIZE=$ranks MASTER_PORT=29517
if [[ $rate == none ]]; then
  export MASTER_ADDR=127.0.0.1
  on() { shift; "$@"; }
elif [[ ${HCOMP_LAB:-} == torch_collectives ]]; then
  export MASTER_ADDR=10.77.0.1 GLOO_SOCKET_IFNAME=eth0
  export NCCL_SOCKET_IFNAME=eth0
  on() { "$top/tests/lab/lab.sh" exec "$@"; }
else
  HCOMP_LAB=torch_collectives exec "$top/tests/lab/lab.sh" with --hosts "$ranks" --rate "$rate" "${delay[@]}" -- \
    "${BASH_SOURCE[0]}" --rate "$rate" --ranks "$ranks" "${steps[@]}" "${rest[@]}"
fi
case $rate in
  *gbit) mbit=$(awk "BEGIN { print ${rate%gbit} * 1000 }") ;;
  *mbit) mbit=${rate%mbit} ;;
  *) mbit=0 ;;
esac
for ((rank = 1; rank < ranks; ++rank)); do
  on "$rank" env RANK="$rank" NCCL_HOSTID="node$rank" "$python" "$top/tests/bench/$program" --mbit "$mbit" "${rest[@]}" &
done
on 0 env RANK=0 NCCL_HOSTID=node0 "$python" "$top/tests/bench/$program" --mbit "$mbit" "${rest[@]}"
wait
