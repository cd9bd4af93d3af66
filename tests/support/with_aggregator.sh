#!/usr/bin/env bash
# with_aggregator.sh HCOMP_AGGREGATOR COMMAND...: runs COMMAND beside an hcomp-aggregator on a free port,
# whose address takes the place of the word ADDRESS. The status is the command's.
set -euo pipefail
coproc "$1" --listen 127.0.0.1:0
trap 'kill "$COPROC_PID"; wait' EXIT
read -r -u "${COPROC[0]}" said
address=${said#hcomp-aggregator: listens on }
shift
"${@/#ADDRESS/$address}"
