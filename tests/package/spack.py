#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""spack.py PACKAGE: prints the CMake options of Spack's package.py without and with +zlib, one variant a line,
with a double of spack.package; ends with an error if it states another version than the library."""
import re
import sys
import types


class Spec:
    def __init__(self, variants):
        self.variants = variants

    def satisfies(self, text):
        return text in self.variants


class CMakePackage:
    def define(self, name, value):
        return f"-D{name}={value}"


path = sys.argv[1]
declared = []
double = types.ModuleType("spack.package")
double.CMakePackage = CMakePackage
for name in ("version", "variant", "depends_on", "conflicts", "license"):
    setattr(double, name, lambda *values, kind=name, **options: declared.append((kind, values, options)))
sys.modules["spack"], sys.modules["spack.package"] = types.ModuleType("spack"), double
names = {}
with open(path) as file:
    exec(compile(file.read(), path, "exec"), names)

variants = {values[0] for kind, values, _ in declared if kind == "variant"}
for kind, values, options in declared:
    for used in re.findall(r"[+~](\w+)", options.get("when", "") + (values[0] if kind == "conflicts" else "")):
        if used not in variants:
            sys.exit(f"{kind} {values} is for a variant {used}, which there is not")
print("version", *[values[0] for kind, values, _ in declared if kind == "version"])
for chosen in ((), ("+zlib",)):
    package = names["Cordee"]()
    package.spec = Spec(chosen)
    print(*package.cmake_args())
