# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/machine-code finds the floats of kernels that should compute with integers only, in machine code and in PTX.
With --nvcc PROGRAM also in kernels that it compiles (tests/support/kernels_with_floats.cu)."""
import argparse
import pathlib
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts" / "gpu"))
sys.dont_write_bytecode = True
import ptx  # noqa: E402
import sass  # noqa: E402

nvcc = None


def found_in_sass(*lines):
    text = ".section .text.kernel,\"ax\"\n" + "\n".join(
        f"        /*{16 * i:04x}*/                   {line} ;" for i, line in enumerate(lines))
    code, _ = sass.parse(text)["kernel"]
    assert len(code) == len(lines)
    return [c.name for c in sass.float_instructions(code)]


class Sass(unittest.TestCase):
    def test_each_kind_of_instruction_is_found(self):
        for line in ("FADD.FTZ R0, R1, R2", "@!P0 FMUL R0, R1, R2", "FFMA R0, R1, R2, R3", "FSETP.GT.AND P0, PT, R1, RZ, PT",
                     "FMNMX R0, R1, R2, PT", "I2F.U32.RP R0, R1", "I2FP.F32.S32 R0, R1", "F2I.FTZ.U32.TRUNC.NTZ R0, R1",
                     "MUFU.RCP R0, R1", "F2FP.F16.F32.PACK_AB R0, R1, R2", "HADD2 R0, R1, R2", "HFMA2.MMA R0, R1, R2, R3",
                     "HMUL2.BF16_V2 R0, R1, R2", "HMMA.16816.F32 R0, R4, R8, R0", "DADD R0, R2, R4", "DFMA R0, R2, R4, R6",
                     "HFMA2.MMA R0, -RZ, R1, 0, 0", "FRND R0, R1", "F2F.F64.F32 R0, R2", "HGMMA.64x64x16.F32 R0, gdesc, R0"):
            with self.subTest(line):
                self.assertEqual(len(found_in_sass("IADD3 R1, R1, R2, RZ", line)), 1)

    def test_integers_moves_and_barriers_are_not(self):
        self.assertEqual(found_in_sass(
            "IMAD.WIDE R0, R1, R2, R4", "IMMA.16832.U8.S8 R0, R4.ROW, R8.COL, R0", "DEPBAR.LE SB0, 0x2", "LDGDEPBAR",
            "FLO.U32 R0, R1", "FENCE.VIEW.ASYNC", "HFMA2.MMA R0, -RZ, RZ, 0, 5.9604644775390625e-08", "ISETP.GE.AND P0, PT, R0, R1, PT",
            "VIMNMX R0, R1, R2, PT", "PRMT R0, R1, 0x7604, R2", "SHF.R.S64 R0, R1, R2, R3", "LDG.E.128 R0, desc[UR4][R2.64]"), [])


class Ptx(unittest.TestCase):
    def test_arithmetic_comparisons_conversions_and_divisions_are_found(self):
        for line in ("add.rn.f32 %f1, %f2, %f3;", "@%p1 fma.rn.f64 %fd1, %fd2, %fd3, %fd4;", "setp.lt.f32 %p1, %f1, %f2;",
                     "cvt.rn.f32.s32 %f1, %r1;", "cvt.rzi.s32.f32 %r1, %f1;", "{ add.f16x2 %r1,%r2,%r3;", "rcp.approx.ftz.f32 %f1, %f2;",
                     "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};", "div.s32 %r1, %r2, %r3;",
                     "rem.u64 %rd1, %rd2, %rd3;", "fma.rn.bf16x2 %r1, %r2, %r3, %r4;"):
            with self.subTest(line):
                self.assertEqual(len(ptx.float_instructions("mov.u32 %r1, %r2;\n\t" + line)), 1)

    def test_integers_moves_and_memory_are_not(self):
        self.assertEqual(ptx.float_instructions("""
	.reg .f32 %f<3>;
	ld.global.f32 %f1, [%rd1];
	st.global.f32 [%rd2], %f1;
	mov.f32 %f2, %f1;
	mul.wide.s32 %rd1, %r1, 4;
	mul.hi.u32 %r1, %r2, 613566757;
	mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%r1}, {%r2}, {%r3}, {%r1};
	// add.f32 in a comment
"""), [])


class Kernels(unittest.TestCase):
    def test_planted_ones_are_found_in_machine_code_and_in_ptx(self):
        if nvcc is None:
            self.skipTest("no CUDA compiler")
        for options in ([], ["--ptx"]):
            done = subprocess.run([sys.executable, ROOT / "scripts/machine-code", "--nvcc", nvcc, *options,
                                   ROOT / "tests/support/kernels_with_floats.cu"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            found = [line.split(":")[1].strip() for line in done.stdout.splitlines() if "floating-point" in line]
            self.assertEqual(sorted(found), [f"planted_{name}" for name in (
                "conversion", "float_product", "half_sum", "integer_division", "wide_remainder")], done.stdout)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nvcc")
    nvcc = parser.parse_args().nvcc
    unittest.main(argv=[sys.argv[0]])
