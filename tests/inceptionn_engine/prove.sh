#!/usr/bin/env bash
# Proves properties of the engine by Yosys, for all inputs and all times. The files in proofs/ state
# the properties.
#
#   tests/inceptionn_engine/prove.sh [lane] [stage] [handshakes] [packer] [unpacker]
#
# Default: all. The last two take some minutes; ctest runs the other proofs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# Registers of the module that a proof reads: dut_<register> in the proof.
declare -A registers=(
  [packer]="buffer fill ending last_keep"
  [unpacker]="bursts count place left whole ended"
)
proofs=("$@")
((${#proofs[@]} > 0)) || proofs=(lane stage handshakes packer unpacker)

for proof in "${proofs[@]}"; do
  if [[ ! -e proofs/$proof.sv ]]; then
    echo "prove.sh: there is no proof '$proof'; there are: $(basename -as .sv proofs/*.sv | xargs)" >&2
    exit 2
  fi
  connections=
  for register in ${registers[$proof]-}; do
    connections+="connect -set dut_$register dut.$register; "
  done
  # By induction over time, except for modules without registers.
  by="-tempinduct"
  [[ $proof != lane ]] || by=
  log=$(mktemp)
  start=$SECONDS
  if yosys -e '.*' -p "read_verilog -formal -sv proofs/$proof.sv handshake.sv ../../plugins/inceptionn_engine/*.sv
      hierarchy -check -top $proof; proc; flatten; $connections
      check -assert; async2sync; dffunmap; opt -full
      sat -verify -prove-asserts -set-assumes $by $proof" >"$log" 2>&1 &&
    grep -q 'SUCCESS!$' "$log"; then
    echo "$proof: proven, $((SECONDS - start)) s"
    rm "$log"
  else
    tail -n 60 "$log" | cut -c 1-200
    echo "$proof: NOT proven; Yosys' output is in $log" >&2
    exit 1
  fi
done
