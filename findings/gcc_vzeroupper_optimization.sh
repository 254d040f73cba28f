#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# GCC 12 has -mvzeroupper enabled with -O1, -Og and -Os, and emits no vzeroupper there.
#
# Expected: "-mvzeroupper [enabled]" (-Q --help=target) means what the manual says: a vzeroupper before control leaves a
# function that has used registers of 32 or 64 bytes, as before a call of the C library.
# What happens: the pass runs with -fexpensive-optimizations alone, which -O2 and -O3 have and -O1, -Og and -Os do not;
# naming -mvzeroupper, too, changes nothing. On Intel's processors an SSE instruction behind such code, as libm's exp has,
# then waits for the registers' upper halves: where this was found, a program that calls exp between loops over vectors
# took nine times as long with -O1 as with -O1 -fexpensive-optimizations (that is not measured here). clang 16 and 20 emit
# it with -O1.
#
# Seen on 2026-11-30 with g++ 12.2.0 (Debian 12) and clang 20.1.2 of ziglang 0.15.1 from PyPI:
#   -O1: -mvzeroupper [enabled], emitted 0 times
#   -O1 -mvzeroupper: -mvzeroupper [enabled], emitted 0 times
#   -Og: -mvzeroupper [enabled], emitted 0 times
#   -Os: -mvzeroupper [enabled], emitted 0 times
#   -O1 -fexpensive-optimizations: -mvzeroupper [enabled], emitted 1 times
#   -O2: -mvzeroupper [enabled], emitted 1 times
#   -O2 -fno-expensive-optimizations: -mvzeroupper [enabled], emitted 0 times
#   clang -O1: emitted 1 times
#
# Exits with 0 while gcc behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >vectors.cpp <<'CPP'
#include <cmath>
typedef double lanes __attribute__((vector_size(32)));
void square_and_exp(lanes* x, double* y) {
  *x *= *x;
  *y = std::exp(*y);
}
CPP
python3 -m venv venv
venv/bin/pip -q install ziglang==0.15.1
export ZIG_GLOBAL_CACHE_DIR=$work/cache
gcc=$(type -P g++-12 || type -P g++)
"$gcc" --version | head -n 1
venv/bin/python -m ziglang c++ --version | head -n 1
for options in -O1 "-O1 -mvzeroupper" -Og -Os "-O1 -fexpensive-optimizations" -O2 "-O2 -fno-expensive-optimizations"; do
  read -ra words <<<"$options"
  state=$("$gcc" -mavx2 "${words[@]}" -Q --help=target | awk '$1 == "-mvzeroupper" {print $2}')
  "$gcc" -mavx2 "${words[@]}" -S vectors.cpp -o vectors.s
  grep -q ymm vectors.s && grep -q 'call.*exp' vectors.s
  echo "$options: -mvzeroupper $state, emitted $(grep -c vzeroupper vectors.s || true) times"
done | tee seen
venv/bin/python -m ziglang c++ -target x86_64-linux-gnu -O1 -fno-sanitize=undefined -mcpu=haswell -S vectors.cpp -o clang.s
echo "clang -O1: emitted $(grep -c vzeroupper clang.s || true) times" | tee -a seen
[[ $(grep -c '\[enabled\]' seen) == 7 && $(grep -c 'emitted 1 times' seen) == 3 ]]
grep -q -e '^-O1 -fexpensive-optimizations: .* 1 times' seen && grep -q -e '^-O2: .* 1 times' seen && grep -q '^clang .* 1 times' seen
