#!/usr/bin/env bash
# nccl_lab_test.sh BUILD PYTHON
#
# Tests nccl_lab.sh without a GPU: the collected tools make a lab, in which steps run over Gloo.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# expect TEXT: in the output of the last command
expect() {
  grep -qE -- "$1" "$scratch/said" && return
  echo "FAILED: it should say: $1" >&2
  cat "$scratch/said" >&2
  exit 1
}

"$here/nccl_lab.sh" run "$scratch/none" 2>"$scratch/said" && exit 1
expect "none has no tools; tests/gpu/nccl_lab.sh prepare collects them"
"$here/nccl_lab.sh" prepare "$scratch/none" "$scratch" 2>"$scratch/said" && exit 1
expect "there is no $scratch/plugins/ucx/libhcomp_ucx.so"

"$here/nccl_lab.sh" prepare "$scratch/folder" "$1"
HCOMP_NCCL_LAB=2:1gbit PYTHON=$2 "$here/nccl_lab.sh" run "$scratch/folder" --device cpu --values 100000 \
  --layers 2 --repetitions 1 --methods "plain;group thc:bits=4" >"$scratch/said"
expect "3 tests of hooks on cpu on 2 ranks"
expect "parameters  us per bucket"
expect "2 nodes, 1gbit"
expect "group thc:bits=4 +[0-9.]+ +[0-9.]+ +0.0[0-9]+ +0.1"
expect "2 ranks, PyTorch .*, cpu"
expect "MPS"
