#!/usr/bin/env bash
# Installs the packages that hcomp needs on Debian 12, those of one set:
#
#   cmake/setup.sh user      to build, install and use hcomp: C++, C, Fortran, Python, Open MPI,
#                            MPICH, UCX
#   cmake/setup.sh main      for examples/run.sh
#   cmake/setup.sh lammps    main, and for examples/lammps/run.sh
#   cmake/setup.sh torch     main, and for examples/torch/run.sh
#   cmake/setup.sh tests     user and torch, and for tests/run.sh
#   cmake/setup.sh full      tests, and for tests/run.sh --full and --sanitizers, tests/scale/run.sh
#   cmake/setup.sh all       full, and for tests/run.sh --torch
set -euo pipefail

base=(
  g++ cmake ninja-build pkg-config              # build
  libopenmpi-dev openmpi-bin libucx-dev         # communication
  nlohmann-json3-dev libfmt-dev libcli11-dev    # what libraries and programs include
)
user=(
  make                                          # for cmake and pip without Ninja
  libmpich-dev mpich                            # the second MPI
  gfortran python3-mpi4py python3-numpy         # the other languages
  python3-setuptools python3-wheel              # the Python package
  file dpkg-dev                                 # Debian packages of hcomp
)
main=(
  libeigen3-dev zlib1g-dev                      # the training job
  python3-matplotlib dataset-fashion-mnist      # what it draws and learns
)
lammps=(
  lammps iproute2 python3-minimal               # emulated nodes, and a table of what they did
)
torch=(
  python3-venv                                  # PyTorch comes from PyPI
)
tests=(
  doctest-dev
  clang-format-14                               # architecture.check_format
  iproute2                                      # network namespaces
  doxygen help2man                              # the API reference, manual pages
  environment-modules                           # loads the modulefile
  libbpf-dev                                    # the aggregator in the kernel
)
full=(
  clang-14 libclang-rt-14-dev                   # sanitizers, fuzzing
  libbenchmark-dev libzfp-dev                   # benchmarks, and a peer
  iperf3 iputils-ping                           # measure emulated networks
  libsimgrid-dev                                # simulated clusters
  lammps                                        # an application that knows nothing of hcomp
  verilator yosys                               # INCEPTIONN's engine: simulated, proven
)
all=(
  python3-torch                                 # Debian's older PyTorch
)

case "${1-}" in
  user) wanted=("${base[@]}" "${user[@]}") ;;
  main) wanted=("${base[@]}" "${main[@]}") ;;
  lammps) wanted=("${base[@]}" "${main[@]}" "${lammps[@]}") ;;
  torch) wanted=("${base[@]}" "${main[@]}" "${torch[@]}") ;;
  tests) wanted=("${base[@]}" "${user[@]}" "${main[@]}" "${torch[@]}" "${tests[@]}") ;;
  full) wanted=("${base[@]}" "${user[@]}" "${main[@]}" "${torch[@]}" "${tests[@]}" "${full[@]}") ;;
  all) wanted=("${base[@]}" "${user[@]}" "${main[@]}" "${torch[@]}" "${tests[@]}" "${full[@]}" "${all[@]}") ;;
  *)
    echo "usage: cmake/setup.sh user|main|lammps|torch|tests|full|all (was called with '${1-}')" >&2
    exit 2
    ;;
esac

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "setup: this system has no apt-get. Install what these Debian packages hold, then go on by hand:" >&2
  echo "  ${wanted[*]}" >&2
  exit 1
fi

missing=()
for package in "${wanted[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == *installed* && $status != *not-installed* ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: all ${#wanted[@]} packages for '$1' are installed"
  exit 0
fi

as_root=()
if ((EUID != 0)); then
  if ! command -v sudo >/dev/null; then
    echo "setup: ${#missing[@]} packages are missing, and installing them needs root or sudo:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi

echo "setup: installing ${#missing[@]} of ${#wanted[@]} packages for '$1': ${missing[*]}"
log=$(mktemp)
# shellcheck source=progress.sh
source "$(dirname "${BASH_SOURCE[0]}")/progress.sh"
trap 'stop_ticker; rm -f "$log"' EXIT
# shellcheck disable=SC2317  # progress.sh calls it
progress_text() { grep -cE '^(Get|Unpacking|Setting up)' "$log" | sed 's/$/ packages fetched, unpacked or set up/'; }
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >>"$log" 2>&1 </dev/null || {
    echo "setup: apt-get $1 failed:" >&2
    tail -n 30 "$log" >&2
    exit 1
  }
}
show_progress apt update
show_progress apt install --no-install-recommends "${missing[@]}"
echo "setup: done"
