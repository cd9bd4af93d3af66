#!/usr/bin/env bash
# Installs what hcomp needs on Debian 12. Quick when nothing is missing.
#
#   cmake/setup.sh main      what examples/run.sh needs
#   cmake/setup.sh lammps    that and what examples/lammps/run.sh needs
#   cmake/setup.sh torch     that of main and what examples/torch/run.sh needs
#   cmake/setup.sh tests     that and what tests/run.sh needs
#   cmake/setup.sh all       that and what tests/run.sh --torch needs
set -euo pipefail

main=(
  g++ cmake ninja-build pkg-config              # build
  libopenmpi-dev openmpi-bin libucx-dev         # communication
  libeigen3-dev libcli11-dev nlohmann-json3-dev libfmt-dev zlib1g-dev libzfp-dev  # the examples
  python3-matplotlib dataset-fashion-mnist      # what the main job draws and learns
)
lammps=(
  lammps iproute2 python3-minimal               # emulated hosts, and a table of what they did
)
torch=(
  python3-venv                                  # PyTorch comes from PyPI
)
tests=(
  clang-14 libclang-rt-14-dev                   # the second compiler
  libmpich-dev mpich                            # the second MPI
  doctest-dev libbenchmark-dev
  iproute2 iperf3 iputils-ping                  # emulated networks, and what measures them
  libsimgrid-dev                                # simulated clusters
  gfortran python3-mpi4py python3-numpy         # the other languages
  python3-setuptools python3-wheel              # the Python package
  doxygen help2man                              # the API reference, manual pages
  environment-modules                           # loads the modulefile
  lammps                                        # an application that knows nothing of hcomp
  verilator yosys                               # INCEPTIONN's engine: simulated, proven
  libbpf-dev                                    # the aggregator in the kernel
)
all=(
  python3-torch                                 # Debian's older PyTorch
)

case "${1-}" in
  main) wanted=("${main[@]}") ;;
  lammps) wanted=("${main[@]}" "${lammps[@]}") ;;
  torch) wanted=("${main[@]}" "${torch[@]}") ;;
  tests) wanted=("${main[@]}" "${torch[@]}" "${tests[@]}") ;;
  all) wanted=("${main[@]}" "${torch[@]}" "${tests[@]}" "${all[@]}") ;;
  *)
    echo "usage: cmake/setup.sh main|lammps|torch|tests|all (was called with '${1-}')" >&2
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
trap 'rm -f "$log"' EXIT
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >>"$log" 2>&1 </dev/null || {
    echo "setup: apt-get $1 failed:" >&2
    tail -n 30 "$log" >&2
    exit 1
  }
}
apt update
apt install --no-install-recommends "${missing[@]}"
echo "setup: done"
