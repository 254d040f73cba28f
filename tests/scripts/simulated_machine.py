# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""A temporary folder with scripts/gpu-check and stubs for the GPU, PyTorch and all programs."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"

PASSED = "[doctest] test cases: 2 | 2 passed | 0 failed | 3 skipped"
# A doctest runner of two cases that pass.
TESTS = f"case $* in *--list-test-cases*) echo ===; echo batch norm, twice; echo pooling ;; *) echo '{PASSED}' ;; esac"
# A doctest runner of five cases: it prints, then hangs as a whole; alone one passes and the others fail, one
# since it is not found.
BAD_TESTS = """case $* in
*--list-test-cases*) echo '[doctest] listing all test case names'; echo ===; echo good; echo "no such"; echo 'hangs, sometimes'
  echo segfaults; echo aborts; echo ===; echo '[doctest] unskipped test cases: 5' ;;
*--test-case=good) echo '[doctest] test cases: 1 | 1 passed' ;;
*'--test-case=no such') echo '[doctest] test cases: 0 | 0 passed' ;;
*--test-case=segfaults) echo before the fault; kill -SEGV $$ ;;
*--test-case=aborts) kill -ABRT $$ ;;
*'--test-case=hangs? sometimes') echo 'this case hangs'; sleep 100 & trap '' TERM; wait; sleep 100 ;;
*) echo 'the last case before the deadlock'; sleep 100 ;; esac"""
PROGRAMS = {
    "bin/nvidia-smi": 'case $* in *name*) echo "NVIDIA Stub 80GB" ;; *driver*) echo 580.1 ;; *) echo GPU ;; esac',
    "bin/compute-sanitizer": f"echo '{PASSED}'" + """; case $* in *racecheck*)
        echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' ;; *)
        echo '========= ERROR SUMMARY: 0 errors' ;; esac""",
    "bin/ncu": """echo '"ID","Process ID","Process Name","Host Name","Kernel Name","Metric Name","Metric Unit","Metric Value"'
        echo '"0","7","step","here","merge<float>(int)","gpu__time_duration.sum","nsecond","1,500,000"'
        echo '"1","7","step","here","merge<half>(int)","gpu__time_duration.sum","ns","500000"'""",
    "build/gpu/tests/test_cuda": TESTS,
    "build/gpu/tests/test_nccl_gpu": f"echo '{PASSED}'",
    "build/gpu/benchmarks/bench_gpu_layers": """for row in '"a", "dx": 1e-4' '"a step of ResNet-'$2'", "gradient": 1'; do
        echo '{"net": '$2', "engine": "cudnn", "precision": "fp16", "y": 1e-4, "bar": 0.001, "within": true, "layer": '"$row}"
        done""",
    "build/gpu/benchmarks/bench_gpu_bandwidth": """echo '{"what": "copy", "milliseconds": 1, "gigabytes_per_second": 1, "share": 1, "bar": 0.85, "within": true}'""",
    "build/gpu/benchmarks/bench_gpu_tensor_cores": """echo '{"layer": "a", "direction": "fprop", "batch": '"$2"', "tensor_core": 2, "cudnn": 1, "ratio": 0.5}'
        echo '{"median of": 1, "ratio": 0.5, "bar": 0.5, "within": true}'
        echo '{"classifier": "c", "batch": '"$2"', "direction": "fprop", "cuda_cores": 3, "tensor_core": 2, "cudnn": 1}'""",
    "build/gpu/benchmarks/bench_gpu_fused_graphs": """printf 'device: {\\n "deviceVer": 900,\\n "a": [1]}\\n'
        echo '{"graph": "g", "layer": "a", "batch": 256, "fused": 1, "plain": 2, "convolution": 1}'
        echo '{"graph": "h", "layer": "a", "batch": 256, "fused": null, "plain": 2, "convolution": 1}'""",
    "build/gpu/benchmarks/bench_gpu_step": """echo '{"stage": "forward", "milliseconds": 1}'""",
    "build/gpu/benchmarks/bench_gpu_infer": """echo '{"net": "ResNet-20", "batch": '"$2"', "images_per_second": 1, "replayed": 2, "within": true}'""",
    "build/gpu/benchmarks/bench_gpu_primitives": """echo '{"primitive": "a", "size": 9, "ours": 1, "theirs": 2, "ours_median": 3, "theirs_median": 4, "ratio": 2, "within": true}'
        echo '| a | 9 |'""",
    "build/gpu/examples/imagenet_shape_gpu": """i=0; while [ $i -lt 9 ]; do i=$((i + 1)); echo "step $i: loss $((10 - i)).0, 1 ms"; done
        echo noise; echo "$2.5 images/s, of the fastest of 20 steps\"""",
    "build/gpu/examples/cifar": "for a; do last=$a; done; printf 'step,loss\\n0,3\\n' >\"$last\"",
    "build/gpu/examples/cifar_gpu": """echo "$*" >>runs
        for a; do last=$a; done
        case $last in *.csv) printf 'step,loss\\n0,3\\n' >"$last" ;; esac
        echo 'validation accuracy 91.25 % of 10000 images'""",
}
PYTHON = {
    "py/torch/__init__.py": "import sys\nprint('a warning', file=sys.stderr)\n__version__ = '9.9'\nclass cuda:\n    is_available = staticmethod(lambda: True)\n",
    "benchmarks/torch_imagenet_shape.py": "print('400.0 images/s, of the quickest')\n",
    "benchmarks/torch_layers.py": "import sys\nprint(open(sys.argv[1]).read(), end='')\n",
    "benchmarks/torch_cifar.py": "print('validation accuracy 91.00 % of 10000 images')\n",
}
LIBRARIES = ("toolkit/include/cudnn_graph.h", "toolkit/lib/libcudnn.so", "toolkit/include/nccl.h",
             "toolkit/lib/libnccl.so")
