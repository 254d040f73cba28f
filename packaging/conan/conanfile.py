# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Conan 2 recipe of the tree that it lies in: conan create packaging/conan"""
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir


class Cordee(ConanFile):
    name = "cordee"
    description = "Large-batch distributed training of convolutional networks, header-only"
    license = "Apache-2.0"
    topics = ("deep-learning", "distributed", "header-only")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"with_zlib": [True, False]}
    default_options = {"with_zlib": False}  # True reads .gz data

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "../../include/cordee/core/version.hpp"))
        self.version = ".".join(re.findall(r"#define CORDEE_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))

    def export_sources(self):
        root = os.path.join(self.recipe_folder, "../..")
        for pattern in ("CMakeLists.txt", "LICENSE", "cmake/*", "include/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def requirements(self):
        if self.options.with_zlib:
            self.requires("zlib/[>=1.2.11 <2]", transitive_headers=True)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    def package_id(self):
        self.info.settings.clear()

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        # Components look for their libraries where a program asks for them; the package needs none.
        for part in ("TESTS", "EXAMPLES", "BENCHMARKS", "COMPONENTS"):
            toolchain.cache_variables[f"CORDEE_{part}"] = "OFF"
        toolchain.cache_variables["CORDEE_ZLIB"] = "ON" if self.options.with_zlib else "OFF"
        toolchain.generate()

    def build(self):
        CMake(self).configure()

    def package(self):
        CMake(self).install()
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        rmdir(self, os.path.join(self.package_folder, "share", "doc"))

    def package_info(self):
        self.cpp_info.bindirs = self.cpp_info.libdirs = []
        # The package's own CMake files: find_package(cordee COMPONENTS ...).
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs.append(os.path.join("share", "cmake", "cordee"))
