#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# clang 16 cannot compile the headers of Debian 12's LibTorch as C++20.
#
# Expected: #include <torch/torch.h> compiles as C++20, as it does with g++ 12, and with clang 16 as C++17.
# What happens: ATen/core/List.h uses members of std::vector<IValue> where IValue is only declared. As C++20 they are
# constexpr, and clang instantiates those where they are used, while IValue is incomplete. g++, and clang as C++17, do so
# at the end of the unit. (The standard requires a complete type before a vector's members are named, so clang may refuse
# it.) With #include <ATen/core/ivalue.h> in front clang compiles it. The headers of PyTorch 2.15 compile without.
#
# Seen on 2026-11-28 with libtorch-dev 1.13.1+dfsg-4, clang-16 1:16.0.6-15~deb12u1, g++ and libstdc++ 12.2.0 (Debian 12):
#   g++ 12, C++20: compiles
#   clang 16, C++17: compiles
#   clang 16, C++20: stl_vector.h:367:35: error: arithmetic on a pointer to an incomplete type 'c10::IValue'
#   clang 16, C++20, ATen/core/ivalue.h first: compiles
#
# Exits with 0 while it is so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
clang=1:16.0.6-15~deb12u1
apt-get -q -q download libtorch-dev=1.13.1+dfsg-4 libgoogle-glog-dev=0.6.0-2 libgflags-dev=2.2.2-2 \
  {clang-16,libclang-common-16-dev,libclang-cpp16,libllvm16}="$clang" 2>/dev/null
for package in *.deb; do dpkg -x "$package" root; done
export LD_LIBRARY_PATH=$work/root/usr/lib/llvm-16/lib:$work/root/usr/lib/x86_64-linux-gnu
gxx=$(type -P g++-12 || type -P g++)
clangxx=$work/root/usr/lib/llvm-16/bin/clang++
"$gxx" --version | head -n 1
"$clangxx" --version | head -n 1
echo '#include <torch/torch.h>' >bare.cpp
printf '#include <%s>\n' ATen/core/ivalue.h torch/torch.h >complete.cpp
includes=(-isystem root/usr/include/torch/csrc/api/include -isystem root/usr/include -isystem root/usr/include/x86_64-linux-gnu)
result() {
  if "$@" "${includes[@]}" -fsyntax-only 2>errors; then echo compiles; else grep -m 1 -o '[^/]*error: .*' errors; fi
}
gcc20=$(result "$gxx" -std=c++20 bare.cpp)
clang17=$(result "$clangxx" -std=c++17 bare.cpp)
clang20=$(result "$clangxx" -std=c++20 bare.cpp)
complete=$(result "$clangxx" -std=c++20 complete.cpp)
echo "g++ 12, C++20: $gcc20"
echo "clang 16, C++17: $clang17"
echo "clang 16, C++20: $clang20"
echo "clang 16, C++20, ATen/core/ivalue.h first: $complete"
[[ $gcc20 == compiles && $clang17 == compiles && $complete == compiles && $clang20 == *"incomplete type 'c10::IValue'"* ]]
