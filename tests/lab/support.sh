# shellcheck shell=bash
# Shared functions of the lab tests. A test sources this file, creates labs named $HCOMP_LAB,
# calls check, and ends with finish.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export HCOMP_LAB=test-$$
failures=0

lab() { "$here/lab.sh" "$@"; }

# Skips the test where no lab can run; lab.sh has printed the reason.
up() { lab up "$@" || exit $?; }

leave() {
  local name job
  for job in $(jobs -p); do kill "$job" 2>/dev/null || true; done
  for name in "$HCOMP_LAB" "$HCOMP_LAB-2"; do lab down --name "$name" 2>/dev/null || true; done
}
trap leave EXIT

check() {  # check DESCRIPTION COMMAND...
  if "${@:2}"; then
    echo "ok: $1"
  else
    echo "FAILED: $1"
    failures=$((failures + 1))
  fi
}

between() { awk -v low="$1" -v x="$2" -v high="$3" 'BEGIN { exit !(low <= x && x <= high) }'; }

median() { sort -g | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'; }

await() {  # await COMMAND...: up to 10 s
  local tries
  for ((tries = 0; tries < 500; tries++)); do
    ! "$@" 2>/dev/null || return 0
    sleep 0.02
  done
  return 1
}

finish() {
  ((failures == 0)) || echo "$failures checks failed"
  exit $((failures > 0))
}
