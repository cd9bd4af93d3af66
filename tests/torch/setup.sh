#!/usr/bin/env bash
# Installs PyTorch from PyPI into the virtual environment build/torch, and frameworks whose hooks
# are tested; it supports c10d back ends written in Python. About 3 GB to download, 5.6 GB on disk,
# 5 minutes; returns at once if it is complete. No GPU needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=build/torch/bin/python
packages=('torch>=2.15' numpy accelerate lightning transformers)
complete='import importlib.metadata as m, numpy, torch
[m.version(name) for name in ("accelerate", "lightning", "transformers")]'
if [[ -x $python ]] && "$python" -c "$complete" 2>/dev/null; then
  echo "setup: $("$python" -c 'import torch; print("PyTorch", torch.__version__)') is installed in build/torch"
  exit 0
fi
echo "setup: downloading PyTorch into build/torch"
mkdir -p build
/usr/bin/python3 -m venv build/torch
timeout 900 "$python" -m pip install --quiet --disable-pip-version-check "${packages[@]}" </dev/null || {
  rm -rf build/torch
  exit 1
}
echo "setup: done"
