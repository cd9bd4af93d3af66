# shellcheck shell=bash
# For scripts that SIGHUP, SIGINT and SIGTERM shall end at once, with nothing left running. They source
# this, and start by `run` what takes long.

child=
exec {own_output}>&1 {own_errors}>&2 # a signal may come while they are redirected

# run COMMAND...: in a session of its own, by which all can be found that it starts. Without a terminal.
run() {
  setsid -- "$@" <&0 {own_output}>&- {own_errors}>&- &
  child=$!
  local status=0
  wait "$child" || status=$?
  child=
  return $status
}

# The processes of a session.
processes_of() { # processes_of SESSION
  local process stat
  for process in /proc/[0-9]*; do
    { read -r stat <"$process/stat"; } 2>/dev/null || continue
    read -ra stat <<<"${stat##*) }" # the name before it may hold spaces
    [[ ${stat[3]} != "$1" || ${stat[0]} == Z ]] || echo "${process#/proc/}"
  done
}

# What was started gets 10 s to end by itself, as programs do that write their figures then.
end_child() {
  local tries left
  kill -TERM -- "-$child" 2>/dev/null || true
  for ((tries = 0; tries < 100; tries++)); do
    left=$(processes_of "$child")
    [[ -n $left ]] || return 0
    sleep 0.1
  done
  # shellcheck disable=SC2086  # a word each
  kill -KILL $left 2>/dev/null || true
}

# when_interrupted: what a script does last; it may define its own.
when_interrupted() { :; }

interrupted() { # interrupted SIGNAL
  trap '' HUP INT TERM
  exec 1>&"$own_output" 2>&"$own_errors"
  disown -a # else bash tells that they were killed
  [[ -z $child ]] || end_child
  when_interrupted
  echo "${0##*/}: interrupted by SIG$1; what was done before stands above" >&2
  exit $((128 + $(kill -l "$1")))
}
for signal in HUP INT TERM; do
  # shellcheck disable=SC2064  # this signal
  trap "interrupted $signal" "$signal"
done
