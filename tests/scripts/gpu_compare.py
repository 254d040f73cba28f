# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-compare over programs that print synthetic times, fail and hang."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/gpu-compare"


class GpuCompare(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for version, sgd, fprop in (("old", 0.3, 4), ("new", 0.2, 2)):
            self.program(version, "bandwidth", f"""echo noise; echo '{{"what": "sgd", "milliseconds": {sgd}}}'""")
            self.program(version, "tensor_cores", f"""echo '{{"layer": "a", "direction": "fprop", "tensor_core": {fprop},
                "cudnn": 1}}' | tr -d '\\n'; echo; echo '{{"median of": 1, "ratio": 0.5}}'""")

    def program(self, version, name, body):
        path = self.root / version / f"benchmarks/bench_gpu_{name}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def run_it(self, *options):
        done = subprocess.run([sys.executable, SCRIPT, self.root / "old", self.root / "new", *options], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60)
        return done.returncode, done.stdout

    def test_each_time_stands_beside_the_other_versions(self):
        status, output = self.run_it()
        self.assertEqual(status, 0, output)
        self.assertIn("| sgd | 0.3000 | 0.2000 | 1.50 |", output)
        self.assertIn("| a, fprop, tensor_core | 4.0000 | 2.0000 | 2.00 |", output)
        self.assertIn("| a, fprop, cudnn | 1.0000 | 1.0000 | 1.00 |", output)

    def test_the_least_of_a_versions_runs_counts(self):
        self.program("new", "bandwidth", """echo x >>$0.runs
            echo '{"what": "sgd", "milliseconds": 0.'$(wc -l <$0.runs)'}'""")
        self.assertIn("| sgd | 0.3000 | 0.1000 | 3.00 |", self.run_it()[1])

    def test_a_program_that_hangs_leaves_the_others_their_time_and_its_lines(self):
        self.program("new", "bandwidth", """echo '{"what": "sgd", "milliseconds": 0.1}'; exec sleep 30""")
        status, output = self.run_it("--seconds", "8")
        self.assertEqual(status, 0, output)
        self.assertIn("bench_gpu_bandwidth, after: did not end in 1 s", output)
        self.assertIn("| sgd | 0.3000 | 0.1000 | 3.00 |", output)
        self.assertIn("| a, fprop, tensor_core | 4.0000 | 2.0000 | 2.00 |", output)

    def test_without_a_line_of_both_it_fails(self):
        for name in ("bandwidth", "tensor_cores"):
            self.program("new", name, "exit 3")
        status, output = self.run_it()
        self.assertEqual(status, 1)
        self.assertIn("bench_gpu_tensor_cores, after: exited with 3", output)


unittest.main()
