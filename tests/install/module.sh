#!/usr/bin/env bash
# Tests the modulefile: `module load` makes an installation available, and `module unload` leaves
# nothing of it in the environment.
#
#   module.sh MODULECMD PREFIX VERSION
set -euo pipefail
modulecmd=$1 prefix=$(realpath "$2") version=$3

fail() {
  echo "$*" >&2
  exit 1
}
module() { eval "$("$modulecmd" bash "$@")"; }
is() { [[ ${!1-} == "$2" ]] || fail "$1 is '${!1-}', not '$2'"; }

unset CMAKE_PREFIX_PATH PKG_CONFIG_PATH PYTHONPATH LOADEDMODULES _LMFILES_
export MODULEPATH=$prefix/share/modulefiles
path=$(getconf PATH)  # without duplicates, which Lmod would remove
export PATH=$path
module load "hcomp/$version"
is PATH "$prefix/bin:$path"
is CMAKE_PREFIX_PATH "$prefix"
[[ $(pkg-config --modversion hcomp) == "$version" ]] || fail "pkg-config finds another hcomp"
python3 - "$prefix" <<'PYTHON' || fail "Python finds no hcomp, or another one"
import importlib.util, sys
sys.exit(not importlib.util.find_spec("hcomp").origin.startswith(sys.argv[1]))
PYTHON
module unload hcomp
is PATH "$path"
is CMAKE_PREFIX_PATH ""
is PKG_CONFIG_PATH ""
is PYTHONPATH ""
