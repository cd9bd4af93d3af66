#!/usr/bin/env bash
# with_aggregator.sh HCOMP_AGGREGATOR COMMAND...: runs COMMAND beside an hcomp-aggregator on a free
# port, and replaces the word ADDRESS by its address. The status is the command's.
set -euo pipefail
coproc "$1" --listen 127.0.0.1:0
trap 'kill "$COPROC_PID"; wait' EXIT
read -r -u "${COPROC[0]}" said
address=${said#hcomp-aggregator: listens on }
shift
"${@/#ADDRESS/$address}"
