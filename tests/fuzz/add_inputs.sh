#!/usr/bin/env bash
# add_inputs.sh ARCHIVE FILE...: adds inputs to ARCHIVE (<name>.tar.xz) under the names of their
# files. libFuzzer names a file after its contents. Creates ARCHIVE if it does not exist. The same
# inputs in any order give the same bytes.
set -euo pipefail

if [[ $# -lt 2 || $1 != *.tar.xz ]]; then
  echo "usage: add_inputs.sh ARCHIVE.tar.xz FILE..." >&2
  exit 2
fi
archive=$1
shift
inputs=$(mktemp -d)
trap 'rm -rf "$inputs" "$inputs.tar.xz"' EXIT

[[ ! -e $archive ]] || tar -xf "$archive" -C "$inputs"
cp -- "$@" "$inputs"
(cd "$inputs" && printf '%s\n' *) |
  LC_ALL=C sort |
  tar -C "$inputs" --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=0644 -cf - -T - |
  xz -9e >"$inputs.tar.xz"
mv "$inputs.tar.xz" "$archive"
echo "$archive: $(find "$inputs" -type f | wc -l) inputs"
