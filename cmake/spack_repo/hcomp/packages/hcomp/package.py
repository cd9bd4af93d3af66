# A recipe for Spack 1.0 or newer. It installs the committed state of the checkout that contains it:
#
#     spack repo add cmake/spack_repo/hcomp && spack install hcomp

import pathlib

from spack_repo.builtin.build_systems.cmake import CMakePackage

from spack.package import *


class Hcomp(CMakePackage):
    """Compressed all-reduce across nodes, without decompression on the way: C++20 headers, and
    libraries for C, Fortran, Python and existing MPI binaries.
    """

    git = pathlib.Path(__file__).resolve().parents[5].as_uri()

    license("Apache-2.0")

    version("main", branch="main")

    variant("mpi", default=True, description="Sums over MPI")
    variant("ucx", default=True, description="Sums over UCX")
    variant("cuda", default=False, description="Vectors in the memory of GPUs")
    variant("plugins", default=True, description="Libraries for C, Fortran, drop-in; hcomp-info")
    variant("python", default=False, when="+plugins", description="The Python package")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("mpi@3:", when="+mpi")
    depends_on("ucx@1.13:", when="+ucx")
    depends_on("cuda@13:", when="+cuda")
    with when("+plugins"):
        depends_on("pkgconfig", type="build")
        depends_on("cli11", type="build")
        depends_on("fmt@9:", type="build")
        depends_on("nlohmann-json", type="build")
    depends_on("python@3.9:", type="run", when="+python")
    depends_on("py-numpy", type="run", when="+python")

    conflicts("%gcc@:11")
    conflicts("%clang@:13")

    def cmake_args(self):
        mpis = [mpi for mpi in ("openmpi", "mpich") if self.spec.satisfies("^" + mpi)]
        return [
            self.define_from_variant("HCOMP_WITH_MPI", "mpi"),
            self.define_from_variant("HCOMP_WITH_UCX", "ucx"),
            self.define_from_variant("HCOMP_WITH_GPU", "cuda"),
            self.define_from_variant("HCOMP_BUILD_PLUGINS", "plugins"),
            self.define("HCOMP_MPIS", mpis),  # ignore other MPIs of this machine
            self.define("HCOMP_BUILD_TESTS", False),
            self.define("HCOMP_BUILD_EXAMPLES", False),
            self.define("HCOMP_BUILD_BENCHMARKS", False),
        ]

    def setup_run_environment(self, env):
        if self.spec.satisfies("+python"):
            env.prepend_path("PYTHONPATH", self.prefix.share.hcomp.python)
