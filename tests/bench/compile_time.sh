#!/usr/bin/env bash
# Prints the CPU seconds to compile programs that use hcomp: the best of three runs each.
#
#   tests/bench/compile_time.sh [<include folder>]
#
# CXX names the compiler (default: g++). To compare with another version, pass its include folder.
# CPU time varies less than wall time on a busy machine, but it does vary: use an idle machine.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

include=${1-include}
[[ -e $include/hcomp/hcomp.hpp ]] || {
  echo "compile_time: '$include' has no hcomp/hcomp.hpp" >&2
  exit 2
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
TIMEFORMAT='%U %S'

# measure <name> <compiler option>...: compiles the program on standard input
measure() {
  cat >"$folder/program.cpp"
  local best="" used
  for _ in 1 2 3; do
    used=$({ time "${CXX:-g++}" -std=c++20 "-I$include" "${@:2}" -c "$folder/program.cpp" \
      -o "$folder/program.o" >&2; } 2>&1) || {
      echo "compile_time: '$1' does not compile:" >&2
      echo "$used" >&2
      exit 1
    }
    best=$(awk -v best="$best" '{ t = $1 + $2; print (best == "" || t < best) ? t : best }' <<<"$used")
  done
  printf '%-62s %6.2f s\n' "$1" "$best"
}

# with_plans <declarations>: prints a program that creates these plans over threads and calls each
# once
with_plans() {
  echo '#include <hcomp/hcomp.hpp>'
  echo 'void program(hcomp::in_process& transport, hcomp::host_executor& executor, std::span<float> x) {'
  echo "  $*"
  echo '}'
}
one='hcomp::plan signs(x.size(), hcomp::sign<>{}, transport, executor); signs.all_reduce(x);'
thc='hcomp::plan levels(x.size(), hcomp::thc<>{}, transport, executor); levels.all_reduce(x);'
half='hcomp::plan halves(x.size(), hcomp::float_cast<hcomp::float16>{}, transport, executor); halves.all_reduce(x);'
named='auto plan = hcomp::make_plan<float>("sign", x.size(), transport, executor); plan.all_reduce(x);'
few='hcomp::automatic_plan<float> plan(x.size(), transport, executor); plan.all_reduce(x);'
any='hcomp::automatic_plan<float> plan(x.size(), transport, executor, {}, hcomp::registered_codecs<float>()); plan.all_reduce(x);'

{
  printf '#include <%s>\n' algorithm array atomic charconv chrono cmath condition_variable deque functional \
    memory mutex optional span stdexcept string thread tuple variant vector
} | measure 'standard library only, -O2' -O2
for header in hcomp/collective/plan/plan.hpp hcomp/collective/by_name/make_plan.hpp hcomp/hcomp.hpp; do
  echo "#include <$header>" | measure "#include <$header>, -O2" -O2
done
# both <name> <declarations>: measures with_plans header-only and with hcomp::compiled
both() {
  with_plans "$2" | measure "$1, -O2" -O2
  with_plans "$2" | measure "$1, -O2, with hcomp::compiled" -O2 -DHCOMP_COMPILED
}
both 'one plan (sign)' "$one"
both 'three plans (sign, thc, fp16)' "$one $thc $half"
both 'automatic_plan' "$few"
both 'automatic_plan of all codecs' "$any"
both 'make_plan' "$named"
