# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu/kernel_names.py over names of the kernels of ResNet-50's step, as nvcc made them (demangled), and of
cuDNN's, as a profiler printed them in benchmarks/results/2026-11-26-h200.json."""
import json
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "gpu"))
sys.dont_write_bytecode = True
from kernel_names import LONGEST, short_name

C = "cordee::v0_cuda_cudnn_simd16"
BODIES = {
    f"{C}::detail::ops::metrics_kernel": "metrics_kernel",
    f"{C}::detail::ops::matmul_kernel<{C}::half, {C}::detail::ops::store_output_op<{C}::half, float> >":
        "matmul_kernel<half, store_output_op<half, float>>",
    f"{C}::detail::ops::chunk_sums_kernel<{C}::detail::ops::epilogue::add_relu, {C}::half, 8, float>":
        "chunk_sums_kernel<epilogue::add_relu, half, 8, float>",
    f"{C}::detail::ops::chunk_sums_kernel<{C}::detail::ops::epilogue::store, {C}::half, 8, float>":
        "chunk_sums_kernel<epilogue::store, half, 8, float>",
    f"{C}::detail::device::for_each_kernel<{C}::detail::ops::max_pool_op<{C}::half, 8> >": "max_pool_op<half, 8>",
    f"{C}::detail::device::for_each_kernel<{C}::detail::train::begin_step_op>": "begin_step_op",
    f"{C}::detail::device::predicated_kernel<{C}::detail::ops::segmented_kernel<float, {C}::detail::optim::"
    f"trust_ratio_body<{C}::detail::optim::basic_lars<{C}::detail::optim::lars_form>, {C}::detail::optim::"
    "lr_and_ratio_inside<float> > > >":
        "predicated_kernel<segmented_kernel<float, trust_ratio_body<basic_lars<lars_form>, "
        "lr_and_ratio_inside<float>>>>",
}


class KernelNames(unittest.TestCase):
    def test_a_kernel_is_named_by_its_body_or_its_operation(self):
        for body, name in BODIES.items():
            for gap in ("", " ") if body.endswith(">") else ("",):
                for parameter in (body, "T1"):
                    whole = f"void {C}::detail::device::kernel_entry<{body}{gap}>({parameter})"
                    self.assertEqual(short_name(whole), name)
        self.assertEqual(short_name("void cordee::kernel_entry<cordee::detail::ops::metrics_kernel>(T1)"),
                         "metrics_kernel")

    def test_kernels_of_others_keep_their_names_and_template_arguments(self):
        rows = json.loads((ROOT / "benchmarks/results/2026-11-26-h200.json").read_text())["profile"]
        others = [row["kernel"] for row in rows if "cordee" not in row["kernel"]]
        self.assertGreater(len(others), 40)
        for name in others:
            self.assertEqual(short_name(name), name.removeprefix("void "))
        self.assertEqual(short_name("void cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm<float>>(T1::Params)"),
                         "cutlass::Kernel2<cutlass_80_tensorop_f16_s16816gemm<float>>")
        self.assertEqual(short_name("void f<void (*)(int)>(void (*)(int))"), "f<void (*)(int)>")

    def test_a_long_name_is_cut(self):
        self.assertEqual(len(short_name(f"void f<{'x' * 500}>(int)")), LONGEST)


unittest.main()
