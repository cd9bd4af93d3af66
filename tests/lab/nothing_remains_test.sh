#!/usr/bin/env bash
# shellcheck disable=SC2317  # functions are called by check and await
# After an interruption or SIGKILL, `down` removes everything of a lab; after SIGINT no `down` is
# needed.
# shellcheck source=support.sh
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

# The network configuration of the machine itself.
network() {
  ip -o link show
  tc qdisc show
  ip netns list
}
network_before=$(network)
state=/run/hcomp-lab/$HCOMP_LAB
[[ -w /run ]] || state=${XDG_RUNTIME_DIR-}/hcomp-lab/$HCOMP_LAB

# All processes of a lab are in its PID namespace.
note_lab() {
  local keeper
  read -r keeper _ <"$state/keeper"
  lab_space=$(readlink "/proc/$keeper/ns/pid")
}
processes() {
  local space process
  while read -r space process; do
    [[ $space != "$lab_space" ]] || tr '\0' ' ' <"${process%/ns}/cmdline"
  done < <(find /proc/[0-9]*/ns/pid -printf '%l %h\n')
} 2>/dev/null
no_processes() { [[ -z $(processes) ]]; }
nothing_remains() {
  await no_processes || echo "processes: $(processes)"
  [[ ! -e $state ]] || echo "state: $(ls -R "$state")"
  ! grep "$state" /proc/self/mountinfo || echo "mounts, above"
  [[ $(network) == "$network_before" ]] || diff <(echo "$network_before") <(network)
  no_processes && [[ ! -e $state && $(network) == "$network_before" ]] &&
    ! grep -q "$state" /proc/self/mountinfo
}

# Background processes of a script ignore SIGINT unless told otherwise.
start() {
  env --default-signal=INT "$here/lab.sh" "$@" >/dev/null 2>&1 &
  client=$!
}
kill_client() {
  disown "$client"  # else bash reports it
  kill -KILL "$client" 2>/dev/null || true
}
sleeps() { [[ $(processes) == *"sleep 1234"* ]]; }
await_sleep() {
  await test -e "$state/pids"
  note_lab
  await sleeps
}
lossy=(--hosts 3 --delay 1ms --loss 1%)

up "${lossy[@]}"
note_lab
check "a lab with loss has a switch process" test "$(processes | grep -c switch)" -gt 0
lab down
check "nothing remains after down" nothing_remains
check "a second down is no error" lab down

for signal in INT TERM HUP; do
  start with "${lossy[@]}" -- exec host1 sleep 1234
  await_sleep
  kill -s "$signal" "$client"
  status=0
  wait "$client" || status=$?
  check "with ends on SIG$signal: status $status" test $status = $((128 + $(kill -l $signal)))
  check "nothing remains after SIG$signal to with" nothing_remains
done

start with "${lossy[@]}" -- exec host1 sleep 1234
await_sleep
kill_client
check "with is killed: all processes of its lab end" await no_processes
lab down
check "nothing remains after SIGKILL to with, and down" nothing_remains

up "${lossy[@]}"
note_lab
start exec host1 sleep 1234
await sleeps
kill_client
doze() { ! sleeps; }
check "exec is killed: its command ends" await doze
start exec host1 sleep 1234
await sleeps
disown "$client"
kill -KILL "$(cut -d ' ' -f 1 "$state/keeper")"
check "the keeper of a lab is killed: all other processes end" await no_processes
up --hosts 2
lab down
check "a killed lab does not block a new one" nothing_remains

# up is killed at different times.
for seconds in 0.03 0.1 0.2; do
  start up "${lossy[@]}"
  sleep $seconds
  kill_client
  [[ ! -s $state/keeper ]] || note_lab
  lab down
  check "nothing remains when up is killed after $seconds s" nothing_remains
done

up --hosts 2
note_lab
up --hosts 2 --name "$HCOMP_LAB-2"
lab down
check "two labs: down ends one" await no_processes
check "two labs: the other one runs on" lab exec --name "$HCOMP_LAB-2" host1 true
lab down --name "$HCOMP_LAB-2"
check "nothing remains of both" nothing_remains
finish
