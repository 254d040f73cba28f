#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# nvcc 13.0 cannot compile a lambda that is the template argument of a function, or of an alias, outside of a template.
#
# Expected: call<[](int x) { return x * 2; }>(4) is 8 in C++20, as g++ compiles it.
# What happens: cudafe++ itself accepts it, but writes `call< class __T0{}> (4)` for the host's compiler, which refuses
# that: "types may not be defined in template arguments". So does `using twice = apply<[](int x) { return x * 2; }>`.
# The same lambda compiles in a template, where the class apply is named in an expression, where the lambda has a name
# (call<twice>(4)) and as decltype of a lambda. The program is host code alone; no GPU is needed.
#
# Seen on 2026-11-28 with nvidia-cuda-nvcc 13.0.88 from PyPI and g++ 12.2.0:
#   function: g++ 8, nvcc error: types may not be defined in template arguments
#   alias: g++ 8, nvcc error: types may not be defined in template arguments
#   template: g++ 8, nvcc 8
#   class: g++ 8, nvcc 8
#   name: g++ 8, nvcc 8
#   decltype: g++ 8, nvcc 8
#
# Exits with 0 while nvcc behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip -q install nvidia-cuda-nvcc==13.0.88 nvidia-cuda-runtime==13.0.88 nvidia-cuda-crt==13.0.88 \
  nvidia-nvvm==13.0.88
toolkit=$(echo "$PWD"/venv/lib/python3*/site-packages/nvidia/cu13)
export CUDA_HOME=$toolkit PATH=$toolkit/bin:$PATH LC_ALL=C

refused='error: types may not be defined in template arguments'
changed=
# try NAME EXPECTED TEXT: the definition of int eight(), compiled and run by both compilers.
try() {
  cat >"$1.cu" <<CU
#include <cstdio>
template <auto F> int call(int x) { return F(x); }
template <auto F> struct apply { static int to(int x) { return F(x); } };
template <class F> int call_type(int x) { return F{}(x); }
$3
int main() { std::printf("%d", eight()); }
CU
  g++ -std=c++20 -x c++ "$1.cu" -o "$1.host"
  if nvcc -std=c++20 -L"$toolkit/lib" --keep "$1.cu" -o "$1" 2>"$1.log"; then
    seen=$("./$1")
  else
    seen=$(grep -om1 'error: .*' "$1.log")
    grep -E 'class __T[0-9]+\{' "$1.cudafe1.cpp"
  fi
  echo "$1: g++ $("./$1.host"), nvcc $seen"
  [[ $("./$1.host") == 8 && $seen == "$2" ]] || changed=yes
}

g++ --version | head -1
nvcc --version | grep release
try function "$refused" 'int eight() { return call<[](int x) { return x * 2; }>(4); }'
try alias "$refused" 'using twice = apply<[](int x) { return x * 2; }>; int eight() { return twice::to(4); }'
try template 8 'template <class T> T of(T x) { return call<[](T y) { return y * 2; }>(x); } int eight() { return of(4); }'
try class 8 'int eight() { return apply<[](int x) { return x * 2; }>::to(4); }'
try name 8 'constexpr auto twice = [](int x) { return x * 2; }; int eight() { return call<twice>(4); }'
try decltype 8 'int eight() { return call_type<decltype([](int x) { return x * 2; })>(4); }'
[[ -z $changed ]] || {
  echo "the behaviour has changed" >&2
  exit 1
}
