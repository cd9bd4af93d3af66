#!/usr/bin/env bash
# Checks that mpi4py's own tests end alike with and without the preloaded drop-in library.
#
#   tests/mpi4py/run.sh [-n "RANKS..."] [-m "MODES..."] BUILD [argument of runtests.py]...
#
# BUILD is a build folder with plugins for Open MPI, the MPI of Debian's mpi4py. The default of
# RANKS is "1 2 3 4", that of MODES "off lossless bounded":
#
#   off       preloaded, without settings
#   lossless  HCOMP_CONFIG="all: lossless_sparse min=0"
#   bounded   HCOMP_CONFIG="float: error_bounded 1e-12 min=0"
#
# The tests come from the source of the installed version: from $MPI4PY_SOURCE if set (an unpacked
# source folder), otherwise from a copy in BUILD/tests/mpi4py. The first run downloads this copy
# with pip or apt-get. The default leaves out test_spawn: with 2 processors and more than 1 rank,
# Open MPI 4.1 hangs in it, also without the library. "-i spawn" after BUILD runs only this test,
# "-e ''" all tests.
#
# HCOMP_OFFLINE=1 downloads nothing. HCOMP_MPI4PY_SECONDS limits a run, default 600.
#
# Prints the numbers of tests that passed, were skipped and failed, per number of ranks. Exits 0 if
# every test ended alike on every rank, 1 if one did not, 77 without the tests, 2 for wrong
# arguments.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
seconds=${HCOMP_MPI4PY_SECONDS:-600}  # per run
ranks="1 2 3 4"
modes="off lossless bounded"
usage() { sed -n '4s/^# *//p' "$0" >&2; exit 2; }
while getopts n:m: option; do
  case $option in
    n) ranks=$OPTARG ;;
    m) modes=$OPTARG ;;
    *) usage ;;
  esac
done
shift $((OPTIND - 1))
(($# > 0)) || usage
build=$(cd "$1" && pwd)
shift
chosen=("$@")
((${#chosen[@]})) || chosen=(-e spawn)
[[ ${chosen[*]} == "-e " ]] && chosen=()

library=$build/plugins/openmpi/libhcomp_pmpi.so
[[ -e $library ]] || { echo "Skipped: there is no $library"; exit 77; }
launch=$(command -v mpirun.openmpi || command -v mpirun)

version=$("$python" -c 'import numpy, mpi4py; print(mpi4py.__version__)' 2>/dev/null) || {
  echo "Skipped: $python has no mpi4py or no numpy"
  exit 77
}

# ---- Tests ---------------------------------------------------------------------------------------
work=$build/tests/mpi4py
mkdir -p "$work"
fetch() {
  local to
  to=$(mktemp -d "$work/fetch.XXXXXX")
  (
    cd "$to"
    # Of the same version; from Debian with its patches.
    timeout 60 pip download -q --disable-pip-version-check --retries 1 --timeout 10 --no-deps \
      --no-binary :all: "mpi4py==$version" || timeout 60 apt-get source -q --download-only mpi4py
    tar xzf mpi4py*"$version"*.tar.gz
    rm -rf "$work/mpi4py-$version"
    mv "mpi4py-$version" "$work/"
  ) >"$work/fetch.log" 2>&1 || true
  rm -rf "$to"
}
source=${MPI4PY_SOURCE:-$work/mpi4py-$version}
if [[ ! -e $source/test/runtests.py && -z ${MPI4PY_SOURCE-} && -z ${HCOMP_OFFLINE-} ]]; then
  fetch
fi
if [[ ! -e $source/test/runtests.py ]]; then
  echo "Skipped: no source of mpi4py $version in $source; neither pip nor apt-get source gave it"
  exit 77
fi

# ---- Runs ----------------------------------------------------------------------------------------
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
export PYTHONDONTWRITEBYTECODE=1
results=$(mktemp -d "$work/results.XXXXXX")
trap 'rm -rf "$results"' EXIT

# run <mode> <ranks>: writes $results/<mode>.<ranks>, one line "rank test outcome" per test and
# rank.
run() {
  local mode=$1 n=$2 options=() status=0
  local file=$results/$mode.$n
  case $mode in
    without) ;;
    off) options=(-x LD_PRELOAD="$library") ;;
    lossless) options=(-x LD_PRELOAD="$library" -x HCOMP_CONFIG="all: lossless_sparse min=0") ;;
    bounded) options=(-x LD_PRELOAD="$library" -x HCOMP_CONFIG="float: error_bounded 1e-12 min=0") ;;
    *) usage ;;
  esac
  case $mode in lossless | bounded) options+=(-x HCOMP_REPORT="json:$file.json") ;; esac
  timeout "$seconds" "$launch" --oversubscribe --bind-to none -np "$n" "${options[@]}" \
    "$python" "$here/record.py" "$source/test" "$file" -q "${chosen[@]}" \
    >"$file.log" 2>&1 </dev/null || status=$?
  for ((rank = 0; rank < n; ++rank)); do
    sed -e "s/^/$rank /" -e '$s/ $/ unfinished/' "$file.$rank" 2>/dev/null || true
  done | sort >"$file"
  if ((status != 0)); then
    echo "$mode, $n ranks: ended with $status; the last lines it wrote:"
    tail -n 15 "$file.log"
    echo "0 whole.run ended.with.$status" >>"$file"
  fi
}
count() { awk -v outcome="$2" '$3 ~ outcome { ++n } END { print n + 0 }' "$1"; }
taken() {  # calls on all ranks that hcomp handled
  [[ -e $1 ]] || { echo -; return; }
  "$python" -c 'import json, sys
print(sum(s["calls"] for s in json.load(open(sys.argv[1]))["sites"] if s["strategy"] != "MPI"))' "$1"
}

echo "mpi4py $version, $("$launch" --version | head -n 1); counts over all ranks"
printf '%5s %-9s %7s %8s %7s %10s %10s %8s\n' \
  ranks library passed skipped failed unlike "taken over" seconds
different=0
for n in $ranks; do
  for mode in without $modes; do
    begin=$SECONDS
    run "$mode" "$n"
    file=$results/$mode.$n
    unlike=$(diff "$results/without.$n" "$file" | grep -c '^[<>]' || true)
    printf '%5s %-9s %7s %8s %7s %10s %10s %8s\n' "$n" "$mode" "$(count "$file" '^passed$')" \
      "$(count "$file" '^skipped$')" "$(count "$file" '^(error|failed|unfinished|ended)')" \
      "$unlike" "$(taken "$file.json")" $((SECONDS - begin))
    [[ -s $file ]] || { echo "no test ran"; different=1; tail -n 15 "$file.log"; }
    if ((unlike > 0)); then
      different=1
      diff "$results/without.$n" "$file" | grep '^[<>]' |
        sed -e 's/^</     without: rank/' -e "s/^>/     $mode: rank/"
    fi
    if [[ $mode != without && $mode != off && $n != 1 && $(taken "$file.json") == [0-] ]]; then
      echo "     the library took nothing over"
      different=1
    fi
  done
done
exit $different
