#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# LibTorch's Module::to(dtype) converts integer buffers; Python's Module.to(dtype) leaves them as they are.
#
# Expected: norm->to(torch::kFloat64) in C++ does what norm.to(torch.float64) does in Python: it converts floating-point
# parameters and buffers alone, so batch norm's num_batches_tracked stays an int64.
# What happens: in C++ every parameter and buffer is converted, the counter too. Files of the C++ module have a counter of
# another type. A counter in bfloat16 stops at 256, one in half at 2048: adding 1 rounds back. With an empty momentum,
# where the running statistics are a plain average of all passes, the factor 1 / counter no longer falls.
# The header of PyTorch 2.15 has the same loop over all buffers.
#
# Seen on 2026-11-28 with libtorch-dev, libtorch1.13 and python3-torch 1.13.1+dfsg-4 (Debian 12), g++ 12.2.0, Python 3.11.2:
#   Python, to(float64):  weight float64, running_mean float64, num_batches_tracked int64
#   C++, to(kFloat64):    weight float64, running_mean float64, num_batches_tracked float64
#   Python, 300 passes in bfloat16: num_batches_tracked 300
#   C++, 300 passes in bfloat16:    num_batches_tracked 256
# (The second line is a file of C++'s torch::save, read by Python.)
#
# Exits with 0 while it is so. Needs Debian 12 with g++ 12 and python3.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
pinned=({libtorch-dev,libtorch1.13,libtorch-test,python3-torch}=1.13.1+dfsg-4)
# What these need and this machine does not have.
mapfile -t others < <(apt-get -s -q --no-install-recommends install "${pinned[@]}" |
  sed -nE 's/^Inst ([^ ]+) \(([^ ]+) .*/\1=\2/p' | grep -vE '^(libtorch|python3-torch)')
apt-get -q -q download "${pinned[@]}" "${others[@]}" 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
libraries=$work/root/usr/lib/x86_64-linux-gnu
export LD_LIBRARY_PATH=$libraries:$libraries/blas:$libraries/lapack:$work/root/lib/x86_64-linux-gnu
export PYTHONPATH=$work/root/usr/lib/python3/dist-packages

cat >to.cpp <<'CPP'
#include <iostream>
#include <torch/torch.h>
int main() {
  torch::nn::BatchNorm2d norm(3);
  norm->to(torch::kFloat64);
  torch::save(norm, "norm.pt");

  torch::nn::BatchNorm2d counting(3);
  counting->to(torch::kBFloat16);
  const auto x = torch::ones({2, 3, 4, 4}, torch::kBFloat16);
  for (int pass = 0; pass < 300; ++pass) counting->forward(x);
  std::cout << counting->num_batches_tracked.item<double>() << '\n';
}
CPP
cat >to.py <<'PYTHON'
import subprocess
import sys

import torch


def types(state):
    return ", ".join(f"{name} {str(state[name].dtype)[6:]}" for name in ("weight", "running_mean", "num_batches_tracked"))


python = types(torch.nn.BatchNorm2d(3).to(torch.float64).state_dict())
counting = torch.nn.BatchNorm2d(3).to(torch.bfloat16)
for _ in range(300):
    counting(torch.ones(2, 3, 4, 4, dtype=torch.bfloat16))
passes = counting.num_batches_tracked.item()
cpp_passes = int(subprocess.run(["./to"], check=True, capture_output=True, text=True).stdout)
cpp = types(torch.jit.load("norm.pt").state_dict())
print("PyTorch", torch.__version__, "Python", sys.version.split()[0])
print("Python, to(float64):  " + python)
print("C++, to(kFloat64):    " + cpp)
print("Python, 300 passes in bfloat16: num_batches_tracked", passes)
print("C++, 300 passes in bfloat16:    num_batches_tracked", cpp_passes)
floats = "weight float64, running_mean float64, num_batches_tracked "
sys.exit((python, cpp, passes, cpp_passes) != (floats + "int64", floats + "float64", 300, 256))
PYTHON
cxx=$(type -P g++-12 || type -P g++)
"$cxx" --version | head -n 1
"$cxx" -std=c++17 -isystem root/usr/include/torch/csrc/api/include -isystem root/usr/include \
  -isystem root/usr/include/x86_64-linux-gnu to.cpp -o to -L"$libraries" -Wl,-rpath-link,"$LD_LIBRARY_PATH" \
  -ltorch -ltorch_cpu -lc10
/usr/bin/python3 to.py
