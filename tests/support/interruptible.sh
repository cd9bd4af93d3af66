# shellcheck shell=bash
# For scripts that SIGHUP, SIGINT and SIGTERM end at once, without leftover processes. Scripts
# source this, and start long commands with `run`.

child=
exec {own_output}>&1 {own_errors}>&2 # a signal may come while they are redirected

# run COMMAND...: in a new session, which identifies all its processes. Without a terminal.
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
    read -ra stat <<<"${stat##*) }" # the name before it may contain spaces
    [[ ${stat[3]} != "$1" || ${stat[0]} == Z ]] || echo "${process#/proc/}"
  done
}

# The processes get 10 s to end by themselves: programs write their results in that time.
end_session() { # end_session SESSION
  local tries left
  kill -TERM -- "-$1" 2>/dev/null || true
  for ((tries = 0; tries < 100; tries++)); do
    left=$(processes_of "$1")
    [[ -n $left ]] || return 0
    sleep 0.1
  done
  # shellcheck disable=SC2086  # a word each
  kill -KILL $left 2>/dev/null || true
}

# when_interrupted: the last step of a script, which may redefine it.
when_interrupted() { :; }

interrupted() { # interrupted SIGNAL
  trap '' HUP INT TERM
  exec 1>&"$own_output" 2>&"$own_errors"
  disown -a # otherwise bash reports that they were killed
  [[ -z $child ]] || end_session "$child"
  when_interrupted
  echo "${0##*/}: interrupted by SIG$1; what was done before stands above" >&2
  exit $((128 + $(kill -l "$1")))
}
for signal in HUP INT TERM; do
  # shellcheck disable=SC2064  # this signal
  trap "interrupted $signal" "$signal"
done
