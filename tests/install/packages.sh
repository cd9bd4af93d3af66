#!/usr/bin/env bash
# Installs Debian packages of a build on a separate root, uses them there, and removes them without
# a trace.
#
#   packages.sh SOURCE BUILD WORK [PROGRAM]
#
# PROGRAM all-reduces with Open MPI and does not use hcomp (tests/pmpi). The root is an overlay of
# this machine's: changes are in memory and vanish at the end. Skipped without root rights and
# mount namespaces.
set -euo pipefail

if [[ ${1-} == --inside ]]; then
  source=$2 work=$3 program=${4-}
  export DEBIAN_FRONTEND=noninteractive LC_ALL=C PYTHONDONTWRITEBYTECODE=1
  find /usr -name '*hcomp*' | sort >/before
  dpkg --force-unsafe-io -i "$work"/packages/*.deb >/installed.log 2>&1 || {
    cat /installed.log
    exit 1
  }
  hcomp-info >/dev/null
  hcomp-aggregator --version >/dev/null
  hcomp_perf --help >/dev/null
  cd /
  /usr/bin/python3 -m hcomp
  /usr/bin/python3 -c 'import hcomp; assert hcomp.__file__.startswith("/usr/lib/python3/"), hcomp.__file__'
  cmake -S "$source/tests/install/consumer" -B /consumer -DWAY=find_package -DCOMPONENT=compiled \
    -DVERSION="$(dpkg-query -W -f '${source:Upstream-Version}' libhcomp-dev)" -DCMAKE_BUILD_TYPE=Debug >/consumer.log
  cmake --build /consumer >>/consumer.log
  /consumer/consumer
  pkg-config --exists --print-errors hcomp-compiled hcomp-ucx hcomp-c-openmpi
  [[ -z $program ]] || mpirun.openmpi --allow-run-as-root --oversubscribe -n 2 \
    -x LD_PRELOAD=/usr/lib/hcomp/openmpi/libhcomp_pmpi.so -x HCOMP_CONFIG="all: error_bounded 1e-4 min=0" \
    "$program" within 1e-4
  mapfile -t packages < <(dpkg-query -W -f '${Package}\n' '*hcomp*')
  dpkg --force-unsafe-io -P "${packages[@]}" >/dev/null
  find /usr -name '*hcomp*' | sort | diff /before -
  echo "installed, used and removed"
  exit
fi

source=$1 build=$2 work=$3 program=${4-}
rm -rf "$work"
mkdir -p "$work/root"
# shellcheck disable=SC2016  # arguments of the inner shell
unshare --mount --propagation private bash -euc '
  mount -t tmpfs tmpfs "$1"
  mkdir "$1/upper" "$1/work" "$1/all"
  mount -t overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" overlay "$1/all"' - "$work/root" 2>/dev/null || {
  echo "Skipped: it needs root and the right to mount an overlay"
  exit 77
}
(cd "$build" && cpack -B "$work/packages") >"$work/cpack.log" 2>&1 || {
  cat "$work/cpack.log"
  exit 1
}
for package in "$work"/packages/*.deb; do
  dpkg-deb -f "$package" Package Version Architecture Depends
done

# shellcheck disable=SC2016  # arguments of the inner shell
exec unshare --mount --propagation private bash -euc '
  work=$1 root=$1/root
  mount -t tmpfs -o size=1g tmpfs "$root"
  mkdir "$root/upper" "$root/work" "$root/all"
  mount -t overlay -o "lowerdir=/,upperdir=$root/upper,workdir=$root/work" overlay "$root/all"
  for folder in proc sys dev; do mount --rbind "/$folder" "$root/all/$folder"; done
  for folder in "$work/packages" "$2"; do  # wherever they are mounted
    mkdir -p "$root/all$folder"
    mount --bind "$folder" "$root/all$folder"
  done
  exec chroot "$root/all" bash "$2/tests/install/packages.sh" --inside "$2" "$work" "$3"' - "$work" "$source" "$program"
