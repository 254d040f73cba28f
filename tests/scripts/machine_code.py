# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu/ptx.py and scripts/gpu/sass.py: what they find in a kernel with a fault, and in one without."""
import importlib.machinery
import importlib.util
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS / "gpu"))
import ptx
import sass

loader = importlib.machinery.SourceFileLoader("machine_code", str(SCRIPTS / "machine-code"))
script = importlib.util.module_from_spec(importlib.util.spec_from_loader("machine_code", loader))
loader.exec_module(script)

HEAD = ".version 9.0\n.target sm_90\n.extern .shared .align {} .b8 memory[];\n"
KERNEL = ".visible .entry {}(\n\t.param .u64 a\n)\n{{\n\t{}\n\tret;\n}}\n"
FUNCTION = ".func  (.param .b32 r) {}(\n\t.param .b64 a\n)\n{{\n\t{}\n\tret;\n}}\n"


def text(*parts, align=128):
    return HEAD.format(align) + "".join(parts)


class Ptx(unittest.TestCase):
    def only(self, fault, text):
        for kernel, found in ptx.faults(text).items():
            self.assertEqual(found, {f: int(kernel == "bad" and f == fault) for f in ptx.FAULTS})

    def test_faultless(self):
        self.only(None, text(KERNEL.format("bad", "add.s32 %r1, %r2, %r3;"), KERNEL.format("good", "// traps;")))

    def test_trap(self):
        self.only("trap", text(KERNEL.format("good", ""), KERNEL.format("bad", "// begin\n\ttrap;")))

    def test_local_memory(self):
        depot = ".local .align 16 .b8 \t__local_depot0[16];"
        self.only("local", text(KERNEL.format("bad", depot), KERNEL.format("good", "")))

    def test_a_function_counts_for_every_kernel(self):
        found = ptx.faults(text(FUNCTION.format("f", "trap;"), KERNEL.format("a", ""), KERNEL.format("b", "")))
        self.assertEqual({k: v["trap"] for k, v in found.items()}, {"a": 1, "b": 1})

    def test_a_weak_kernel_is_one(self):
        found = ptx.faults(text(KERNEL.format("a", "trap;").replace(".visible", ".weak")))
        self.assertEqual(found["a"]["trap"], 1)

    def test_shared_memory_within_a_line(self):
        self.only("misaligned", text(KERNEL.format("bad", ""), align=16))

    def test_names(self):
        self.assertEqual(ptx.short("void a::b::kernel_entry<a::p<(anonymous namespace)::k<float, 8> > >(a::p<int>)"),
                         "p<k<float, 8>>")
        self.assertEqual(ptx.readable(["plain", "_ZN1a12kernel_entryINS_1kIfEEEEvT_"]),
                         {"_ZN1a12kernel_entryINS_1kIfEEEEvT_": "k<float>"})

    def test_what_kernels_are_made_of(self):
        struct = "template <class T>\nstruct {} {{\n  int a;\n\n  {}\n}};\n".format
        for call in ("template <class Block>\n  CORDEE_DEVICE void operator()(Block& b) const {}",
                     "CORDEE_HOST_DEVICE void operator()(std::size_t i) const {}",
                     "CORDEE_DEVICE void operator()(std::size_t) const {}",
                     "template <class At>\n  constexpr void operator()(At at) const {}",
                     "CORDEE_HOST_DEVICE auto for_segment(kind k, std::size_t) const {}"):
            self.assertEqual(list(ptx.device_structs(struct("any", call))), ["any"], call)
        other = "CORDEE_DEVICE float operator()(float x) const {}"
        self.assertEqual(list(ptx.device_structs(struct("any_op", other) + struct("any", other))), ["any_op"])
        self.assertEqual(list(ptx.device_structs(struct("host", "void operator()(std::size_t i) const {}"))), [])
        # Of two bodies that work together the first is the kernel's argument.
        pair = struct("inner", "constexpr void operator()(At at) const {}") + struct(
            "outer", "CORDEE_HOST_DEVICE inner<T> for_segment(kind k, std::size_t) const {}")
        self.assertEqual(list(ptx.device_structs(pair)), ["outer"])


