#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# nvcc 13.0 drops the requires-clause behind the parameters of a generic lambda.
#
# Expected: [](auto x) requires std::integral<decltype(x)> { ... } cannot be called with a double, so std::invocable says
# no and another overload is called.
# What happens: cudafe++ writes `[](auto x) { ... }` for the host's compiler. The lambda takes anything: traits answer
# yes, if constexpr takes the other branch and overload resolution picks another function, without a warning.
# cudafe++'s own checks see the clause: it accepts static_assert(!std::invocable<...>), the host's compiler then refuses
# it. A constraint before the parameters is kept ([]<class T> requires std::integral<T> (T x), [](std::integral auto x)),
# and so are the clauses behind the parameters of functions and member functions. The program is host code alone; no GPU
# is needed.
#
# Seen on 2026-11-28 with nvidia-cuda-nvcc 13.0.88 from PyPI and g++ 12.2.0:
#   g++:  behind: refuses 2.5  overload for 2.5: any  before: refuses 2.5  parameter: refuses 2.5
#   nvcc: behind: takes 2.5  overload for 2.5: integral  before: refuses 2.5  parameter: refuses 2.5
#
# Exits with 0 while nvcc behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >lambdas.cu <<'CU'
#include <concepts>
#include <cstdio>
template <class... F> struct overloads : F... { using F::operator()...; };
template <class... F> overloads(F...) -> overloads<F...>;
template <class F> const char* of_double(F) {
  if constexpr (std::invocable<F, double>) return "takes 2.5";
  else return "refuses 2.5";
}
int main() {
  auto behind = [](auto x) requires std::integral<decltype(x)> { return x; };
  auto before = []<class T> requires std::integral<T> (T x) { return x; };
  auto parameter = [](std::integral auto x) { return x; };
  // 0 is an int, so the first is the better one where its constraint holds.
  auto kind = overloads{[](auto x, int) requires std::integral<decltype(x)> { return "integral"; },
                        [](auto, long) { return "any"; }};
  std::printf("behind: %s  overload for 2.5: %s  before: %s  parameter: %s\n", of_double(behind), kind(2.5, 0),
              of_double(before), of_double(parameter));
}
CU
python3 -m venv venv
venv/bin/pip -q install nvidia-cuda-nvcc==13.0.88 nvidia-cuda-runtime==13.0.88 nvidia-cuda-crt==13.0.88 \
  nvidia-nvvm==13.0.88
toolkit=$(echo "$PWD"/venv/lib/python3*/site-packages/nvidia/cu13)
export CUDA_HOME=$toolkit PATH=$toolkit/bin:$PATH

g++ --version | head -1
nvcc --version | grep release
g++ -std=c++20 -x c++ lambdas.cu -o host
nvcc -std=c++20 -L"$toolkit/lib" --keep lambdas.cu -o device
grep -oE 'auto (behind|before|parameter) = [^;]*; }' lambdas.cudafe1.cpp
echo "g++:  $(./host)"
echo "nvcc: $(./device)"
same='  before: refuses 2.5  parameter: refuses 2.5'
[[ $(./host) == "behind: refuses 2.5  overload for 2.5: any$same" &&
  $(./device) == "behind: takes 2.5  overload for 2.5: integral$same" ]] || {
  echo "the behaviour has changed" >&2
  exit 1
}
