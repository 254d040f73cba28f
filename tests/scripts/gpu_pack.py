# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-pack in a temporary repository."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "gpu-pack"
DOCTEST = any(pathlib.Path(root, "include/doctest/doctest.h").exists() for root in ("/usr", "/usr/local"))


class Pack(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "tree"
        (self.root / "scripts").mkdir(parents=True)
        shutil.copy(SCRIPT, self.root / "scripts")
        shutil.copytree(SCRIPT.parent / "gpu", self.root / "scripts/gpu", ignore=shutil.ignore_patterns("__pycache__"))
        subprocess.run(["git", "init", "-q", self.root], check=True)
        (self.root / ".gitignore").write_text("/.gpu/\n/scripts/gpu/\n/build/\n")
        (self.root / "a file").write_bytes(bytes(1 << 20))
        self.packed = self.root / ".gpu"

    def run_it(self, *options):
        # From another folder; the script finds its own tree.
        return subprocess.run([self.root / "scripts/gpu-pack", *options], cwd="/", capture_output=True, text=True,
                              env={**os.environ, "PATH": f"{self.root / '.git/bin'}:{os.environ['PATH']}",
                                   "PYTHONDONTWRITEBYTECODE": "1"})

    def fails(self, words, *options):
        done = self.run_it(*options)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn(f"gpu-pack: {words}", done.stderr)
        return done.stdout

    def pretend(self, name="include/doctest/doctest.h", size=7):
        path = self.packed / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.truncate(path, size)

    def cifar(self):
        folder = self.root.parent / "cifar"
        folder.mkdir()
        for name in ["unpack.py", *(f"data_batch_{k}.jpegs.xz" for k in range(1, 6)), "test_batch.jpegs.xz"]:
            (folder / name).write_text(name)
        return folder

    @unittest.skipUnless(DOCTEST, "doctest is not installed here")
    def test_doctest_is_packed_as_a_cmake_package_without_absolute_paths(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done)
        self.assertTrue((self.packed / "include/doctest/doctest.h").stat().st_size > 0)
        package = (self.packed / "lib/cmake/doctest/doctestConfig.cmake").read_text()
        self.assertIn("add_library(doctest::doctest ", package)
        self.assertNotIn("/usr", package)
        self.assertFalse((self.packed / "cifar-10").exists())
        self.assertEqual(self.run_it("--check").stdout, done.stdout)

    def test_check_prints_sizes(self):
        self.pretend()
        done = self.run_it("--check")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"include/doctest/doctest.h +7 bytes\n")
        self.assertRegex(done.stdout, r"cifar-10/unpack.py +missing\n")
        self.assertIn("0.0 MiB in .gpu and 1.0 MiB of the repository, of 64 MiB\n", done.stdout)

    def test_check_fails_without_doctest(self):
        said = self.fails("doctest is not packed: scripts/gpu-pack", "--check")
        self.assertRegex(said, r"doctest.h +missing\n")

    def test_check_fails_if_the_limit_is_exceeded(self):
        self.pretend()
        self.pretend("cifar-10/test_batch.jpegs.xz", 62 << 20)
        self.assertEqual(self.run_it("--check").returncode, 0)
        self.pretend("cifar-10/test_batch.jpegs.xz", 63 << 20)
        self.assertIn("63.0 MiB in .gpu", self.fails("the limit of 64 MiB is exceeded", "--check"))

    def test_a_deleted_file_in_the_index_is_not_counted(self):
        self.pretend()
        subprocess.run(["git", "-C", self.root, "add", "a file"], check=True)
        (self.root / "a file").unlink()
        done = self.run_it("--check")
        self.assertEqual(done.returncode, 0, done)
        self.assertIn(" 0.0 MiB of the repository", done.stdout)

    @unittest.skipUnless(DOCTEST, "doctest is not installed here")
    def test_a_data_set_is_packed_completely_or_not_at_all(self):
        folder = self.cifar()
        self.assertEqual(self.run_it("--cifar", folder).returncode, 0)
        self.assertEqual(sorted(path.name for path in (self.packed / "cifar-10").iterdir()),
                         sorted(path.name for path in folder.iterdir()))
        (folder / "data_batch_3.jpegs.xz").unlink()
        self.fails(f"not found: {folder}/data_batch_3.jpegs.xz", "--cifar", folder)
        self.assertTrue((self.packed / "cifar-10/data_batch_3.jpegs.xz").exists())

    def tool(self, name, body):
        path = self.root / ".git/bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def tools(self, size):
        """An nvcc that states its version, and a cmake that builds files of so many random bytes."""
        self.tool("nvcc", "echo 'release 13.0, V13.0.88'")
        self.tool("strip", 'cp "$3" "$2"')
        self.tool("cmake", f"""[ "$1" = --build ] || exit 0
            for name in $(python3 scripts/gpu/sources.py files x x); do
            mkdir -p $(dirname build/gpu/$name); head -c {size} /dev/urandom >build/gpu/$name; done""")

    @unittest.skipUnless(DOCTEST, "doctest is not installed here")
    def test_programs_are_built_and_packed_with_the_state_of_their_sources(self):
        self.tools(1000)
        done = self.run_it("--programs")
        self.assertEqual(done.returncode, 0, done)
        self.assertRegex(done.stdout, r"tests/test_cuda +0.0 MiB\n")
        packed = self.packed / "programs.tar.xz"
        names = subprocess.run(["tar", "tf", packed], capture_output=True, text=True).stdout.split()
        self.assertIn("./tests/test_cuda", names)
        self.assertIn("./examples/imagenet_shape_gpu", names)
        state = subprocess.run(["tar", "xOf", packed, "./programs-of"], capture_output=True, text=True).stdout
        here = subprocess.run(["python3", self.root / "scripts/gpu/sources.py", "hash"], capture_output=True, text=True)
        self.assertEqual(state, here.stdout)
        (self.root / "include").mkdir()
        (self.root / "include/a.hpp").write_text("")
        changed = subprocess.run(["python3", self.root / "scripts/gpu/sources.py", "hash"], capture_output=True, text=True)
        self.assertNotEqual(state, changed.stdout)
        self.assertEqual(self.run_it().returncode, 0)  # packing again without programs keeps them
        self.assertTrue(packed.exists())

    def test_programs_that_are_too_large_or_fail_to_build_leave_the_archive_as_it_was(self):
        self.pretend("programs.tar.xz")
        self.tools(1000)
        self.tool("xz", "head -c 33600000 /dev/zero")
        self.fails("programs.tar.xz exceeds 32 MiB", "--programs")
        self.tool("cmake", "exit 1")
        self.assertNotEqual(self.run_it("--programs").returncode, 0)
        self.assertEqual((self.packed / "programs.tar.xz").stat().st_size, 7)


unittest.main()
