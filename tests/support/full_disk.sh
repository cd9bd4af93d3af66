#!/usr/bin/env bash
# full_disk.sh TEXT COMMAND...
#
# Runs the command with its output to a full disk: it must end with status 1 and print the text.
set -u
text=$1
shift
status=0
said=$("$@" 2>&1 >/dev/full </dev/null) || status=$?
[[ $status == 1 && $said == *"$text"* ]] ||
  { echo "FAILED: status $status, should be 1; it should say '$text', it said: $said" >&2 && exit 1; }
