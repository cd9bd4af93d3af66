#!/usr/bin/env bash
# Synthesizes the engine for three families of FPGAs with Yosys, places and routes it on an iCE40
# with nextpnr-ice40, and prints the table of README.md. Takes some minutes.
#
#   plugins/inceptionn_engine/synthesize.sh [--readme]
#
#   --readme   also writes the table to README.md
#
# Requires yosys and nextpnr-ice40, which are packages of Debian 12.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

if (($# > 1)) || [[ ${1---readme} != --readme ]]; then
  echo "usage: synthesize.sh [--readme] (was called with '$*')" >&2
  exit 2
fi
for program in yosys nextpnr-ice40; do
  if ! command -v "$program" >/dev/null; then
    echo "synthesize.sh: $program was not found; on Debian: apt-get install yosys nextpnr-ice40" >&2
    exit 1
  fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# synthesize <name> <top> <commands of Yosys>: writes the cell counts to $work/<name>.
synthesize() {
  echo "synthesize.sh: $1" >&2
  if ! yosys -q -l "$work/log" -p "read_verilog -sv *.sv synthesis/*.sv; $3; tee -o $work/$1 stat -top $2"; then
    tail -n 20 "$work/log" >&2
    exit 1
  fi
}
# cells <name> <pattern>: number of cells of these types.
cells() {
  awk -v pattern="^($2)\$" '/Number of cells:/ { counting = 1; next } counting && NF == 2 && $1 ~ pattern { sum += $2 }
    END { print sum + 0 }' "$work/$1"
}
# place <name>: on an iCE40 HX8K. Writes "<logic cells> <MHz>" to $work/<name>.placed; fails if the
# design does not fit.
place() {
  nextpnr-ice40 --hx8k --package ct256 --seed 1 --freq 100 --timing-allow-fail -q \
    --json "$work/$1.json" --report "$work/$1.report" >"$work/log" 2>&1 || return 1
  python3 - "$work/$1.report" >"$work/$1.placed" <<'PYTHON'
import json, sys
report = json.load(open(sys.argv[1]))
clock, = report["fmax"].values()
print(report["utilization"]["ICESTORM_LC"]["used"], round(clock["achieved"]))
PYTHON
}

rows=()
for part in compressor decompressor; do
  top=inceptionn_$part
  synthesize "xilinx_$part" "$top" "synth_xilinx -flatten -abc9 -nowidelut -noiopad -top $top; tee -o $work/arrival sta"
  logic_ps=$(sed -n "s/^Latest arrival time in '$top' is \([0-9]*\):/\1/p" "$work/arrival")
  rows+=("| $part | Xilinx 7-series | $(cells "xilinx_$part" 'LUT[1-6]') LUT, $(cells "xilinx_$part" 'FD.*') flip-flops | $(
    cells "xilinx_$part" 'RAM.*|SRL.*') | $(awk "BEGIN { printf \"%.1f\", $logic_ps / 1000 }") ns of logic on the longest path |")
  synthesize "ecp5_$part" "$top" "synth_ecp5 -top $top"
  rows+=("| $part | Lattice ECP5 | $(cells "ecp5_$part" 'LUT4') LUT4, $(cells "ecp5_$part" 'CCU2C') carries, $(
    cells "ecp5_$part" 'TRELLIS_FF') flip-flops | $(cells "ecp5_$part" 'DP16KD|PDPW16KD|TRELLIS_DPR16X4') | |")
done

for part in compressor decompressor; do
  name=ice40_$part
  synthesize "$name" "$name" "synth_ice40 -abc9 -device hx -top $name -json $work/$name.json"
  if place "$name"; then
    read -r logic_cells mhz <"$work/$name.placed"
    rows+=("| $part | iCE40 HX8K, placed and routed | $logic_cells of 7680 logic cells | | $mhz MHz |")
  else
    rows+=("| $part | iCE40 HX8K | $(cells "$name" SB_LUT4) LUT4: not placed, see nextpnr-ice40 | | |")
  fi
done
{
  echo "| part | chip | cells | memory blocks | clock |"
  echo "|---|---|---|---|---|"
  printf '%s\n' "${rows[@]}"
} | tee "$work/table"

if [[ ${1-} == --readme ]]; then
  awk -v table="$work/table" '
    /^<!-- end of the table -->$/ { skip = 0 }
    !skip { print }
    /^<!-- table by synthesize.sh -->$/ { skip = 1; while ((getline line < table) > 0) print line }' README.md >"$work/readme"
  cat "$work/readme" >README.md
fi
