#!/usr/bin/env bash
# For the first minutes on a GPU machine, which may have no compiler, no network and little time.
#
#   tests/gpu/first_day.sh prepare FOLDER [NAME=FLAG,FLAG...]...   here, with nvcc
#   tests/gpu/first_day.sh run FOLDER RESULTS [STEP...]            on the GPU machine
#
# prepare compiles the programs of tests/gpu, but not c_api_test.cu and nccl_preload_test.cu, and
# bench_gpu for sm_80 and sm_90, with all libraries but libc linked statically. It also compiles
# bench_gpu.NAME with other flags of nvcc, for example registers=-maxrregcount=64. FOLDER takes at
# most 64 MiB, a program at most 25 MB.
#
# run uses the programs in FOLDER. It makes the named steps, by default all, the most valuable
# first:
#
#   facts       the driver, the chip, the available tools
#   tests       all programs of tests/gpu, in parallel
#   nccl_lab    training steps over NCCL, if nccl_lab.sh has prepared FOLDER/nccl_lab
#   bench       bench_gpu with 1, 16 and 64 M values, with the rate of a copy
#   sanitizers  four tools of compute-sanitizer on the short tests, in parallel
#   profile     sections of Nsight Compute, of one launch of each kernel
#   variants    each bench_gpu.NAME between two runs of bench_gpu
#
# RESULTS receives the output of each command, and results.tsv one line per command as soon as it
# ends. Every step updates first_day.json and report.md. A second run with other steps continues in
# the same RESULTS. A call ends after HCOMP_FIRST_DAY_SECONDS, default 480. Its status is 1 if a
# command failed, 77 without a GPU.
#
# HCOMP_FIRST_DAY_VALUES, _BENCH, _TESTS: sizes, further arguments of bench_gpu, and of the tests.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

usage() {
  sed -n '4,5s/^# *//p' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# ---- On this machine -----------------------------------------------------------------------------

# compile FOLDER NAME FLAG-OR-FILE...
compile() {
  local folder=$1 name=$2
  shift 2
  cd "$root"
  "${CUDACXX:-nvcc}" -std=c++20 --expt-relaxed-constexpr -cudart static -lineinfo --compress-mode=size \
    -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 \
    -Iinclude -Ikernels -Iplugins -Itests -Xcompiler -static-libstdc++,-static-libgcc \
    "$@" -o "$folder/$name"
  strip "$folder/$name"
  local bytes libraries
  bytes=$(stat -c %s "$folder/$name")
  libraries=$(objdump -p "$folder/$name" | awk '/NEEDED/ { print $2 }' |
    grep -vE '^(libc|libm|libdl|librt|libpthread|ld-linux.*)\.so' || true)
  if ((bytes > 25000000)) || [[ $libraries ]]; then
    echo "$name: $bytes bytes, at most 25000000; needs ${libraries:-no library but libc}" >&2
    exit 1
  fi
  echo "$name: $bytes bytes, $(objdump -T "$folder/$name" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)"
}

prepare() {
  local folder=$1 file variant bench="tests/bench/gpu/main.cu tests/bench/gpu/others.cu tests/bench/gpu/reductions.cu"
  bench+=" tests/bench/gpu/host.cpp tests/bench/gpu/stats.cpp"
  shift
  mkdir -p "$folder"
  folder=$(cd "$folder" && pwd)
  {
    echo "bench_gpu -O3 $bench"
    for file in "$root"/tests/gpu/*_test.cu; do
      file=${file##*/}
      local more=
      case $file in
        c_api_test.cu | nccl_preload_test.cu) continue ;; # need UCX, a preloaded library
        device_plan_test.cu) more="plugins/cuda/float.cu plugins/cuda/double.cu plugins/cuda/conversions.cu plugins/cuda/library.cpp" ;;
      esac
      echo "test_gpu.${file%_test.cu} -O1 tests/gpu/$file $more tests/support/gpu_main.cpp"
    done
    for variant in "$@"; do
      echo "bench_gpu.${variant%%=*} -O3 $(tr , ' ' <<<"${variant#*=}") $bench"
    done
  } | xargs -P "$(nproc)" -L 1 "${BASH_SOURCE[0]}" compile "$folder"
  git -C "$root" describe --always --dirty >"$folder/commit"
  local kib
  kib=$(du -sk "$folder" | cut -f 1)
  if ((kib > 64 << 10)); then
    echo "$folder: $kib KiB, at most 65536 travel" >&2
    exit 1
  fi
}

