# shellcheck shell=bash
# hcomp-aggregator on a host of the lab, and the CPU time that it takes. A script sources this once
# $HCOMP_LAB is set; kernel.bpf_stats_enabled, which counts the time of the kernel's programs, is set to
# its end, when the lab goes down, too.

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
      echo "usage: $1 BUILD (there is no program '$program')" >&2
      exit 2
    }
  done
}

# Sets aggregator_id, of its process.
start_aggregator() {  # start_aggregator COMMAND HOST process|generic|xdp
  local options=()
  case $3 in
    process) ;;
    generic) options=(--mode xdp --interface eth0 --generic) ;;
    xdp) options=(--mode xdp --interface eth0) ;;
    *)
      echo "there is no mode '$3': process, generic and xdp are" >&2
      exit 2
      ;;
  esac
  : >"$folder/said"
  "$here/lab.sh" exec "$2" "$1" "${options[@]}" >"$folder/said" &
  aggregator_id=$!
  until grep -q listens "$folder/said"; do
    kill -0 "$aggregator_id" 2>/dev/null || exit 1  # it has said why
    sleep 0.05
  done
  # The command is below the one that enters the lab.
  until grep -q '^hcomp-aggregato$' "/proc/$aggregator_id/comm"; do
    aggregator_id=$(pgrep -P "$aggregator_id")
  done
}

end_aggregator() {
  kill -TERM "$aggregator_id"
  wait
}

# CPU seconds so far of the aggregator's process.
process_seconds() { awk '{ print ($14 + $15) / 100 }' "/proc/$aggregator_id/stat"; }
# What it has said of its programs in the kernel, once it has ended.
kernel_programs() { sed -n 's/^in the kernel: //p' "$folder/said"; }
