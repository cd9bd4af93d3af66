#!/usr/bin/env bash
# Installs NVIDIA's disassembler from PyPI into the virtual environment build/nvdisasm, for the
# test ptx.sass. 5 MB to download, 31 MB on disk; returns at once if it is complete. No GPU
# needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

wheel=nvidia-cuda-nvdisasm==13.5.37
folder=build/nvdisasm
if "$folder/bin/python" -m pip list --format freeze 2>/dev/null | grep -xF "$wheel" >/dev/null; then
  echo "setup: $wheel is installed in $folder"
  exit 0
fi
echo "setup: downloading $wheel into $folder"
rm -rf "$folder"
mkdir -p build
/usr/bin/python3 -m venv "$folder"
timeout 300 "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$wheel" </dev/null || {
  rm -rf "$folder"
  exit 1
}
echo "setup: done"
