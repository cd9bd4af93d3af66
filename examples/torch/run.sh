#!/usr/bin/env bash
# Installs PyTorch and hcomp into a virtual environment, trains a GPT with several methods and
# compares them.
#
#   examples/torch/run.sh [<arguments for compare.py>] [-- <arguments for gpt.py>]
#   examples/torch/run.sh --help
#
# Without arguments: four ranks, five methods, two seeds, 300 steps. The first run downloads 3 GB
# and builds hcomp's libraries. Results are in results/torch.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

if (($# == 0)); then set -- --seeds 2 -- --steps 300 --batch 4 --every 20; fi
for_compare=()
while (($# > 0)) && [[ $1 != -- ]]; do
  if [[ $1 == -h || $1 == --help ]]; then
    sed -n '2,/^set /{/^set /d;s/^# \{0,1\}//p}' "$top/examples/torch/run.sh"
    [[ ! -x /usr/bin/python3 ]] || /usr/bin/python3 "$top/examples/torch/compare.py" --help
    exit
  fi
  for_compare+=("$1")
  shift
done
if (($# > 0)); then shift; fi

bash "$top/cmake/setup.sh" torch
bash "$top/tests/torch/setup.sh"

venv=$top/build/torch
installed=$venv/hcomp-installed # its modification time is the time of the installation
newer() { find "$top/include" "$top/plugins" -newer "$installed" -type f -print -quit; }
if [[ ! -e $installed || -n $(newer) ]]; then
  echo "building the Python package hcomp and installing it into build/torch"
  "$venv/bin/python" -m pip install --disable-pip-version-check --force-reinstall --no-deps \
    "$top/plugins/python" >"$venv/hcomp.log" 2>&1 </dev/null || {
    echo "examples/torch/run.sh: pip failed:" >&2
    tail -n 40 "$venv/hcomp.log" >&2
    exit 1
  }
  touch "$installed"
fi
text=$(bash "$top/examples/support/gcide.sh" "$venv")

export OMP_NUM_THREADS=1 # per rank; torchrun prints a warning if it is not set
exec "$venv/bin/python" "$top/examples/torch/compare.py" --results "$top/results/torch" \
  "${for_compare[@]}" -- --data "$text" "$@"
