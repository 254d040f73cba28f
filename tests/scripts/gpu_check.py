# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check in a temporary folder, with stubs for the GPU, PyTorch and all programs."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"

PROGRAMS = {
    "bin/nvidia-smi": 'case $* in *name*) echo "NVIDIA Stub 80GB" ;; *driver*) echo 580.1 ;; *) echo GPU ;; esac',
    "bin/compute-sanitizer": "echo '0 errors'",
    "build/gpu/tests/test_cuda": "echo '[doctest] passed'",
    "build/gpu/tests/test_nccl_gpu": "echo '[doctest] passed'",
    "build/gpu/benchmarks/bench_gpu_layers": """for row in '"a", "dx": 1e-4' '"a step of ResNet-'$2'", "gradient": 1'; do
        echo '{"net": '$2', "engine": "cudnn", "precision": "fp16", "y": 1e-4, "bar": 0.001, "within": true, "layer": '"$row}"
        done""",
    "build/gpu/benchmarks/bench_gpu_bandwidth": """echo '{"what": "copy", "milliseconds": 1,
        "gigabytes_per_second": 1, "share": 1, "bar": 0.85, "within": true}' | tr -d '\\n'; echo""",
    "build/gpu/benchmarks/bench_gpu_tensor_cores": """echo '{"layer": "a", "direction": "fprop", "batch": '"$2"',
        "tensor_core": 2, "cudnn": 1, "ratio": 0.5}' | tr -d '\\n'; echo
        echo '{"median of": 1, "ratio": 0.5, "bar": 0.5, "within": true}'""",
    "build/gpu/examples/imagenet_shape_gpu": "echo noise; echo \"$2.5 images/s, of the quickest of 20 steps\"",
    "build/gpu/examples/cifar": "for a; do last=$a; done; printf 'step,loss\\n0,3\\n' >\"$last\"",
    "build/gpu/examples/cifar_gpu": """echo "$*" >>runs
        for a; do last=$a; done
        case $last in *.csv) printf 'step,loss\\n0,3\\n' >"$last" ;; esac
        echo 'validation accuracy 91.25 % of 10000 images'""",
}
PYTHON = {
    "py/torch/__init__.py": "__version__ = '9.9'\nclass cuda:\n    is_available = staticmethod(lambda: True)\n",
    "benchmarks/torch_imagenet_shape.py": "print('400.0 images/s, of the quickest')\n",
    "benchmarks/torch_layers.py": "import sys\nprint(open(sys.argv[1]).read(), end='')\n",
    "benchmarks/torch_cifar.py": "print('validation accuracy 91.00 % of 10000 images')\n",
}
LIBRARIES = ("toolkit/include/cudnn_graph.h", "toolkit/lib/libcudnn.so", "toolkit/include/nccl.h",
             "toolkit/lib/libnccl.so")


