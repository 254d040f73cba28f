# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check in its whole course, with programs that hang, crash and print nonsense."""
import unittest

from simulated_machine import BAD_TESTS, KERNELS, NCCL, SimulatedMachine


class GpuCourse(SimulatedMachine):
    def test_the_whole_course_of_carried_programs_goes_on_whatever_a_program_does(self):
        self.program("build/gpu/tests/test_nccl_gpu", f"[ $1 = --help ] && exit\n{BAD_TESTS}")
        self.program("build/gpu/benchmarks/bench_gpu_bandwidth", "[ $1 = --help ] || kill -SEGV $$")
        self.program("build/gpu/benchmarks/bench_gpu_fused_graphs", "head -c 3000 /dev/urandom")
        self.program("build/gpu/examples/cifar_gpu", "case $* in *fp32*) exec sleep 100 ;; esac; echo 'validation accuracy .'")
        self.carry()
        status, output = self.run_it("--scale", "0.12")
        self.assertEqual(status, 1, output)
        stages = [line[3:] for line in output.splitlines() if line.startswith("== ")]
        self.assertEqual(stages, ["build", "A", "B", "C"])
        found = self.outcomes()
        self.assertIn("built from these sources", found["carried programs"]["result"])
        for name, result in ((f"{NCCL}, case by case", "1 passed, 4 failed, 0 not run"),
                             (f"{NCCL}: segfaults", "ended by SIGSEGV"), (f"{NCCL}: aborts", "ended by SIGABRT"),
                             (f"{NCCL}: hangs, sometimes", "printed nothing for 3 s"), ("bandwidth", "ended by SIGSEGV"),
                             ("values of fused graphs", "it printed no result"),
                             ("fused graphs beside plain ones", "it printed no result"),
                             ("curve of the GPU, fp32", "printed nothing for 3 s"),
                             ("accuracy of cordee, batch 128, seed 1", "it printed no result")):
            self.assertIn(result, found[name]["result"])
            self.assertIs(found[name]["met"], False)
        for name in (KERNELS, "layers of ResNet-50", "ResNet-50 step, batch 256, replayed",
                     "PyTorch's step, batch 256, compile", "times of a step's stages", "tensor_core beside cuDNN",
                     "accuracy of pytorch, batch 4096, seed 5"):
            self.assertIs(found[name]["met"], True, name)
        self.assertTrue(all(found[name]["log"].removeprefix("build/gpu/results/") in self.packed() for name in found
                            if found[name]["log"]))
        self.assertEqual(len(self.report()["throughput"]), 6)


unittest.main()
