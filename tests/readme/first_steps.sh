#!/usr/bin/env bash
# first_steps.sh STEP SOURCE BINARY WORK: runs the commands of README.md and other pages, as printed
# there.
#
# A step extracts blocks of commands from the pages and runs them with bash in a fresh copy of
# SOURCE, which has no build folder. It runs `cmake -B build` and all later commands as on the page,
# but no command that builds for minutes.
#
# For a line `cmake --preset release && cmake --build build --target X` on a page, a script in place
# of CMake checks that the preset and the target exist. `build` is then BINARY, where the tests were
# built. cmake/setup.sh does nothing. For a program of the reader, called your_program, the step
# uses one of ours. Exit status 77: the step cannot run here.
#
# From the environment: CXX; MPIEXEC_openmpi, MPIEXEC_mpich; MPI4PY_PYTHON, an interpreter with
# mpi4py.
set -euo pipefail

step=$1 source=$2 binary=$3 work=$4/$1
tree=$work/hcomp bin=$work/bin
export HOME=$work/home

fail() {
  echo "first_steps: $step: $*" >&2
  exit 1
}
skip() {
  echo "Skipped: $*"
  exit 77
}

# block PAGE LANGUAGE TEXT: the only fenced block of PAGE in LANGUAGE that contains TEXT.
block() {
  awk -v language="$2" -v text="$3" '
    $0 == "```" && inside { if (index(block, text)) { found++; last = block }; inside = 0; next }
    /^```/ && !inside { inside = $0 == "```" language; block = ""; if (!inside) other = 1; next }
    $0 == "```" { other = 0; next }
    inside { block = block $0 "\n" }
    END { if (found != 1) exit 1; printf "%s", last }
  ' "$source/$1" || fail "$1 should have one block in $2 with '$3'"
}

# A fresh copy of the files in version control, and a folder of scripts that replace programs.
prepare() {
  rm -rf "$work"
  mkdir -p "$tree" "$bin" "$HOME"
  (cd "$source" && cp -r CMakeLists.txt CMakePresets.json LICENSE README.md cmake include kernels plugins examples "$tree")
  mkdir -p "$tree/tests"
  (cd "$source/tests" && for name in *; do [[ $name == fuzz ]] || cp -r "$name" "$tree/tests"; done)
  export PATH=$bin:$PATH
  cd "$tree"
}

script() {  # NAME BODY
  printf '#!/bin/sh\n%s\n' "$2" >"$bin/$1"
  chmod +x "$bin/$1"
}

# `build` is the build of the tests, and CMake only checks whether commands fit it.
use_what_is_built() {
  ln -s "$binary" build
  trap 'rm -f "$tree/build"' EXIT  # leaves no cyclic link for programs that walk the folders
  printf '#!/bin/sh\n' >cmake/setup.sh
  cat >"$bin/cmake" <<EOF
#!/usr/bin/env bash
set -euo pipefail
real=$(command -v cmake)
case "\$1 \$2" in
  "--preset "*) "\$real" --list-presets | grep -q "\"\$2\"" || { echo "there is no preset \$2" >&2; exit 1; } ;;
  "--build build")
    targets=\$("\$real" --build build --target help)
    for target in "\${@:4}"; do
      grep -qE "(^|[ /])\$target(:| |\$)" <<<"\$targets" || { echo "there is no target \$target" >&2; exit 1; }
    done ;;
  *) echo "first_steps: nobody expected cmake \$*" >&2; exit 1 ;;
esac
EOF
  chmod +x "$bin/cmake"
}

# Allows more ranks than cores, and root.
use_mpi() {  # MPI NAME
  local launcher=MPIEXEC_$1
  [[ -n ${!launcher:-} ]] || skip "there is no $1"
  script "$2" "exec ${!launcher} \"\$@\""
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_btl_vader_single_copy_mechanism=none
}

# The compiler of that MPI, with the C++ compiler of the build.
use_mpicxx() {  # MPI
  local compiler
  compiler=$(command -v "mpicxx.$1" || command -v mpicxx) || skip "there is no mpicxx"
  export OMPI_CXX=${CXX:-g++}
  script mpicxx "exec $compiler \"\$@\""
}

