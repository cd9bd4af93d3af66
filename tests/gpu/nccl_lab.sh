#!/usr/bin/env bash
# Training steps over NCCL on one GPU: nodes are network namespaces with links of a given rate.
#
#   tests/gpu/nccl_lab.sh prepare FOLDER [BUILD]    here: collects what the GPU machine lacks
#   tests/gpu/nccl_lab.sh run FOLDER [OPTION...]    on the GPU machine, as root, with PyTorch
#
# prepare takes libhcomp_ucx.so and libhcomp_cuda.so from BUILD (default: build), with UCX, ip, tc
# and bridge, and all their libraries but libc. FOLDER takes at most 64 MiB.
#
# run tests hooks on the device, prints the host time of the hook, and one table for each of
# HCOMP_NCCL_LAB, by default "2:10gbit 2:1gbit 4:10gbit": nodes and the rate of their links.
# OPTION: of torch_steps.py in tests/bench, after its defaults here. PYTHON: one with PyTorch.
#
# Processes share the GPU in time slices of about 2 ms, which all methods pay for. If the machine
# has NVIDIA's MPS, which removes them, every table is repeated under it.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  sed -n '4,5s/^# *//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# copy_libraries FOLDER FILE: those that FILE loads, but not libc's and libgcc
copy_libraries() {
  local file
  while read -r file; do
    cp "$file" "$1"
  done < <(ldd "$2" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/lib(c|m|dl|rt|pthread|gcc_s)\.so[^/]*$')
}

prepare() {
  local folder=$1 build=${2:-$root/build} tool file
  mkdir -p "$folder/lib" "$folder/net/lib"
  for file in plugins/ucx/libhcomp_ucx.so plugins/cuda/libhcomp_cuda.so; do
    [[ -e $build/$file ]] || {
      echo "nccl_lab.sh: there is no $build/$file; cmake --build $build --target hcomp_c_ucx hcomp_cuda" >&2
      exit 1
    }
    strip -o "$folder/lib/${file##*/}" "$build/$file"
  done
  copy_libraries "$folder/lib" "$folder/lib/libhcomp_ucx.so"
  for tool in ip tc bridge; do
    file=$(PATH=$PATH:/sbin:/usr/sbin command -v "$tool") || {
      echo "nccl_lab.sh: there is no $tool; Debian's package is iproute2" >&2
      exit 1
    }
    cp "$file" "$folder/net/lib/$tool"
    copy_libraries "$folder/net/lib" "$file"
    printf '#!/bin/sh\nlib=$(dirname "$0")/lib\nLD_LIBRARY_PATH=$lib exec "$lib/%s" "$@"\n' "$tool" \
      >"$folder/net/$tool"
    chmod +x "$folder/net/$tool"
  done
  local kib
  kib=$(du -sk "$folder" | cut -f 1)
  if ((kib > 64 << 10)); then
    echo "nccl_lab.sh: $folder has $kib KiB, at most 65536 travel" >&2
    exit 1
  fi
}

# tables TITLE OPTION...
tables() {
  local title=$1 one
  shift
  for one in ${HCOMP_NCCL_LAB:-2:10gbit 2:1gbit 4:10gbit}; do
    echo
    echo "${one%%:*} nodes, ${one#*:}$title"
    "$root/tests/bench/torch_collectives.sh" --ranks "${one%%:*}" --rate "${one#*:}" --steps \
      --device cuda --values 67000000 --layers 16 --repetitions 5 \
      --methods "plain;fp16;powersgd:1;powersgd:4;group thc:bits=4;group sign;group sign_count" "$@"
  done
}

run() {
  [[ -x $1/net/ip ]] || {
    echo "nccl_lab.sh: $1 has no tools; tests/gpu/nccl_lab.sh prepare collects them" >&2
    exit 2
  }
  local folder
  folder=$(cd "$1" && pwd)
  shift
  PATH=$folder/net:$PATH:/sbin:/usr/sbin
  HCOMP_TORCH_PYTHON=$(command -v "${PYTHON:-python3}") || {
    echo "nccl_lab.sh: there is no ${PYTHON:-python3}; PYTHON names one with PyTorch" >&2
    exit 2
  }
  export PATH HCOMP_TORCH_PYTHON
  export HCOMP_GROUP_LIBRARY=$folder/lib/libhcomp_ucx.so
  export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  local device=cuda
  [[ " $* " == *" --device cpu "* ]] && device=cpu
  export PYTHONPATH=$root/plugins/python
  local status=0
  HCOMP_TEST_DEVICE=$device "$HCOMP_TORCH_PYTHON" "$root/tests/torch/on_ranks.py" 2 \
    "$root/tests/torch/device_test.py" || status=$?
  "$HCOMP_TORCH_PYTHON" "$root/tests/bench/torch_host_time.py" --device $device
  tables "" "$@"
  if command -v nvidia-cuda-mps-control >/dev/null; then
    nvidia-cuda-mps-control -d
    trap 'echo quit | nvidia-cuda-mps-control' EXIT
    tables ", MPS" "$@"
  else
    echo
    echo "MPS: not tried, there is no nvidia-cuda-mps-control"
  fi
  return $status
}

case ${1:-} in
  prepare) (($# >= 2 && $# <= 3)) || usage ;;
  run) (($# >= 2)) || usage ;;
  *) usage ;;
esac
"$@"
