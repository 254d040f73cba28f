# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check with programs that hang, crash and print nonsense, and ended in the middle."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
import unittest

from simulated_machine import BAD_TESTS, KERNELS, NCCL, PASSED, TESTS, SimulatedMachine


class GpuFaults(SimulatedMachine):
    def test_programs_that_hang_crash_and_print_nonsense_are_named_and_no_log_is_lost(self):
        self.program("build/gpu/tests/test_cuda", BAD_TESTS)
        self.program("build/gpu/tests/test_nccl_gpu", "echo the first line; exec cat /dev/zero")
        self.program("build/gpu/benchmarks/bench_gpu_layers", "head -c 3000 /dev/urandom; echo; echo '{\"y\": 1'; echo '{'")
        self.program("build/gpu/examples/imagenet_shape_gpu", "echo half a result; exit 3")
        # One that prints for ever meets its own limit; one that is not there does not start.
        self.program("bin/compute-sanitizer", "while :; do echo tick; sleep 0.05; done")
        self.write("benchmarks/torch_layers.py", "raise SystemExit('no layers')")
        begin = time.monotonic()
        status, output = self.run_it("--stage", "A", "--scale", "0.08")
        seconds = time.monotonic() - begin
        self.assertEqual(status, 1, output)
        # The stage's own limit is 480 s times the scale; the rest is what starting Python and the archives take.
        self.assertLess(seconds, 38.4 + 15)
        found = self.outcomes()
        for name, result in (
                (KERNELS, "printed nothing for 2 s"), (f"{KERNELS}: hangs, sometimes", "printed nothing for 2 s"),
                (f"{KERNELS}: segfaults", "ended by SIGSEGV"), (f"{KERNELS}: aborts", "ended by SIGABRT"),
                (f"{KERNELS}: no such", "0 of 0 cases passed"),
                (f"{KERNELS}, case by case", "1 passed, 4 failed, 0 not run"),
                (f"{NCCL}, case by case", "no list of its cases: "),
                ("layers of ResNet-20", "it printed no result"),
                ("ResNet-50, fp16, one batch, eager: the loss falls", "exited with 3; it printed too few losses"),
                ("PyTorch's layers", "exited with 1; it printed no result"),
                ("tests of kernels under compute-sanitizer's synccheck", "did not end in 3.2 s; it printed no summary")):
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
        first = (f"case $* in *--list-test-cases*) echo a case; exit ;; esac; echo run >>{self.root}/first; "
                 f"echo the first log; echo '{PASSED}'")
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

    def test_ended_within_the_cases_of_racecheck_those_that_passed_are_not_repeated(self):
        name = "tests of kernels under compute-sanitizer's racecheck"
        tool = (self.root / "bin/compute-sanitizer").read_text()
        self.program("bin/compute-sanitizer", f"""case $* in *racecheck*pooling*) touch {self.root}/reached; sleep 100 ;; esac
            {tool.split('#!/bin/sh')[1]}""")
        process = self.start("--stage", "A")
        self.wait_for((self.root / "reached").exists)
        process.terminate()
        process.communicate(timeout=60)
        self.assertEqual(self.outcomes()[name]["passed"], ["batch norm, twice"])
        self.assertEqual(self.outcomes()[name]["result"], "0 of 2 cases passed so far")
        self.program("bin/compute-sanitizer", f"""echo "$*" >>{self.root}/runs
            {tool.split('#!/bin/sh')[1]}""")
        self.assertEqual(self.run_it("--stage", "A")[0], 0)
        self.assertEqual(self.outcomes()[name]["result"], "2 of 2 cases passed, 0 failed, 0 not run")
        self.assertEqual(len((self.root / "runs").read_text().splitlines()), 1)

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
        self.program("build/gpu/tests/test_cuda", TESTS)
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


unittest.main()
