#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Locates CUDA, cuDNN and NCCL: in a toolkit, in the system, or in Python's nvidia packages.

Prints shell assignments: nvcc and nvcc_version; cudnn_include, cudnn_library and cudnn_version, nccl_*
likewise; libraries, the folders of LD_LIBRARY_PATH. A value is empty if nothing was found.
"""
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sysconfig


SYSTEM = ("/usr/local/cuda", "/usr/local", "/usr")


def roots():
    """Folders that may contain include and lib, the toolkit's first."""
    compiler = shutil.which("nvcc")
    if compiler:
        yield pathlib.Path(compiler).resolve().parents[1]
    for name in ("CUDA_HOME", "CUDA_PATH", "CUDNN_ROOT"):
        if os.environ.get(name):
            yield pathlib.Path(os.environ[name])
    yield from map(pathlib.Path, SYSTEM)
    package = importlib.util.find_spec("nvidia")
    for base in package.submodule_search_locations if package else ():
        yield from sorted(pathlib.Path(base).iterdir())


def first(*patterns):
    """One file for each pattern, all from the same root; {lib} is any library folder."""
    folders = ("lib", "lib64", f"lib/{sysconfig.get_config_var('MULTIARCH')}")
    for root in roots():
        for folder in folders:
            matches = [sorted(root.glob(pattern.format(lib=folder))) for pattern in patterns]
            if all(matches):
                return [match[0] for match in matches]
    return [None] * len(patterns)


def version(header, macros):
    """The version that a header defines by these macros."""
    text = header.read_text(errors="replace") if header and header.is_file() else ""
    numbers = [re.search(rf"#define\s+{macro}\s+(\d+)", text) for macro in macros]
    return ".".join(n.group(1) for n in numbers) if all(numbers) else ""


def compiler():
    """The first nvcc that runs, and its version: a wrapper may remain after its toolkit is removed."""
    named = (shutil.which("nvcc"), *(shutil.which("nvcc", path=root / "bin") for root in roots()))
    for nvcc in filter(None, named):
        output = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
        if release := re.search(r"release .*V([\d.]+)", output):
            return nvcc, release[1]
    return "", ""


def locate():
    values = dict(zip(("nvcc", "nvcc_version"), compiler()))
    for name, wanted, versions, macros in (
            ("cudnn", "cudnn_graph.h", "cudnn_version.h",
             ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL")),
            ("nccl", "nccl.h", "nccl.h", ("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"))):
        header, library = first(f"include/{wanted}", f"{{lib}}/lib{name}.so*")
        values[f"{name}_include"] = header.parent if header else ""
        values[f"{name}_library"] = library or ""
        values[f"{name}_version"] = version(header.parent / versions, macros) if header else ""
    # cuDNN loads its other libraries from its own folder, and NVRTC and cuBLAS from theirs.
    needed = [first(f"{{lib}}/lib{name}.so*")[0] for name in ("cudnn", "nvrtc", "cublas", "nccl")]
    values["libraries"] = ":".join(dict.fromkeys(str(path.parent) for path in needed if path))
    return {key: str(value) for key, value in values.items()}


if __name__ == "__main__":
    for name, value in locate().items():
        print(f"{name}={shlex.quote(value)}")
