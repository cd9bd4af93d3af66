"""What pyproject.toml cannot say: the version, which stands in one place, and the libraries.

A wheel holds libhcomp.so of every MPI that was found. They are taken from build/ of the checkout if they
were built there, otherwise CMake builds them. A source distribution holds what is built from.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist
from setuptools.dist import Distribution

here = Path(__file__).resolve().parent
root = here / "hcomp-source" if (here / "hcomp-source").exists() else here.parents[1]
mpis = ["openmpi", "mpich"]


def build_libraries(folder: Path) -> None:
    """libhcomp.so of the MPIs that CMake finds, in folder/plugins/<mpi>."""
    configure = ["cmake", "-S", str(root), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
    for what in ("BUILD_TESTS", "BUILD_EXAMPLES", "BUILD_BENCHMARKS", "INSTALL"):
        configure.append(f"-DHCOMP_{what}=OFF")
    subprocess.run(configure, check=True)
    known = subprocess.run(
        ["cmake", "--build", str(folder), "--target", "help"],
        check=True, capture_output=True, text=True,
    ).stdout
    targets = [f"hcomp_c_{mpi}" for mpi in mpis if re.search(rf"\bhcomp_c_{mpi}\b", known)]
    if not targets:
        raise RuntimeError(
            "hcomp: CMake found no MPI, or not nlohmann_json and fmt, which libhcomp.so needs. On "
            "Debian: apt install libopenmpi-dev nlohmann-json3-dev libfmt-dev"
        )
    parallel = str(os.cpu_count() or 1)
    build = ["cmake", "--build", str(folder), "--parallel", parallel, "--target", *targets]
    subprocess.run(build, check=True)


class build_with_libraries(build_py):
    def run(self) -> None:
        super().run()
        folder = root / "build"
        if not any((folder / "plugins" / mpi / "libhcomp.so").exists() for mpi in mpis):
            folder = Path(self.get_finalized_command("build").build_temp).resolve()
            build_libraries(folder)
        for mpi in mpis:
            library = folder / "plugins" / mpi / "libhcomp.so"
            if library.exists():
                place = Path(self.build_lib) / "hcomp" / mpi
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
        return True  # a wheel of this machine's kind


header = root / "include" / "hcomp" / "core" / "version.hpp"
numbers = re.findall(r"#define HCOMP_VERSION_[A-Z]+ ([0-9]+)", header.read_text())
setup(
    version=".".join(numbers),
    distclass=with_libraries,
    cmdclass={"build_py": build_with_libraries, "sdist": sdist_with_source},
)
