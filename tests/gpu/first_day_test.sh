#!/usr/bin/env bash
# first_day_test.sh MACHINE PROGRAM...
#
# Tests `first_day.sh run` on the PTX machine, without conclusions about rates: with a valid folder,
# and with programs that fail, exceed the time or are skipped. NVIDIA's tools need a GPU: stand-ins
# print their arguments.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
machine=$1
shift
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export HCOMP_PTX_CHECKS=0 HCOMP_FIRST_DAY_VALUES="1000 5000" HCOMP_FIRST_DAY_TESTS="-tc=*buffers*,*reset*"
export HCOMP_FIRST_DAY_BENCH="--turns 1 --only-plans"

# expect FILE TEXT
expect() {
  grep -qF -- "$2" "$1" && return
  echo "FAILED: $1 should say: $2" >&2
  cat "$1" >&2
  exit 1
}

mkdir "$scratch/sound" "$scratch/wrong"
for program in "$@"; do
  printf '#!/bin/sh\nLD_PRELOAD=%s exec %s "$@"\n' "$machine" "$program" >"$scratch/sound/${program##*/}"
done
cp "$scratch"/sound/bench_gpu "$scratch/sound/bench_gpu.same"
git -C "$here" describe --always >"$scratch/sound/commit" 2>/dev/null || echo unknown >"$scratch/sound/commit"
chmod +x "$scratch"/sound/*
"$here/first_day.sh" run "$scratch/sound" "$scratch/results" | tee "$scratch/said"
for program in "$@"; do
  [[ $program == */bench_gpu ]] || expect "$scratch/results/${program##*/}.txt" "Status: SUCCESS"
done
expect "$scratch/said" "skipped: nccl_lab.sh has not prepared it"
expect "$scratch/results/bench_gpu.5000.json" '"is_gpu": false'
expect "$scratch/results/first_day.json" '{"what": "bench_gpu.5000", "result": "ok"'
expect "$scratch/results/first_day.json" '"what": "bench_gpu.same.3", "result": "ok"'
expect "$scratch/results/report.md" "No GPU: rates of this table say nothing."
expect "$scratch/results/report.md" "| 1000 | 5000 | 5000, before same | 5000, same | 5000, after same |"
expect "$scratch/said" "| thc encode |"
expect "$scratch/said" "| sign merge, 1 and 2 ranks |"

printf '#!/bin/sh\nexit 3\n' >"$scratch/wrong/test_gpu.fails"
printf '#!/bin/sh\nsleep 100\n' >"$scratch/wrong/test_gpu.hangs"
printf '#!/bin/sh\necho "Skipped: no usable GPU"; exit 77\n' >"$scratch/wrong/test_gpu.skips"
printf '#!/bin/sh\necho "$@"\ncase "$*" in *racecheck*) exit 9 ;; esac\n' >"$scratch/wrong/compute-sanitizer"
printf '#!/bin/sh\necho "$@"\n' >"$scratch/wrong/ncu"
cp "$scratch/sound/bench_gpu" "$scratch/wrong"
chmod +x "$scratch"/wrong/*
status=0
HCOMP_FIRST_DAY_SECONDS=4 "$here/first_day.sh" run "$scratch/wrong" "$scratch/found" tests bench \
  >"$scratch/said" || status=$?
((status == 1)) || { echo "FAILED: status $status of a folder with a program that fails" >&2 && exit 1; }
expect "$scratch/said" "FAILED, status 3"
expect "$scratch/said" "not finished in 4 s"
expect "$scratch/said" "skipped: no usable GPU"
expect "$scratch/said" "not begun: no time left"

"$here/first_day.sh" run "$scratch/wrong" "$scratch/found" sanitizers profile variants >"$scratch/said" && exit 1
expect "$scratch/said" "FAILED, status 9"
expect "$scratch/found/first_day.json" '{"what": "memcheck.sparse", "result": "ok"'
expect "$scratch/found/memcheck.codec.txt" "--error-exitcode 9 --report-api-errors no $scratch/wrong/test_gpu.codec"
expect "$scratch/found/profile.txt" "--launch-count 1"
expect "$scratch/said" "skipped: none was prepared"
expect "$scratch/said" "FAILED, status 3"  # from the previous call
