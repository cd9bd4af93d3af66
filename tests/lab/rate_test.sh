#!/usr/bin/env bash
# shellcheck disable=SC2317  # functions are called by check and await
# Links deliver their rate: the TCP payload is 1448 of 1514 bytes of it, within 5 %.
# shellcheck source=support.sh
source "$(dirname "${BASH_SOURCE[0]}")/support.sh"

command -v iperf3 >/dev/null || {
  echo "Skipped: there is no iperf3; on Debian install the package iperf3"
  exit 77
}

payload_mbit() {
  lab exec host0 iperf3 --client host1 --time 1 --format k | awk '/receiver/ { print $7 / 1000 }'
}

delivers() {  # delivers MBIT OPTIONS...
  up --hosts 2 --rate "${1}mbit" "${@:2}"
  lab exec host1 iperf3 --server --daemon
  await lab exec host0 bash -c '</dev/tcp/host1/5201'
  carries "$@"
}

delivers_after_change() {  # delivers_after_change FROM TO
  up --hosts 2 --rate "$1"
  lab exec host1 iperf3 --server --daemon
  await lab exec host0 bash -c '</dev/tcp/host1/5201'
  lab rate "$2mbit"
  carries "$2"
}

carries() {  # carries MBIT WORDS...: measures the rate, removes the lab
  local mbit=$1 turn runs middle
  # Three attempts: other work on the machine can slow one down; a wrong link fails all.
  for turn in 1 2 3; do
    runs=$(for _ in 1 2 3; do payload_mbit; done)
    middle=$(median <<<"$runs")
    echo "$mbit Mbit/s ${*:2}, attempt $turn: $(xargs <<<"$runs") Mbit/s of payload"
    ! within_five_percent "$middle" "$mbit" || break
  done
  lab down
  within_five_percent "$middle" "$mbit"
}

within_five_percent() {
  between 0.95 "$(awk -v x="$1" -v mbit="$2" 'BEGIN { print x / (mbit * 1448 / 1514) }')" 1.05
}

check "100 Mbit/s" delivers 100
check "1 Gbit/s" delivers 1000
check "from 100 to 300 Mbit/s" delivers_after_change 100mbit 300
check "from no limit to 10 Mbit/s" delivers_after_change none 10
check "100 Mbit/s with a delay" delivers 100 --delay 1ms
finish
