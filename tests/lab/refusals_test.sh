#!/usr/bin/env bash
# shellcheck disable=SC2317  # functions are called by check and await
# Error messages of lab.sh: wrong usage, a name already in use, machines that cannot run labs.
# shellcheck source=support.sh
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

refuses() {  # refuses STATUS WORDS COMMAND...
  local status=0 said
  said=$("${@:3}" 2>&1 </dev/null) || status=$?
  if [[ $status != "$1" || $said != *"$2"* ]]; then
    echo "exit status $status, expected $1; words '$2' expected in: $said"
    return 1
  fi
}

wrong() { check "wrong call: lab.sh ${*:2}" refuses 2 "$1" lab "${@:2}"; }

wrong "lab.sh needs a command"
wrong "no command 'sideways'" sideways
wrong "'up' was called with '--speed'" up --speed 3
wrong "--rate was the last word" up --rate
wrong "'up' was called with 'now'" up now
wrong "--hosts is '0'; it takes 1 to 200" up --hosts 0
wrong "--hosts is 'four'" up --hosts four
wrong "--rate is '7'; it takes none or a number with one of the units kbit, mbit, gbit" up --rate 7
wrong "--rate is '1kbit'" up --rate 1kbit
wrong "--delay is '3h'" up --delay 3h
wrong "--delay is '11s'; it takes none or up to 10s" up --delay 11s
wrong "--loss is '101%'" up --loss 101%
wrong "--seed is '-1'" up --seed -1
wrong "carries up to 1gbit" up --rate 2.5gbit --delay 1ms
wrong "the lab's name is 'a/b'" up --name a/b
wrong "'with' needs a command" with --hosts 2
wrong "no program 'no-such-program'" with -- no-such-program
wrong "'exec' needs a host and a command" exec host0
wrong "'rate' needs one rate" rate
wrong "the rate is '7'; it takes none or a number with one of the units kbit, mbit, gbit" rate 7
wrong "'down' was called with 'all'" down all

check "--help prints the usage" refuses 0 "lab.sh up [OPTIONS]" lab --help
check "no lab, no exec" refuses 1 "there is no lab '$HCOMP_LAB'" lab exec host0 true
check "no lab, no rate" refuses 1 "there is no lab '$HCOMP_LAB'" lab rate 10mbit
check "no lab, no run" refuses 1 "there is no lab '$HCOMP_LAB'" lab run openmpi true
check "no lab, nothing to remove" refuses 0 "" lab down

# A user without rights may not be able to read this clone: use a copy.
copy=$(mktemp -d)
trap 'rm -rf "$copy"; leave' EXIT
cp "$here/lab.sh" "$copy"
chmod -R a+rX "$copy"
nobody=()
((EUID != 0)) || nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
check "no rights" refuses 77 "as user " "${nobody[@]}" "$copy/lab.sh" up
check "with needs the same rights" \
  refuses 77 "CAP_SYS_ADMIN" "${nobody[@]}" "$copy/lab.sh" with -- true

lab up --hosts 2 --rate none || {
  ((failures == 0)) || finish
  exit 77
}
check "a name is already in use" refuses 1 "there is a lab '$HCOMP_LAB' already: 2 hosts" lab up
check "no such node" refuses 2 "has host0 to host1" lab exec host2 true
check "no such MPI" refuses 2 "knows the MPIs openmpi and mpich" lab run lam true
check "no such number of ranks" refuses 2 "-n was followed by '0'" lab run openmpi -n 0 true
check "exec returns the exit status of its command" refuses 5 "" lab exec host1 bash -c 'exit 5'
lab down

without="mount --bind /dev/null"
check "no CAP_NET_ADMIN" refuses 77 "CAP_NET_ADMIN" \
  setpriv --bounding-set=-net_admin "$here/lab.sh" up
check "no tc" refuses 77 "no program 'tc'" \
  unshare --mount bash -c "$without \$(readlink -f \$(command -v tc)) && '$here/lab.sh' up"
check "no TAP devices" refuses 77 "/dev/net/tun" \
  unshare --mount bash -c "mount -t tmpfs none /dev/net && '$here/lab.sh' up --delay 1ms"
check "no such bound" refuses 2 "--card is '15'; it takes none or 1 to 14" lab up --card 15
check "no switch" refuses 1 "'cmake --build build --target hcomp_lab_switch'" \
  lab up --delay 1ms --tools /nowhere
finish
