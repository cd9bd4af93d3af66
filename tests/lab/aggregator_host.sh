# shellcheck shell=bash
# Runs hcomp-aggregator on a node of the lab and measures its CPU time. Source this after setting
# $HCOMP_LAB. It sets kernel.bpf_stats_enabled, which measures programs in the kernel; at the end
# of the script it restores that value and removes the lab.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
statistics=/proc/sys/kernel/bpf_stats_enabled
statistics_before=$(<"$statistics")
leave() {
  echo "$statistics_before" >"$statistics"
  "$here/lab.sh" down
  rm -rf "$folder"
}
trap leave EXIT
echo 1 >"$statistics"

needs_programs() {  # needs_programs SCRIPT PROGRAM...
  local program
  for program in "${@:2}"; do
    [[ -x $program ]] || {
      echo "usage: $1 BUILD ('$program' is no program)" >&2
      exit 2
    }
  done
}

# Sets aggregator_id to the PID of the aggregator.
start_aggregator() {  # start_aggregator COMMAND HOST process|generic|xdp
  local options=()
  case $3 in
    process) ;;
    generic) options=(--mode xdp --interface eth0 --generic) ;;
    xdp) options=(--mode xdp --interface eth0) ;;
    *)
      echo "there is no mode '$3'; the modes are process, generic, xdp" >&2
      exit 2
      ;;
  esac
  : >"$folder/said"
  "$here/lab.sh" exec "$2" "$1" "${options[@]}" >"$folder/said" &
  aggregator_id=$!
  until grep -q listens "$folder/said"; do
    kill -0 "$aggregator_id" 2>/dev/null || exit 1  # it has printed the reason
    sleep 0.05
  done
  # The aggregator is a descendant of the process that enters the lab.
  until grep -q '^hcomp-aggregato$' "/proc/$aggregator_id/comm"; do
    aggregator_id=$(pgrep -P "$aggregator_id")
  done
}

end_aggregator() {
  kill -TERM "$aggregator_id"
  wait
}

# CPU seconds of the aggregator's process since its start.
process_seconds() { awk '{ print ($14 + $15) / 100 }' "/proc/$aggregator_id/stat"; }
# Statistics of its programs in the kernel, which it prints at its end.
kernel_programs() { sed -n 's/^in the kernel: //p' "$folder/said"; }