class Lists(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        root = mock.patch.object(script, "ROOT", self.root)
        root.start()
        self.addCleanup(root.stop)
        (self.root / "include").mkdir()
        for name in ("first_op", "second_op", "host"):
            call = "CORDEE_DEVICE void" if name != "host" else "void"
            (self.root / f"include/{name}.hpp").write_text(
                f"struct {name} {{\n  {call} operator()(std::size_t i) const {{}}\n}};\n")
        self.list = self.root / "a_kernels.cu"

    def unlisted(self, text, names=()):
        self.list.write_text(text)
        return sorted(script.unlisted([self.list], names))

    def test_a_kernel_that_no_list_has(self):
        covers = "// Covers: include\n"
        self.assertEqual(self.unlisted(covers), ["first_op", "second_op"])
        self.assertEqual(self.unlisted(covers + "OPERATION(a, first_op)\n"), ["second_op"])
        self.assertEqual(self.unlisted(covers + "OPERATION(a, first_op)\n", ["for_each_kernel<second_op<float>>"]), [])
        self.assertEqual(self.unlisted(covers + "OPERATION(a, first_op_of)\n"), ["first_op", "second_op"])
        self.assertEqual(self.unlisted("OPERATION(a, other_op)\n"), [])

    def test_figures_that_are_worse(self):
        good = {"list": "l", **dict.fromkeys(script.FIGURES, 4), **dict.fromkeys(script.MUST_BE_ZERO, 0)}
        def worse(name="k", **changed):
            return [s.split(":")[0] + ":" + s.split(":")[1].split()[0]
                    for s in script.compare({name: {**good, **changed}}, {name: good}, True)[0]]
        self.assertEqual(worse(), [])
        for figure, sign in script.FIGURES.items():
            for change in (-1, 1):
                expected = figure in script.MUST_BE_ZERO or sign * change > 0
                self.assertEqual(worse(**{figure: good[figure] + change}), [f"k:{figure}"] if expected else [], figure)
        self.assertEqual(script.compare({"k": good}, {}, True)[0], ["k: not in the table; run scripts/machine-code --write"])
        self.assertEqual(len(script.compare({}, {"k": good}, True)[0]), 1)
        # The reference engine may divide, and not more than recorded.
        divides = {"reference_k": {**good, "divisions": 3}}
        self.assertEqual(script.compare(divides, divides, True)[0], [])
        self.assertEqual(len(script.compare(divides, {"reference_k": {**good, "divisions": 2}}, True)[0]), 1)


def figures(*lines):
    """Of a kernel whose loop is these instructions."""
    body = ["LDG.E R0, desc[UR4][R2.64]", *lines, "@P0 BRA `(.L_x_0)", "EXIT"]
    code = "\n".join(f"        /*{16 * i:04x}*/                   {line} ;" for i, line in enumerate(body))
    kernels = sass.parse(f"\t.section\t.text.k,\"ax\"\n.L_x_0:\n{code}\n")
    return sass.figures_of(*kernels["k"])


class Sass(unittest.TestCase):
    def test_integer_divisions_are_not_floating_ones(self):
        def both(*lines):
            found = figures(*lines)
            return found["divisions"], found["floating"]
        self.assertEqual(both("FADD R1, R0, R1"), (0, 0))
        self.assertEqual(both("I2F.U32.RP R1, R0"), (1, 0))
        self.assertEqual(both("CALL.REL.NOINC `($k$__internal_0_$__cuda_sm20_div_u64)"), (1, 0))
        self.assertEqual(both("CALL.REL.NOINC `($k$__internal_1_$__cuda_sm20_rem_s64)"), (1, 0))
        self.assertEqual(both("CALL.REL.NOINC `($k$__internal_2_$__cuda_sm3x_div_rn_noftz_f32_slowpath)"), (0, 1))
        self.assertEqual(both("CALL.REL.NOINC `($k$__internal_3_$__cuda_sm20_div_rn_f64_full)"), (0, 1))
        self.assertEqual(both("CALL.REL.NOINC `(another)"), (1, 0))


if __name__ == "__main__":
    unittest.main()
