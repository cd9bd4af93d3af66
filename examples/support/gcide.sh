#!/usr/bin/env bash
# Prints the path of the training text of the language models: the dictionary GCIDE of Debian's
# package dict-gcide. If the package is not installed, the script unpacks it into <folder>, because
# installing the package would also install a server.
#
#   examples/support/gcide.sh <folder>
set -euo pipefail

text=usr/share/dictd/gcide.dict.dz
if [[ -e /$text ]]; then
  echo "/$text"
  exit
fi
if [[ ! -e $1/$text ]]; then
  mkdir -p "$1"
  cd "$1"
  { apt-get download dict-gcide && dpkg-deb -x dict-gcide_*.deb .; } >gcide.log 2>&1 </dev/null || {
    echo "examples/support/gcide.sh: downloading the package dict-gcide failed:" >&2
    tail -n 40 gcide.log >&2
    exit 1
  }
  cd "$OLDPWD"
fi
echo "$1/$text"
