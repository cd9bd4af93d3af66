#!/usr/bin/env bash
# Runs Debian's LAMMPS binary on emulated nodes: with MPI's all-reduce, and with hcomp's preloaded
# library, without recompiling. Prints a table.
#
#   examples/lammps/run.sh [<variables for LAMMPS>]     e.g. -var steps 300
#
# HOSTS=4 and RATES="100mbit 1gbit" set the number of nodes and the link rates. The output of
# every run is in results/lammps/. Requires root, as tests/lab/lab.sh does.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

hosts=${HOSTS:-4}
read -ra rates <<<"${RATES:-100mbit 1gbit}"
build=$top/build-main
results=$top/results/lammps
lab=$top/tests/lab/lab.sh

bash "$top/cmake/setup.sh" lammps

mkdir -p "$build"
rm -rf "$results"
echo "building in ${build##*/}/"
{
  cmake -S "$top" -B "$build" -G Ninja -DHCOMP_WITH_MPI=ON -DHCOMP_WITH_GPU=OFF \
    -DHCOMP_BUILD_TESTS=OFF -DHCOMP_BUILD_BENCHMARKS=OFF
  cmake --build "$build" --target hcomp_pmpi_openmpi -j "$(nproc)"
} >"$build/lammps.log" 2>&1 </dev/null || {
  echo "examples/lammps/run.sh: building failed:" >&2
  tail -n 40 "$build/lammps.log" >&2
  exit 1
}
library=$build/plugins/openmpi/libhcomp_pmpi.so

export HCOMP_LAB=lammps-$$ OMP_NUM_THREADS=1
trap '"$lab" down' EXIT

# run <rate> <name> <ranks> <rule> [<variables>]: writes into results/lammps/<rate>/<name>/
run() {
  local folder=$results/$1/$2 preload=()
  mkdir -p "$folder"
  [[ -z $4 ]] || preload=(LD_PRELOAD="$library" HCOMP_CONFIG="$4" HCOMP_REPORT="json:$folder/report.json")
  "$lab" up --hosts "$hosts" --rate "$1"
  "$lab" run openmpi -n "$3" env "${preload[@]}" lmp -in "$top/examples/lammps/in.salt" \
    -log "$folder/log.lammps" -screen none -var rdf "$folder/rdf.txt" "${@:5}"
  "$lab" bytes >"$folder/bytes.txt"
  "$lab" down
}
for rate in "${rates[@]}"; do
  echo "$hosts nodes, links of $rate"
  run "$rate" off "$hosts" "" "$@"
  run "$rate" off_on_fewer_ranks $((hosts - 1)) "" "$@" # another order of additions
  run "$rate" identity "$hosts" "double: identity min=16KiB" "$@"
  run "$rate" lossless "$hosts" "double: lossless min=16KiB" "$@"
  run "$rate" reproducible "$hosts" "double: reproducible min=16KiB" "$@"
  run "$rate" error_bounded_1e-4 "$hosts" "double: error_bounded:1e-4 min=16KiB" "$@"
  run "$rate" error_bounded_1e-6 "$hosts" "double: error_bounded:1e-6 min=16KiB" "$@"
done
python3 "$top/examples/lammps/table.py" "$results"
