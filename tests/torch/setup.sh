#!/usr/bin/env bash
# Makes build/torch, a virtual environment with PyTorch from PyPI, whose back ends can be written in Python.
# About 3 GB to fetch and 5.4 GB on disk, 5 minutes; quick when it is there. It needs no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=build/torch/bin/python
if [[ -x $python ]] && "$python" -c 'import numpy, torch' 2>/dev/null; then
  echo "setup: $("$python" -c 'import torch; print("PyTorch", torch.__version__)') is in build/torch"
  exit 0
fi
echo "setup: fetching PyTorch into build/torch"
mkdir -p build
/usr/bin/python3 -m venv build/torch
timeout 900 "$python" -m pip install --quiet --disable-pip-version-check 'torch>=2.15' numpy </dev/null || {
  rm -rf build/torch
  exit 1
}
echo "setup: done"
