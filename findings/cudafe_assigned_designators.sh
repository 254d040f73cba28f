#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# nvcc 13.0 drops the designators of a braced list that is assigned in a template.
#
# Expected: in C++20, x = {.second = 2} sets x.second and leaves x.first at its default, in a template as elsewhere.
# What happens: cudafe++ writes `(x) = {2};` for the host's compiler, so x.first becomes 2. There is no warning. Outside a
# template, in a declaration, and where the type is named (x = pair{.second = 2}) the designators are kept. g++ compiles
# the same text as C++20 says. The program is host code alone; no GPU is needed.
#
# Seen on 2026-11-28 with nvidia-cuda-nvcc 13.0.88 from PyPI and g++ 12.2.0:
#   g++:  assigned (0, 2)  named (0, 2)  declared (0, 2)  no template (0, 2)
#   nvcc: assigned (2, 0)  named (0, 2)  declared (0, 2)  no template (0, 2)
#
# Exits with 0 while nvcc behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >lists.cu <<'CU'
#include <cstdio>
struct pair { int first = 0, second = 0; };
template <class T> struct in_template {
  pair x;
  void assigned(T v) { x = {.second = v}; }
  void named(T v) { x = pair{.second = v}; }
  void declared(T v) { const pair y = {.second = v}; x = y; }
};
static void show(const char* how, pair x) { std::printf("%s (%d, %d)", how, x.first, x.second); }
int main() {
  in_template<int> a, b, c;
  pair d;
  a.assigned(2), b.named(2), c.declared(2), d = {.second = 2};
  show("assigned", a.x), show("  named", b.x), show("  declared", c.x), show("  no template", d);
  std::puts("");
}
CU
python3 -m venv venv
venv/bin/pip -q install nvidia-cuda-nvcc==13.0.88 nvidia-cuda-runtime==13.0.88 nvidia-cuda-crt==13.0.88 \
  nvidia-nvvm==13.0.88
toolkit=$(echo "$PWD"/venv/lib/python3*/site-packages/nvidia/cu13)
export CUDA_HOME=$toolkit PATH=$toolkit/bin:$PATH

g++ --version | head -1
nvcc --version | grep release
g++ -std=c++20 -x c++ lists.cu -o host
nvcc -std=c++20 -L"$toolkit/lib" lists.cu -o device
echo "g++:  $(./host)"
echo "nvcc: $(./device)"
same='  named (0, 2)  declared (0, 2)  no template (0, 2)'
[[ $(./host) == "assigned (0, 2)$same" && $(./device) == "assigned (2, 0)$same" ]] || {
  echo "the behaviour has changed" >&2
  exit 1
}
