"""Build steps that pyproject.toml cannot express: the version from its header, and the libraries.

A wheel contains libhcomp_local.so, which needs libc only, libhcomp_ucx.so and libhcomp.so of every
MPI that CMake finds, and libhcomp_cuda.so where it finds nvcc. It takes them from build/ of the
checkout, or from the folder in HCOMP_BUILD, if that contains any of them. Otherwise CMake builds
them. A source distribution contains the sources of the libraries.
"""

import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

here = Path(__file__).resolve().parent
root = here / "hcomp-source" if (here / "hcomp-source").exists() else here.parents[1]
libraries = {
    "local": "libhcomp_local.so",
    "ucx": "libhcomp_ucx.so",
    "openmpi": "libhcomp.so",
    "mpich": "libhcomp.so",
    "cuda": "libhcomp_cuda.so",  # loaded by these libraries
}
targets = {name: "hcomp_cuda" if name == "cuda" else f"hcomp_c_{name}" for name in libraries}
packages = "g++ cmake ninja-build pkg-config libucx-dev nlohmann-json3-dev libfmt-dev"


def run(*command: str) -> str:
    """Run a command and return its standard output. Its standard error is shown."""
    try:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    except FileNotFoundError:
        raise SystemExit(
            f"hcomp: {command[0]} was not found. The package is built from source; on Debian it "
            f"needs: apt install {packages}"
        ) from None
    except subprocess.CalledProcessError as error:
        raise SystemExit(
            f"{error.stdout}\nhcomp: {' '.join(command)} failed with status {error.returncode}. On "
            f"Debian the package needs: apt install {packages}"
        ) from None


def toolkit_of_pip() -> list[str]:
    """CMake's arguments for the nvcc of PyPI's nvidia-cuda-nvcc, unless there is another one.

    That package has no libcudart.so, which CMake requires; the libraries link libcudart_static.a.
    """
    if "CUDACXX" in os.environ or shutil.which("nvcc") or Path("/usr/local/cuda/bin/nvcc").exists():
        return []
    site = Path(sysconfig.get_path("purelib"))
    for nvcc in sorted(site.glob("nvidia/cu*/bin/nvcc"), reverse=True):
        top = nvcc.parents[1]
        runtimes = sorted(top.glob("lib/libcudart.so*"))
        if runtimes and (top / "include" / "cccl").exists():
            return [
                f"-DCMAKE_CUDA_COMPILER={nvcc}",
                f"-DCUDAToolkit_ROOT={top}",
                f"-DCUDA_CUDART={runtimes[0]}",
                f"-DCUDA_cudart_LIBRARY={runtimes[0]}",
            ]
    return []


def build_libraries(folder: Path) -> None:
    """Build the libraries that CMake has the dependencies for, in folder/plugins/."""
    configure = ["cmake", "-S", str(root), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
    configure += toolkit_of_pip()
    for what in ("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_BENCHMARKS", "INSTALL"):
        configure.append(f"-DHCOMP_{what}=OFF")
    said = run(*configure)
    known = run("cmake", "--build", str(folder), "--target", "help")
    wanted = [target for target in targets.values() if re.search(rf"\b{target}\b", known)]
    if targets["local"] not in wanted:
        found = "".join(re.findall(r"^--   .*\n", said, re.MULTILINE))
        raise SystemExit(
            f"hcomp: CMake did not find nlohmann_json and fmt:\n{found}"
            f"On Debian the package needs: apt install {packages}"
        )
    parallel = str(os.cpu_count() or 1)
    run("cmake", "--build", str(folder), "--parallel", parallel, "--target", *wanted)


def built_in(folder: Path) -> dict[str, Path]:
    """The existing libraries in a build folder, by their folder in the package."""
    files = {name: folder / "plugins" / name / file for name, file in libraries.items()}
    return {name: file for name, file in files.items() if file.exists()}


class build_with_libraries(build_py):
    def run(self) -> None:
        super().run()
        named = os.environ.get("HCOMP_BUILD")
        built = built_in(Path(named) if named else root / "build")
        if named and not built:
            raise SystemExit(f"hcomp: HCOMP_BUILD is {named}, and no library is in its plugins/")
        if not built:
            folder = Path(self.get_finalized_command("build").build_temp).resolve()
            build_libraries(folder)
            built = built_in(folder)
        for name, library in built.items():
            place = Path(self.build_lib) / "hcomp" / name
            place.mkdir(parents=True, exist_ok=True)
            shutil.copy2(library, place)


class sdist_with_source(sdist):
    def make_release_tree(self, base_dir: str, files: list) -> None:
        super().make_release_tree(base_dir, files)
        source = Path(base_dir) / "hcomp-source"
        for name in ("cmake", "include", "kernels/hcomp", "plugins"):
            shutil.copytree(
                root / name, source / name,
                ignore=shutil.ignore_patterns("build", "dist", "hcomp-[0-9]*", "*.egg-info", "__pycache__"),
            )
        for name in ("CMakeLists.txt", "LICENSE"):
            shutil.copy2(root / name, source)


class with_libraries(Distribution):
    def has_ext_modules(self) -> bool:
        return True  # the wheel is specific to this platform


class wheel_of_any_python(bdist_wheel):
    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


header = root / "include" / "hcomp" / "core" / "version.hpp"
numbers = re.findall(r"#define HCOMP_VERSION_[A-Z]+ ([0-9]+)", header.read_text())
setup(
    version=".".join(numbers),
    distclass=with_libraries,
    cmdclass={
        "build_py": build_with_libraries,
        "sdist": sdist_with_source,
        "bdist_wheel": wheel_of_any_python,
    },
)
