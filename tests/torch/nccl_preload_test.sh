#!/usr/bin/env bash
# nccl_preload_test.sh LIBRARY PYTHON: the functions that PyTorch calls with libhcomp_nccl.so
# preloaded. The loader tells them; no GPU is needed.
set -euo pipefail
bindings=$(LD_PRELOAD=$1 LD_BIND_NOW=1 LD_DEBUG=bindings "$2" -c 'import torch.distributed' 2>&1 >/dev/null |
  grep -E 'libtorch[a-z_]*\.so.* symbol `nccl' || true)
if [[ -z $bindings ]]; then
  echo "this PyTorch calls no NCCL"
  exit 77
fi
status=0
check() { # check FUNCTION LIBRARY
  local found
  found=$(grep "symbol \`$1'" <<<"$bindings" | sed 's/.* to \([^ ]*\) .*/\1/' | sort -u)
  if [[ ${found##*/} != "$2" ]]; then
    echo "$1 is of '$found', not of $2"
    status=1
  fi
}
for name in ncclAllReduce ncclReduceScatter ncclGroupStart ncclGroupEnd ncclCommDestroy ncclCommAbort \
  ncclCommGetAsyncError; do
  check "$name" libhcomp_nccl.so
done
for name in ncclSend ncclAllGather ncclCommInitRankConfig; do check "$name" libnccl.so.2; done
exit $status