KERNELS, NCCL = "tests of kernels on the GPU", "ranks over NCCL"


class SimulatedMachine(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        shutil.copy(SCRIPTS / "gpu-check", self.root / "scripts")
        shutil.copytree(SCRIPTS / "gpu", self.root / "scripts/gpu", ignore=shutil.ignore_patterns("__pycache__"))
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

    def carry(self, built_from=None):
        """Packs what stands in build/gpu as gpu-pack --programs does, and removes it there."""
        state = subprocess.run([sys.executable, self.root / "scripts/gpu/sources.py", "hash"], capture_output=True,
                               text=True).stdout
        self.write("build/gpu/programs-of", built_from or state)
        (self.root / ".gpu").mkdir(exist_ok=True)
        subprocess.run(["tar", "cJf", self.root / ".gpu/programs.tar.xz", "-C", self.root / "build/gpu", "."], check=True)
        shutil.rmtree(self.root / "build")

    def start(self, *options):
        return subprocess.Popen(
            [self.root / "scripts/gpu-check", *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            env={**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}",
                 "PYTHONPATH": str(self.root / "py"), "PYTHONDONTWRITEBYTECODE": "1",
                 "CUDA_PATH": str(self.root / "toolkit")})

    def run_it(self, *options):
        process = self.start(*options)
        try:
            output = process.communicate(timeout=120)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            self.fail("gpu-check did not end")
        return process.returncode, output

    def report(self):
        return json.loads(next((self.root / "benchmarks/results").glob("*-stub-80gb.json")).read_text())

    def bars(self):
        return {bar["bar"]: bar["met"] for bar in self.report()["bars"]}

    def outcomes(self):
        return json.loads((self.root / "build/gpu/results/outcomes.json").read_text())

    def packed(self):
        """The archive's logs by program."""
        with tarfile.open(self.root / "benchmarks/results/gpu-check.tar.gz") as tar:
            return {name.removeprefix("build/gpu/results/"): tar.extractfile(name).read().decode(errors="replace")
                    for name in tar.getnames()}
