#!/usr/bin/env bash
# matrix_interrupted.sh SIGNAL STATUS
#
# Runs tests/lab/matrix.sh with scripts in place of the lab, CMake, hcomp_perf and plot.py.
# Interrupted on the second network, it must remove the lab and report the measurements of both
# networks. The lab's own tests interrupt the lab.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT

mkdir -p "$clone"/{tests/lab,tests/support,cmake,bin,build/examples/perf}
cp "$top/tests/lab/matrix.sh" "$clone/tests/lab"
cp "$top/tests/support/interruptible.sh" "$clone/tests/support"
echo true >"$clone/cmake/setup.sh"
cat >"$clone/tests/lab/lab.sh" <<LAB
#!/usr/bin/env bash
echo "\$1" >>"$clone/lab"
[[ \$1 != run ]] || exec "\${@:5}"
LAB
echo '#!/bin/sh' >"$clone/bin/cmake"
# Succeeds on the first network. On the second network it writes its results when it gets a signal.
cat >"$clone/build/examples/perf/hcomp_perf" <<PERF
#!/usr/bin/env bash
file=\${*: -1}
if [[ \$file == *1gbit* ]]; then
  trap 'echo results >"\$file"; exit 143' TERM
  sleep 1234 &
  echo begun >"$clone/begun"
  wait
fi
echo results >"\$file"
PERF
mkdir -p "$clone/examples/support"
cat >"$clone/examples/support/plot.py" <<'PLOT'
#!/usr/bin/env bash
echo "report from" "$@"
PLOT
chmod +x "$clone/examples/support/plot.py" "$clone"/tests/lab/* "$clone/bin/cmake" "$clone/build/examples/perf/hcomp_perf"

PATH=$clone/bin:$PATH RATES="100mbit 1gbit" HOSTS=2 DELAYS=none LOSSES=none MPIS=openmpi \
  "$top/tests/support/interrupted.sh" "$1" "$2" "$clone/begun" bash "$clone/tests/lab/matrix.sh"
[[ $(tail -n 1 "$clone/lab") == down ]] || { echo "FAILED: the lab is still up" >&2 && exit 1; }
grep -q "^report from .*/100mbit-2-.*json .*/1gbit-2-.*json" "$clone/begun.output" ||
  { echo "FAILED: no report on both networks" >&2 && cat "$clone/begun.output" >&2 && exit 1; }
