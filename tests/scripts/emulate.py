#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""scripts/emulate: what it refuses, and what it makes of an emulator's serial port."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "emulate"
PARTS = ("busybox", "xorriso", "/usr/lib/ISOLINUX/isolinux.bin", "/usr/lib/syslinux/modules/bios/ldlinux.c32")
MISSING = [p for p in PARTS if not (os.path.exists(p) or shutil.which(p))]
# Stands for Bochs: it finds its options and the disc, and writes what a booted program would have.
EMULATOR = """#!/bin/bash
read -r command && [[ $command == c ]] || exit 1
while (($#)); do [[ $1 == -f ]] && options=$2; shift; done
grep -q "^cpu: model=$MODEL," "$options" || exit 1
disc=$(sed -n 's/.*path=\\([^,]*\\),.*/\\1/p' "$options") serial=$(sed -n 's/.*dev=//p' "$options")
[[ $(xorriso -indev "$disc" -find / -name vmlinuz 2>/dev/null) == "'/vmlinuz'" ]] || exit 1
cp "${disc%.iso}/initrd" "$INITRD" && cp "${disc%.iso}/isolinux/isolinux.cfg" "$INITRD.cfg"
printf %b "$SERIAL" > "$serial"
"""


class Emulate(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)

    def file(self, name, data):
        path = self.root / name
        path.write_bytes(data)
        path.chmod(0o755)
        return str(path)

    def run_script(self, *arguments, **variables):
        return subprocess.run([str(SCRIPT), *arguments], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "KERNEL": str(SCRIPT), **variables})

    def test_help(self):
        done = self.run_script("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--processor MODEL", done.stdout)

    def test_refused(self):
        for arguments, said in (((), "Usage"), (("--none",), "Usage"), (("/none",), "/none is not a program"),
                                ((shutil.which("sleep"), "1"), "is linked dynamically")):
            done = self.run_script(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertIn(said, done.stderr)

    def emulated(self, serial, model="tigerlake", **variables):
        program = self.file("program", b"#!/bin/sh\n")
        return self.run_script("--processor", model, program, "a b", "c",
                               BOCHS=self.file("emulator", EMULATOR.encode()), SERIAL=serial, MODEL=model,
                               INITRD=str(self.root / "initrd"), **variables)

    @unittest.skipIf(MISSING, f"no {MISSING}")
    def test_output_and_status(self):
        done = self.emulated("Linux\r\n@begin\r\nfirst\r\nlast\r\n@status 3\r\nreboot\r\n")
        self.assertEqual((done.returncode, done.stdout), (3, "first\nlast\n"), done.stderr)
        self.assertIn(b"/program a\\ b c \n", (self.root / "initrd").read_bytes())
        self.assertEqual(self.emulated("@begin\\n@status 0\\n").returncode, 0)

    @unittest.skipIf(MISSING, f"no {MISSING}")
    def test_no_status(self):
        done = self.emulated("Linux\r\n@begin\r\nfirst\r\n")
        self.assertEqual((done.returncode, done.stdout), (124, "first\n"))
        self.assertIn("@begin", done.stderr)
        self.assertEqual(self.emulated("").returncode, 124)

    @unittest.skipIf(MISSING or not shutil.which("chrt"), f"no {MISSING or 'chrt'}")
    def test_amx(self):
        """A kernel that can claim XFD is told so for a processor with AMX, whose program then runs by SCHED_FIFO."""
        for version, model, claimed in (("7.2.13+deb14", "sapphire_rapids", True), ("7.2.13+deb14", "tigerlake", False),
                                        ("6.15.0", "sapphire_rapids", True), ("6.12.1", "sapphire_rapids", False)):
            kernel = bytearray(2048)
            kernel[526:528] = (1000 - 512).to_bytes(2, "little")
            kernel[1000:1000 + len(version)] = version.encode()
            done = self.emulated("@begin\n@status 0\n", model, KERNEL=self.file("kernel", bytes(kernel)))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual("setcpuid=324" in (self.root / "initrd.cfg").read_text(), claimed, version)
            self.assertEqual(b"chrt --fifo 1 /program a\\ b c" in (self.root / "initrd").read_bytes(), claimed)


if __name__ == "__main__":
    if MISSING:
        print(f"no {', '.join(MISSING)}: only refusals are tested")
    unittest.main()
