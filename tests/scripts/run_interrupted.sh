#!/usr/bin/env bash
# run_interrupted.sh SIGNAL STATUS
#
# Interrupts tests/run.sh, in a nearly empty clone, while it builds, while it tests, and while it
# downloads PyTorch. Its help must have no side effects.
set -euo pipefail
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT

mkdir -p "$clone/tests/support" "$clone/cmake"
cp "$top/tests/run.sh" "$clone/tests"
cp "$top/tests/support/interruptible.sh" "$clone/tests/support"
cp "$top/cmake/progress.sh" "$clone/cmake"
echo "touch '$clone/is_set_up'" >"$clone/cmake/setup.sh"
cat >"$clone/CMakePresets.json" <<'PRESETS'
{"version": 3, "configurePresets": [
  {"name": "tests", "generator": "Ninja", "binaryDir": "${sourceDir}/build-tests"}]}
PRESETS
cat >"$clone/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.25)
project(next_to_nothing NONE)
enable_testing()
set(wait sh -c "echo begun >${CMAKE_SOURCE_DIR}/begun\; sleep 1234 & sleep 1234")
if(EXISTS ${CMAKE_SOURCE_DIR}/builds_for_long)
  add_custom_target(compilers ALL COMMAND ${wait} VERBATIM)
endif()
add_test(NAME waits COMMAND ${CMAKE_COMMAND} -E env ${wait})
PROJECT

[[ "$(bash "$clone/tests/run.sh" --help)" == *"tests/run.sh [OPTIONS]"* ]]
[[ ! -e $clone/is_set_up ]] || { echo "FAILED: --help has set things up" >&2 && exit 1; }

status=0
bash "$clone/tests/run.sh" --quick >"$clone/refused" 2>&1 || status=$?
[[ $status == 2 && "$(<"$clone/refused")" == *"there is no option '--quick'"* && ! -e $clone/is_set_up ]]

touch "$clone/builds_for_long"
"$top/tests/support/interrupted.sh" "$1" "$2" "$clone/begun" bash "$clone/tests/run.sh"
rm "$clone/builds_for_long"
"$top/tests/support/interrupted.sh" "$1" "$2" "$clone/begun" bash "$clone/tests/run.sh"
grep -q "built after" "$clone/begun.output"
mkdir "$clone/tests/torch"
echo "timeout 1000 sleep 1234 & echo begun >'$clone/begun'; wait" >"$clone/tests/torch/setup.sh"
"$top/tests/support/interrupted.sh" "$1" "$2" "$clone/begun" bash "$clone/tests/run.sh" --torch