class GpuCheck(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(SCRIPTS / "gpu-check", self.root / "scripts")
        shutil.copytree(SCRIPTS / "gpu", self.root / "scripts/gpu")
        for name, body in PROGRAMS.items():
            self.program(name, body)
        for name, body in PYTHON.items():
            self.write(name, body)
        for name in LIBRARIES:
            self.write(name, "")
        self.write("data/cifar-10/test_batch.bin", "x")

    def write(self, name, body):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(body)
        return path

    def program(self, name, body):
        self.write(name, f"#!/bin/sh\n{body}\n").chmod(0o755)

    def run_it(self, *options):
        done = subprocess.run(
            [self.root / "scripts/gpu-check", *options], capture_output=True, text=True, timeout=120,
            env={**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "PYTHONPATH": str(self.root / "py"),
                 "CUDA_PATH": str(self.root / "toolkit")})
        return done.returncode, done.stdout + done.stderr

    def report(self):
        return json.loads(next((self.root / "benchmarks/results").glob("*-stub-80gb.json")).read_text())

    def bars(self):
        return {bar["bar"]: bar["met"] for bar in self.report()["bars"]}

    def test_correctness_runs_every_check_and_reports_it(self):
        status, output = self.run_it("--only", "correctness")
        self.assertEqual(status, 0, output)
        bars = self.bars()
        for what in ("tests of kernels on the GPU", "ranks over NCCL", "tests of kernels under compute-sanitizer",
                     "2 layers alone, cudnn, fp16, beside fp64", "a step of ResNet-50, fp16, beside fp64",
                     "loss curve of 1 steps, fp16", "loss curve of 1 steps, fp32"):
            self.assertIs(bars[what], True, what)

        self.assertEqual(len(self.report()["torch_layers"]), 4)

    def test_failing_tests_fail_the_stage_and_later_checks_still_run(self):
        self.program("build/gpu/tests/test_cuda", "exit 1")
        status, output = self.run_it("--only", "correctness")
        self.assertNotEqual(status, 0)
        self.assertIs(self.bars()["tests of kernels on the GPU"], False)
        self.assertIs(self.bars()["loss curve of 1 steps, fp16"], True)

    def test_failing_nccl_tests_fail_the_stage(self):
        self.program("build/gpu/tests/test_nccl_gpu", "exit 1")
        self.assertNotEqual(self.run_it("--only", "correctness")[0], 0)
        self.assertIs(self.bars()["ranks over NCCL"], False)

    def test_a_layer_above_its_bar_fails_the_stage(self):
        self.program("build/gpu/benchmarks/bench_gpu_layers", "exit 1")
        self.assertNotEqual(self.run_it("--only", "correctness")[0], 0)

    def test_a_sanitizer_that_cannot_run_is_skipped_and_one_with_errors_fails(self):
        name = "tests of kernels under compute-sanitizer"
        self.program("bin/compute-sanitizer", "echo 'Error: Device not supported'; exit 1")
        self.assertEqual(self.run_it("--only", "correctness")[0], 0)
        self.assertIsNone(self.bars()[name])
        for cut_off, met in (("exit 124", None), ("echo '========= Invalid __global__ read'; exit 124", False)):
            self.program("bin/compute-sanitizer", "echo '========= COMPUTE-SANITIZER'\n" + cut_off)
            self.run_it("--only", "correctness")
            self.assertIs(self.bars()[name], met, cut_off)
        self.program("bin/compute-sanitizer", "exit 99")
        self.assertNotEqual(self.run_it("--only", "correctness")[0], 0)
        self.assertIs(self.bars()[name], False)

    def test_speed_compares_every_batch_with_pytorch(self):
        status, output = self.run_it("--only", "speed")
        self.assertEqual(status, 0, output)
        rows = self.report()["throughput"]
        self.assertEqual([r["images_per_second"] for r in rows if r["program"] == "cordee"], [64.5, 128.5, 256.5, 512.5])
        self.assertEqual(len(rows), 10)
        self.assertEqual(self.report()["tensor_cores"][0]["batch"], 256)
        self.assertIs(self.bars()["tensor_core beside cuDNN, median of 1 convolutions of ResNet-50"], True)
        self.assertIs(self.bars()["ResNet-50, fp16, training step"], True)

    def test_speed_without_pytorch_compares_nothing(self):
        self.write("py/torch/__init__.py", "raise ImportError\n")
        self.assertEqual(self.run_it("--only", "speed")[0], 0)
        self.assertEqual(len(self.report()["throughput"]), 4)
        self.assertIsNone(self.bars()["ResNet-50, fp16, training step"])

    def test_a_failing_program_fails_the_stage_and_later_ones_still_run(self):
        for name in ("bandwidth", "tensor_cores"):
            self.program(f"build/gpu/benchmarks/bench_gpu_{name}", "exit 1")
            self.assertNotEqual(self.run_it("--only", "speed")[0], 0)
            self.assertEqual(len(self.report()["throughput"]), 10)
        self.assertIsNone(self.bars()["tensor_core beside cuDNN"])

    def test_without_cudnn_its_bar_is_open(self):
        self.write("scripts/gpu/locate.py", "")  # locates nothing, whatever is installed
        self.assertEqual(self.run_it("--only", "speed")[0], 0)
        self.assertIsNone(self.bars()["tensor_core beside cuDNN"])

    def test_accuracy_runs_what_is_missing(self):
        self.assertIn("no run is missing", self.run_it("--only", "accuracy")[1])
        runs, kept = self.root / "runs", self.root / "build/gpu/results/accuracy.jsonl"
        self.assertEqual(len(runs.read_text().splitlines()), 10)
        lines = kept.read_text().splitlines(keepends=True)
        self.assertEqual(len(lines), 20)
        kept.write_text("".join(line for line in lines if '"seed": 3' not in line))
        self.run_it("--only", "accuracy")
        again = runs.read_text().splitlines()[10:]
        self.assertEqual(len(again), 2)
        self.assertTrue(all("--seed 3" in run for run in again), again)
        self.assertEqual(sorted(kept.read_text().splitlines()), sorted("".join(lines).splitlines()))

    def test_a_failed_run_remains_missing(self):
        self.program("build/gpu/examples/cifar_gpu", "exit 1")
        self.assertIn("10 runs are missing", self.run_it("--only", "accuracy")[1])
        self.assertEqual({row["program"] for row in self.report()["accuracy"]}, {"pytorch"})

    def test_without_a_gpu_only_the_build_runs(self):
        (self.root / "bin/nvidia-smi").write_text("#!/bin/sh\nexit 1\n")
        for stage in ("correctness", "speed", "accuracy"):
            status, output = self.run_it("--only", stage)
            self.assertNotEqual(status, 0)
            self.assertIn("no GPU found", output)

    def test_a_dry_run_runs_nothing_and_writes_nothing(self):
        shutil.rmtree(self.root / "build")
        before = sorted(self.root.rglob("*"))
        status, output = self.run_it("--dry-run")
        self.assertEqual(status, 0, output)
        self.assertIn("NVIDIA Stub 80GB", output)
        self.assertIn("bench_gpu_layers --net 50", output)
        self.assertIn("cifar_gpu cifar bench_gpu_tensor_cores test_nccl_gpu", output)
        self.assertIn("-D CORDEE_NCCL=ON", output)
        self.assertIn("tests/test_nccl_gpu\n", output)
        self.assertEqual([p for p in sorted(self.root.rglob("*")) if "__pycache__" not in str(p)], before)

    def test_an_unknown_stage_is_an_error(self):
        self.assertEqual(self.run_it("--only", "beauty")[0], 2)


unittest.main()
