# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""PTX as nvcc writes it: the kernels of a list, their names, and faults that it shows."""
import re
import shutil
import subprocess

ENTRY = r"\.entry\s+(\w+)"
FAULTS = ("trap", "local", "misaligned")
FLOAT_TYPES = {"f16", "f16x2", "bf16", "bf16x2", "f32", "f32x2", "f64", "tf32", "e4m3", "e5m2"}


def functions_of(text):
    """(name of the kernel, or None for a function that kernels call; its text)"""
    for part in re.split(r"^(?=(?:\.visible |\.weak )*\.(?:entry|func) )", text, flags=re.MULTILINE):
        if re.match(r"(?:\.visible |\.weak )*\.(?:entry|func) ", part):
            name = re.match(r"[^({]*" + ENTRY, part)
            yield name[1] if name else None, part


def faults(text):
    """{kernel: {fault: 0 or 1}}. What a function has counts for all kernels of the list.

    trap: an instruction that ends the context, which nvcc writes for what a device cannot do
    local: an array in local memory
    misaligned: dynamic shared memory that may begin within a line of 128 bytes
    """
    parts = list(functions_of(text))
    found = {name: dict.fromkeys(FAULTS, 0) for name, _ in parts if name}
    for name, part in parts:
        for kernel in [name] if name else found:
            found[kernel]["trap"] |= bool(re.search(r"\btrap;", part))
            found[kernel]["local"] |= bool(re.search(r"^\s*\.local\s", part, re.MULTILINE))
    aligned = [int(n) for n in re.findall(r"\.extern \.shared \.align (\d+)", text)]
    for kernel in found.values():
        kernel["misaligned"] = int(min(aligned, default=128) < 128)
        kernel.update({k: int(v) for k, v in kernel.items()})
    return found


def float_instructions(text):
    """The instructions that compute with floating-point numbers; and divisions of integers by variables, which ptxas
    computes with reciprocals of floats."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*\{?\s*(?:@!?%\w+\s+)?([a-z]\w*)((?:\.\w+)+)\s", line)
        if not match:
            continue
        name, types = match[1], set(match[2].split("."))
        if name in ("div", "rem") or (types & FLOAT_TYPES and name not in ("mov", "ld", "st", "ldu")):
            found.append(line.strip())
    return found


def floats(text):
    """{kernel: its float_instructions}. What a function has counts for all kernels of the list."""
    parts = list(functions_of(text))
    found = {name: [] for name, _ in parts if name}
    for name, part in parts:
        for kernel in [name] if name else found:
            found[kernel] += float_instructions(part)
    return found


def device_structs(header):
    """The structs of a header that kernels are made of: what each block or number calls, bodies of
    passes over segments (of two that work together, the one with for_segment), and all others that
    are named a kernel or an operation."""
    structs = re.findall(r"^(?:struct|class) (\w+)\b[^;{]*\{(.*?)^\};", header,
                         re.MULTILINE | re.DOTALL)
    by_segment = "\n".join(body for _, body in structs if "for_segment(" in body)
    for name, body in structs:
        calls = re.findall(r"^ *([^\n]*)operator\(\)\(([^)]*)\)", body, re.MULTILINE)
        on_device = [re.sub(r" \w+$", "", parameters) for before, parameters in calls
                     if "CORDEE_" in before or parameters == "At at"]
        if "for_segment(" in body or "Block&" in on_device or "std::size_t" in on_device:
            yield name
        elif "At" in on_device and not re.search(rf"\b{name}\b", by_segment):
            yield name
        elif on_device and re.search(r"_(?:kernel|op)$", name):
            yield name


def readable(names):
    """{name: the type of the kernel without namespaces}, of those that a compiler mangled."""
    mangled = [n for n in names if n.startswith("_Z")]
    if not mangled:
        return {}
    program = shutil.which("c++filt") or shutil.which("cu++filt")
    if program is None:
        raise SystemExit("names of kernels need c++filt: package binutils")
    lines = subprocess.run([program], input="\n".join(mangled), capture_output=True, text=True,
                           check=True).stdout.splitlines()
    return dict(zip(mangled, map(short, lines)))


def short(name):
    """"predicated_kernel<f<float>>" of "void a::kernel_entry<a::predicated_kernel<a::f<float> > >(...)"."""
    name = re.sub(r"\(anonymous namespace\)::|(?:\b\w+::)+", "", name).replace(" >", ">")
    inner = re.match(r"void kernel_entry<(.*)>\(", name)
    return (inner[1] if inner else name).replace(" >", ">")
