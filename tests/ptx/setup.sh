#!/usr/bin/env bash
# Makes build/nvdisasm, a virtual environment with NVIDIA's disassembler from PyPI, for ptx.sass. 5 MB to fetch and
# 31 MB on disk; quick when it is there. It needs no GPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

wheel=nvidia-cuda-nvdisasm==13.5.37
folder=build/nvdisasm
if "$folder/bin/python" -m pip list --format freeze 2>/dev/null | grep -xF "$wheel" >/dev/null; then
  echo "setup: $wheel is in $folder"
  exit 0
fi
echo "setup: fetching $wheel into $folder"
rm -rf "$folder"
mkdir -p build
/usr/bin/python3 -m venv "$folder"
timeout 300 "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel" </dev/null || {
  rm -rf "$folder"
  exit 1
}
echo "setup: done"
