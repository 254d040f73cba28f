#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# nvcc 13.0 makes a scalar of vec{} in the initializer of a constexpr variable, where vec is a GCC vector.
#
# Expected: constexpr vec x[2] = {vec{} + 1, vec{} + 2} has rows of 1 and of 2, as g++ compiles it.
# What happens: cudafe++ writes `constexpr vec x[2] = {(int{}) + 1, (int{}) + 2};` for the host's compiler, which takes
# the two integers for the first row's first lanes. There is no warning. So constexpr auto zero = vec{} is an int, and
# zero == zero is 1 rather than -1 in each lane; constexpr vec one = vec{} + 1 is refused by the host's compiler
# ("cannot convert 'int' to 'const vec'"), and so is constexpr auto x = vec{1, 2, 3, 4}. The initializers of const and
# constinit variables, vec() and (vec){} are kept, and so is the text of a template. It needs no option: vectors of
# 8, 16 and 32 bytes, of int, float and double, at namespace scope, in a class and in a function are all affected. The
# program is host code alone; no GPU is needed.
#
# Seen on 2026-11-28 with nvidia-cuda-nvcc 13.0.88 from PyPI and g++ 12.2.0:
#   g++:  constexpr 1111 2222  zero 16 bytes, zero == zero -1  const 1111 2222  vec() 1111 2222
#   nvcc: constexpr 1200 0000  zero 4 bytes, zero == zero 1  const 1111 2222  vec() 1111 2222
#   constexpr vec one = vec{} + 1; g++ compiles, nvcc: error: cannot convert 'int' to 'const vec'
#
# Exits with 0 while nvcc behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >vectors.cu <<'CU'
#include <cstdio>
typedef int vec __attribute__((vector_size(16)));
constexpr vec rows[2] = {vec{} + 1, vec{} + 2};
const vec not_constexpr[2] = {vec{} + 1, vec{} + 2};
constexpr vec parentheses[2] = {vec() + 1, vec() + 2};
constexpr auto zero = vec{};
static void show(const char* what, const vec* x) {
  std::printf("%s %d%d%d%d %d%d%d%d", what, x[0][0], x[0][1], x[0][2], x[0][3], x[1][0], x[1][1], x[1][2], x[1][3]);
}
int main() {
  show("constexpr", rows);
  const vec ones = vec() + (zero == zero);
  std::printf("  zero %d bytes, zero == zero %d", int(sizeof zero), ones[0]);
  show("  const", not_constexpr), show("  vec()", parentheses);
  std::puts("");
}
CU
cat >one.cu <<'CU'
typedef int vec __attribute__((vector_size(16)));
constexpr vec one = vec{} + 1;
int main() { return one[3] - 1; }
CU
python3 -m venv venv
venv/bin/pip -q install nvidia-cuda-nvcc==13.0.88 nvidia-cuda-runtime==13.0.88 nvidia-cuda-crt==13.0.88 \
  nvidia-nvvm==13.0.88
toolkit=$(echo "$PWD"/venv/lib/python3*/site-packages/nvidia/cu13)
export CUDA_HOME=$toolkit PATH=$toolkit/bin:$PATH LC_ALL=C

g++ --version | head -1
nvcc --version | grep release
g++ -std=c++20 -x c++ vectors.cu -o host
nvcc -std=c++20 -L"$toolkit/lib" --keep vectors.cu -o device
grep -E '^const(expr)? (vec|auto) (rows|zero|not_constexpr|parentheses)\b' vectors.cudafe1.cpp
echo "g++:  $(./host)"
echo "nvcc: $(./device)"
g++ -std=c++20 -x c++ one.cu -o one && ./one
if nvcc -std=c++20 -L"$toolkit/lib" one.cu -o one 2>one.log; then
  echo "nvcc compiles constexpr vec one = vec{} + 1"
else
  grep error one.log
fi
same='  const 1111 2222  vec() 1111 2222'
[[ $(./host) == "constexpr 1111 2222  zero 16 bytes, zero == zero -1$same" &&
  $(./device) == "constexpr 1200 0000  zero 4 bytes, zero == zero 1$same" ]] &&
  grep -q "cannot convert 'int' to 'const vec'" one.log || {
  echo "the behaviour has changed" >&2
  exit 1
}
