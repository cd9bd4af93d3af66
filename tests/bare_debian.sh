#!/usr/bin/env bash
# Runs the README's two commands in a bare Debian 12: a debootstrap root that has git and
# ca-certificates, and nothing else. By hand, as root, before a release; takes half an hour.
#
#   tests/bare_debian.sh FOLDER [COMMAND...]    default: examples/run.sh tests/run.sh
#
# FOLDER becomes the root, or is one that an earlier run made; the commands run in a fresh clone of
# HEAD. DEBIAN_MIRROR is where packages come from, by default http://deb.debian.org/debian. Prints
# the seconds that each command took; exits with 1 if one failed.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

usage() {
  echo "usage: tests/bare_debian.sh FOLDER [COMMAND...] ($1)" >&2
  exit 2
}
(($# > 0)) || usage "no folder"
((EUID == 0)) || usage "debootstrap and chroot need root"
command -v debootstrap >/dev/null || usage "debootstrap is not installed"
root=$1
shift
commands=("$@")
((${#commands[@]} > 0)) || commands=(examples/run.sh tests/run.sh)

if [[ ! -e $root/usr/bin/git ]]; then
  debootstrap --variant=minbase --include=git,ca-certificates bookworm "$root" \
    "${DEBIAN_MIRROR:-http://deb.debian.org/debian}" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    exit 1
  }
fi
root=$(cd "$root" && pwd)

mounted=()
unmount() {
  local i
  for ((i = ${#mounted[@]} - 1; i >= 0; i--)); do umount -l "${mounted[i]}" || true; done
}
trap unmount EXIT
bind() { # bind <arguments for mount> TARGET
  mount "$@"
  mounted+=("${*: -1}")
}
bind -t proc proc "$root/proc"
# As slaves: unmounting them must not unmount those of the host.
bind --rbind --make-rslave /sys "$root/sys"
bind --rbind --make-rslave /dev "$root/dev"
cp /etc/resolv.conf /etc/hosts "$root/etc/"

rm -rf "$root/home/hcomp"
git clone -q "$top" "$root/home/hcomp"
status=0
for command in "${commands[@]}"; do
  start=$SECONDS
  code=0
  chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    bash -c "cd /home/hcomp && $command" </dev/null || code=$?
  echo "bare_debian: '$command' ended with $code after $((SECONDS - start)) s"
  ((code == 0)) || status=1
done
exit $status
