# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check on a simulated machine: its stages, and what may be missing there."""
import json
import shutil
import subprocess
import sys
import unittest

from simulated_machine import KERNELS, NCCL, PASSED, SimulatedMachine


class GpuCheck(SimulatedMachine):
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
        self.assertEqual(self.report()["cudnn_device"], [{"deviceVer": 900, "a": [1]}])

    def test_a_description_of_the_gpu_that_is_no_json_is_named_and_the_values_are_kept(self):
        self.program("build/gpu/benchmarks/bench_gpu_fused_graphs",
                     "echo 'device: {nothing'; echo '{\"graph\": \"g\", \"within\": true}'")
        self.assertEqual(self.run_it("--stage", "A")[0], 0)
        self.assertEqual(self.outcomes()["values of fused graphs"]["result"],
                         "1 results, 0 beyond their bars; the device's description is no JSON")
        self.assertEqual(self.report()["cudnn_device"], [])

    def test_stage_b_measures_everything_and_pytorch(self):
        status, output = self.run_it("--stage", "B")
        self.assertEqual(status, 0, output)
        report = self.report()
        self.assertEqual({(r["program"], r["batch"]): r["images_per_second"] for r in report["throughput"]},
                         {("cordee", 64): 64.5, ("cordee", 256): 256.5, ("cordee", 512): 512.5,
                          ("cordee, replayed", 256): 256.5, ("pytorch, eager", 256): 400.0,
                          ("pytorch, compile", 256): 400.0})
        self.assertEqual(report["tensor_cores"][0]["batch"], 256)
        self.assertEqual(report["profile"], [{"kernel": "merge<float>", "launches": 1, "milliseconds": 1.5},
                                             {"kernel": "merge<half>", "launches": 1, "milliseconds": 0.5}])
        self.assertEqual(len(report["stages"]), 1)
        self.assertEqual([row["theirs"] for row in report["primitives"]], [2])
        self.assertIn("median 2.00 of 1: 1 unsupported", output)
        self.assertIs(self.bars()["tensor_core beside cuDNN, median of 1 convolutions of ResNet-50"], True)
        self.assertIs(self.bars()["ResNet-50, fp16, training step, batch 256"], False)

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
        name = "tests of kernels under compute-sanitizer's initcheck"
        for body, met in (("echo 'Error: Device not supported'; exit 1", None),
                          ("echo '========= ERROR SUMMARY: 1 error'; exit 99", False), ("echo fine", False),
                          (f"echo '========= ERROR SUMMARY: 0 errors'; echo '{PASSED.replace('2', '0')}'", False)):
            self.program("bin/compute-sanitizer", body)
            self.run_it("--stage", "A", "--again")
            self.assertIs(self.bars()[name], met, body)

    def test_racecheck_runs_each_case_alone_and_one_that_does_not_end_costs_itself(self):
        name = "tests of kernels under compute-sanitizer's racecheck"
        hangs = f"""echo "$*" >>{self.root}/runs; case $* in *racecheck*batch*) [ -e mended ] || exec sleep 100 ;; esac
            echo '{PASSED}'; echo '========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)'
            echo '========= ERROR SUMMARY: 0 errors'"""
        self.program("bin/compute-sanitizer", hangs)
        self.run_it("--stage", "A", "--scale", "0.1")
        found = self.outcomes()
        self.assertEqual(found[name]["result"], "1 of 2 cases passed, 1 failed, 0 not run")
        self.assertEqual(found[f"{name}: batch norm, twice"]["result"], "did not end in 3 s")
        self.assertEqual(found[name]["passed"], ["pooling"])
        runs = [run for run in (self.root / "runs").read_text().splitlines() if "racecheck" in run]
        self.assertEqual([run.split("--test-case=")[1:] for run in runs], [["batch norm? twice"], ["pooling"]])
        # What passed is not repeated, and the case that failed is no longer named.
        self.write("mended", "")
        self.assertEqual(self.run_it("--stage", "A", "--scale", "0.1")[0], 0)
        found = self.outcomes()
        self.assertEqual(found[name]["result"], "2 of 2 cases passed, 0 failed, 0 not run")
        self.assertNotIn(f"{name}: batch norm, twice", found)
        runs = [run for run in (self.root / "runs").read_text().splitlines() if "racecheck" in run]
        self.assertEqual([run.split("--test-case=")[1] for run in runs[2:]], ["batch norm? twice"])

    def test_racecheck_where_the_tool_does_not_run_is_skipped_and_without_a_list_fails(self):
        name = "tests of kernels under compute-sanitizer's racecheck"
        self.program("bin/compute-sanitizer", "echo 'Error: Device not supported'; exit 1")
        self.assertEqual(self.run_it("--stage", "A")[0], 0)
        self.assertEqual(self.outcomes()[name]["result"], "skipped: it does not run on this machine")
        self.program("build/gpu/tests/test_cuda", f"echo '{PASSED}'")
        self.assertEqual(self.run_it("--stage", "A", "--again")[0], 1)
        self.assertEqual(self.outcomes()[name]["result"], "no list of its cases: it is empty")

    def test_a_case_that_says_it_is_skipped_is_not_counted_as_passed(self):
        word = "nccl_gpu.cu:109: MESSAGE: skipped: over several GPUs: this machine has 1"
        for count, met in ((2, True), (1, None)):
            self.program("build/gpu/tests/test_nccl_gpu", f"echo '{word}'; echo '{PASSED.replace('2', str(count))}'")
            status, output = self.run_it("--stage", "A", "--again")
            self.assertEqual(status, 0, output)
            self.assertEqual(self.outcomes()[NCCL]["result"], f"{count - 1} of {count} cases passed; "
                             "skipped: over several GPUs: this machine has 1")
            self.assertIs(self.bars()[NCCL], met)

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

    # What is not there ----------------------------------------------------------------------------------------------
    def test_programs_that_were_carried_are_unpacked_and_their_sources_compared(self):
        for built_from, met in (("", True), ("other", None)):
            self.program("build/gpu/tests/test_cuda", "echo carried")
            self.carry(built_from)
            status, output = self.run_it("--stage", "build")
            self.assertEqual(status, 0, output)
            self.assertIn("carried", (self.root / "build/gpu/tests/test_cuda").read_text())
            self.assertIs(self.outcomes()["carried programs"]["met"], met)
        self.assertIn("OTHER", self.outcomes()["carried programs"]["result"])

    def test_a_carried_program_that_does_not_start_is_named_and_all_are_compiled(self):
        self.program("build/gpu/tests/test_cuda", "echo \"version 'GLIBC_9.9' not found\"; exit 1")
        self.program("bin/nvcc", "echo 'release 13.0, V13.0.88'")
        self.program("bin/cmake", "echo \"$*\" >>compiled")
        self.carry()
        status, output = self.run_it("--stage", "build")
        self.assertEqual(status, 0, output)
        carried = self.outcomes()["carried programs"]
        self.assertIn("test_cuda: exited with 1: version 'GLIBC_9.9' not found", carried["result"])
        self.assertIs(carried["met"], False)
        self.assertEqual(len((self.root / "compiled").read_text().splitlines()), 2)
        # A new session: programs of the same sources start, and nothing is compiled.
        self.program("build/gpu/tests/test_cuda", f"echo '{PASSED}'")
        self.carry()
        self.assertEqual(self.run_it("--stage", "build")[0], 0)
        self.assertEqual(len((self.root / "compiled").read_text().splitlines()), 2)

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

    def test_if_each_program_takes_its_limit_two_calls_of_a_and_of_b_run_all_of_them(self):
        # Also the stub's tools are there, so that no program is skipped: PyTorch, CIFAR-10, cuDNN, NCCL, ncu.
        lines = [line for line in self.run_it("--dry-run")[1].splitlines() if line.startswith("== ")]
        self.assertEqual(lines[1:], [f"== {stage}: at most {seconds} s; if each program takes its limit, {calls} calls"
                                     for stage, seconds, calls in (("A", 480, 2), ("B", 360, 2), ("C", 420, 11))])

    def test_an_unknown_stage_is_an_error(self):
        self.assertEqual(self.run_it("--stage", "beauty")[0], 2)


unittest.main()
