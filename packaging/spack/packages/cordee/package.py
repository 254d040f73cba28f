# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
from spack.package import *


class Cordee(CMakePackage):
    """Large-batch distributed training of convolutional networks, header-only C++20 and CUDA."""

    # The tree that this file lies in is built by: spack dev-build cordee@0.2.0
    homepage = "https://example.org/cordee"
    license("Apache-2.0")

    version("0.2.0")

    variant("zlib", default=True, description="Read .gz data")
    variant("testing", default=False, description="Component testing")
    variant("checkpoint", default=False, description="Component checkpoint")
    variant("images", default=False, description="Component images")
    variant("webdataset", default=False, description="Component webdataset")
    variant("simulated", default=False, description="Component simulated")
    variant("zeromq", default=False, description="Component zeromq")
    variant("mpi", default=False, description="Component mpi")
    variant("cuda", default=False, description="Component cuda")
    variant("nccl", default=False, description="Component nccl")
    conflicts("+webdataset", when="~images", msg="webdataset needs +images")
    conflicts("+nccl", when="~cuda", msg="nccl needs +cuda")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("zlib-api", when="+zlib")
    depends_on("doctest", when="+testing")
    depends_on("nlohmann-json@3.2:", when="+checkpoint")
    depends_on("xxhash@0.8:", when="+checkpoint")
    depends_on("jpeg", when="+images")
    depends_on("libpng@1.6:", when="+images")
    depends_on("libarchive@3.3:", when="+webdataset")
    depends_on("boost@1.74:+context", when="+simulated")
    depends_on("libzmq@4.2:", when="+zeromq")
    depends_on("mpi@3:", when="+mpi")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl@2.14:", when="+nccl")
    conflicts("%gcc@:11")
    conflicts("%clang@:15")

    def cmake_args(self):
        # Components look for their libraries where a program asks for them: a variant installs what they need.
        return [self.define(f"CORDEE_{part}", "OFF") for part in ("TESTS", "EXAMPLES", "BENCHMARKS", "COMPONENTS")] + [
            self.define("CORDEE_ZLIB", "ON" if self.spec.satisfies("+zlib") else "OFF")
        ]
