#!/usr/bin/env bash
# Installs PyTorch from PyPI into the virtual environment build/torch, and frameworks whose hooks
# are tested; it supports c10d back ends written in Python. About 3 GB to download, 5.6 GB on disk,
# 5 minutes; returns at once if it is complete. No GPU needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=build/torch/bin/python
pip=(timeout 900 "$python" -m pip install --quiet --disable-pip-version-check)
if ! [[ -x $python ]] || ! "$python" -c 'import numpy, torch' 2>/dev/null; then
  echo "setup: downloading PyTorch into build/torch"
  mkdir -p build
  /usr/bin/python3 -m venv build/torch
  "${pip[@]}" 'torch>=2.15' numpy </dev/null || {
    rm -rf build/torch
    exit 1
  }
fi
frameworks=(accelerate lightning transformers)
known='import importlib.metadata, sys; [importlib.metadata.version(name) for name in sys.argv[1:]]'
if ! "$python" -c "$known" "${frameworks[@]}" 2>/dev/null; then
  echo "setup: downloading ${frameworks[*]} into build/torch"
  "${pip[@]}" "${frameworks[@]}" </dev/null
fi
echo "setup: $("$python" -c 'import torch; print("PyTorch", torch.__version__)') is installed in build/torch"
