"""Builds a wheel, installs it into a new virtual environment, and runs the tests of groups there.

pip_test.py <source> <build>; exit status 77: skipped, because pip cannot work here
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import ensurepip  # noqa: F401
    import setuptools  # noqa: F401
    import wheel  # noqa: F401
except ImportError as error:
    print(f"Skipped: {error}")
    sys.exit(77)

source, build = (Path(argument).resolve() for argument in sys.argv[1:])


def run(*command, status=0, **variables):
    """Returns the output."""
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("HCOMP_", "PYTHON"))}
    ran = subprocess.run(
        [str(word) for word in command],
        env={**environment, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert ran.returncode == status, (command, ran.returncode, ran.stdout)
    return ran.stdout


with tempfile.TemporaryDirectory() as name:
    # A checkout without build results: pip writes into it.
    checkout = Path(name) / "checkout"
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    package = shutil.copytree(
        source / "plugins" / "python", checkout / "plugins" / "python", ignore=ignored
    )
    version = Path("include/hcomp/core/version.hpp")
    (checkout / version).parent.mkdir(parents=True)
    shutil.copy2(source / version, checkout / version)

    os.chdir(package)
    without = (sys.executable, "setup.py", "-q", "build_py", "--build-lib", Path(name) / "lib")
    said = run(*without, status=1, PATH="/nowhere")
    assert "hcomp: cmake was not found" in said and "apt install g++ cmake" in said, said
    said = run(*without, status=1, HCOMP_BUILD="/nowhere")
    assert "HCOMP_BUILD is /nowhere, and no library" in said, said

    os.chdir(name)
    run(sys.executable, "-m", "venv", "--system-site-packages", "environment")
    python = Path(name) / "environment" / "bin" / "python"
    # Downloads nothing: the build tools are those of the system.
    offline = ("--no-index", "--no-build-isolation", "--no-deps")
    run(python, "-m", "pip", "wheel", *offline, "-w", "wheels", package, HCOMP_BUILD=str(build))
    (made,) = Path("wheels").iterdir()
    assert "-py3-none-linux_" in made.name, made
    run(python, "-m", "pip", "install", *offline, made)

    said = run(python, "-c", "import hcomp; print(hcomp.library_path('ucx'))")
    assert said.strip().startswith(name), said
    look = "from importlib.metadata import entry_points; print(entry_points(group='%s'))"
    said = run(python, "-c", look % "torch.distributed.backends")
    assert "hcomp.torch:register" in said, said
    said = run(python, "-m", "hcomp")
    assert f"without MPI     {name}" in said and "for UCX" in said, said
    assert "in PyTorch      " in said, said
    print(run(python, source / "tests" / "python" / "group_test.py"), end="")

    # Without UCX and MPI, hooks over process groups work.
    packages = run(python, "-c", "import hcomp; print(*hcomp.__path__)").strip()
    for kind in ("ucx", "openmpi", "mpich"):
        shutil.rmtree(Path(packages) / kind, ignore_errors=True)
    bucket = "from hcomp._bucket import Bucket; b = Bucket('thc:bits=4', 2, 0, [5000]); print(b.part_bytes)"
    assert int(run(python, "-c", bucket)) > 1000
    said = run(python, "-m", "hcomp")
    assert "without MPI     missing" in said, said
    assert f"process groups  {packages}/local/libhcomp_local.so" in said, said