follow() {  # COMMANDS: prints and runs them
  sed 's/^/$ /' <<<"$1"
  bash -euo pipefail -c "$1" 2>&1 | tee "$work/output"
}
expect() {
  grep -qE "$1" "$work/output" || fail "the output should have '$1'"
}

install_headers() {
  # A machine with only a compiler and Ninja: finds no package but threads, and no make.
  script make 'echo "make is not installed" >&2; exit 1'
  {
    echo 'foreach(package doctest benchmark nlohmann_json fmt CLI11 MPI PkgConfig ucx CUDAToolkit Eigen3 ZLIB)'
    echo '  set(CMAKE_DISABLE_FIND_PACKAGE_${package} ON)'
    echo 'endforeach()'
  } >"$work/nothing.cmake"
  CMAKE_TOOLCHAIN_FILE=$work/nothing.cmake follow "$(block README.md sh 'cmake --install build --prefix')"
  [[ -f $HOME/.local/include/hcomp/hcomp.hpp ]] || fail "there is no hcomp.hpp in $HOME/.local"
}

case $step in
  every_block)  # No command that a reader may type is left out without a reason.
    known=(
      'examples/run.sh'                      # other tests cover it and tests/run.sh
      'tests/lab/lab.sh with --hosts'        # minutes; step perf takes its options
      'examples/small/all_reduce.cpp' 'LD_PRELOAD=' 'torchrun' 'cmake --install'
    )
    count=0
    while IFS= read -r -d '' one; do
      count=$((count + 1))
      found=false
      for text in "${known[@]}"; do [[ $one == *"$text"* ]] && found=true; done
      $found || fail "README.md has commands that no step runs:"$'\n'"$one"
    done < <(awk '/^```sh$/ { inside = 1; next } /^```$/ { if (inside) printf "%c", 0; inside = 0 } inside' "$source/README.md")
    ((count >= ${#known[@]})) || fail "README.md has $count blocks of commands, ${#known[@]} are known"
    ;;

  install)
    prepare
    install_headers
    ;;

  find_package)
    prepare
    install_headers >/dev/null
    [[ -n ${MPIEXEC_openmpi:-}${MPIEXEC_mpich:-} ]] || skip "there is no MPI"
    mkdir "$work/program" && cd "$work/program"
    {
      echo 'cmake_minimum_required(VERSION 3.25)'
      echo 'project(your_program LANGUAGES CXX)'
      echo 'add_executable(your_program your_program.cpp)'
      grep -o '`find_package([^`]*`' "$source/README.md" | tr -d '`'
      grep -o '`target_link_libraries([^`]*`' "$source/README.md" | tr -d '`'
    } >CMakeLists.txt
    printf '#include <hcomp/mpi/transport.hpp>\nint main() { hcomp::mpi::is_running(); }\n' >your_program.cpp
    follow 'cmake -G Ninja -B build -DCMAKE_PREFIX_PATH=~/.local && cmake --build build && build/your_program'
    ;;

  pkg_config)
    prepare
    install_headers >/dev/null
    command -v mpicxx >/dev/null || skip "there is no mpicxx"
    printf '#include <hcomp/mpi/transport.hpp>\nint main() { hcomp::mpi::is_running(); }\n' >your_program.cpp
    export PKG_CONFIG_PATH=$HOME/.local/share/pkgconfig
    follow 'mpicxx -std=c++20 your_program.cpp -o your_program $(pkg-config --cflags --libs hcomp)'
    ./your_program
    ;;

  cpp)
    prepare
    use_mpi openmpi mpirun
    use_mpicxx openmpi
    commands=$(block README.md sh 'examples/small/all_reduce.cpp')
    follow "${commands/-O2/-O0}"
    expect '^x\[0\] = 10\.000, error at most 0\.000[0-9]'
    ;;

  drop_in.openmpi)
    prepare
    use_what_is_built
    use_mpi openmpi mpirun
    use_mpicxx openmpi
    follow "$(block README.md sh LD_PRELOAD=)"
    expect '^x\[0\] = 10\.000'
    expect 'error_bounded'
    cp "$binary/tests/readme/your_program.openmpi" your_program
    follow "$(block plugins/drop_in/README.md sh LD_PRELOAD=)"
    expect 'thc:bits=4|thc bits=4'
    follow 'build/plugins/hcomp-info'
    expect 'Nothing is wrong'
    ;;

  drop_in.mpich)
    prepare
    use_what_is_built
    use_mpi mpich mpiexec.mpich
    cp "$binary/tests/readme/your_program.mpich" your_program
    follow "$(block plugins/drop_in/README.md sh 'mpiexec.mpich')"
    expect 'thc:bits=4|thc bits=4'
    ;;

  python)
    [[ -n ${MPI4PY_PYTHON:-} ]] || skip "there is no mpi4py for an MPI here"
    prepare
    use_what_is_built
    use_mpi "$MPI4PY_MPI" mpirun
    { block plugins/python/README.md python 'import hcomp, numpy' && echo 'assert abs(gradient.mean() - 1) < 0.1 and report.weight == 4, report'; } >your_program.py
    commands=$(block plugins/python/README.md sh 'PYTHONPATH=')
    follow "${commands//\/usr\/bin\/python3/$MPI4PY_PYTHON}"
    ;;

  pip)
    [[ -n ${MPI4PY_PYTHON:-} ]] || skip "there is no mpi4py for an MPI here"
    "$MPI4PY_PYTHON" -c 'import ensurepip, setuptools, wheel' 2>"$work.why" ||
      skip "$(tail -n 1 "$work.why")"
    prepare
    use_what_is_built
    use_mpi "$MPI4PY_MPI" mpirun
    { block plugins/python/README.md python 'import hcomp, numpy' && echo 'assert "/home/" in hcomp.library_path(), hcomp.library_path()'; } >your_program.py
    script python3 "exec $MPI4PY_PYTHON \"\$@\""
    # Downloads nothing: the build tools are those of the system.
    export PIP_NO_INDEX=1 PIP_NO_BUILD_ISOLATION=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
    follow "$(block plugins/python/README.md sh 'pip install plugins/python')"
    follow '~/python/bin/python -c "import hcomp; print(hcomp.__version__)"'
    expect '^[0-9]+\.[0-9]+\.[0-9]+$'
    ;;

  advise)
    [[ -x $binary/examples/perf/hcomp_perf ]] || skip "hcomp_perf is not built"
    prepare
    use_what_is_built
    follow "$(block examples/perf/README.md sh ' --advise ')"
    expect '^sign '
    ;;

  perf)  # The options of the table's command, with small vectors and links of this machine.
    [[ -x $binary/examples/perf/hcomp_perf ]] || skip "hcomp_perf is not built"
    prepare
    use_what_is_built
    use_mpi openmpi mpirun
    commands=$(block README.md sh 'tests/lab/lab.sh with --hosts')
    commands=${commands/tests\/lab\/lab.sh with --hosts 4 --rate 100mbit -- openmpi/mpirun}
    commands=${commands/-b 64M -e 64M -n 3/-b 64K -e 64K -n 1 -w 1}
    commands=${commands/--interface eth0/--interface lo}
    [[ $commands == *"mpirun -n 4"*"-b 64K"*"--interface lo"* ]] || fail "the command has other options"
    HCOMP_UCX_TLS=tcp,self follow "$commands"
    expect 'sign.*sampled'
    ;;

  torch)
    [[ -n ${TORCH_PYTHON:-} ]] || skip "there is no PyTorch in build/torch, or no libhcomp_ucx.so"
    prepare
    # pip install torch numpy ./plugins/python
    script pip '[ "$1" = install ] && [ -f "$4/pyproject.toml" ]'
    script torchrun "exec $TORCH_PYTHON -m torch.distributed.run \"\$@\""
    export PYTHONPATH=$tree/plugins/python HCOMP_GROUP_LIBRARY=$GROUP_LIBRARY OMP_NUM_THREADS=1
    block README.md python 'import torch' >your_program.py
    follow "$(block README.md sh torchrun)"
    expect '^10\.0$'
    ;;

  *) fail "there is no such step" ;;
esac
