#!/usr/bin/env bash
# examples_interrupted.sh SIGNAL STATUS
#
# Runs examples/run.sh with scripts in place of CMake, mpirun and plot.py. examples/run.sh must plot
# the output of train at its end, also after a failure or an interruption, but not the output of an
# earlier run.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT

mkdir -p "$clone"/{examples/support,examples/train,tests/support,cmake,bin,results}
echo '"--seeds" "--fails" "--waits"' >"$clone/examples/train/options.cpp"
cp "$top/cmake/progress.sh" "$clone/cmake"
cp "$top/examples/run.sh" "$clone/examples"
cp "$top/tests/support/interruptible.sh" "$clone/tests/support"
echo "touch '$clone/is_set_up'" >"$clone/cmake/setup.sh"
cat >"$clone/bin/cmake" <<CMAKE
#!/bin/sh
echo "MPIEXEC_EXECUTABLE:FILEPATH=$clone/bin/mpirun" >"$clone/build-main/CMakeCache.txt"
CMAKE
# Its last argument selects: it succeeds, fails, writes nothing, or waits for a signal.
cat >"$clone/bin/mpirun" <<'MPIRUN'
#!/usr/bin/env bash
[[ $4 == --json ]] || exit 2
case ${*: -1} in
  --help) exit ;;
  --fails) echo reports >"$5" && exit 3 ;;
  --waits)
    trap 'echo "reports so far" >"$5"; exit 143' TERM
    sleep 1234 &
    echo begun >"$BEGUN"
    wait
    ;;
esac
echo reports >"$5"
MPIRUN
cat >"$clone/examples/support/plot.py" <<'PLOT'
#!/usr/bin/env bash
[[ $2 == -o ]]
cp "$1" "$3"
PLOT
chmod +x "$clone"/bin/* "$clone/examples/support/plot.py"
export PATH=$clone/bin:$PATH BEGUN=$clone/begun

fail() { echo "FAILED: $*" >&2 && exit 1; }
reports=$clone/results/train.json picture=$clone/results/train.svg
job() { bash "$clone/examples/run.sh" "$@" >/dev/null; }
status=0
job --seed 2 2>"$clone/refused" || status=$?
[[ $status == 2 && ! -e $clone/is_set_up ]] || fail "a wrong option ended with $status"
grep -q "train has no option '--seed'; it has: --fails --seeds --waits" "$clone/refused"
job --seeds 2 || fail "it ended with $?"
cmp "$reports" "$picture" || fail "the results are not drawn"
rm "$picture"
job --help || fail "--help ended with $?"
[[ ! -e $picture ]] || fail "--help draws the results of an earlier run"
status=0
job --fails || status=$?
[[ $status == 3 ]] || fail "train ended with 3, run.sh with $status"
cmp "$reports" "$picture" || fail "the results of a run that failed are not drawn"
"$top/tests/support/interrupted.sh" "$1" "$2" "$BEGUN" bash "$clone/examples/run.sh" --waits
grep -q "so far" "$picture" || fail "the results so far are not drawn"
