# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check in a temporary folder, with stubs for the GPU, PyTorch and all programs."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"

PASSED = "[doctest] test cases: 2 | 2 passed | 0 failed | 3 skipped"
PROGRAMS = {
    "bin/nvidia-smi": 'case $* in *name*) echo "NVIDIA Stub 80GB" ;; *driver*) echo 580.1 ;; *) echo GPU ;; esac',
    "bin/compute-sanitizer": f"echo '{PASSED}'" + """; case $* in *racecheck*)
        echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)' ;; *)
        echo '========= ERROR SUMMARY: 0 errors' ;; esac""",
    "bin/ncu": """echo '"ID","Process ID","Process Name","Host Name","Kernel Name","Metric Name","Metric Unit","Metric Value"'
        echo '"0","7","step","here","merge<float>(int)","gpu__time_duration.sum","nsecond","1,500,000"'
        echo '"1","7","step","here","merge<half>(int)","gpu__time_duration.sum","ns","500000"'""",
    "build/gpu/tests/test_cuda": f"echo '{PASSED}'",
    "build/gpu/tests/test_nccl_gpu": f"echo '{PASSED}'",
    "build/gpu/benchmarks/bench_gpu_layers": """for row in '"a", "dx": 1e-4' '"a step of ResNet-'$2'", "gradient": 1'; do
        echo '{"net": '$2', "engine": "cudnn", "precision": "fp16", "y": 1e-4, "bar": 0.001, "within": true, "layer": '"$row}"
        done""",
    "build/gpu/benchmarks/bench_gpu_bandwidth": """echo '{"what": "copy", "milliseconds": 1, "gigabytes_per_second": 1, "share": 1, "bar": 0.85, "within": true}'""",
    "build/gpu/benchmarks/bench_gpu_tensor_cores": """echo '{"layer": "a", "direction": "fprop", "batch": '"$2"', "tensor_core": 2, "cudnn": 1, "ratio": 0.5}'
        echo '{"median of": 1, "ratio": 0.5, "bar": 0.5, "within": true}'""",
    "build/gpu/benchmarks/bench_gpu_fused_graphs": """echo '{"graph": "g", "layer": "a", "batch": 256, "fused": 1, "plain": 2, "convolution": 1}'
        echo '{"graph": "h", "layer": "a", "batch": 256, "fused": null, "plain": 2, "convolution": 1}'""",
    "build/gpu/benchmarks/bench_gpu_step": """echo '{"stage": "forward", "milliseconds": 1}'""",
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

# A doctest runner of five cases: it prints, then hangs as a whole; alone one passes and the others fail, one since it is not found.
BAD_TESTS = """case $* in
*--list-test-cases*) echo '[doctest] listing all test case names'; echo ===; echo good; echo "no such"; echo 'hangs, sometimes'
  echo segfaults; echo aborts; echo ===; echo '[doctest] unskipped test cases: 5' ;;
*--test-case=good) echo '[doctest] test cases: 1 | 1 passed' ;;
*'--test-case=no such') echo '[doctest] test cases: 0 | 0 passed' ;;
*--test-case=segfaults) echo before the fault; kill -SEGV $$ ;;
*--test-case=aborts) kill -ABRT $$ ;;
*'--test-case=hangs? sometimes') echo 'this case hangs'; sleep 100 & trap '' TERM; wait; sleep 100 ;;
*) echo 'the last case before the deadlock'; sleep 100 ;; esac"""


class GpuCheck(unittest.TestCase):
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

    # Stages ---------------------------------------------------------------------------------------------------------
    def test_stage_a_runs_every_check_and_reports_it(self):
        status, output = self.run_it("--stage", "A")
        self.assertEqual(status, 0, output)
        bars = self.bars()
        for what in (KERNELS, NCCL, *(f"tests of kernels under compute-sanitizer's {tool}check"
                                      for tool in ("mem", "race", "sync", "init")),
                     "2 layers alone, cudnn, fp16, beside fp64", "a step of ResNet-50, fp16, beside fp64",
                     "ResNet-50, fp16, one batch, eager: the loss falls",
                     "ResNet-50, fp16, one batch, replayed: the loss falls"):
            self.assertIs(bars[what], True, what)
        self.assertEqual(len(self.report()["torch_layers"]), 4)
        self.assertEqual(self.report()["machine"]["PyTorch"], "9.9")

    def test_stage_b_measures_everything_and_pytorch(self):
        status, output = self.run_it("--stage", "B")
        self.assertEqual(status, 0, output)
        report = self.report()
        self.assertEqual({(r["program"], r["batch"]): r["images_per_second"] for r in report["throughput"]},
                         {("cordee", 64): 64.5, ("cordee", 256): 256.5, ("cordee", 512): 512.5,
                          ("cordee, replayed", 256): 256.5, ("pytorch, eager", 256): 400.0,
                          ("pytorch, compile", 256): 400.0})
        self.assertEqual(report["tensor_cores"][0]["batch"], 256)
        self.assertEqual(report["profile"], [{"kernel": "merge", "launches": 2, "milliseconds": 2.0}])
        self.assertEqual(len(report["stages"]), 1)
        self.assertIn("median 2.00 of 1: 1 unsupported", output)
        self.assertIs(self.bars()["tensor_core beside cuDNN, median of 1 convolutions of ResNet-50"], True)
        self.assertIs(self.bars()["ResNet-50, fp16, training step"], True)

    def test_without_pytorch_nothing_is_compared(self):
        self.write("py/torch/__init__.py", "raise ImportError\n")
        self.assertEqual(self.run_it("--stage", "B")[0], 0)
        self.assertEqual(len(self.report()["throughput"]), 4)
        self.assertIsNone(self.bars()["ResNet-50, fp16, training step"])

    def test_a_loss_that_does_not_fall_fails(self):
        self.program("build/gpu/examples/imagenet_shape_gpu",
                     "for i in 1 2 3 4 5 6; do echo \"step $i: loss 6.9, 1 ms\"; done")
        self.assertNotEqual(self.run_it("--stage", "A")[0], 0)
        self.assertIs(self.bars()["ResNet-50, fp16, one batch, eager: the loss falls"], False)

    def test_a_sanitizer_that_cannot_run_is_skipped_and_one_with_errors_fails(self):
        name = "tests of kernels under compute-sanitizer's racecheck"
        for body, met in (("echo 'Error: Device not supported'; exit 1", None),
                          ("echo '========= ERROR SUMMARY: 1 error'; exit 99", False), ("echo fine", False),
                          (f"echo '========= ERROR SUMMARY: 0 errors'; echo '{PASSED.replace('2', '0')}'", False)):
            self.program("bin/compute-sanitizer", body)
            self.run_it("--stage", "A", "--again")
            self.assertIs(self.bars()[name], met, body)

    def test_accuracy_runs_what_is_missing(self):
        self.assertIn("none is missing", self.run_it("--stage", "C")[1])
        self.assertIs(self.bars()["loss curve of 1 steps, fp16"], True)
        runs, accuracy = self.root / "runs", self.root / "build/gpu/results/accuracy.jsonl"
        self.assertEqual(len(runs.read_text().splitlines()), 13)
        lines = accuracy.read_text().splitlines()
        self.assertEqual(len(lines), 20)
        kept = {name: o for name, o in self.outcomes().items() if "seed 3" not in name}
        self.write("build/gpu/results/outcomes.json", json.dumps(kept))
        self.run_it("--stage", "C")
        again = runs.read_text().splitlines()[13:]
        self.assertEqual(len(again), 2)
        self.assertTrue(all("--seed 3" in run for run in again), again)
        self.assertEqual(sorted(accuracy.read_text().splitlines()), sorted(lines))

    def test_a_failed_run_remains_missing(self):
        self.program("build/gpu/examples/cifar_gpu", "exit 1")
        self.assertIn("13 programs failed or are missing", self.run_it("--stage", "C")[1])
        self.assertEqual({row["program"] for row in self.report()["accuracy"]}, {"pytorch"})

    # Faults ---------------------------------------------------------------------------------------------------------
    def test_programs_that_hang_crash_and_print_nonsense_are_named_and_no_log_is_lost(self):
        self.program("build/gpu/tests/test_cuda", BAD_TESTS)
        self.program("build/gpu/tests/test_nccl_gpu", "echo the first line; exec cat /dev/zero")
        self.program("build/gpu/benchmarks/bench_gpu_layers", "head -c 3000 /dev/urandom; echo; echo '{\"y\": 1'; echo '{'")
        self.program("build/gpu/examples/imagenet_shape_gpu", "echo half a result; exit 3")
        # One that prints for ever meets its own limit; one that is not there does not start.
        self.program("bin/compute-sanitizer", "while :; do echo tick; sleep 0.05; done")
        self.write("benchmarks/torch_layers.py", "raise SystemExit('no layers')")
        begin = time.monotonic()
        status, output = self.run_it("--stage", "A", "--scale", "0.04")
        seconds = time.monotonic() - begin
        self.assertEqual(status, 1, output)
        # The stage's own limit is 480 s times the scale; the rest is what starting Python and the archives take.
        self.assertLess(seconds, 19.2 + 15)
        found = self.outcomes()
        for name, result in (
                (KERNELS, "printed nothing for 1 s"), (f"{KERNELS}: hangs, sometimes", "printed nothing for 1 s"),
                (f"{KERNELS}: segfaults", "ended by SIGSEGV"), (f"{KERNELS}: aborts", "ended by SIGABRT"),
                (f"{KERNELS}: no such", "0 of 0 cases passed"),
                (f"{KERNELS}, case by case", "1 passed, 4 failed, 0 not run"),
                (f"{NCCL}, case by case", "no list of its cases: "),
                ("layers of ResNet-20", "it printed no result"),
                ("ResNet-50, fp16, one batch, eager: the loss falls", "exited with 3; it printed too few losses"),
                ("PyTorch's layers", "exited with 1; it printed no result"),
                ("tests of kernels under compute-sanitizer's synccheck", "did not end in 1.6 s; it printed no summary")):
            self.assertIn(result, found[name]["result"], name)
            self.assertIs(found[name]["met"], False, name)
            self.assertIn(f"FAILED: {name}: ", output)
        self.assertEqual(found[NCCL]["result"], "printed more than 64 MiB; it printed no summary")
        self.assertIs(self.bars()[KERNELS], False)
        packed = self.packed()
        for name, outcome in found.items():
            if outcome["log"]:
                self.assertIn(outcome["log"].removeprefix("build/gpu/results/"), packed, name)
        self.assertIn("the last case before the deadlock", packed["logs/tests-of-kernels-on-the-GPU.log"])
        self.assertIn("this case hangs", packed["logs/tests-of-kernels-on-the-GPU-hangs-sometimes.log"])
        self.assertIn("before the fault", packed["logs/tests-of-kernels-on-the-GPU-segfaults.log"])
        too_much = packed["logs/ranks-over-NCCL.log"]
        self.assertLess(len(too_much), 600_000)
        self.assertTrue(too_much.startswith("the first line"))
        self.assertIn("bytes left out", too_much)
        self.assertIn("outcomes.json", packed)

    def test_a_result_that_cannot_be_read_fails_its_program_only(self):
        self.program("bin/ncu", "echo '\"0\",\"merge\",\"parsec\",\"fast\"'")
        self.assertEqual(self.run_it("--stage", "B")[0], 1)
        self.assertIn("unreadable output: IndexError", self.outcomes()["profile of one step"]["result"])
        self.assertIs(self.outcomes()["tensor_core beside cuDNN"]["met"], True)

    def test_nothing_that_a_program_started_survives_it(self):
        self.program("build/gpu/tests/test_cuda", f"sleep 1000 & echo $! >{self.root}/child; echo '{PASSED}'")
        self.run_it("--stage", "A")
        child = int((self.root / "child").read_text())
        for _ in range(100):
            if not pathlib.Path(f"/proc/{child}").exists() or " Z " in pathlib.Path(f"/proc/{child}/stat").read_text():
                break
            time.sleep(0.05)
        else:
            os.kill(child, signal.SIGKILL)
            self.fail("a child process survived")

    def wait_for(self, condition):
        for _ in range(600):
            if condition():
                return
            time.sleep(0.05)
        self.fail("nothing happened")

    def test_killed_in_the_middle_it_has_archived_what_ended_and_resumes_there(self):
        first = f"echo run >>{self.root}/first; echo the first log; echo '{PASSED}'"
        self.program("build/gpu/tests/test_cuda", first)
        self.program("build/gpu/tests/test_nccl_gpu", f"echo in progress; touch {self.root}/reached; sleep 100")
        process = self.start("--stage", "A")
        self.wait_for((self.root / "reached").exists)
        process.kill()
        process.communicate()
        subprocess.run(["sh", "-c", "for p in /proc/[0-9]*; do [ \"$(readlink $p/cwd)\" = \"$0\" ] && kill -9 ${p#/proc/}; done",
                        str(self.root)], stderr=subprocess.DEVNULL)
        self.assertIn("the first log", self.packed()["logs/tests-of-kernels-on-the-GPU.log"])
        self.assertEqual(json.loads(self.packed()["outcomes.json"])[KERNELS]["result"], "2 of 2 cases passed")
        # On another machine: only what the archive holds is left.
        shutil.rmtree(self.root / "build/gpu/results")
        subprocess.run(["tar", "xf", "benchmarks/results/gpu-check.tar.gz"], cwd=self.root, check=True)
        self.program("build/gpu/tests/test_nccl_gpu", f"echo '{PASSED}'")
        self.assertEqual(self.run_it("--stage", "A")[0], 0)
        self.assertEqual((self.root / "first").read_text(), "run\n")
        self.assertEqual(self.run_it("--stage", "A", "--again")[0], 0)
        self.assertEqual((self.root / "first").read_text(), "run\nrun\n")

    def test_ended_by_sigterm_it_kills_the_program_and_archives_its_log(self):
        self.program("build/gpu/tests/test_cuda", f"echo in progress; echo $$ >{self.root}/pid; exec sleep 100")
        process = self.start("--stage", "A")
        self.wait_for((self.root / "pid").exists)
        self.wait_for(lambda: (self.root / "pid").read_text())
        process.terminate()
        self.assertIn("ended by SIGTERM", process.communicate(timeout=60)[0])
        self.assertIn("in progress", self.packed()["logs/tests-of-kernels-on-the-GPU.log"])
        with self.assertRaises(ProcessLookupError):
            os.kill(int((self.root / "pid").read_text()), 0)

    def test_if_the_gpu_does_not_answer_any_more_the_rest_is_not_run_but_named(self):
        self.program("build/gpu/tests/test_cuda", "rm bin/nvidia-smi; exit 1")
        smi = (self.root / "bin/nvidia-smi").read_text()
        status, output = self.run_it("--stage", "A")
        self.assertEqual(status, 1)
        self.assertIn("the GPU does not answer any more", output)
        found = self.outcomes()
        self.assertEqual(found[NCCL]["result"], "not run: the GPU does not answer any more")
        self.program("build/gpu/tests/test_cuda", f"echo '{PASSED}'")
        self.write("bin/nvidia-smi", smi).chmod(0o755)
        self.assertEqual(self.run_it("--stage", "A")[0], 0)
        self.assertIs(self.outcomes()[NCCL]["met"], True)

    def test_a_stage_ends_in_time_and_the_next_call_runs_what_is_left(self):
        for name in ("bench_gpu_bandwidth", "bench_gpu_step", "bench_gpu_tensor_cores", "bench_gpu_fused_graphs"):
            self.program(f"build/gpu/benchmarks/{name}", "while :; do echo; sleep 0.05; done")
        self.program("build/gpu/examples/imagenet_shape_gpu", "while :; do echo; sleep 0.05; done")
        self.write("benchmarks/torch_imagenet_shape.py", "import time\nwhile True:\n    time.sleep(0.1)\n")
        begin = time.monotonic()
        status, output = self.run_it("--stage", "B", "--scale", "0.02")
        self.assertLess(time.monotonic() - begin, 7.2 + 15)
        self.assertEqual(status, 1)
        results = [outcome["result"] for outcome in self.outcomes().values()]
        self.assertEqual(sum("cut off by the end of the stage" in result for result in results), 1, results)
        self.assertEqual(results[-1], "not run: no time was left")
        # The next call begins with what was cut off or not run, before what failed.
        again = [line for line in self.run_it("--stage", "B", "--scale", "0.02")[1].splitlines() if line.startswith("  + ")]
        self.assertNotIn("bench_gpu_bandwidth", again[0])
        self.assertIn("build/gpu/benchmarks/bench_gpu_tensor_cores", "".join(again[:6]))

    def test_two_at_once_are_refused(self):
        self.program("build/gpu/tests/test_cuda", f"touch {self.root}/reached; sleep 100")
        process = self.start("--stage", "A")
        self.wait_for((self.root / "reached").exists)
        self.assertIn("another one is running", self.run_it("--stage", "A")[1])
        process.terminate()
        process.communicate(timeout=60)

    # What is not there ----------------------------------------------------------------------------------------------
    def test_programs_that_were_carried_are_unpacked_and_their_sources_compared(self):
        shutil.rmtree(self.root / "build")
        (self.root / ".gpu").mkdir()
        state = subprocess.run([sys.executable, self.root / "scripts/gpu/sources.py", "hash"], capture_output=True,
                               text=True).stdout
        for built_from, met in ((state, True), ("other", None)):
            self.program("pack/tests/test_cuda", "echo carried")
            self.write("pack/programs-of", built_from)
            subprocess.run(["tar", "cJf", self.root / ".gpu/programs.tar.xz", "-C", self.root / "pack", "."], check=True)
            status, output = self.run_it("--stage", "build")
            self.assertEqual(status, 0, output)
            self.assertIn("carried", (self.root / "build/gpu/tests/test_cuda").read_text())
            self.assertIs(self.outcomes()["carried programs"]["met"], met)
        self.assertIn("OTHER", self.outcomes()["carried programs"]["result"])

    def test_without_a_gpu_only_the_build_runs(self):
        (self.root / "bin/nvidia-smi").write_text("#!/bin/sh\nexit 1\n")
        for stage in ("A", "B", "C"):
            status, output = self.run_it("--stage", stage)
            self.assertNotEqual(status, 0)
            self.assertIn("no GPU found", output)

    def test_a_dry_run_runs_nothing_and_writes_nothing(self):
        shutil.rmtree(self.root / "build")
        before = sorted(self.root.rglob("*"))
        status, output = self.run_it("--dry-run")
        self.assertEqual(status, 0, output)
        self.assertIn("NVIDIA Stub 80GB", output)
        self.assertIn("bench_gpu_layers --net 50", output)
        self.assertIn("bench_gpu_tensor_cores bench_gpu_fused_graphs test_nccl_gpu", output)
        self.assertIn("-D CORDEE_NCCL=ON", output)
        self.assertEqual([p for p in sorted(self.root.rglob("*")) if "__pycache__" not in str(p)], before)

    def test_an_unknown_stage_is_an_error(self):
        self.assertEqual(self.run_it("--stage", "beauty")[0], 2)


unittest.main()
