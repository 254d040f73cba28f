#!/usr/bin/env bash
# SPDX-FileCopyrightText: the Cordee contributors
# SPDX-License-Identifier: Apache-2.0
#
# TILESTORED waits a thousand cycles if nothing was multiplied or added as floats in the two thousand before it.
#
# Expected: the stores of four tiles of sums (16 cycles each) cost as much after 60 steps of four TDPBF16PS as after 24.
# What happens: after up to 36 steps (2,300 cycles of products) they cost about 50 cycles, after 48 and more about 900.
# A scalar floating-point multiplication at every eighth step, whose result nobody reads, makes the cost go away; so do
# other instructions of the units that multiply vectors (a product of integers, a sum or maximum of floats), while
# permutations, shifts, sums of integers, vectors' loads and stores do not. It looks as if these units were switched off
# when they are idle for long, and as if TILESTORED needed them; products of tiles do not keep them on. With loads of
# tiles between the products the limit is 32 steps. A matrix product of 1,000 and more channels loses up to a third.
#
# Seen on 2026-11-29 on an Emerald Rapids Xeon under KVM, gcc 12.2.0; cycles are sixteenths of a product's time:
#   24 steps: 51 cycles lost to stores; with a scalar product beside: 51
#   36 steps: 51 cycles lost to stores; with a scalar product beside: 51
#   48 steps: 881 cycles lost to stores; with a scalar product beside: 51
#   60 steps: 882 cycles lost to stores; with a scalar product beside: 51
#   72 steps: 1001 cycles lost to stores; with a scalar product beside: 177
#
# Exits with 0 while the processor behaves so, and with 77 where there is no AMX.
set -euo pipefail
grep -qw amx_tile /proc/cpuinfo || { echo "no AMX here"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >wait.c <<'C'
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static _Alignas(64) float sums[1024];
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}
/* Seconds of `calls` sums of `steps` steps each. */
static double time_of(int calls, int steps, int store, int beside) {
  double least = 1;
  for (int rep = 0; rep < 200; ++rep) {
    double start = now();
    for (int c = 0; c < calls; ++c) {
      for (int i = 0; i < steps; ++i) {
        __asm__ volatile("tdpbf16ps %tmm6, %tmm4, %tmm0\n tdpbf16ps %tmm7, %tmm4, %tmm1\n"
                         "tdpbf16ps %tmm6, %tmm5, %tmm2\n tdpbf16ps %tmm7, %tmm5, %tmm3");
        if (beside && i % 8 == 0) __asm__ volatile("vmulss %%xmm0, %%xmm0, %%xmm1" ::: "xmm1");
      }
      if (store)
        __asm__ volatile("tilestored %%tmm0, (%0,%1,1)\n tilestored %%tmm1, 1024(%0,%1,1)\n"
                         "tilestored %%tmm2, 2048(%0,%1,1)\n tilestored %%tmm3, 3072(%0,%1,1)" ::"r"(sums),
                         "r"(64l)
                         : "memory");
    }
    start = now() - start;
    if (start < least) least = start;
  }
  return least;
}
int main(void) {
  if (syscall(SYS_arch_prctl, 0x1023, 18) != 0) return 77;
  struct { unsigned char palette, start, zero[14]; unsigned short bytes[16]; unsigned char rows[16]; } shapes = {.palette = 1};
  for (int t = 0; t < 8; ++t) shapes.bytes[t] = 64, shapes.rows[t] = 16;
  __asm__ volatile("ldtilecfg %0" ::"m"(shapes) : "memory");
  __asm__ volatile("vpxor %%xmm0, %%xmm0, %%xmm0" ::: "xmm0");
  __asm__ volatile("tilezero %tmm0\n tilezero %tmm1\n tilezero %tmm2\n tilezero %tmm3\n"
                   "tilezero %tmm4\n tilezero %tmm5\n tilezero %tmm6\n tilezero %tmm7");
  int found = 1;
  for (int steps = 24; steps <= 72; steps += 12) {
    double lost[2];
    for (int beside = 0; beside < 2; ++beside) {
      double cycle = time_of(200, steps, 0, 1) / 200 / steps / 64;
      lost[beside] = time_of(200, steps, 1, beside) / 200 / cycle - 64.0 * steps;
    }
    printf("%d steps: %.0f cycles lost to stores; with a scalar product beside: %.0f\n", steps, lost[0], lost[1]);
    found &= lost[1] < 300 && (steps > 24 || lost[0] < 300) && (steps < 60 || lost[0] > 400);
  }
  __asm__ volatile("tilerelease");
  return !found;
}
C
gcc -O2 -mavx512f -mamx-tile -mamx-bf16 wait.c -o wait
./wait
