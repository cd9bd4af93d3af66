#!/usr/bin/env bash
# Prints the file with the text that models of language learn, the dictionary GCIDE of Debian's package
# dict-gcide. Where that is not installed, it is only unpacked into a folder: installed, it would bring
# a server along.
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
    echo "examples/support/gcide.sh: the package dict-gcide was not fetched:" >&2
    tail -n 40 gcide.log >&2
    exit 1
  }
  cd "$OLDPWD"
fi
echo "$1/$text"
