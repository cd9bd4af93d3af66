#!/usr/bin/env bash
# shellcheck disable=SC2317  # functions are called by check and await
# Links have the requested delay and loss; equal seeds lose equal frames.
# shellcheck source=support.sh
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

command -v ping >/dev/null || {
  echo "Skipped: there is no ping; on Debian install the package iputils-ping"
  exit 77
}

round_trip_ms() {  # the median of 51
  lab exec host0 ping -n -c 51 -i 0.01 host1 | sed -n 's/.*time=\([0-9.]*\) ms/\1/p' | median
}

up --hosts 2 --rate 100mbit --delay 1ms
took=$(round_trip_ms)
check "a delay of 1 ms gives a round trip of 2 to 3 ms: $took ms" between 2 "$took" 3
lab down
up --hosts 2 --rate 100mbit
took=$(round_trip_ms)
check "no delay gives a round trip below 1 ms: $took ms" between 0 "$took" 1
lab down

# A round trip has two frames, each lost with probability p. It fails with q = 1 - (1 - p)^2. Of n
# round trips n q fail, with a standard error of sqrt(n q (1 - q)).
pings=1500
lost_pings() {  # lost_pings SEED
  up --hosts 2 --rate none --loss 5% --seed "$1" >&2
  lab exec host0 ping -n -f -q -W 0.2 -c "$pings" host1 |
    awk '/transmitted/ { print $1 - $4 }'
  lab down
}
within_five_errors() {
  awk -v n="$pings" -v lost="$1" 'BEGIN {
    q = 1 - 0.95^2
    error = sqrt(n * q * (1 - q))
    exit !(n * q - 5 * error < lost && lost < n * q + 5 * error)
  }'
}

first=$(lost_pings 1)
check "5 % loss per direction, within 5 standard errors: $first of $pings lost" within_five_errors "$first"
again=$(lost_pings 1)
check "equal seeds lose equal numbers of frames: $first and $again" test "$first" = "$again"
finish
