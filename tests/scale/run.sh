#!/usr/bin/env bash
# Simulates all-reduce on clusters of 64 to 1,024 nodes and draws the plot.
#
#   tests/scale/run.sh [<arguments for scale>]     e.g. --values 300000, or --latency 2
#
# RANKS="64 128" and GBITS="100" set the cluster sizes and the link rates. Results are in
# results/scale/, the plot is results/scale.svg. 1,024 nodes need 8.6 GB of memory, in proportion
# to --values.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

read -ra ranks <<<"${RANKS:-64 128 256 512 1024}"
read -ra gbits <<<"${GBITS:-1 10}"
build=$top/build-scale
results=$top/results

bash "$top/cmake/setup.sh" full

mkdir -p "$build" "$results/scale"
echo "building in ${build##*/}/"
{
  cmake -S "$top" -B "$build" -G Ninja -DHCOMP_BUILD_EXAMPLES=OFF -DHCOMP_BUILD_BENCHMARKS=OFF \
    -DHCOMP_WITH_GPU=OFF
  cmake --build "$build" --target scale
} >"$build/build.log" 2>&1 </dev/null || {
  echo "tests/scale/run.sh: building failed:" >&2
  tail -n 40 "$build/build.log" >&2
  exit 1
}
program=$build/tests/scale

# Codec costs are measured first: clusters of one size then have the same nodes at every
# bandwidth. The cost of algorithm sampled depends on the number of ranks.
for hosts in "${ranks[@]}"; do
  "$program/scale" --measure "$results/scale/costs-$hosts.json" --ranks "$hosts"
done

reports=()
for gbit in "${gbits[@]}"; do
  echo "links of $gbit Gbit/s"
  for hosts in "${ranks[@]}"; do
    # --rendezvous: without it 1000 x 1000 messages in flight take 4 GB and many minutes
    one=("$program/scale" --costs "$results/scale/costs-$hosts.json" --ranks "$hosts"
      --bandwidth "$gbit" --rendezvous "$@")
    file=$results/scale/${gbit}gbit-$hosts
    "${one[@]}" --codec identity,sign --algorithm ring,torus,direct,sampled --json "$file.json"
    "${one[@]}" --codec thc --hop-bits 8 --algorithm torus --json "$file-thc.json"
    reports+=("$file.json" "$file-thc.json")
  done
done
"$top/examples/support/plot.py" "${reports[@]}" -o "$results/scale.svg"
