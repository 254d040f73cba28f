# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu/locate.py in temporary folders: a toolkit, Python's packages, nothing at all."""
import importlib
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu"))
import locate

CUDNN = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 10\n#define CUDNN_PATCHLEVEL 2\n"
NCCL = "#define NCCL_MAJOR 2\n#define NCCL_MINOR 27\n#define NCCL_PATCH 3\n"


class Locate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.packages = self.root / "packages"
        self.write("packages/nvidia/__init__.py")
        for patch in (mock.patch.object(locate, "SYSTEM", ()),
                      mock.patch.object(sys, "path", [str(self.packages), *sys.path]),
                      mock.patch.dict(os.environ, {"PATH": str(self.root / "bin")}, clear=True)):
            patch.start()
            self.addCleanup(patch.stop)
        sys.modules.pop("nvidia", None)
        importlib.invalidate_caches()

    def write(self, name, text=""):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def compiler(self, name, script):
        path = self.write(name, f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    def library(self, folder, lib, name):
        self.write(f"{folder}/include/cudnn_graph.h")
        self.write(f"{folder}/include/cudnn_version.h", CUDNN)
        return str(self.write(f"{folder}/{lib}/{name}"))

    def test_values_are_empty_if_nothing_is_found(self):
        self.assertEqual(set(locate.locate().values()), {""})

    def test_a_compiler_and_its_version(self):
        nvcc = self.compiler("bin/nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
        values = locate.locate()
        self.assertEqual((values["nvcc"], values["nvcc_version"]), (nvcc, "13.0.88"))

    def test_a_wrapper_without_its_toolkit_is_ignored(self):
        self.compiler("bin/nvcc", "exec /nowhere/nvcc")
        self.assertEqual(locate.locate()["nvcc"], "")
        nvcc = self.compiler("packages/nvidia/cu13/bin/nvcc", "echo 'release 13.5, V13.5.37'")
        values = locate.locate()
        self.assertEqual((values["nvcc"], values["nvcc_version"]), (nvcc, "13.5.37"))

    def test_libraries_in_python_packages(self):
        cudnn = self.library("packages/nvidia/cudnn", "lib", "libcudnn.so.9")
        nvrtc = self.write("packages/nvidia/cu13/lib/libnvrtc.so.13")
        nccl = self.write("packages/nvidia/nccl/lib/libnccl.so.2")
        self.write("packages/nvidia/nccl/include/nccl.h", NCCL)
        values = locate.locate()
        self.assertEqual((values["cudnn_library"], values["cudnn_version"]), (cudnn, "9.10.2"))
        self.assertEqual(values["cudnn_include"], str(self.packages / "nvidia/cudnn/include"))
        self.assertEqual((values["nccl_library"], values["nccl_version"]), (str(nccl), "2.27.3"))
        self.assertEqual(values["libraries"], f"{pathlib.Path(cudnn).parent}:{nvrtc.parent}:{nccl.parent}")

    def test_a_toolkit_has_precedence_over_python_packages(self):
        self.library("packages/nvidia/cudnn", "lib", "libcudnn.so.9")
        ours = self.library("toolkit", "lib64", "libcudnn.so")
        with mock.patch.dict(os.environ, {"CUDA_HOME": str(self.root / "toolkit")}):
            self.assertEqual(locate.locate()["cudnn_library"], ours)

    def test_header_and_library_come_from_the_same_installation(self):
        self.write("toolkit/include/cudnn_graph.h")  # and no library
        package = self.library("packages/nvidia/cudnn", "lib", "libcudnn.so.9")
        with mock.patch.dict(os.environ, {"CUDA_HOME": str(self.root / "toolkit")}):
            values = locate.locate()
        self.assertEqual(values["cudnn_library"], package)
        self.assertEqual(values["cudnn_include"], str(self.packages / "nvidia/cudnn/include"))


unittest.main()
