#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# GCC 12's undefined behavior sanitizer computes a wrong index of an array that a condition chooses.
#
# Expected: (m == 4 ? six : four)[e % (m + 2)] is defined for m = 2 and m = 4, so -fsanitize=undefined reports nothing, and
# the program computes what it computes without.
# What happens: where m is 2, the program that -O2 sanitizes reports "division by zero" and goes on with another sum. What
# the check has evaluated, in the branch of the first array alone, the index of the second reads, uninitialized. (-O0 had the
# other sum without a report.) With a pointer that is assigned first, and then indexed, the program is right. So is clang.
#
# Seen on 2026-11-30 with g++ 12.2.0 (Debian 12) and clang 20.1.2 of ziglang 0.15.1 from PyPI:
#   plain: sum 92
#   sanitized: sum 100, division by zero reported
#   named: sum 92
#   clang: sum 92
#
# Exits with 0 while g++ behaves so.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >chosen.cpp <<'CPP'
#include <cstdio>
constexpr double four[4] = {1, 0.5, 0.5, 0}, six[6] = {1, 2, 3, 4, 5, 6};
double at(int m, int e) {
#ifdef NAMED
  const double* const chosen = m == 4 ? six : four;
  return chosen[e % (m + 2)];
#else
  return (m == 4 ? six : four)[e % (m + 2)];
#endif
}
int main(int argc, char**) {
  double sum = 0;
  for (int e = 0; e < 16; ++e) sum += at(argc + 1, e);
  for (int e = 0; e < 24; ++e) sum += at(argc + 3, e);
  std::printf("sum %g", sum);
}
CPP
python3 -m venv venv
venv/bin/pip -q install ziglang==0.15.1
export ZIG_GLOBAL_CACHE_DIR=$work/cache
gxx=$(type -P g++-12 || type -P g++)
"$gxx" --version | head -n 1
"$gxx" -O2 chosen.cpp -o plain
"$gxx" -O2 -fsanitize=undefined chosen.cpp -o sanitized
"$gxx" -O2 -fsanitize=undefined -DNAMED chosen.cpp -o named
venv/bin/python -m ziglang c++ --version | head -n 1
venv/bin/python -m ziglang c++ -O2 -fsanitize=undefined chosen.cpp -o clang
for program in plain sanitized named clang; do
  found=$("./$program" 2>"$program.err")
  if grep -q "division by zero" "$program.err"; then found+=", division by zero reported"; fi
  echo "$program: $found"
done | tee found
diff found - <<'EXPECTED'
plain: sum 92
sanitized: sum 100, division by zero reported
named: sum 92
clang: sum 92
EXPECTED