# ---- On the GPU machine --------------------------------------------------------------------------

# record WHAT WORD SECONDS
record() {
  printf '%s\t%s\t%s\n' "$1" "$2" "$3" >>"$results/results.tsv"
  printf '%-44s %5s s  %s\n' "$1" "$3" "$2"
}

# attempt SECONDS WHAT COMMAND...: writes the command's output to RESULTS/WHAT.txt.
attempt() {
  local limit=$1 what=$2 status=0 begin=$SECONDS word
  shift 2
  limit=$((limit < deadline - SECONDS ? limit : deadline - SECONDS))
  if ((limit < 3)); then
    record "$what" "not begun: no time left" 0
    return
  fi
  timeout -k 5 "$limit" "$@" >"$results/$what.txt" 2>&1 </dev/null || status=$?
  case $status in
    0) word=ok ;;
    77) word="skipped: $(sed -n '/^Skipped: /{s///p;q}' "$results/$what.txt")" ;;
    124 | 137) word="not finished in $limit s" ;;
    *) word="FAILED, status $status" ;;
  esac
  record "$what" "$word" $((SECONDS - begin))
}

facts() {
  cat "$1/commit" /etc/os-release || true
  uname -srm
  nproc
  getconf GNU_LIBC_VERSION
  command -v nvidia-smi >/dev/null || return 0
  nvidia-smi
  nvidia-smi -q -d CLOCK,ECC,PERFORMANCE
}

step_facts() {
  local tool
  attempt 30 facts "${BASH_SOURCE[0]}" facts "$folder"
  for tool in nvidia-smi nvcc compute-sanitizer ncu; do
    command -v "$tool" >/dev/null || record "$tool" "skipped: it is not here" 0
  done
}

step_tests() {
  local program
  for program in "$folder"/test_gpu.*; do
    # shellcheck disable=SC2086  # several arguments
    attempt 200 "${program##*/}" "$program" ${HCOMP_FIRST_DAY_TESTS:-} &
  done
  wait
}

step_nccl_lab() {
  if [[ -d $folder/nccl_lab ]]; then
    attempt 240 nccl_lab "$root/tests/gpu/nccl_lab.sh" run "$folder/nccl_lab"
  else
    record nccl_lab "skipped: nccl_lab.sh has not prepared it" 0
  fi
}

# bench PROGRAM VALUES WHAT LABEL
bench() {
  # shellcheck disable=SC2086  # several arguments
  attempt 150 "$3" "$folder/$1" --values "$2" --label "$4" --json "$results/$3.json" \
    ${HCOMP_FIRST_DAY_BENCH:-}
}

step_bench() {
  local values
  for values in "${sizes[@]}"; do bench bench_gpu "$values" "bench_gpu.$values" ""; done
}

step_sanitizers() {
  local tool test options left_out
  if ! command -v compute-sanitizer >/dev/null; then
    record sanitizers "skipped: there is no compute-sanitizer" 0
    return
  fi
  for tool in memcheck racecheck synccheck initcheck; do
    options=(--tool "$tool" --error-exitcode 9)
    # some tests make wrong calls on purpose
    [[ $tool == memcheck ]] && options+=(--report-api-errors no)
    left_out=(-tce="*plans*,*INCEPTIONN's codes have*")
    [[ $tool == initcheck ]] && left_out+=(-tse="at once")  # this tool waits after every copy
    for test in codec executor feedback sparse inceptionn; do
      attempt 280 "$tool.$test" compute-sanitizer "${options[@]}" "$folder/test_gpu.$test" \
        "${left_out[@]}" &
    done
  done
  wait
}

