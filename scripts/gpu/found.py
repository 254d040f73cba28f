#!/usr/bin/env python3
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""Where CUDA, cuDNN and NCCL are: in a toolkit, in the system, or in Python's nvidia packages.

Prints lines for a shell to evaluate: nvcc and nvcc_version; cudnn_include, cudnn_library and
cudnn_version, nccl_* likewise; libraries, the folders that programs load from. What is not found is
empty.
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
    """Folders that have an include and a lib, the toolkit's first."""
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
    """A file for each of the patterns, all from one root; {lib} is any folder of libraries."""
    folders = ("lib", "lib64", f"lib/{sysconfig.get_config_var('MULTIARCH')}")
    for root in roots():
        for folder in folders:
            found = [sorted(root.glob(one.format(lib=folder))) for one in patterns]
            if all(found):
                return [one[0] for one in found]
    return [None] * len(patterns)


def version(header, words):
    """The numbers that a header defines under these words."""
    text = header.read_text(errors="replace") if header and header.is_file() else ""
    numbers = [re.search(rf"#define\s+{word}\s+(\d+)", text) for word in words]
    return ".".join(n.group(1) for n in numbers) if all(numbers) else ""


def compiler():
    """The first nvcc that says its version, and that; a wrapper may outlive its toolkit."""
    named = (shutil.which("nvcc"), *(shutil.which("nvcc", path=root / "bin") for root in roots()))
    for nvcc in filter(None, named):
        said = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
        if release := re.search(r"release .*V([\d.]+)", said):
            return nvcc, release[1]
    return "", ""


def found():
    say = dict(zip(("nvcc", "nvcc_version"), compiler()))
    for name, wanted, versions, words in (
            ("cudnn", "cudnn_graph.h", "cudnn_version.h",
             ("CUDNN_MAJOR", "CUDNN_MINOR", "CUDNN_PATCHLEVEL")),
            ("nccl", "nccl.h", "nccl.h", ("NCCL_MAJOR", "NCCL_MINOR", "NCCL_PATCH"))):
        header, library = first(f"include/{wanted}", f"{{lib}}/lib{name}.so*")
        say[f"{name}_include"] = header.parent if header else ""
        say[f"{name}_library"] = library or ""
        say[f"{name}_version"] = version(header.parent / versions, words) if header else ""
    # What cuDNN opens by itself lies beside it or in a folder of its own.
    needed = [first(f"{{lib}}/lib{one}.so*")[0] for one in ("cudnn", "nvrtc", "cublas", "nccl")]
    say["libraries"] = ":".join(dict.fromkeys(str(one.parent) for one in needed if one))
    return {key: str(value) for key, value in say.items()}


if __name__ == "__main__":
    for name, value in found().items():
        print(f"{name}={shlex.quote(value)}")
