#!/usr/bin/env bash
# interrupted.sh SIGNAL STATUS FILE COMMAND...
#
# Starts the command, and sends it the signal once the file is not empty. Checks that the command
# ends with the status (a regular expression), reports the interruption, and leaves no process. A
# JSON file must have results and report the interruption, too. Status 1 is that of a launcher,
# which may have killed the command before its report: the file then has it.
set -euo pipefail
signal=$1 status=$2 file=$3
shift 3

export HCOMP_TEST_RUN=$$-$RANDOM # all child processes inherit this
running() {
  local environment
  for environment in /proc/[0-9]*/environ; do
    [[ $environment == "/proc/$$/"* ]] ||
      { tr '\0' '\n' <"$environment" | grep -qx "HCOMP_TEST_RUN=$HCOMP_TEST_RUN" && echo "$environment"; }
  done 2>/dev/null || true
}
await() { # await COMMAND...: up to 20 s
  for ((tries = 0; tries < 400; tries++)); do
    ! "$@" || return 0
    sleep 0.05
  done
  return 1
}
fail() {
  echo "FAILED: $1" >&2
  cat "$file.output" >&2
  for left in $(running); do kill -KILL "${left//[!0-9]/}" 2>/dev/null || true; done
  exit 1
}
is_quiet() { [[ -z $(running) ]]; }

rm -f "$file"
# Background processes of a script ignore SIGINT by default.
env --default-signal=INT,TERM "$@" >"$file.output" 2>&1 &
command=$!
await test -s "$file" || fail "nothing in $file after 20 s"
kill -s "$signal" "$command"
ended=0
wait "$command" || ended=$?
[[ $ended =~ ^($status)$ ]] || fail "SIG$signal ended it with status $ended, it should be $status"
[[ $status == 1 ]] || grep -q "interrupted" "$file.output" || fail "it does not say so"
if [[ $file == *.json ]]; then
  [[ $status == 1 ]] || grep -q "^# interrupted: these are the results so far" "$file.output" ||
    fail "it shows no results"
  grep -q '"complete": false' "$file" || fail "$file does not say so"
  grep -q '"seconds"' "$file" || fail "$file has no results"
fi
await is_quiet || fail "processes are left: $(running)"