step_profile() {
  if ! command -v ncu >/dev/null; then
    record profile "skipped: there is no ncu" 0
    return
  fi
  attempt 300 profile ncu --section SpeedOfLight --section MemoryWorkloadAnalysis \
    --section WarpStateStats --section LaunchStats --section Occupancy --clock-control none \
    --kernel-name-base mangled --launch-skip 2 --launch-count 1 \
    --filter-mode per-launch-config \
    "$folder/bench_gpu" --values 16777216 --turns 1 --only-plans --uncompared
}

step_variants() {
  local program name values=${sizes[1]:-${sizes[0]}} found=0
  for program in "$folder"/bench_gpu.*; do
    [[ -e $program ]] || continue
    name=${program##*/}
    found=1
    bench bench_gpu "$values" "$name.1" "before ${name#*.}"
    bench "$name" "$values" "$name.2" "${name#*.}"
    bench bench_gpu "$values" "$name.3" "after ${name#*.}"
  done
  ((found)) || record variants "skipped: none was prepared" 0
}

# Writes all results so far as JSON and as a Markdown table.
conclude() {
  local files=("$results"/bench_gpu.*.json)
  [[ -e ${files[0]} ]] || files=()
  {
    printf '{"steps": ['
    sed 's/["\\]//g' "$results/results.tsv" |
      awk -F '\t' '{ printf "%s\n {\"what\": \"%s\", \"result\": \"%s\", \"seconds\": %s}",
                           (NR > 1 ? "," : ""), $1, $2, $3 }'
    printf '],\n"bench": ['
    local file comma=
    for file in "${files[@]}"; do
      printf '%s\n' "$comma"
      cat "$file"
      comma=,
    done
    printf ']}\n'
  } >"$results/first_day.json"
  ((${#files[@]} == 0)) ||
    "$folder/bench_gpu" --report "$results/first_day.json" --page "$root/kernels/README.md" \
      >"$results/report.md" || record report "FAILED" 0
}

run() {
  if ! [[ -d $1 ]]; then
    echo "$1: no such folder; tests/gpu/first_day.sh prepare makes it where nvcc is" >&2
    exit 2
  fi
  folder=$(cd "$1" && pwd)
  mkdir -p "$2"
  results=$(cd "$2" && pwd)
  shift 2
  deadline=$((SECONDS + ${HCOMP_FIRST_DAY_SECONDS:-480}))
  read -ra sizes <<<"${HCOMP_FIRST_DAY_VALUES:-1048576 16777216 67108864}"
  PATH=$PATH:$folder:/usr/local/cuda/bin
  if ! [[ -x $folder/bench_gpu ]]; then
    echo "$folder: has no bench_gpu; tests/gpu/first_day.sh prepare makes it where nvcc is" >&2
    exit 2
  fi
  (($#)) || set -- facts tests nccl_lab bench sanitizers profile variants
  local step
  for step in "$@"; do
    declare -F "step_$step" >/dev/null || {
      echo "no step is called '$step'; there are: facts tests nccl_lab bench sanitizers profile variants" >&2
      exit 2
    }
  done
  touch "$results/results.tsv"
  for step in "$@"; do
    "step_$step"
    conclude
  done
  echo
  [[ -e $results/report.md ]] && cat "$results/report.md"
  echo
  awk -F '\t' '{ printf "%-44s %5s s  %s\n", $1, $3, $2 }' "$results/results.tsv"
  ! grep -q $'\tFAILED' "$results/results.tsv" || exit 1
  ! grep -q $'\tskipped: no usable GPU' "$results/results.tsv" || exit 77
}

case ${1:-} in
  prepare) (($# >= 2)) || usage ;;
  run) (($# >= 3)) || usage ;;
  facts) (($# == 2)) || usage ;;
  compile) (($# >= 4)) || usage ;;
  *) usage ;;
esac
"$@"
