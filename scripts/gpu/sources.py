# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
"""The programs of scripts/gpu-check, as they are built, packed and unpacked.

    sources.py hash                the state of the sources that programs are built from
    sources.py targets CUDNN NCCL  the names of the targets; arguments are empty for what is missing
    sources.py files CUDNN NCCL    their files in the build folder
"""
import hashlib
import pathlib
import sys

FOLDERS = ("include", "examples", "benchmarks", "tests", "cmake")
SUFFIXES = {".hpp", ".cuh", ".cpp", ".cu", ".cmake", ".txt"}


def state(root):
    total = hashlib.sha256()
    for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*")):
        if path.is_file() and path.suffix in SUFFIXES:
            total.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes())
    return total.hexdigest()[:16]


def files(cudnn, nccl):
    names = ["tests/test_cuda", "benchmarks/bench_gpu_layers", "benchmarks/bench_gpu_bandwidth",
             "benchmarks/bench_gpu_step", "benchmarks/bench_gpu_infer", "benchmarks/bench_gpu_primitives",
             "examples/imagenet_shape_gpu", "examples/cifar_gpu", "examples/cifar"]
    if cudnn:
        names += ["benchmarks/bench_gpu_tensor_cores", "benchmarks/bench_gpu_fused_graphs"]
    if nccl:
        names.append("tests/test_nccl_gpu")
    return names


if __name__ == "__main__":
    root = pathlib.Path(__file__).resolve().parents[2]
    if sys.argv[1] == "hash":
        print(state(root))
    else:
        found = files(*sys.argv[2:4])
        print(" ".join(found if sys.argv[1] == "files" else (name.split("/")[-1] for name in found)))
